"""`unbounded verify RUN`: find the lengths at which a trained network is correct."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from unbounded.cli.overlay import import_given
from unbounded.cli.parsing import Parser, add_hardened, add_import, parse
from unbounded.errors import ConfigError

#: Time between two progress lines.
_EVERY_SECONDS = 2.0

_DESCRIPTION = """Find the lengths at which a network is correct, and how near its first error is.

examples:
  unbounded verify RUN
  unbounded verify RUN --most 300
  unbounded verify RUN --alphabet 3 --times 2,10 --count 20

For streams, every sequence of each n is tested from an empty memory while there are few: for
a^n b^n, every n up to 2000. For sources, every string over a small alphabet is tested; for
brackets, every string. Beyond these lengths, strings are drawn at multiples of the longest training
length. The margins of outputs and gates, and the drift of read vectors, predict the length of the
first error.

The hardened model (model-hardened) is used if it exists. The report goes to
RUN/verification-model.json or RUN/verification-model-hardened.json. After Ctrl-C, the results so
far are reported. A more complete report of the same weights is kept, unless --overwrite is given.
"""


def parser(arguments: Sequence[str]) -> Parser:
    """The argument parser of this verb."""
    made = Parser(prog="unbounded verify", description=_DESCRIPTION)
    made.add_argument("run", type=str, help="The run's folder, or a prefix of its name in runs/.")
    made.add_argument(
        "--most", type=int, default=2000, help="The greatest length to test exhaustively."
    )
    made.add_argument(
        "--symbols_each",
        type=int,
        default=50_000,
        help="Number of symbols of one length above which sequences are sampled.",
    )
    made.add_argument(
        "--alphabet", type=int, default=2, help="On sources: number of input symbols."
    )
    made.add_argument(
        "--times",
        type=str,
        default="2,4,10,100",
        help="Multiples of the longest training length at which to sample; 0 for none.",
    )
    made.add_argument("--count", type=int, default=100, help="Sequences sampled at each multiple.")
    made.add_argument("--seed", type=int, default=1, help="Seed of the samples.")
    add_hardened(made, default=None)
    made.add_argument(
        "--overwrite",
        action="store_true",
        help="Replace a more complete report of the same weights.",
    )
    add_import(made)
    return made


def run(arguments: Sequence[str]) -> int:
    """Verify the run, print the results, and write the report."""
    given, errors = parse(parser(arguments), arguments)
    times = _times(given.times, errors)
    from unbounded.verification import VerifyOptions, text_of

    names = ("most", "symbols_each", "alphabet", "count", "seed")
    try:
        options = VerifyOptions(**{name: getattr(given, name) for name in names}, times=times)
    except ConfigError as error:
        errors += [f"--{line}" for line in error.errors]
    if errors:
        raise ConfigError(errors)
    from unbounded.experiments.run.run_folder import RunFolder
    from unbounded.experiments.run.verification import verify_run

    import_given(given)

    def show(report: Mapping[str, Any]) -> None:
        print(
            f"{report['task']}, {report['model']}, weights {report['weights']}, "
            f"trained on lengths {report['train_lengths']}"
        )
        print(text_of(report))

    folder = RunFolder.find(given.run)
    report = verify_run(
        folder,
        options,
        hardened=given.hardened,
        overwrite=given.overwrite,
        look=progress(),
        shown=show,
    )
    if others := folder.config().evaluation.get("memory"):
        given_text = ", ".join(f"{name} {value}" for name, value in others.items())
        print(
            f"checked with the memory of training; the report of the run has {given_text} for "
            "longer sequences"
        )
    if report["file"] is None:
        print(
            "not written: the earlier report of the same weights is more complete; --overwrite "
            "replaces it"
        )
    else:
        print(f"report: {report['file']}")
    return 0 if report["finished"] else 130


def _times(text: str, errors: list[str]) -> tuple[float, ...]:
    try:
        return tuple(time for part in text.split(",") if (time := float(part)) != 0)
    except ValueError:
        errors.append(f"--times: expected numbers such as 2,4,10, got {text!r}")
        return ()


def progress(form: str = "{}: {:.0f} %") -> Callable[[str, float], None]:
    """Return a function that prints new progress to standard error, at most every two seconds.

    Args:
        form: the line, as a format of what is done and of the percentage.
    """
    printed_at, printed = time.monotonic(), ""

    def look(name: str, share: float) -> None:
        nonlocal printed_at, printed
        line = form.format(name, 100 * share)
        if name and line != printed and time.monotonic() - printed_at > _EVERY_SECONDS:
            printed_at, printed = time.monotonic(), line
            print(line, file=sys.stderr, flush=True)

    return look
