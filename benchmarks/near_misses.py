"""Whether a recogniser of FLaRe rejects strings of a language in which one symbol is wrong.

    python benchmarks/near_misses.py RUN [RUN ...]

RUN is a run folder of the task `flare`. One symbol of a test string in the language is replaced, so
that the string is no longer in the language: any symbol, but of modular arithmetic the value after
"=", and of stack manipulation one symbol after "#". Prints the share of the strings in the language
that each network accepts, and the share of the changed strings. A network that recognises the
language accepts all of the first and none of the second. Some languages have few such strings: one
symbol of a long string rarely changes its majority.
"""

from __future__ import annotations

import argparse
import random

import torch

from unbounded.errors import UnboundedError
from unbounded.experiments.run.run_folder import RunFolder
from unbounded.tasks import LengthRange, make_task
from unbounded.tasks.languages import LANGUAGES

#: The symbol before the answer, and the number of symbols that an answer may have.
ANSWERS = {"modular_arithmetic_simple": ("=", 5), "stack_manipulation": ("#", 2)}
#: Ranges of lengths, and strings of each.
RANGES = ((LengthRange(8, 40), 600), (LengthRange(200, 500), 100))
_TRIES = 50


def strings_of(
    language: str, lengths: LengthRange, count: int
) -> tuple[list[list[int]], list[list[int]]]:
    """Inputs in the language, and inputs made from them by one wrong symbol."""
    rule, task = LANGUAGES[language](), make_task("flare", language=language)
    mark, symbols = ANSWERS.get(language, (None, len(task.input_vocabulary) - 1))
    drawn = random.Random(0)
    positives, changed = [], []
    batch = task.batch(3, "test", 0, count, lengths)
    for tokens, target, steps in zip(batch.inputs, batch.targets, batch.lengths, strict=True):
        if not int(target[int(steps) - 1]):
            continue
        string = tokens[: int(steps)].tolist()
        positives.append(string)
        first = 1  # after <s>
        if mark is not None:
            first = string.index(task.input_vocabulary.index(mark)) + 1
        places = drawn.sample(range(first, len(string)), min(_TRIES, len(string) - first))
        # One wrong symbol may matter only at the beginning or at the end of a string.
        ends = [first, len(string) - 1] if mark is None and places else []
        for place in [*drawn.sample(places, 1), *ends, *places] if places else []:
            other = 1 + (string[place] - 1 + drawn.randrange(1, symbols)) % symbols
            made = [*string[:place], other, *string[place + 1 :]]
            if not rule.accepts(token - 1 for token in made[1:]):
                changed.append(made)
                break
    return positives, changed


def accepted(model: torch.nn.Module, strings: list[list[int]]) -> float:
    """The share of strings that a model accepts."""
    steps = torch.tensor([len(string) for string in strings])
    inputs = torch.nn.utils.rnn.pad_sequence([torch.tensor(string) for string in strings], True)
    with torch.no_grad():
        logits = model.sequence(inputs, lengths=steps)[0]
    return float((logits[torch.arange(len(strings)), steps - 1, 0] > 0).float().mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", nargs="+", help="run folders of the task flare")
    for name in parser.parse_args().run:
        try:
            folder = RunFolder.find(name)
            task = folder.config().task
            model = folder.load_model(False)[0].eval()
        except UnboundedError as error:
            parser.error(f"{name}: {error}")
        if task["name"] != "flare":
            parser.error(f"{name}: expected a run of the task flare, got one of {task['name']}")
        for lengths, count in RANGES:
            positives, changed = strings_of(task["language"], lengths, count)
            print(
                f"{folder.path.name}: {task['language']} {lengths}: accepts "
                f"{accepted(model, positives):.2f} of {len(positives)} strings, "
                f"{accepted(model, changed):.2f} of {len(changed)} changed ones",
                flush=True,
            )


if __name__ == "__main__":
    main()
