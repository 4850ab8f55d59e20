"""`unbounded sample`: print examples of a task, or write them as JSON lines."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from unbounded.cli.errors import missing_folder
from unbounded.cli.names import names_of
from unbounded.cli.overlay import import_modules, option_value, sorted_words
from unbounded.cli.parsing import Parser, parse
from unbounded.custom_components import is_path, module_of
from unbounded.errors import ConfigError, collected
from unbounded.experiments.config import plain_yaml
from unbounded.files import printable_lines, replacing
from unbounded.options import Range

if TYPE_CHECKING:
    from unbounded.tasks import Example, LengthRange, Task

_AT_ONCE = 256
#: Default number of examples.
_FEW: Final = 5
_DESCRIPTION = """Show examples of a task, or write them as JSON lines.

examples:
  unbounded sample copy -n 3 --lengths 4:8
  unbounded sample gender -n 100000 --split test --out gender.jsonl
  unbounded sample penn_treebank --data DIR
  unbounded sample parity_check --task.computation 2

--task.OPTION VALUE sets an option of the task; `unbounded list TASK` shows them.
"""


def sample(
    task: Task,
    n: int | None = None,
    seed: int = 0,
    split: str = "train",
    lengths: LengthRange | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
) -> None:
    """Print the first examples of a split as "source ||| target", or write them to a file.

    A file has one JSON object per line: task, seed, split, index, source and target. Source and
    target are lists of symbols. The file is written atomically. A reader that closes the pipe early
    (`| head`) ends the printing without an error.

    Args:
        task: the task.
        n: number of examples, at least 1; None: 5, or all if there are fewer.
        seed: 0..2**64 - 1.
        split: "train", "validation" or "test".
        lengths: range of lengths to draw from; None: the split's own.
        out: the file to write; None: print.
        overwrite: whether `out` may exist.

    Raises:
        ConfigError: a number is out of range, the task has fewer than `n` examples in the range of
            lengths, or `out` exists.
        ChoiceError: unknown split.
        StorageError: `out` cannot be written.
    """
    from unbounded.tasks.randomness import LAST_INDEX, whole_number

    if n is None:
        n = min(_FEW, _there(task, split, lengths) or _FEW)
    count = whole_number("n", n, 1, LAST_INDEX)
    if error := _too_many(task, count, split, lengths):
        raise ConfigError(f"n: {error}")
    examples = _examples(task, count, seed, split, lengths)
    if out is None:
        _print(examples)
        return
    path = Path(out)
    if errors := missing_folder("out", path):
        raise ConfigError(errors)
    if path.exists() and not overwrite:
        raise ConfigError(f"out: {path} exists; name another file or give --overwrite")
    head = {"task": task.name, "seed": seed, "split": split}
    lines = (
        json.dumps({**head, "index": index, "source": source, "target": target})
        for index, (source, target) in enumerate(examples)
    )
    _write(path, lines)
    print(f"wrote {count} example{'s' * (count > 1)} to {path}")


def _there(task: Task, split: str, lengths: LengthRange | None) -> int | None:
    """The number of examples; None if they are unlimited."""
    return task.available(split, task.split_lengths(split) if lengths is None else lengths)


def _too_many(task: Task, count: int, split: str, lengths: LengthRange | None) -> str:
    """The error if a task has a limited number of examples, which is below `count`; else empty."""
    there = _there(task, split, lengths)
    # The task itself reports an error for a range without examples.
    if not there or count <= there:
        return ""
    within = "" if lengths is None else f", of lengths {lengths}"
    return f"expected at most {there}, as many as {task.name} has for {split}{within}, got {count}"


def _examples(
    task: Task, count: int, seed: int, split: str, lengths: LengthRange | None
) -> Iterator[Example]:
    for start in range(0, count, _AT_ONCE):
        yield from task.examples(seed, split, start, min(_AT_ONCE, count - start), lengths)


def _print(examples: Iterator[Example]) -> None:
    try:
        for example in examples:
            print(example)
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes stdout again at exit; redirect it to the null device.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _write(path: Path, lines: Iterator[str]) -> None:
    with replacing(path) as draft, draft.open("w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in lines)


def parser(arguments: Sequence[str]) -> Parser:
    """The argument parser of this verb."""
    made = Parser(prog="unbounded sample", description=_DESCRIPTION, also=_task_options(arguments))
    made.add_argument("task", type=str, help="The task; see `unbounded list`.")
    made.add_argument(
        "-n", type=int | None, help=f"Number of examples; default {_FEW}, or all if fewer."
    )
    made.add_argument("--seed", type=int, default=0, help="Seed of the examples.")
    made.add_argument("--split", type=str, default="train", help="train, validation or test.")
    made.add_argument(
        "--lengths", type=str | None, help="A range such as 8:12; default: the split's."
    )
    made.add_argument("--data", type=str, help="File or folder of the task's data.")
    made.add_argument("--out", type=str, help="A file for JSON lines.")
    made.add_argument("--overwrite", action="store_true", help="Replace the file of --out.")
    return made


def _task_options(arguments: Sequence[str]) -> list[str]:
    """The options of the task that a command line begins with, such as --task.symbols."""
    task = next(iter(arguments), "")
    if task not in names_of("tasks"):
        return []
    from unbounded.experiments.config.components import component_options
    from unbounded.experiments.config.schema import ModelConfig

    return [f"--task.{name}" for name in component_options("task", task, ModelConfig())]


def run(arguments: Sequence[str]) -> int:
    """Print or write the examples."""
    sorted_out = sorted_words(arguments, ("task",))
    given, errors = parse(parser(arguments), sorted_out.rest)
    errors += sorted_out.errors
    from unbounded.checks import check_choice
    from unbounded.experiments.config.check import check_task
    from unbounded.experiments.config.schema import ModelConfig
    from unbounded.tasks import SPLITS, LengthRange, make_task
    from unbounded.tasks.randomness import LAST_INDEX, LAST_SEED

    for name, value, bounds in (
        ("-n", given.n, Range(1, LAST_INDEX)),
        ("--seed", given.seed, Range(0, LAST_SEED)),
    ):
        if value is not None and (error := bounds.error(name, value)):
            errors.append(error)
    with collected(errors, "--split"):
        check_choice("split", given.split, SPLITS)
    lengths = None
    if given.lengths is not None:
        with collected(errors, "--lengths"):
            lengths = LengthRange.parse(given.lengths)
    if is_path(given.task):
        import_modules([module_of(given.task)])
    options: dict[str, Any] = {}
    for place, text in sorted_out.options:
        name = place.removeprefix("task.")
        if place == "task":
            own = plain_yaml.load_or_text(text)
            options |= own if isinstance(own, dict) else {}
        elif name == "name":
            errors.append(f"--task.name: expected one task, got {given.task!r} and {text!r}")
        else:
            options[name] = option_value("task", given.task, name, text, ModelConfig())
    if options.pop("name", given.task) != given.task:
        errors.append(f"--task: expected options of {given.task!r}, got options of another task")
    if given.data is not None:
        options["data"] = given.data
    task = check_task(errors, lambda: make_task(given.task, **options))
    if errors or task is None:
        raise ConfigError(errors)
    for note in task.notes:
        print(printable_lines(note), file=sys.stderr)
    if given.n and (excess := _too_many(task, given.n, given.split, lengths)):
        raise ConfigError(f"-n: {excess}")
    sample(
        task,
        n=given.n,
        seed=given.seed,
        split=given.split,
        lengths=lengths,
        out=given.out,
        overwrite=given.overwrite,
    )
    return 0
