"""`unbounded actions RUN INPUT`: show the memory actions of a trained run, step by step."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from unbounded.cli.overlay import import_given
from unbounded.cli.parsing import Parser, add_hardened, add_import, parse
from unbounded.errors import ConfigError, RunExistsError

if TYPE_CHECKING:
    from jsonargparse import Namespace

    from unbounded.evaluation import ActionRow
    from unbounded.experiments.run.run_folder import RunFolder
    from unbounded.models.memory_model import MemoryModel
    from unbounded.tasks import Task

#: Number of symbols above which the output takes many seconds; a notice is printed.
_LONG = 2000

_DESCRIPTION = """Show the actions of the memory of a trained run on an input, step by step.

examples:
  unbounded actions RUN aaabbb
  unbounded actions RUN uuuddudd --out pictures
  unbounded actions RUN aabbaabb --hardened --out pictures
  unbounded actions RUN '<s> s1 s2 ||| s1 s2 </s>'
  unbounded actions RUN --length 320 --out pictures

Each row is one step. It shows the input symbol, the next symbol, the most likely symbol, and the
probability of the next symbol. Then follow the gates of the memory: the action with the greatest
weight, and this weight where the gate is not saturated, or the weight alone, such as of a push. A
head with more than ten gates is left out. For superposition stacks and lists, the top of each after
the step follows, and --out draws the table; in a terminal, stacks that do not fit on a line follow
below it, and a pipe or file gets them side by side. The memory is empty at the start. On streams
the first row reads the last letter of the alphabet, as in training.

For a run on pairs, INPUT is <s> SOURCE ||| TARGET </s> with blanks between the symbols, or a prefix
of it. Each symbol after ||| is predicted from those before it. A blank that is a symbol is written
␣, as in '<s> a ␣ b'.

For a run that classifies strings, such as Dyck words, each row is a prefix. It shows the
probability of the label yes, the positions of a tape's heads and the gates. --course FILE.gif
writes an animation of the heads over training, with one frame per kept checkpoint
(--training.keep_checkpoints).

For a run on an answer task, INPUT is a source, such as 3141 or a program print((12+5)). Each row is
a step: the input, the output, the heads of a Lie-access memory and the gates.

For these two kinds --length N takes the first test example of that length in the place of INPUT.
"""

_PICTURES = ("actions", "action_table", "path", "tape", "keys")


def parser(arguments: Sequence[str]) -> Parser:
    """The argument parser of this verb."""
    made = Parser(prog="unbounded actions", description=_DESCRIPTION)
    made.add_argument("run", type=str, help="The run's folder, or a prefix of its name.")
    made.add_argument(
        "input",
        type=str,
        nargs="?",
        help="The input symbols. On streams the last is predicted only.",
    )
    made.add_argument("--length", type=int | None, help="Length of a test example to show instead.")
    add_hardened(made)
    made.add_argument(
        "--discretize", action="store_true", help="Give the most likely action the full weight."
    )
    made.add_argument("--data", type=str, help="Folder of the corpus, if it moved.")
    add_import(made)
    made.add_argument("--course", type=str, help="File for an animation (.gif) of the heads.")
    made.add_argument("--out", type=str, help="Folder for pictures.")
    made.add_argument("--overwrite", action="store_true", help="Replace pictures in it.")
    return made


def run(arguments: Sequence[str]) -> int:
    """Print the table, and draw it if --out is given."""
    given, errors = parse(parser(arguments), arguments)
    if not errors and (given.input is None) == (given.length is None):
        errors.append("INPUT: expected either the input's symbols or --length")
    if errors:
        raise ConfigError(errors)
    folder = None if given.out is None else Path(given.out)
    if folder is not None and folder.exists() and not folder.is_dir():
        raise ConfigError(f"--out: {folder} is a file; name a folder")
    if given.course is not None and Path(given.course).suffix != ".gif":
        raise ConfigError(f"--course: expected a name that ends in .gif, got {given.course!r}")
    if folder is not None and not given.overwrite:
        there = [path for path in folder.glob("*") if path.stem in _PICTURES]
        if there:
            raise RunExistsError(f"{there[0]} exists; --overwrite replaces it")
    from unbounded.evaluation import action_rows, action_table, read_symbols
    from unbounded.evaluation.actions import gate_rows
    from unbounded.evaluation.report import aligned
    from unbounded.experiments.run.data_check import task_of_run
    from unbounded.experiments.run.examples import drawn_text
    from unbounded.experiments.run.run_folder import RunFolder
    from unbounded.memories import SuperpositionMemory
    from unbounded.models.discrete import deciding_layers, discretized

    import_given(given)
    run_folder = RunFolder.find(given.run)
    config = run_folder.config(given.data)
    task = task_of_run(run_folder, config)
    model, _ = run_folder.load_model(given.hardened)
    has_examples = task.layout == "labels" or task.answer_token is not None
    if given.length is not None and not has_examples:
        raise ConfigError(f"--length: has no meaning on task {task.name!r}; give INPUT")
    if given.discretize and has_examples:
        raise ConfigError(f"--discretize: has no meaning on task {task.name!r}; leave it out")
    title = (
        f"{run_folder.name}: {given.input if given.length is None else f'length {given.length}'}"
    )
    if given.length is not None:
        given.input = drawn_text(task, config.seed, given.length)
    if task.layout == "labels":
        _judge(given, run_folder, folder, model, task, title)
        return 0
    if task.answer_token is not None:
        _answer(given, run_folder, folder, model, task, title)
        return 0
    if given.course is not None:
        raise ConfigError(f"--course: has no meaning on task {task.name!r}; leave it out")
    # Raises for a run without gates, before INPUT is parsed.
    has_tops = isinstance(deciding_layers(model)[0].memory, SuperpositionMemory)
    if folder is not None and not has_tops:
        raise ConfigError(
            "--out: the picture shows superposition stacks or lists only; "
            f"`unbounded explore {run_folder}` shows any memory"
        )
    symbols = read_symbols(task, given.input)
    if len(symbols) > _LONG:
        print(f"{len(symbols)} symbols, step by step: this takes a while", file=sys.stderr)
    # A running text is scored with the memory's original size.
    roomy, notes = (model, []) if task.layout == "text" else _with_room(model, len(symbols) - 1)
    shown = discretized(roomy) if given.discretize else roomy
    if not has_tops:
        print(*aligned(gate_rows(shown, task, symbols)), *notes, sep="\n")
        return 0
    rows = action_rows(shown, task, symbols)
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    print(action_table(rows, width), *notes, sep="\n")
    if folder is not None:
        _draw(rows, folder, title)
    return 0


def _with_room(model: MemoryModel, symbols: int) -> tuple[MemoryModel, list[str]]:
    """The model with memory for this many symbols, as in scoring, and a note if it was enlarged."""
    from unbounded.models.memory_room import room_note, with_room

    roomy, cells = with_room(model, symbols)
    return roomy, [] if cells is None else [room_note(cells)]


def _draw(rows: Sequence[ActionRow], folder: Path, title: str) -> None:
    """Draw the actions, and the table if it is short enough to be legible."""
    from unbounded.figures import draw_action_table, draw_actions
    from unbounded.figures.actions import MOST_TABLE_ROWS

    written = draw_actions(rows, folder, "actions", title=title)
    if len(rows) <= MOST_TABLE_ROWS:
        written += draw_action_table(rows, folder, "action_table", title=title)
    else:
        print(
            f"\nno picture of the table: it has {len(rows)} rows; a picture has at most "
            f"{MOST_TABLE_ROWS}"
        )
    print("\nwritten:", *written, sep="\n  ")


def _judge(
    given: Namespace,
    run_folder: RunFolder,
    folder: Path | None,
    model: MemoryModel,
    task: Task,
    title: str,
) -> None:
    """Print the predicted label of each prefix of a string, and draw it if --out is given."""
    from unbounded.evaluation.report import aligned
    from unbounded.experiments.run.examples import course_of, draw_word, prefix_lines, typed_word
    from unbounded.figures import draw_course, read_tape

    word = typed_word(task, given.input)
    model, notes = _with_room(model, word.inputs.shape[1])
    print(*aligned(prefix_lines(model, task, word)), *notes, sep="\n")
    written = [] if folder is None else draw_word(model, task, word, folder, title)
    if given.course is not None:
        frames = course_of(run_folder, task, lambda _: word, read_tape)
        heading = title.partition(": ")[2]
        written.append(draw_course(frames, Path(given.course), title=heading))
    if written:
        print("\nwritten:", *written, sep="\n  ")


def _answer(
    given: Namespace,
    run_folder: RunFolder,
    folder: Path | None,
    model: MemoryModel,
    task: Task,
    title: str,
) -> None:
    """Print the answer to a source, step by step, and draw it if --out is given."""
    from unbounded.evaluation.report import aligned
    from unbounded.experiments.run.examples import (
        answer_text,
        asked,
        course_of,
        draw_answer_keys,
        step_lines,
    )
    from unbounded.figures import draw_key_course, read_keys
    from unbounded.memories import LieAccessMemory

    has_keys = isinstance(getattr(model.sequence.layer, "memory", None), LieAccessMemory)
    if given.course is not None and not has_keys:
        raise ConfigError(
            "--course: keys are drawn for a Lie-access memory only; "
            f"`unbounded explore {run_folder} --course` shows any memory"
        )
    batch = asked(model, task, given.input)
    model, notes = _with_room(model, batch.inputs.shape[1])
    print(*aligned(step_lines(model, task, batch)), *notes, sep="\n")
    print(f"\n{answer_text(task, batch)}")
    written = [] if folder is None else draw_answer_keys(model, task, batch, folder, title)
    if folder is not None and not written:
        print(
            "\nno picture: keys are drawn for a Lie-access memory only; "
            f"`unbounded explore {run_folder}` shows any memory"
        )
    if given.course is not None:
        frames = course_of(
            run_folder, task, lambda frame: asked(frame, task, given.input), read_keys
        )
        heading = title.partition(": ")[2]
        written.append(draw_key_course(frames, Path(given.course), title=heading))
    if written:
        print("\nwritten:", *written, sep="\n  ")
