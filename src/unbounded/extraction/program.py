"""A machine as a Python program of its own, which needs neither torch nor this library."""

from __future__ import annotations

import inspect

from unbounded.extraction.machine import Machine
from unbounded.extraction.memories import STRUCTURES

_HEAD = '''"""{title}

A machine extracted from a trained network. Run it with a word of inputs:

    python {file} {example}

It prints what is read, what it does, and what it says; "-" where nothing was ever asked for.
"""

import sys

#: What can be read and said, by number. A name may stand twice: the place counts.
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

def run(word):
    """A step for each input: (state, actions, symbols written, output).

    Fewer steps where the machine comes to a case that its table does not have.
    """
    memory, state, steps = {new}, START, []
    for symbol in word:
        step = TABLE.get((state, symbol, memory.read()))
        if step is None:
            break
        state, actions, writes, says = step
        memory.step(actions, writes)
        steps.append(step)
    return steps


def main(names):
    """Read inputs by name or by number, print a line for each."""
    numbers = dict(("#%d" % place, place) for place in range(len(INPUTS)))
    numbers.update((name, place) for place, name in reversed(list(enumerate(INPUTS))))
    unknown = [name for name in names if name not in numbers]
    if unknown:
        print("no such input:", *unknown)
        print("inputs are:", *INPUTS, "or #0, #1, ...")
        return 2
    word = [numbers[name] for name in names]
    steps = run(word)
    for symbol, (state, actions, writes, says) in zip(word, steps):
        said = "-" if says is None else OUTPUTS[says]
        print(INPUTS[symbol], *actions, said, sep="\\t")
    if len(steps) < len(word):
        print("no such case in the table: state, input or what is read is new")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
'''


def program_of(machine: Machine, title: str, example: list[int], file: str = "machine.py") -> str:
    """The text of the program.

    Args:
        machine: what it does.
        title: first line of its docstring.
        example: numbers of a word, for the docstring.
        file: its name.
    """
    rows = "\n".join(
        f"    {case!r}: {(step.state, step.actions, step.writes, step.says)!r},"
        for case, step in machine.table.items()
    )
    head = _HEAD.format(
        title=title,
        file=file,
        example=" ".join(f"#{number}" for number in example),
        inputs=machine.inputs,
        outputs=machine.outputs,
        symbols=machine.symbols,
        start=machine.start,
        table=rows,
    )
    # The class as it stands, but for its annotations, which name a module that is not imported.
    structure = inspect.getsource(STRUCTURES[machine.shape.structure])
    for name in ("tuple[Any, ...]", "list[Any]", "dict[int, Any]"):
        structure = structure.replace(name, name.split("[")[0])
    structure = structure.replace("self.shown: Any", "self.shown")
    options = ", ".join(str(option) for option in machine.shape.options)
    tail = _TAIL.format(new=f"{machine.shape.structure}({options})")
    return head + structure.rstrip() + "\n" + tail
