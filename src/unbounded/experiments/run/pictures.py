"""Draw the figures of a finished run into its folder."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from unbounded.errors import StorageError
from unbounded.experiments.run.plan import Plan
from unbounded.experiments.run.run_folder import RunFolder
from unbounded.figures import draw_lengths, draw_run
from unbounded.files import storage_errors


def draw_finished(folder: RunFolder, planned: Plan, report: Mapping[str, Any]) -> None:
    """Draw a run's figures, before its report is written.

    A figure that cannot be drawn causes only a warning.

    Args:
        folder: the run's folder.
        planned: the run.
        report: its report.
    Raises:
        StorageError: the disk is full or not writable; then the report cannot be written either.
    """
    try:
        with storage_errors(folder.figures, "drawing"):
            draw_run(folder.path)
            _draw_curve(folder, planned, report)
    except StorageError:
        raise
    except Exception as error:  # a failed figure must not lose the run
        reason = str(error).split("\n", 1)[0]
        print(
            f"warning: the figures of {folder} could not be drawn "
            f"({type(error).__name__}: {reason}); the run is finished without them",
            file=sys.stderr,
        )


def _draw_curve(folder: RunFolder, planned: Plan, report: Mapping[str, Any]) -> None:
    """Draw the metric set's curve against n, if it has one for a single run."""
    metric_set = planned.metric_set
    points = [at for row in report["rows"] for at in row.get("per_n", ())]
    curve = {at["n"]: at[metric_set.curve] for at in points if at[metric_set.curve] is not None}
    if metric_set.curve_shaded and curve:
        draw_lengths(
            {report["model"]: [curve]},
            folder.figures,
            trained_to=planned.train_lengths.maximum,
            title=folder.name,
            what=metric_set.curve_title,
            shaded=True,
        )
