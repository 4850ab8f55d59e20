"""`unbounded predict RUN [FILE]`: the outputs of a trained run for lines of input."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from unbounded.cli.defaults import import_modules
from unbounded.cli.faults import missing_folder
from unbounded.cli.parsing import Parser, add_rounded, parse
from unbounded.errors import ConfigError

if TYPE_CHECKING:
    from jsonargparse import Namespace

    from unbounded.evaluation.predictions import Prediction
    from unbounded.tasks import Task

_DESCRIPTION = """Write the outputs of a trained run for lines of input, one a line, in their order.

examples:
  echo 's1 s2 s3' | unbounded predict RUN
  unbounded predict RUN sources.txt --out targets.txt
  unbounded predict RUN words.txt --probabilities

A line is an input: the source of a pair or of an answer, a string to label, the beginning of a
stream or a text. Symbols stand between blanks, or side by side where each is one character. Where
the blank is such a character it is read as it stands; among longer symbols it is written ␣, here
and in outputs. ␣ is read as a blank where the blank is a symbol and ␣ is none, else as itself.

Of pairs and answers the output is the target, without its end. Of labels it is the label after
each symbol, 1 or 0; of streams and texts the likeliest next symbol after each.

With --probabilities a tab follows, and the probability of each output symbol, then that of the end
symbol where it came; of labels that the label is 1. Lines that cannot be read are named by number,
and nothing is written then.
"""

#: Lines beyond which a bar shows how far it is.
_LONG = 1000


def parser(arguments: Sequence[str]) -> Parser:
    """The parser of this verb."""
    made = Parser(prog="unbounded predict", description=_DESCRIPTION)
    made.add_argument("run", type=str, help="The run's folder, or the beginning of its name.")
    made.add_argument("file", type=str, nargs="?", help="Lines of input; else stdin.")
    made.add_argument(
        "--probabilities", action="store_true", help="Add the probability of each output symbol."
    )
    made.add_argument("--batch", type=int, default=64, help="Lines that are computed at once.")
    made.add_argument(
        "--max_length",
        type=int | None,
        default=None,
        help="Most symbols of an output; four times its input and 40, else.",
    )
    add_rounded(made)
    made.add_argument("--device", type=str, default="cpu", help="cpu or cuda.")
    made.add_argument("--out", type=str, default=None, help="File instead of stdout.")
    made.add_argument("--overwrite", action="store_true", help="Replace that file.")
    made.add_argument(
        "--data", type=str, default=None, help="File or folder of the data, if it has moved."
    )
    made.add_argument(
        "--import", dest="imports", type=str, help="A module of your own that the run names."
    )
    return made


def run(arguments: Sequence[str]) -> int:
    """Write the outputs; 0 when all are written."""
    given, faults = parse(parser(arguments), arguments)
    if faults := faults or _faults(given):
        raise ConfigError(faults)
    lines, name = _read(given.file)
    from unbounded.files import replacing

    outputs = _outputs(given, lines, name)
    if given.out is None:
        for line in outputs:
            print(line)
        return 0
    with replacing(Path(given.out)) as draft, draft.open("w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in outputs)
    return 0


def _faults(given: Namespace) -> list[str]:
    """What is wrong with the options, all together."""
    from unbounded.experiments.config.checking import check_choice

    faults = [
        f"--{name}: expected an integer of at least 1, got {given[name]}"
        for name in ("batch", "max_length")
        if given[name] is not None and given[name] < 1
    ]
    check_choice(faults, "--device", "device", given.device, ("cpu", "cuda"))
    if given.out is not None:
        faults += missing_folder("out", Path(given.out))
        if Path(given.out).exists() and not given.overwrite:
            faults.append(f"--out: {given.out} exists; name another file or give --overwrite")
    return faults


def _read(path: str | None) -> tuple[list[str], str]:
    """The lines of a file or of standard input, and what it is called in messages."""
    from unbounded.tasks.data_file import lines_of, read_lines

    advice = "Give lines of input"
    name = "standard input" if path is None else path
    content = sys.stdin.buffer.read() if path is None else None
    return read_lines(name, advice) if content is None else lines_of(content, name, advice), name


def _outputs(given: Namespace, lines: list[str], name: str) -> Iterator[str]:
    """The output lines, batch by batch."""
    import torch

    from unbounded.evaluation.memory_room import warn_of_room
    from unbounded.evaluation.predictions import (
        predictions,
        read_inputs,
        with_blanks,
        written_faults,
    )
    from unbounded.experiments.run.data_check import task_of_run
    from unbounded.experiments.run.folder import find_run
    from unbounded.experiments.run.loading import load_config, load_model
    from unbounded.layers.on_device import on_device
    from unbounded.tasks import LengthRange

    if given.device.startswith("cuda") and not torch.cuda.is_available():
        raise ConfigError(["device: cuda was asked for and torch finds no CUDA device"])
    import_modules([] if given.imports is None else [given.imports])
    folder = find_run(given.run)
    config = load_config(folder)
    if given.data is not None:
        config.machine.data = given.data
    task = task_of_run(folder, config)
    if faults := written_faults(task):
        raise ConfigError(faults)
    # As in a file of pairs, blank lines may stand at the end; where blanks are symbols, empty ones.
    while not (lines[-1] if with_blanks(task) else lines[-1].strip()):
        lines.pop()
    model, _ = load_model(folder, given.rounded)
    on_device(model, torch.device(given.device)).eval()
    inputs = read_inputs(task, lines, name)
    longest = max(map(len, inputs))
    if (
        task.layout == "labels"
    ):  # where a length is half of the symbols; elsewhere none must be kept
        warn_of_room(model, task, [LengthRange(1, max(1, longest // 2))])
    endless = 0
    for start in _with_bar(range(0, len(inputs), given.batch), len(inputs)):
        found = predictions(
            model,
            task,
            inputs[start : start + given.batch],
            max_length=given.max_length,
            probabilities=given.probabilities,
        )
        endless += sum(not each.is_ended for each in found)
        yield from (_line(task, each, given.probabilities) for each in found)
    if endless:
        print(
            f"{endless} of {len(inputs)} outputs have no end symbol within --max_length; "
            "they are cut there",
            file=sys.stderr,
        )


def _line(task: Task, found: Prediction, probabilities: bool) -> str:
    from unbounded.evaluation.predictions import joined

    text = joined(task, found.symbols)
    if not probabilities:
        return text
    return f"{text}\t{' '.join(f'{each:.6f}' for each in found.probabilities)}"


def _with_bar(starts: range, count: int) -> Iterator[int]:
    """The same numbers; a bar on stderr shows how far it is, of many lines on a terminal."""
    if count < _LONG or not sys.stderr.isatty():
        yield from starts
        return
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    yield from track(starts, description="predicting", console=console, transient=True)
