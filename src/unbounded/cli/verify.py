"""`unbounded verify RUN`: is a trained network right, or right so far?"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from unbounded.cli.defaults import import_modules
from unbounded.cli.parsing import Parser, add_rounded, parse
from unbounded.errors import ConfigError

#: Between two lines on what is looked at.
_EVERY_SECONDS = 2.0

_DESCRIPTION = """Find out how far a trained network is right, and how near its first error is.

examples:
  unbounded verify RUN
  unbounded verify RUN --most 300
  unbounded verify RUN --alphabet 3 --times 2,10 --count 20

Of streams every sequence of each n is taken, from a fresh memory, while there are few: of a^n b^n
every n to 2000. Of sources every word of a small alphabet, of brackets every word. Beyond, words
are drawn at multiples of the longest length of training. The margins of answers and decisions, and
how far what is read has drifted, say at which length the first error is to be expected.

A model whose decisions were hardened (model-rounded) is taken where it is there. The report goes to
RUN/verification-model.json or RUN/verification-model-rounded.json. Ctrl-C ends the looking: what
was found until then is reported. A report of the same weights that is whole and says more stays
where it is, unless --overwrite is given.
"""


def parser(arguments: Sequence[str]) -> Parser:
    """The parser of this verb."""
    made = Parser(prog="unbounded verify", description=_DESCRIPTION)
    made.add_argument(
        "run", type=str, help="The run's folder, or the beginning of its name in runs/."
    )
    made.add_argument(
        "--most", type=int, default=2000, help="The greatest length that is taken whole."
    )
    made.add_argument(
        "--symbols_each",
        type=int,
        default=50_000,
        help="Symbols of all sequences of one length beyond which they are drawn.",
    )
    made.add_argument("--alphabet", type=int, default=2, help="Of sources: symbols of the words.")
    made.add_argument(
        "--times",
        type=str,
        default="2,4,10,100",
        help="Multiples of the longest length of training to draw sequences at; 0 for none.",
    )
    made.add_argument("--count", type=int, default=100, help="Sequences drawn at each.")
    made.add_argument("--seed", type=int, default=1, help="Of what is drawn.")
    add_rounded(made, default=None)
    made.add_argument(
        "--overwrite",
        action="store_true",
        help="Take the place of a report of the same weights that says more.",
    )
    made.add_argument(
        "--import", dest="imports", type=str, help="A module of your own that the run names."
    )
    return made


def run(arguments: Sequence[str]) -> int:
    """Verify the run, print what was found, write the report."""
    given, faults = parse(parser(arguments), arguments)
    times = _times(given.times, faults)
    from unbounded.verification import VerifyOptions, text_of

    names = ("most", "symbols_each", "alphabet", "count", "seed")
    options = None
    try:
        options = VerifyOptions(**{name: getattr(given, name) for name in names}, times=times)
    except ConfigError as error:
        faults += [f"--{fault}" for fault in error.faults]
    if faults or options is None:
        raise ConfigError(faults)
    from unbounded.experiments.run.folder import find_run
    from unbounded.experiments.run.verification import verify_run

    import_modules([] if given.imports is None else [given.imports])

    def show(report: Mapping[str, Any]) -> None:
        print(
            f"{report['task']}, {report['model']}, weights {report['weights']}, "
            f"trained on lengths {report['train_lengths']}"
        )
        print(text_of(report))

    report = verify_run(
        find_run(given.run),
        options,
        rounded=given.rounded,
        overwrite=given.overwrite,
        look=progress(),
        shown=show,
    )
    if report["file"] is None:
        print(
            "not written: the report of before is of the same weights and says more; --overwrite "
            "puts this one in its place"
        )
    else:
        print(f"report: {report['file']}")
    return 0 if report["finished"] else 130


def _times(text: str, faults: list[str]) -> tuple[float, ...]:
    try:
        return tuple(time for part in text.split(",") if (time := float(part)) != 0)
    except ValueError:
        faults.append(f"--times: expected numbers such as 2,4,10, got {text!r}")
        return ()


def progress() -> Callable[[str, float], None]:
    """Says on standard error, now and then, what is looked at."""
    said = time.monotonic()

    def look(name: str, share: float) -> None:
        nonlocal said
        now = time.monotonic()
        if now - said > _EVERY_SECONDS:
            said = now
            print(f"{name}: {100 * share:.0f} %", file=sys.stderr, flush=True)

    return look
