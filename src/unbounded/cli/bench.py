"""`unbounded bench`: time the fused kernels against torch.nn.LSTM, the reference and jax."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unbounded.cli.errors import missing_folder
from unbounded.cli.parsing import Parser, parse
from unbounded.errors import ChoiceError, ConfigError

if TYPE_CHECKING:
    from unbounded.experiments.bench.cases import Case
    from unbounded.experiments.bench.measuring import Measurement

_DESCRIPTION = """Time forward and backward passes in turns within one run, and print medians.

examples:
  unbounded bench
  unbounded bench --suite all --out bench.json
  unbounded bench --memory deque --batch 64 --threads 1

"torch" is torch.nn.LSTM (GRU, RNN) of the same hidden size; its input is as wide as the layer's
input and read vector together. "reference" is plain PyTorch. "jax" is the same model as a
jax.lax.scan, if jax is installed. Only kernels that pass parity in the same run are timed. Close
other programs first: the ratios vary less than the times.
"""


def parser(arguments: Sequence[str]) -> Parser:
    """The argument parser of this verb."""
    made = Parser(prog="unbounded bench", description=_DESCRIPTION)
    made.add_argument(
        "--suite", type=str, help="paper, sizes, controllers, superposition, tape, lie or all."
    )
    for name, value in vars(_defaults()).items():
        made.add_argument(
            f"--{name}", type=type(value), help=f"For a single case; default {value!r}."
        )
    made.add_argument("--repeats", type=int, default=15, help="Number of measurement rounds.")
    made.add_argument("--out", type=str, help="JSON file to write.")
    made.add_argument("--overwrite", action="store_true", help="Replace an existing file.")
    return made


def run(arguments: Sequence[str]) -> int:
    """Measure, and return 0 if everything was measured."""
    given, errors = parse(parser(arguments), arguments)
    named = {name: getattr(given, name) for name in vars(_defaults())}
    case = {name: value for name, value in named.items() if value is not None}
    cases, wrong = _cases(given.suite, case, given.repeats, given.out, given.overwrite)
    if errors or wrong:
        raise ConfigError([*errors, *wrong])
    # Imported late, because it imports torch.
    from unbounded.experiments.bench.measuring import measure

    measured = []
    for each in cases:
        measured.append(measure(each, given.repeats, lambda message: None))
        print(_line(measured[-1]), flush=True)
    if given.out is not None:
        _write(Path(given.out), measured, given.repeats)
        print(f"wrote {given.out}")
    return 0


def _cases(
    suite: str | None, case: dict[str, Any], repeats: int, out: str | None, overwrite: bool
) -> tuple[list[Case], list[str]]:
    """The cases to measure, and all errors in the options."""
    from unbounded.experiments.bench.cases import Case
    from unbounded.experiments.bench.cases import suite as cases_of

    errors = [f"repeats: expected at least 1, got {repeats}"] if repeats < 1 else []
    errors += missing_folder("out", out)
    if out is not None and Path(out).exists() and not Path(out).is_dir() and not overwrite:
        errors.append(f"out: {out} exists; give --overwrite or another name")
    if suite is not None and case:
        errors.append(f"suite and {', '.join(case)} exclude each other; give one of them")
    own = Case(**case)
    errors += own.errors()
    try:
        return [own] if suite is None else cases_of(suite), errors
    except ChoiceError as error:
        return [], [*errors, f"suite: {error}"]


def _defaults() -> Case:
    from unbounded.experiments.bench.cases import Case

    return Case()


def _line(result: Measurement) -> str:
    times = ", ".join(f"{name} {each:.1f} ms" for name, each in result.median_ms.items())
    ratios = ", ".join(f"{name} {each:.2f}" for name, each in result.ratios.items())
    return (
        f"{result.case.name}\n  {times}\n  {ratios}; {100 * result.share_of_peak:.0f} % of "
        f"{result.peak_gflops:.0f} GFLOP/s; parity {result.parity_error:.0e}"
    )


def _write(path: Path, measured: list[Measurement], repeats: int) -> None:
    from unbounded.evaluation.provenance import provenance
    from unbounded.files import write_text
    from unbounded.kernels import available

    data = {
        "date": datetime.now(UTC).date().isoformat(),
        **provenance(),
        "instruction_set": available().instruction_set,
        "repeats": repeats,
        "measurements": [{**asdict(each), "name": each.case.name} for each in measured],
    }
    write_text(path, json.dumps(data, indent=1) + "\n")
