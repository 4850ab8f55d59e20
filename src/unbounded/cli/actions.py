"""`unbounded actions RUN INPUT`: what the memory of a trained run does, step by step."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from unbounded.cli.defaults import import_modules
from unbounded.cli.parsing import Parser, add_rounded, parse
from unbounded.errors import ConfigError, RunExistsError

if TYPE_CHECKING:
    from jsonargparse import Namespace

    from unbounded.evaluation import ActionRow
    from unbounded.models.memory_model import MemoryModel
    from unbounded.tasks import Task

#: Symbols beyond which nothing would be seen for many seconds.
_LONG = 2000

_DESCRIPTION = """Show what each stack or list of a trained run does with an input, step by step.

examples:
  unbounded actions RUN aaabbb
  unbounded actions RUN uuuddudd --out pictures
  unbounded actions RUN aabbaabb --rounded --out pictures
  unbounded actions RUN '<s> s1 s2 ||| s1 s2 </s>'

A row is a step: the symbol that was read, the next one, the likeliest one and the chance of the
next; then the action of each stack, with its weight where it is not decided, and the top of each
after it. The memory is empty at the beginning; of streams the first row reads the last letter of
the alphabet there, as in training. In a terminal, stacks for which a line has no room
follow below; a pipe or file gets them side by side. With --out the same goes into pictures.

Of a run on pairs INPUT is <s> SOURCE ||| TARGET </s> with blanks between the symbols, or the
beginning of that: what comes behind ||| is predicted, each symbol after those before it. A blank
that is a symbol is written ␣, as in '<s> a ␣ b'.

Of a run on words to be judged, such as Dyck words, a row is a prefix: the chance that yes is said
of it, and where the heads of a tape are. With --course FILE.gif the heads over the course of
training become an animation, of as many frames as the run kept checkpoints
(--training.keep_checkpoints).

Of a run on a task of answers INPUT is a source, such as 3141 or a program print((12+5)), and a row
is a step: what is read, what is said, where the heads of a Lie-access memory are.
"""

_PICTURES = ("actions", "action_table", "path", "tape", "keys")


def parser(arguments: Sequence[str]) -> Parser:
    """The parser of this verb."""
    made = Parser(prog="unbounded actions", description=_DESCRIPTION)
    made.add_argument("run", type=str, help="The run's folder, or the beginning of its name.")
    made.add_argument("input", type=str, help="Its symbols. Of streams the last is only predicted.")
    add_rounded(made)
    made.add_argument(
        "--discretize", action="store_true", help="Take the likeliest action to its full weight."
    )
    made.add_argument(
        "--data", type=str, default=None, help="Folder of the corpus, if it has moved."
    )
    made.add_argument(
        "--import", dest="imports", type=str, help="A module of your own that the run names."
    )
    made.add_argument(
        "--course", type=str, default=None, help="Of words: file for an animation, .gif."
    )
    made.add_argument("--out", type=str, default=None, help="Folder for pictures.")
    made.add_argument("--overwrite", action="store_true", help="Replace pictures in it.")
    return made


def run(arguments: Sequence[str]) -> int:
    """Print the table; draw it when asked."""
    given, faults = parse(parser(arguments), arguments)
    if faults:
        raise ConfigError(faults)
    folder = None if given.out is None else Path(given.out)
    if folder is not None and not given.overwrite:
        there = [path for path in folder.glob("*") if path.stem in _PICTURES]
        if there:
            raise RunExistsError(f"{there[0]} exists; --overwrite replaces it")
    from unbounded.evaluation import action_rows, action_table, read_symbols
    from unbounded.experiments.run.data_check import task_of_run
    from unbounded.experiments.run.folder import find_run
    from unbounded.experiments.run.loading import load_config, load_model
    from unbounded.models.discrete import discretized, superposition_layer

    import_modules([] if given.imports is None else [given.imports])
    run_folder = find_run(given.run)
    config = load_config(run_folder)
    if given.data is not None:
        config.machine.data = given.data
    task = task_of_run(run_folder, config)
    model, _ = load_model(run_folder, given.rounded)
    if task.layout == "labels":
        _judge(given, run_folder, folder, model, task)
        return 0
    if task.answer_token is not None:
        _answer(given, run_folder, folder, model, task)
        return 0
    if given.course is not None:
        raise ConfigError([f"--course: has no meaning on task {task.name!r}; leave it out"])
    superposition_layer(model)  # a run without stacks or lists: said before its symbols are read
    symbols = read_symbols(task, given.input)
    if len(symbols) > _LONG:
        print(f"{len(symbols)} symbols, step by step: this takes a while", file=sys.stderr)
    # A running text is scored with the memory as it is.
    roomy, notes = (model, []) if task.layout == "text" else _with_room(model, len(symbols) - 1)
    rows = action_rows(discretized(roomy) if given.discretize else roomy, task, symbols)
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    print(action_table(rows, width), *notes, sep="\n")
    if folder is not None:
        _draw(rows, folder, f"{run_folder.name}: {given.input}")
    return 0


def _with_room(model: MemoryModel, symbols: int) -> tuple[MemoryModel, list[str]]:
    """The model with room for so many symbols, as they are scored, and what is said of that."""
    from unbounded.evaluation.memory_room import room_note
    from unbounded.models.memory_room import with_room

    roomy, cells = with_room(model, symbols)
    return roomy, [] if cells is None else [room_note(cells)]


def _draw(rows: Sequence[ActionRow], folder: Path, title: str) -> None:
    """Draw the actions, and the table where a picture of it can be read."""
    from unbounded.figures import draw_action_table, draw_actions
    from unbounded.figures.actions import MOST_TABLE_ROWS

    written = draw_actions(rows, folder, "actions", title=title)
    if len(rows) <= MOST_TABLE_ROWS:
        written += draw_action_table(rows, folder, "action_table", title=title)
    else:
        print(
            f"\nno picture of the table: it has {len(rows)} rows, and of more than "
            f"{MOST_TABLE_ROWS} none is drawn"
        )
    print("\nwritten:", *written, sep="\n  ")


def _judge(
    given: Namespace, run_folder: Path, folder: Path | None, model: MemoryModel, task: Task
) -> None:
    """Print what is said of each prefix of a word; draw it when asked."""
    from unbounded.evaluation.report import aligned
    from unbounded.experiments.run.traces import course_of
    from unbounded.experiments.run.word import draw_word, prefix_lines, typed_word
    from unbounded.figures import draw_course, read_tape

    if given.discretize:
        raise ConfigError([f"--discretize: has no meaning on task {task.name!r}; leave it out"])
    word = typed_word(task, given.input)
    model, notes = _with_room(model, word.inputs.shape[1])
    print(*aligned(prefix_lines(model, task, word)), *notes, sep="\n")
    title = f"{run_folder.name}: {given.input}"
    written = [] if folder is None else draw_word(model, task, word, folder, title)
    if given.course is not None:
        frames = course_of(run_folder, task, lambda _: word, read_tape)
        written.append(draw_course(frames, Path(given.course), title=given.input))
    if written:
        print("\nwritten:", *written, sep="\n  ")


def _answer(
    given: Namespace, run_folder: Path, folder: Path | None, model: MemoryModel, task: Task
) -> None:
    """Print what is answered to a source, step by step; draw it when asked."""
    from unbounded.evaluation.report import aligned
    from unbounded.experiments.run.answer import (
        answer_text,
        asked,
        draw_answer_keys,
        step_lines,
    )
    from unbounded.experiments.run.traces import course_of
    from unbounded.figures import draw_key_course, read_keys

    if given.discretize:
        raise ConfigError([f"--discretize: has no meaning on task {task.name!r}; leave it out"])
    batch = asked(model, task, given.input)
    model, notes = _with_room(model, batch.inputs.shape[1])
    print(*aligned(step_lines(model, task, batch)), *notes, sep="\n")
    print(f"\n{answer_text(task, batch)}")
    title = f"{run_folder.name}: {given.input}"
    written = [] if folder is None else draw_answer_keys(model, task, batch, folder, title)
    if folder is not None and not written:
        print(
            "\nno picture: only of a Lie-access memory are keys drawn; "
            f"`unbounded explore {run_folder}` shows any memory"
        )
    if given.course is not None:
        frames = course_of(run_folder, task, lambda each: asked(each, task, given.input), read_keys)
        written.append(draw_key_course(frames, Path(given.course), title=given.input))
    if written:
        print("\nwritten:", *written, sep="\n  ")
