"""Whether a recogniser of FLaRe rejects strings of a language in which one answer symbol is wrong.

    python benchmarks/near_misses.py RUN [RUN ...]

RUN is a run folder of the task `flare` with language modular_arithmetic_simple (the value after "="
is changed) or stack_manipulation (one symbol after "#" is changed). Prints the share of the changed
strings that each network accepts; a network that recognises the language accepts none.
"""

from __future__ import annotations

import random
import sys

import torch

from unbounded.experiments.run.run_folder import RunFolder
from unbounded.tasks import LengthRange, make_task

#: The symbol before the answer, and the number of symbols that an answer may have.
ANSWERS = {"modular_arithmetic_simple": ("=", 5), "stack_manipulation": ("#", 2)}


def near_misses(language: str, lengths: LengthRange, count: int = 600) -> list[list[int]]:
    """Inputs with one wrong answer symbol, made from the test strings in the language."""
    mark, symbols = ANSWERS[language]
    task, drawn, made = make_task("flare", language=language), random.Random(0), []
    batch = task.batch(3, "test", 0, count, lengths)
    for tokens, target, steps in zip(batch.inputs, batch.targets, batch.lengths, strict=True):
        string = tokens[: int(steps)].tolist()
        first = task.input_vocabulary.index(mark)
        if not int(target[int(steps) - 1]) or string[-1] == first:
            continue
        place = drawn.randrange(string.index(first) + 1, len(string))
        # Token 0 is <s>; the digits follow it.
        string[place] = 1 + (string[place] - 1 + drawn.randrange(1, symbols)) % symbols
        made.append(string)
    return made


def main() -> None:
    for name in sys.argv[1:]:
        folder = RunFolder(name)
        language = folder.config().task["language"]
        model = folder.load_model(False)[0].eval()
        for lengths in (LengthRange(8, 40), LengthRange(200, 500)):
            made = near_misses(language, lengths)
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
