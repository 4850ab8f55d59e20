"""anbn, superposition_stack-elman (anbn-superposition_stack-elman-f5d2c7ce-seed1, model-rounded)

A machine extracted from a trained network. Run it with a word of inputs:

    python machine.py #1 #0 #1 #0 #0 #1

It prints what is read, what it does, and what it says; "-" where nothing was ever asked for.
"""

import sys

#: What can be read and said, by number. A name may stand twice: the place counts.
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
    """Stacks side by side; each shows its topmost cells. Actions: PUSH, POP or NO-OP each."""

    def __init__(self, count: int, depth: int) -> None:
        self.depth = depth
        self.rows: list[list] = [[] for _ in range(count)]

    def step(self, actions: tuple, values: tuple) -> None:
        """Carry out one action and take one value a stack."""
        for rows, action, value in zip(self.rows, actions, values, strict=True):
            if action == "PUSH":
                rows.append(value)
            elif action == "POP" and rows:
                rows.pop()

    def read(self) -> tuple:
        """The topmost cells of each stack, from the top down; None where there is none."""
        return tuple(
            rows[-1 - k] if k < len(rows) else None for rows in self.rows for k in range(self.depth)
        )


def run(word):
    """A step for each input: (state, actions, symbols written, output).

    Fewer steps where the machine comes to a case that its table does not have.
    """
    memory, state, steps = Stacks(1, 2), START, []
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
        print(INPUTS[symbol], *actions, said, sep="\t")
    if len(steps) < len(word):
        print("no such case in the table: state, input or what is read is new")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
