"""An automaton as a standalone Python program, which needs neither torch nor this library."""

from __future__ import annotations

import inspect
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from unbounded.errors import ConfigError
from unbounded.extraction.automaton import Automaton, Step
from unbounded.extraction.memories import STRUCTURES

_HEAD = '''"""{title}

An automaton extracted from a trained network. Run it on a string of inputs:

    python {file} {example}

For each step it prints the input, the actions and the output; "-" if no output is judged there.
"""

import sys

#: Names of the inputs and outputs, by number. Two inputs may share a name, but not a number.
INPUTS = {inputs!r}
OUTPUTS = {outputs!r}
#: The symbols of each alphabet of the memory.
SYMBOLS = {symbols!r}
START = {start!r}
#: (state, input, symbols read) -> (next state, actions, symbols written, output)
TABLE = {{
{table}
}}


'''
_TAIL = '''

def run(string):
    """Return (next state, actions, symbols written, output) for each input.

    The steps end before the first case that the table does not have.
    """
    memory, state, steps = {new}, START, []
    for symbol in string:
        step = TABLE.get((state, symbol, memory.read()))
        if step is None:
            break
        state, actions, writes, output = step
        memory.step(actions, writes)
        steps.append(step)
    return steps


def main(names):
    """Read inputs, given by name or number, and print a line for each."""
    if not names:
        print(__doc__)
        return 2
    numbers = dict(("#%d" % place, place) for place in range(len(INPUTS)))
    numbers.update((name, place) for place, name in reversed(list(enumerate(INPUTS))))
    unknown = [name for name in names if name not in numbers]
    if unknown:
        print("no such input:", *unknown)
        print("inputs are:", *INPUTS, "or #0, #1, ...")
        return 2
    string = [numbers[name] for name in names]
    steps = run(string)
    for symbol, (state, actions, writes, output) in zip(string, steps):
        answer = "-" if output is None else OUTPUTS[output]
        print(INPUTS[symbol], *actions, answer, sep="\\t")
    if len(steps) < len(string):
        print("the table has no case for this state, input and symbols read")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
'''


class Program(NamedTuple):
    """An extracted program, possibly edited.

    Fields:
        inputs, outputs: names of the inputs and outputs.
        steps: its `run`.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    steps: Callable[[list[int]], list[Any]]

    def run(self, string: list[int]) -> list[Step]:
        """As `Automaton.run`.

        Raises:
            ConfigError: it fails, or returns something other than steps.
        """
        try:
            steps = [
                Step(state, actions, writes, output, 0)
                for state, actions, writes, output in self.steps(string)
            ]
        # A program that exits counts as failed.
        except (Exception, SystemExit) as error:
            reason = f"{type(error).__name__}: {error}"
            raise ConfigError(f"program: its run failed on a string: {reason}") from error
        return steps


def program_from(path: Path) -> Program:
    """Load an extracted program by running its file.

    Raises:
        ConfigError: it is missing, does not run, or is no such program.
    """
    try:
        names = runpy.run_path(str(path))
        return Program(tuple(names["INPUTS"]), tuple(names["OUTPUTS"]), names["run"])
    except KeyError as error:
        raise ConfigError(
            f"program: {path} is not an extracted program: it has no {error}"
        ) from error
    except FileNotFoundError as error:
        raise ConfigError(f"program: there is no file {path}") from error
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {error}"
        raise ConfigError(f"program: {path} does not run: {reason}") from error


def program_of(automaton: Automaton, title: str, example: list[int]) -> str:
    """The text of the program.

    Args:
        automaton: the automaton.
        title: first line of the docstring.
        example: numbers of a string, for the docstring.
    """
    rows = "\n".join(
        f"    {case!r}: {(step.state, step.actions, step.writes, step.output)!r},"
        for case, step in automaton.table.items()
    )
    head = _HEAD.format(
        # The title may contain a folder's name, which must not end the docstring.
        title=title.replace("\\", "\\\\").replace('"', '\\"'),
        file="automaton.py",
        example=" ".join(f'"#{number}"' for number in example),
        inputs=automaton.inputs,
        outputs=automaton.outputs,
        symbols=automaton.symbols,
        start=automaton.start,
        table=rows,
    )
    # The source of the class without annotations, because these use a module that is not imported.
    structure = inspect.getsource(STRUCTURES[automaton.shape.structure])
    for name in ("tuple[Any, ...]", "list[Any]", "dict[int, Any]"):
        structure = structure.replace(name, name.split("[")[0])
    structure = structure.replace("self.shown: Any", "self.shown")
    options = ", ".join(str(option) for option in automaton.shape.options)
    tail = _TAIL.format(new=f"{automaton.shape.structure}({options})")
    return head + structure.rstrip() + "\n" + tail
