"""`unbounded harden RUN`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from unbounded.cli.defaults import import_modules
from unbounded.cli.parsing import Parser, parse
from unbounded.errors import ConfigError
from unbounded.files import printable

_DESCRIPTION = """Make the decisions of a finished run's memory 0 or 1, for greater lengths.

examples:
  unbounded harden runs/copy-queue-lstm-*-seed1
  unbounded harden RUN --batches 1000 --every 25
  unbounded evaluate RUN --rounded --lengths 640:640,6400:6400 --count 20

What decides (push, pop, actions, gates, shifts) is sharpened step by step while the rest learns on;
where validation gets worse, it goes back and takes smaller steps. The machine goes into
RUN/model-rounded beside the trained RUN/model, and what came of it into the run's report. After
Ctrl-C the same command goes on.
"""
#: Options of `RoundingConfig` by the same name.
_OPTIONS: Final = (
    *("batches", "every", "factor", "decided", "settle", "enough", "patience", "cool"),
    *("tolerance", "far", "learning_rate"),
)


def parser(arguments: Sequence[str]) -> Parser:
    """The parser of this verb."""
    made = Parser(prog="unbounded harden", description=_DESCRIPTION)
    made.add_argument(
        "run", type=str, help="The run's folder, or the beginning of its name in runs/."
    )
    made.add_argument("--batches", type=int | None, help="Budget of fine-tuning.")
    made.add_argument("--every", type=int | None, help="Batches between two sharpenings.")
    made.add_argument("--factor", type=float | None, help="Of each sharpening; 1.25.")
    made.add_argument("--decided", type=float | None, help="Certainty to reach; 0.999.")
    made.add_argument(
        "--tolerance",
        type=float | None,
        help="How much worse on validation it may be before it goes back; 0.03.",
    )
    made.add_argument(
        "--settle",
        type=int | None,
        help="Looks at which the machine must do as well; 0 for no end.",
    )
    made.add_argument(
        "--enough",
        type=float | None,
        help="What validation may say against model and machine with which it is over.",
    )
    made.add_argument(
        "--patience",
        type=int | None,
        help="Looks without a clearly better machine after which it is given up; 0 for no end.",
    )
    made.add_argument("--cool", type=int | None, help="Looks at the end with a falling rate.")
    made.add_argument(
        "--far",
        type=int | None,
        help="How many times the longest of training a machine is validated at too, 0 to 1000.",
    )
    made.add_argument("--learning_rate", type=float | None, help="Of the fine-tuning.")
    made.add_argument(
        "--count", type=int | None, help="Validation sequences; 100, of streams as in training."
    )
    made.add_argument("--data", type=str, help="Folder of the data, if it has moved.")
    made.add_argument(
        "--import", dest="imports", type=str, help="A module of your own that the run names."
    )
    made.add_argument("--overwrite", action="store_true", help="Harden a run anew.")
    made.add_argument("--quiet", action="store_true", help="Show only the result.")
    return made


def run(arguments: Sequence[str]) -> int:
    """Harden; 0 when it is done, 130 or 143 when a signal stopped it."""
    given, faults = parse(parser(arguments), arguments)
    if faults:
        raise ConfigError(faults)
    from unbounded.evaluation import table
    from unbounded.experiments.run.folder import find_run
    from unbounded.experiments.run.harden import harden_run
    from unbounded.training import Interrupted

    import_modules([] if given.imports is None else [given.imports])
    changes = {name: given[name] for name in _OPTIONS if given[name] is not None}
    if given.count is not None:
        changes["validation_count"] = given.count
    folder = find_run(given.run)
    try:
        report = harden_run(
            folder, changes, overwrite=given.overwrite, quiet=given.quiet, data=given.data
        )
    except Interrupted as error:
        again = " without --overwrite" if given.overwrite else ""
        print(
            f"\n{error}; the hardening is saved, the same command{again} goes on", file=sys.stderr
        )
        return error.exit_code
    print(f"as trained:\n{table(report)}\n\n{hardened_text(report)}")
    print(f"run folder: {folder}")
    return 0


def hardened_text(report: Mapping[str, Any]) -> str:
    """What came of a hardening, and what its machine scores; below the table of the trained model.

    Args:
        report: with "rounded".
    """
    from unbounded.evaluation import table

    part = report["rounded"]
    said = _how_it_ended(part)
    if part.get("harm"):  # the table above is the trained model's, which stays
        return said
    return f"{said}\n{table({**report, **part})}"


def _how_it_ended(part: Mapping[str, Any]) -> str:
    if part.get("decided", True):
        return f"hardened, a discrete machine (sharpness {part['sharpness']:.3g}):"
    if part.get("harm") and not part.get("batches"):
        return f"not hardened, for {printable(part['stopped'])}; it stays"
    if part.get("harm"):
        worse = printable(", ".join(part.get("worse", ())))
        why = f"hardened, it is worse on {worse}" if worse else "hardening did not make it better"
        return f"{printable(part['stopped'])}\n{why}; the trained model stays"
    few = ", ".join(
        f"{each['undecided']} of {each['decisions']} of {name} (least {each['least']:.3f})"
        for name, each in part["decisions"].items()
        if each["undecided"]
    )
    return (
        f"{printable(part['stopped'])}\n"
        f"not decided, since the discrete machine does worse on validation: {few or 'nothing'}\n"
        f"hardened as far as it went (sharpness {part['sharpness']:.3g}):"
    )
