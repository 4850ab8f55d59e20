"""`unbounded harden RUN`: fine-tune a run until its memory gates are 0 or 1."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

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
trained RUN/model stays. After Ctrl-C the same command resumes. Options that are left out are those
of the run's config if it hardens, or else the usual ones of its task.
"""


def parser(arguments: Sequence[str]) -> Parser:
    """The argument parser of this verb."""
    made = Parser(
        prog="unbounded harden", usage="unbounded harden RUN [options]", description=_DESCRIPTION
    )
    made.add_argument("run", type=str, help="The run's folder, or a prefix of its name in runs/.")
    for name, (kind, text) in _options().items():
        made.add_argument(f"--{name}", type=kind | None, help=text[0].upper() + text[1:])
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


def _options() -> dict[str, tuple[Any, str]]:
    """The fields of `HardeningConfig` but for that of --count: their types and descriptions."""
    from docstring_parser import parse as parse_docstring

    from unbounded.experiments.config.schema import HardeningConfig
    from unbounded.options import field_kinds, without_none

    texts = {
        each.arg_name: " ".join((each.description or "").split())
        for each in parse_docstring(HardeningConfig.__doc__ or "").params
    }
    return {
        name: (without_none(kind), texts[name])
        for name, kind in field_kinds(HardeningConfig).items()
        if name != "validation_count"
    }


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
    changes = {name: given[name] for name in _options() if given[name] is not None}
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
