"""`unbounded harden RUN`: fine-tune a run until its memory gates are 0 or 1."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from unbounded.cli.overlay import import_given
from unbounded.cli.parsing import Parser, add_import, parse
from unbounded.errors import ConfigError
from unbounded.files import printable

_DESCRIPTION = """Train a finished run's memory gates to 0 or 1, to generalise to longer inputs.

examples:
  unbounded harden runs/copy-queue-lstm-*-seed1
  unbounded harden RUN --batches 1000 --every 25
  unbounded evaluate RUN --hardened --lengths 640:640,6400:6400 --count 20

The inverse temperature of all gates (push, pop, action, shift, ...) grows step by step while the
other weights train on. If validation gets worse, it returns to an earlier value and takes smaller
steps. The hardened model goes into RUN/model-hardened and its scores into the run's report; the
trained RUN/model stays. After Ctrl-C the same command resumes.
"""
#: Options with the same names as fields of `HardeningConfig`: their types and descriptions.
_OPTIONS: Final[dict[str, tuple[type, str]]] = {
    "batches": (int, "Budget of fine-tuning, in batches."),
    "every": (int, "Batches between two increases."),
    "factor": (float, "Factor on the inverse temperature at each increase; default 1.25."),
    "saturated": (float, "Value from which a gate counts as saturated; default 0.999."),
    "tolerance": (
        float,
        "Loss of validation score that is accepted before going back; default 0.03.",
    ),
    "settle": (
        int,
        "Checks in a row with a hardened error of at most 0.001 to stop; 0: no such stop.",
    ),
    "enough": (float, "Stop at this validation error of both the model and the hardened model."),
    "patience": (int, "Checks without a clearly better hardened model to stop; 0: no such stop."),
    "cool": (int, "Multiples of EVERY batches at the end with a decaying learning rate."),
    "far": (int, "Also validate at this multiple of the longest training length, 0 to 1000."),
    "learning_rate": (float, "Learning rate of the fine-tuning."),
}


def parser(arguments: Sequence[str]) -> Parser:
    """The argument parser of this verb."""
    made = Parser(prog="unbounded harden", description=_DESCRIPTION)
    made.add_argument("run", type=str, help="The run's folder, or a prefix of its name in runs/.")
    for name, (kind, text) in _OPTIONS.items():
        made.add_argument(f"--{name}", type=kind | None, help=text)
    made.add_argument(
        "--count",
        type=int | None,
        help="Validation sequences; default 100, on streams as in training.",
    )
    made.add_argument("--data", type=str, help="Folder of the data, if it moved.")
    add_import(made)
    made.add_argument("--overwrite", action="store_true", help="Replace an earlier hardening.")
    made.add_argument("--quiet", action="store_true", help="Show only the result.")
    return made


def run(arguments: Sequence[str]) -> int:
    """Harden, and return 0 if finished, 130 or 143 if a signal stopped it."""
    given, errors = parse(parser(arguments), arguments)
    if errors:
        raise ConfigError(errors)
    from unbounded.evaluation import table
    from unbounded.experiments.run.finished_run_hardening import harden_run
    from unbounded.experiments.run.run_folder import RunFolder
    from unbounded.training import Interrupted

    import_given(given)
    changes = {name: given[name] for name in _OPTIONS if given[name] is not None}
    if given.count is not None:
        changes["validation_count"] = given.count
    folder = RunFolder.find(given.run)
    try:
        report = harden_run(
            folder, changes, overwrite=given.overwrite, quiet=given.quiet, data=given.data
        )
    except Interrupted as error:
        again = " without --overwrite" if given.overwrite else ""
        print(
            f"\n{error}; the hardening is saved; the same command{again} resumes it",
            file=sys.stderr,
        )
        return error.exit_code
    print(f"as trained:\n{table(report)}\n\n{hardened_text(report)}")
    print(f"run folder: {folder}")
    return 0


def hardened_text(report: Mapping[str, Any]) -> str:
    """The outcome of hardening and the hardened model's score table.

    Args:
        report: a run's report with "hardened".
    """
    from unbounded.evaluation import table

    part = report["hardened"]
    outcome = _how_it_ended(part)
    if part.get("harm"):  # the table above shows the trained model, which is kept
        return outcome
    return f"{outcome}\n{table({**report, **part})}"


def _how_it_ended(part: Mapping[str, Any]) -> str:
    if part.get("saturated", True):
        return (
            f"hardened, a hardened model (inverse temperature {part['inverse_temperature']:.3g}):"
        )
    if part.get("harm") and not part.get("batches"):
        return f"not hardened ({printable(part['stopped'])}); the trained model stays"
    if part.get("harm"):
        worse = printable(", ".join(part.get("worse", ())))
        why = f"hardened, it is worse on {worse}" if worse else "hardening did not make it better"
        return f"{printable(part['stopped'])}\n{why}; the trained model stays"
    few = ", ".join(
        f"{each['unsaturated']} of {each['gates']} of {name} (least {each['least']:.3f})"
        for name, each in part["gates"].items()
        if each["unsaturated"]
    )
    return (
        f"{printable(part['stopped'])}\n"
        f"not saturated, because the hardened model does worse on validation: {few or 'nothing'}\n"
        f"hardened in part (inverse temperature {part['inverse_temperature']:.3g}):"
    )
