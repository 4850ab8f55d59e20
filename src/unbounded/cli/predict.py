"""`unbounded predict RUN [FILE]`: write the outputs of a trained run for lines of input."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from unbounded.cli.errors import missing_folder
from unbounded.cli.overlay import import_given
from unbounded.cli.parsing import Parser, add_hardened, add_import, parse
from unbounded.errors import ConfigError, collected

if TYPE_CHECKING:
    from jsonargparse import Namespace

    from unbounded.evaluation.predictions import Prediction
    from unbounded.tasks import Task

_DESCRIPTION = """Write the outputs of a trained run for lines of input, one per line, in order.

examples:
  echo 's1 s2 s3' | unbounded predict RUN
  unbounded predict RUN sources.txt --out targets.txt
  unbounded predict RUN words.txt --probabilities

Each line is one input: the source of a pair or answer, a string to label, or a prefix of a stream
or text. Symbols are separated by blanks, or adjacent if each is one character. If the blank is
itself such a character, it is read literally; among longer symbols it is written ␣, in inputs and
outputs. ␣ means a blank if the blank is a symbol and ␣ is not; else it means itself.

For pairs and answers the output is the target without the end symbol. For labels it is the label
after each symbol, 1 or 0. For streams and texts it is the most likely next symbol after each. On a
task with the empty string, such as flare, a blank line is this string and has one label.

--probabilities adds a tab and the probability of each output symbol, then of the end symbol if it
was output; for labels, the probability of label 1. If lines cannot be read, the error lists their
numbers and nothing is written. A line on which the memory overflows has an empty output.
"""

_ADVICE = "Give a file, or type lines: echo INPUT | unbounded predict RUN"
#: Least number of lines for which a progress bar is shown.
_LONG = 1000


def parser(arguments: Sequence[str]) -> Parser:
    """The argument parser of this verb."""
    made = Parser(prog="unbounded predict", description=_DESCRIPTION)
    made.add_argument("run", type=str, help="The run's folder, or a prefix of its name.")
    made.add_argument("file", type=str, nargs="?", help="File of input lines; default stdin.")
    made.add_argument(
        "--probabilities", action="store_true", help="Add the probability of each output symbol."
    )
    made.add_argument("--batch", type=int, default=64, help="Lines per batch.")
    made.add_argument(
        "--max_length",
        type=int | None,
        help="Most symbols of an output; default: 40 plus four times its input's.",
    )
    add_hardened(made)
    made.add_argument("--device", type=str, default="cpu", help="cpu or cuda.")
    made.add_argument("--out", type=str, help="File instead of stdout.")
    made.add_argument("--overwrite", action="store_true", help="Replace that file.")
    made.add_argument("--data", type=str, help="File or folder of the data, if it moved.")
    add_import(made)
    return made


def run(arguments: Sequence[str]) -> int:
    """Write the outputs, and return 0, or 1 if the memory overflows on a line."""
    given, errors = parse(parser(arguments), arguments)
    if errors := errors or _errors(given):
        raise ConfigError(errors)
    lines, name = _read(given.file)
    from unbounded.files import replacing

    failed: list[int] = []
    outputs = _outputs(given, lines, name, failed)
    if given.out is None:
        for line in outputs:
            print(line)
    else:
        with replacing(Path(given.out)) as draft, draft.open("w", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in outputs)
    if failed:
        print(
            f"{name}: the memory overflows on {len(failed)} of {len(lines)} lines, whose outputs "
            f"are left empty: {', '.join(map(str, failed))}",
            file=sys.stderr,
        )
    return int(bool(failed))


def _errors(given: Namespace) -> list[str]:
    """All errors in the options."""
    from unbounded.checks import check_choice

    errors = [
        f"--{name}: expected an integer of at least 1, got {given[name]}"
        for name in ("batch", "max_length")
        if given[name] is not None and given[name] < 1
    ]
    with collected(errors, "--device"):
        check_choice("device", given.device, ("cpu", "cuda"))
    if given.out is not None:
        errors += missing_folder("out", Path(given.out))
        if Path(given.out).exists() and not given.overwrite:
            errors.append(f"--out: {given.out} exists; name another file or give --overwrite")
    return errors


def _read(path: str | None) -> tuple[list[str], str]:
    """The lines of a file or of standard input, and its name for messages."""
    from unbounded.tasks.data_file import lines_of, read_lines

    name = "standard input" if path is None else path
    if path is not None:
        return read_lines(name, _ADVICE, has_blanks=True), name
    return lines_of(sys.stdin.buffer.read(), name, _ADVICE, has_blanks=True), name


def _outputs(given: Namespace, lines: list[str], name: str, failed: list[int]) -> Iterator[str]:
    """The output lines, batch by batch; adds the numbers of lines without an output to `failed`."""
    import torch

    from unbounded.evaluation.predictions import (
        predictions_or_none,
        read_inputs,
        with_blanks,
        written_errors,
    )
    from unbounded.experiments.run.data_check import task_of_run
    from unbounded.experiments.run.run_folder import RunFolder
    from unbounded.models.memory_room import warn_of_room
    from unbounded.rnn.on_device import on_device
    from unbounded.tasks import LengthRange

    if given.device.startswith("cuda") and not torch.cuda.is_available():
        raise ConfigError("device: cuda was asked for and torch finds no CUDA device")
    import_given(given)
    folder = RunFolder.find(given.run)
    config = folder.config(given.data)
    task = task_of_run(folder, config)
    if errors := written_errors(task):
        raise ConfigError(errors)
    # Blank lines at the end are ignored, as in a file of pairs. If blanks are symbols, only empty
    # lines are ignored. On a task with the empty string, a blank line is an input.
    while lines and not task.has_empty:
        if lines[-1] if with_blanks(task) else lines[-1].strip():
            break
        lines.pop()
    if not lines:
        raise ConfigError(f"{name}: empty. {_ADVICE}")
    model, _ = folder.load_model(given.hardened)
    on_device(model, torch.device(given.device)).eval()
    inputs = read_inputs(task, lines, name)
    longest = max(map(len, inputs))
    if task.layout == "labels":  # a length may be half of the symbols
        warn_of_room(model, task, [LengthRange(1, max(1, longest // 2))])
    endless = 0
    for start in _with_bar(range(0, len(inputs), given.batch), len(inputs)):
        outputs = predictions_or_none(
            model,
            task,
            inputs[start : start + given.batch],
            max_length=given.max_length,
            probabilities=given.probabilities,
        )
        for number, output in enumerate(outputs, start=start + 1):
            if output is None:
                failed.append(number)
                yield "\t" if given.probabilities else ""
            else:
                endless += not output.is_ended
                yield _line(task, output, given.probabilities)
    if endless:
        print(
            f"{endless} of {len(inputs)} outputs have no end symbol within --max_length; "
            "they are cut there",
            file=sys.stderr,
        )


def _line(task: Task, output: Prediction, probabilities: bool) -> str:
    from unbounded.evaluation.predictions import joined

    text = joined(task, output.symbols)
    if not probabilities:
        return text
    return f"{text}\t{' '.join(f'{value:.6f}' for value in output.probabilities)}"


def _with_bar(starts: range, count: int) -> Iterator[int]:
    """Yield the numbers; show a progress bar on stderr for many lines on a terminal."""
    if count < _LONG or not sys.stderr.isatty():
        yield from starts
        return
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    yield from track(starts, description="predicting", console=console, transient=True)
