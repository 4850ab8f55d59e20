"""`unbounded sample`: examples of a task, for a person to read or as JSON lines."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from unbounded.cli.defaults import exact_options, import_modules, option_texts, spelled_out
from unbounded.cli.faults import missing_folder
from unbounded.cli.parsing import Parser, parse
from unbounded.errors import ConfigError, UnboundedError
from unbounded.files import printable_lines, replacing
from unbounded.own_parts import is_path, module_of

if TYPE_CHECKING:
    from unbounded.tasks import Example, LengthRange, Task

_AT_ONCE = 256
#: Examples where no number is asked for.
_FEW: Final = 5
_DESCRIPTION = """Show examples of a task, or write them as JSON lines.

examples:
  unbounded sample copy -n 3 --lengths 4:8
  unbounded sample gender -n 100000 --split test --out gender.jsonl
  unbounded sample penn_treebank --data DIR
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

    A file holds one JSON object a line: task, seed, split, index, source and target, the last two
    as lists of symbols. It appears complete or not at all. A reader that closes the pipe early
    (`| head`) ends the printing without a fault.

    Args:
        task: the task.
        n: number of examples, at least 1; None: 5, or all where there are fewer.
        seed: 0..2**64 - 1.
        split: "train", "validation" or "test".
        lengths: range of lengths to draw from; None: the split's own.
        out: the file to write; None: print.
        overwrite: whether `out` may exist.

    Raises:
        ConfigError: a number is out of range, the task has no example in the range of lengths, or
            fewer than `n`, `out` exists.
        ChoiceError: there is no such split. StorageError: `out` cannot be written.
    """
    from unbounded.tasks.randomness import LAST_INDEX, whole_number

    if n is None:
        n = min(_FEW, _there(task, split, lengths) or _FEW)
    count = whole_number("n", n, 1, LAST_INDEX)
    if fault := _too_many(task, count, split, lengths):
        raise ConfigError([f"n: {fault}"])
    examples = _examples(task, count, seed, split, lengths)
    if out is None:
        _print(examples)
        return
    path = Path(out)
    if faults := missing_folder("out", path):
        raise ConfigError(faults)
    if path.exists() and not overwrite:
        raise ConfigError([f"out: {path} exists; name another file or give --overwrite"])
    head = {"task": task.name, "seed": seed, "split": split}
    lines = (
        json.dumps({**head, "index": index, "source": source, "target": target})
        for index, (source, target) in enumerate(examples)
    )
    _write(path, lines)
    print(f"wrote {count} examples to {path}")


def _there(task: Task, split: str, lengths: LengthRange | None) -> int | None:
    """How many examples there are; None where they are drawn without end."""
    return task.available(split, task.split_lengths(split) if lengths is None else lengths)


def _too_many(task: Task, count: int, split: str, lengths: LengthRange | None) -> str:
    """What is wrong with so many examples, where a task has a number of them and not so many."""
    there = _there(task, split, lengths)
    # Of a range without any, the task itself says what is wrong.
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
        # The interpreter flushes stdout once more at exit: give it somewhere to flush to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _write(path: Path, lines: Iterator[str]) -> None:
    with replacing(path) as draft, draft.open("w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in lines)


def parser(arguments: Sequence[str]) -> Parser:
    """The parser of this verb."""
    made = Parser(prog="unbounded sample", description=_DESCRIPTION)
    made.add_argument("task", type=str, help="What to draw from; see `unbounded list`.")
    made.add_argument(
        "-n", type=int | None, default=None, help=f"How many; {_FEW}, or all where there are fewer."
    )
    made.add_argument("--seed", type=int, default=0, help="Of the examples.")
    made.add_argument("--split", type=str, default="train", help="train, validation or test.")
    made.add_argument(
        "--lengths", type=str | None, default=None, help="A range such as 8:12; else the split's."
    )
    made.add_argument(
        "--task_options", type=dict[str, Any], default={}, help="Options of the task."
    )
    made.add_argument("--data", type=str, default=None, help="File or folder of the task's data.")
    made.add_argument("--out", type=str, default=None, help="A file for JSON lines.")
    made.add_argument("--overwrite", action="store_true", help="Replace the file of --out.")
    return made


def run(arguments: Sequence[str]) -> int:
    """Print or write the examples."""
    arguments = spelled_out(arguments)
    given, faults = parse(parser(arguments), arguments)
    from unbounded.experiments.config.checking import check_choice, check_number, check_task
    from unbounded.tasks import SPLITS, LengthRange, make_task, task_factory
    from unbounded.tasks.randomness import LAST_INDEX, LAST_SEED

    if given.n is not None:
        check_number(faults, "-n", given.n, 1, LAST_INDEX)
    check_number(faults, "--seed", given.seed, 0, LAST_SEED)
    check_choice(faults, "--split", "split", given.split, SPLITS)
    lengths = None
    if given.lengths is not None:
        try:
            lengths = LengthRange.parse(given.lengths)
        except ConfigError as error:
            faults += [f"--lengths: {fault}" for fault in error.faults]
    if is_path(given.task):
        import_modules([module_of(given.task)])
    options = dict(given.task_options)
    with suppress(UnboundedError):  # there is no such task, which is said below
        texts = option_texts("task_options", arguments)
        options = exact_options(task_factory(given.task), options, {}, texts)
    if given.data is not None:
        options["data"] = given.data
    task = check_task(faults, lambda: make_task(given.task, **options))
    if faults or task is None:
        raise ConfigError(faults)
    for note in task.notes:
        print(printable_lines(note), file=sys.stderr)
    if given.n and (fault := _too_many(task, given.n, given.split, lengths)):
        raise ConfigError([f"-n: {fault}"])
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
