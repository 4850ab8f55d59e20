"""The pictures of a finished run, in its folder."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unbounded.errors import StorageError
from unbounded.experiments.run.plan import Plan
from unbounded.figures import draw_lengths, draw_run
from unbounded.files import storage_faults


def draw_finished(folder: Path, planned: Plan, report: Mapping[str, Any]) -> None:
    """Draw what a run did, before its report is written.

    A figure that cannot be drawn is told and costs nothing else.

    Args:
        folder: of the run.
        planned: what it was to do.
        report: what it will say.
    Raises:
        StorageError: the disk refused; the report would not find room either.
    """
    try:
        with storage_faults(folder / "figures", "drawing"):
            draw_run(folder)
            _draw_curve(folder, planned, report)
    except StorageError:
        raise
    except Exception as error:  # whatever it is: a picture is not worth the run
        reason = str(error).split("\n", 1)[0]
        print(
            f"warning: the figures of {folder} could not be drawn "
            f"({type(error).__name__}: {reason}); the run is finished without them",
            file=sys.stderr,
        )


def _draw_curve(folder: Path, planned: Plan, report: Mapping[str, Any]) -> None:
    """Draw the scoring's number against n, where it has such a figure for a run."""
    scoring = planned.scoring
    points = [at for row in report["rows"] for at in row.get("per_n", ())]
    curve = {at["n"]: at[scoring.curve] for at in points if at[scoring.curve] is not None}
    if scoring.curve_shaded and curve:
        draw_lengths(
            {report["model"]: [curve]},
            folder / "figures",
            trained_to=planned.train_lengths.maximum,
            title=folder.name,
            what=scoring.curve_title,
            shaded=True,
        )
