"""reversal, stack-lstm (reversal-stack-lstm-de340710-seed2, model-rounded)

A machine extracted from a trained network. Run it with a word of inputs:

    python machine.py #0 #2 #2 #1 #130 #130

It prints what is read, what it does, and what it says; "-" where nothing was ever asked for.
"""

import sys

#: What can be read and said, by number. A name may stand twice: the place counts.
INPUTS = ('<s>', '|||', 's0', 's1', 's2', 's3', 's4', 's5', 's6', 's7', 's8', 's9', 's10', 's11', 's12', 's13', 's14', 's15', 's16', 's17', 's18', 's19', 's20', 's21', 's22', 's23', 's24', 's25', 's26', 's27', 's28', 's29', 's30', 's31', 's32', 's33', 's34', 's35', 's36', 's37', 's38', 's39', 's40', 's41', 's42', 's43', 's44', 's45', 's46', 's47', 's48', 's49', 's50', 's51', 's52', 's53', 's54', 's55', 's56', 's57', 's58', 's59', 's60', 's61', 's62', 's63', 's64', 's65', 's66', 's67', 's68', 's69', 's70', 's71', 's72', 's73', 's74', 's75', 's76', 's77', 's78', 's79', 's80', 's81', 's82', 's83', 's84', 's85', 's86', 's87', 's88', 's89', 's90', 's91', 's92', 's93', 's94', 's95', 's96', 's97', 's98', 's99', 's100', 's101', 's102', 's103', 's104', 's105', 's106', 's107', 's108', 's109', 's110', 's111', 's112', 's113', 's114', 's115', 's116', 's117', 's118', 's119', 's120', 's121', 's122', 's123', 's124', 's125', 's126', 's127', 'said s0', 'said s1', 'said s2', 'said s3', 'said s4', 'said s5', 'said s6', 'said s7', 'said s8', 'said s9', 'said s10', 'said s11', 'said s12', 'said s13', 'said s14', 'said s15', 'said s16', 'said s17', 'said s18', 'said s19', 'said s20', 'said s21', 'said s22', 'said s23', 'said s24', 'said s25', 'said s26', 'said s27', 'said s28', 'said s29', 'said s30', 'said s31', 'said s32', 'said s33', 'said s34', 'said s35', 'said s36', 'said s37', 'said s38', 'said s39', 'said s40', 'said s41', 'said s42', 'said s43', 'said s44', 'said s45', 'said s46', 'said s47', 'said s48', 'said s49', 'said s50', 'said s51', 'said s52', 'said s53', 'said s54', 'said s55', 'said s56', 'said s57', 'said s58', 'said s59', 'said s60', 'said s61', 'said s62', 'said s63', 'said s64', 'said s65', 'said s66', 'said s67', 'said s68', 'said s69', 'said s70', 'said s71', 'said s72', 'said s73', 'said s74', 'said s75', 'said s76', 'said s77', 'said s78', 'said s79', 'said s80', 'said s81', 'said s82', 'said s83', 'said s84', 'said s85', 'said s86', 'said s87', 'said s88', 'said s89', 'said s90', 'said s91', 'said s92', 'said s93', 'said s94', 'said s95', 'said s96', 'said s97', 'said s98', 'said s99', 'said s100', 'said s101', 'said s102', 'said s103', 'said s104', 'said s105', 'said s106', 'said s107', 'said s108', 'said s109', 'said s110', 'said s111', 'said s112', 'said s113', 'said s114', 'said s115', 'said s116', 'said s117', 'said s118', 'said s119', 'said s120', 'said s121', 'said s122', 'said s123', 'said s124', 'said s125', 'said s126', 'said s127')
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
    """Last in, first out. Actions: push, pop; a step pops, pushes, then shows the top."""

    def __init__(self) -> None:
        self.rows: list = []

    def step(self, actions: tuple, values: tuple) -> None:
        """Carry out the actions, each 0 or 1; what is pushed is the one value."""
        push, pop = actions
        if pop and self.rows:
            self.rows.pop()
        if push:
            self.rows.append(values[0])

    def read(self) -> tuple:
        """The top; None where there is none."""
        return (self.rows[-1] if self.rows else None,)


def run(word):
    """A step for each input: (state, actions, symbols written, output).

    Fewer steps where the machine comes to a case that its table does not have.
    """
    memory, state, steps = Stack(), START, []
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
