"""Whether a recogniser of FLaRe rejects strings of a language in which one symbol is wrong.

    python benchmarks/near_misses.py RUN [RUN ...]

RUN is a run folder of the task `flare`. One symbol of each test string in the language is replaced,
so that the string is no longer in the language: any symbol, but of modular arithmetic the value
after "=", and of stack manipulation one symbol after "#". Prints the share of these strings that
each network accepts; a network that recognises the language accepts none.
"""

from __future__ import annotations

import random
import sys

import torch

from unbounded.experiments.run.run_folder import RunFolder
from unbounded.tasks import LengthRange, make_task
from unbounded.tasks.languages import LANGUAGES

#: The symbol before the answer, and the number of symbols that an answer may have.
ANSWERS = {"modular_arithmetic_simple": ("=", 5), "stack_manipulation": ("#", 2)}
_TRIES = 20


def near_misses(language: str, lengths: LengthRange, count: int) -> list[list[int]]:
    """Inputs with one wrong symbol, made from the test strings in the language."""
    rule, task = LANGUAGES[language](), make_task("flare", language=language)
    mark, symbols = ANSWERS.get(language, (None, len(task.input_vocabulary) - 1))
    drawn, made = random.Random(0), []
    batch = task.batch(3, "test", 0, count, lengths)
    for tokens, target, steps in zip(batch.inputs, batch.targets, batch.lengths, strict=True):
        if not int(target[int(steps) - 1]):
            continue
        string = tokens[1 : int(steps)].tolist()  # after <s>
        first = 0
        if mark is not None:
            first = string.index(task.input_vocabulary.index(mark)) + 1
        if first == len(string):
            continue
        for _ in range(_TRIES):
            place = drawn.randrange(first, len(string))
            other = 1 + (string[place] - 1 + drawn.randrange(1, symbols)) % symbols
            changed = [*string[:place], other, *string[place + 1 :]]
            if not rule.accepts(token - 1 for token in changed):
                made.append([int(tokens[0]), *changed])
                break
    return made


def main() -> None:
    for name in sys.argv[1:]:
        folder = RunFolder(name)
        language = folder.config().task["language"]
        model = folder.load_model(False)[0].eval()
        for lengths, count in ((LengthRange(8, 40), 600), (LengthRange(200, 500), 200)):
            made = near_misses(language, lengths, count)
            steps = torch.tensor([len(string) for string in made])
            inputs = torch.nn.utils.rnn.pad_sequence([torch.tensor(s) for s in made], True)
            with torch.no_grad():
                logits = model.sequence(inputs, lengths=steps)[0]
            accepted = float((logits[torch.arange(len(made)), steps - 1, 0] > 0).float().mean())
            print(
                f"{folder.path.name}: {language} {lengths}: {accepted:.2f} of {len(made)} accepted"
            )


if __name__ == "__main__":
    main()
