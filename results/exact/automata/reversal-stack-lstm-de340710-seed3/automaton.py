"""reversal, stack-lstm (reversal-stack-lstm-de340710-seed3, model-hardened)

An automaton extracted from a trained network. Run it on a string of inputs:

    python automaton.py "#0" "#2" "#2" "#1" "#130" "#130"

For each step it prints the input, the actions and the output; "-" if no output is judged there.
"""

import sys

#: Names of the inputs and outputs, by number. Two inputs may share a name, but not a number.
INPUTS = ('<s>', '|||', 's0', 's1', 's2', 's3', 's4', 's5', 's6', 's7', 's8', 's9', 's10', 's11', 's12', 's13', 's14', 's15', 's16', 's17', 's18', 's19', 's20', 's21', 's22', 's23', 's24', 's25', 's26', 's27', 's28', 's29', 's30', 's31', 's32', 's33', 's34', 's35', 's36', 's37', 's38', 's39', 's40', 's41', 's42', 's43', 's44', 's45', 's46', 's47', 's48', 's49', 's50', 's51', 's52', 's53', 's54', 's55', 's56', 's57', 's58', 's59', 's60', 's61', 's62', 's63', 's64', 's65', 's66', 's67', 's68', 's69', 's70', 's71', 's72', 's73', 's74', 's75', 's76', 's77', 's78', 's79', 's80', 's81', 's82', 's83', 's84', 's85', 's86', 's87', 's88', 's89', 's90', 's91', 's92', 's93', 's94', 's95', 's96', 's97', 's98', 's99', 's100', 's101', 's102', 's103', 's104', 's105', 's106', 's107', 's108', 's109', 's110', 's111', 's112', 's113', 's114', 's115', 's116', 's117', 's118', 's119', 's120', 's121', 's122', 's123', 's124', 's125', 's126', 's127', 'output s0', 'output s1', 'output s2', 'output s3', 'output s4', 'output s5', 'output s6', 'output s7', 'output s8', 'output s9', 'output s10', 'output s11', 'output s12', 'output s13', 'output s14', 'output s15', 'output s16', 'output s17', 'output s18', 'output s19', 'output s20', 'output s21', 'output s22', 'output s23', 'output s24', 'output s25', 'output s26', 'output s27', 'output s28', 'output s29', 'output s30', 'output s31', 'output s32', 'output s33', 'output s34', 'output s35', 'output s36', 'output s37', 'output s38', 'output s39', 'output s40', 'output s41', 'output s42', 'output s43', 'output s44', 'output s45', 'output s46', 'output s47', 'output s48', 'output s49', 'output s50', 'output s51', 'output s52', 'output s53', 'output s54', 'output s55', 'output s56', 'output s57', 'output s58', 'output s59', 'output s60', 'output s61', 'output s62', 'output s63', 'output s64', 'output s65', 'output s66', 'output s67', 'output s68', 'output s69', 'output s70', 'output s71', 'output s72', 'output s73', 'output s74', 'output s75', 'output s76', 'output s77', 'output s78', 'output s79', 'output s80', 'output s81', 'output s82', 'output s83', 'output s84', 'output s85', 'output s86', 'output s87', 'output s88', 'output s89', 'output s90', 'output s91', 'output s92', 'output s93', 'output s94', 'output s95', 'output s96', 'output s97', 'output s98', 'output s99', 'output s100', 'output s101', 'output s102', 'output s103', 'output s104', 'output s105', 'output s106', 'output s107', 'output s108', 'output s109', 'output s110', 'output s111', 'output s112', 'output s113', 'output s114', 'output s115', 'output s116', 'output s117', 'output s118', 'output s119', 'output s120', 'output s121', 'output s122', 'output s123', 'output s124', 'output s125', 'output s126', 'output s127')
OUTPUTS = ('</s>', 's0', 's1', 's2', 's3', 's4', 's5', 's6', 's7', 's8', 's9', 's10', 's11', 's12', 's13', 's14', 's15', 's16', 's17', 's18', 's19', 's20', 's21', 's22', 's23', 's24', 's25', 's26', 's27', 's28', 's29', 's30', 's31', 's32', 's33', 's34', 's35', 's36', 's37', 's38', 's39', 's40', 's41', 's42', 's43', 's44', 's45', 's46', 's47', 's48', 's49', 's50', 's51', 's52', 's53', 's54', 's55', 's56', 's57', 's58', 's59', 's60', 's61', 's62', 's63', 's64', 's65', 's66', 's67', 's68', 's69', 's70', 's71', 's72', 's73', 's74', 's75', 's76', 's77', 's78', 's79', 's80', 's81', 's82', 's83', 's84', 's85', 's86', 's87', 's88', 's89', 's90', 's91', 's92', 's93', 's94', 's95', 's96', 's97', 's98', 's99', 's100', 's101', 's102', 's103', 's104', 's105', 's106', 's107', 's108', 's109', 's110', 's111', 's112', 's113', 's114', 's115', 's116', 's117', 's118', 's119', 's120', 's121', 's122', 's123', 's124', 's125', 's126', 's127')
#: The symbols of each alphabet of the memory.
SYMBOLS = (('<s>', 's0', 's1'),)
START = 0
#: (state, input, symbols read) -> (next state, actions, symbols written, output)
TABLE = {
    (0, 0, (None,)): (0, (1, 0), (0,), None),
    (0, 2, (0,)): (0, (1, 0), (1,), None),
    (0, 3, (0,)): (0, (1, 0), (2,), None),
    (0, 1, (1,)): (0, (0, 1), (None,), 1),
    (0, 2, (1,)): (0, (1, 0), (1,), None),
    (0, 3, (1,)): (0, (1, 0), (2,), None),
    (0, 1, (2,)): (0, (0, 1), (None,), 2),
    (0, 2, (2,)): (0, (1, 0), (1,), None),
    (0, 3, (2,)): (0, (1, 0), (2,), None),
    (0, 130, (0,)): (0, (0, 0), (None,), 0),
    (0, 131, (0,)): (0, (0, 0), (None,), 0),
    (0, 130, (1,)): (0, (0, 1), (None,), 1),
    (0, 131, (1,)): (0, (0, 1), (None,), 1),
    (0, 130, (2,)): (0, (0, 1), (None,), 2),
    (0, 131, (2,)): (0, (0, 1), (None,), 2),
}


class Stack:
    """A stack: last in, first out.

    The actions are push and pop. A step pops, pushes, then shows the top.
    """

    def __init__(self) -> None:
        self.rows: list = []

    def step(self, actions: tuple, values: tuple) -> None:
        """Carry out the actions, each 0 or 1. The only value is the one to push."""
        push, pop = actions
        if pop and self.rows:
            self.rows.pop()
        if push:
            self.rows.append(values[0])

    def read(self) -> tuple:
        """The top; None if the structure is empty."""
        return (self.rows[-1] if self.rows else None,)


def run(string):
    """Return (next state, actions, symbols written, output) for each input.

    The steps end before the first case that the table does not have.
    """
    memory, state, steps = Stack(), START, []
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
