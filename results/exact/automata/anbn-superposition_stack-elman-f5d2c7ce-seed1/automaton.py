"""anbn, superposition_stack-elman (anbn-superposition_stack-elman-f5d2c7ce-seed1, model-hardened)

An automaton extracted from a trained network. Run it on a string of inputs:

    python automaton.py "#1" "#0" "#1" "#0" "#0" "#1"

For each step it prints the input, the actions and the output; "-" if no output is judged there.
"""

import sys

#: Names of the inputs and outputs, by number. Two inputs may share a name, but not a number.
INPUTS = ('a', 'b')
OUTPUTS = ('a', 'b')
#: The symbols of each alphabet of the memory.
SYMBOLS = (('a',),)
START = 0
#: (state, input, symbols read) -> (next state, actions, symbols written, output)
TABLE = {
    (0, 1, (None, None)): (0, ('POP',), (None,), None),
    (0, 0, (None, None)): (0, ('PUSH',), (0,), None),
    (0, 0, (0, None)): (0, ('PUSH',), (0,), None),
    (0, 1, (0, None)): (0, ('POP',), (None,), 0),
    (0, 0, (0, 0)): (0, ('PUSH',), (0,), None),
    (0, 1, (0, 0)): (0, ('POP',), (None,), 1),
}


class Stacks:
    """Parallel stacks, each of which shows its topmost cells.

    The action of each stack is PUSH, POP or NO-OP.
    """

    def __init__(self, count: int, depth: int) -> None:
        self.depth = depth
        self.rows: list[list] = [[] for _ in range(count)]

    def step(self, actions: tuple, values: tuple) -> None:
        """Carry out one action for each stack, with one value for each."""
        for rows, action, value in zip(self.rows, actions, values, strict=True):
            if action == "PUSH":
                rows.append(value)
            elif action == "POP" and rows:
                rows.pop()

    def read(self) -> tuple:
        """The topmost cells of each stack, from the top down; None for a missing cell."""
        return tuple(
            rows[-1 - k] if k < len(rows) else None for rows in self.rows for k in range(self.depth)
        )


def run(string):
    """Return (next state, actions, symbols written, output) for each input.

    The steps end before the first case that the table does not have.
    """
    memory, state, steps = Stacks(1, 2), START, []
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
        print(INPUTS[symbol], *actions, answer, sep="\t")
    if len(steps) < len(string):
        print("the table has no case for this state, input and symbols read")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
