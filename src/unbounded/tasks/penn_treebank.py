"""Penn Treebank as Mikolov prepared it: three files of words, read from a folder of yours.

The project ships none of it. A line is a sentence; its end is the token <eos>.

Source: Mikolov et al. 2010; the counts are those of the three files.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import torch

from unbounded.errors import ChoiceError, ConfigError
from unbounded.tasks.batch import Batch
from unbounded.tasks.lengths import LengthRange
from unbounded.tasks.randomness import SPLITS, Integers, whole_number
from unbounded.tasks.task import Example, Task

END_OF_SENTENCE: Final = "<eos>"
FILES: Final = {
    "train": "ptb.train.txt",
    "validation": "ptb.valid.txt",
    "test": "ptb.test.txt",
}


class Counts(NamedTuple):
    """Tokens of each split, each <eos> counted, and different words in all.

    Fields:
        train, validation, test: tokens. words: vocabulary size, <eos> among them.
    """

    train: int
    validation: int
    test: int
    words: int


#: What Mikolov's files have.
PUBLISHED: Final = Counts(929_589, 73_760, 82_430, 10_000)


class PennTreebank(Task):
    """Predict the next word of a text cut into parallel strips; one example is one strip.

    Strip i of B begins where strip i - 1 ends, and its first input is the word before its first
    target (for the whole text: <eos>), so that each token is predicted exactly once, whatever B.
    `batch(seed, split, 0, B)` is the whole split: cut it with `pieces` and carry the state.
    Neither the seed nor a range of lengths changes a text; a range is an error.

    Args:
        folder: where the three files are.
        counts: what they must contain; None takes whatever they do, for a corpus of your own.

    Raises:
        ConfigError: a file is missing, empty or not UTF-8, has other counts, or has a word that
            the training file has not; all faults together.
    """

    def __init__(self, folder: str | Path, counts: Counts | None = PUBLISHED) -> None:
        self.name = "penn_treebank"
        self.folder = Path(folder)
        faults: list[str] = []
        words: dict[str, list[str]] = {}
        for split, file in FILES.items():
            try:
                words[split] = read_words(self.folder / file)
            except ConfigError as error:
                faults += error.faults
        if not faults:
            faults += _count_faults(self.folder, words, counts)
        if faults:
            raise ConfigError(faults)
        vocabulary = tuple(dict.fromkeys(words["train"]))
        places = {word: place for place, word in enumerate(vocabulary)}
        self.input_vocabulary = self.output_vocabulary = vocabulary
        self.end_token = places[END_OF_SENTENCE]
        self._tokens: dict[str, Integers] = {
            split: np.array([places[word] for word in text]) for split, text in words.items()
        }
        whole = LengthRange(1, max(map(len, words.values())))
        self.train_lengths = self.test_lengths = whole

    def tokens(self, split: str) -> int:
        """How many tokens a split has.

        Raises:
            ChoiceError: there is no such split.
        """
        return len(self._of(split))

    def batch(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> Batch:
        """The split as `size` strips, [B, T]; the last ones may be a step shorter.

        Args:
            seed: without effect: a text is what it is.
            split: "train", "validation" or "test".
            start: without effect: each batch of the split is all of it.
            size: B, at most the split's tokens.
            lengths: must be None.

        Raises:
            ConfigError: `size` is out of range, or a range of lengths is given.
            ChoiceError: there is no such split.
        """
        text = self._of(split)
        size = whole_number("size", size, 1, len(text))
        self._check_lengths(lengths)
        inputs = np.concatenate([[self.end_token], text[:-1]])
        bounds = np.arange(size + 1) * (len(text) // size)
        bounds += np.minimum(np.arange(size + 1), len(text) % size)
        steps = np.diff(bounds)
        place = bounds[:-1, None] + np.arange(steps.max())
        mask = place < bounds[1:, None]
        place = np.minimum(place, len(text) - 1)
        arrays = (inputs[place] * mask, text[place] * mask, mask, steps)
        return Batch(*(torch.from_numpy(array) for array in arrays))

    def examples(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> list[Example]:
        """Sentences `start`, ... of a split, as sources without a target.

        Raises:
            ConfigError: there are not so many sentences, or a range of lengths is given.
            ChoiceError: there is no such split.
        """
        self._check_lengths(lengths)
        text = self._of(split)
        ends = np.flatnonzero(text == self.end_token)
        start = whole_number("start", start, 0, len(ends) - 1)
        size = whole_number("size", size, 1, len(ends) - start)
        begins = np.concatenate([[0], ends[:-1] + 1])
        return [
            Example(tuple(self.input_vocabulary[token] for token in text[begin:end]), ())
            for begin, end in zip(
                begins[start : start + size], ends[start : start + size], strict=True
            )
        ]

    def _check_lengths(self, lengths: LengthRange | None) -> None:
        if lengths is not None and lengths != self.train_lengths:
            raise ConfigError([f"lengths: a text has none to choose, got {lengths}"])

    def _of(self, split: str) -> Integers:
        if split not in SPLITS:
            raise ChoiceError("split", split, SPLITS)
        return self._tokens[split]


def read_words(path: Path) -> list[str]:
    """The words of a file, with <eos> for each end of a line.

    Raises:
        ConfigError: the file is missing or cannot be read, empty, or not UTF-8.
    """
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError([f"{path}: not UTF-8: byte {error.start} is {error.reason}"]) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(
            [f"{path}: {reason}. Give the folder of {', '.join(FILES.values())} (--data DIR)."]
        ) from error
    words: list[str] = []
    for line in text.removesuffix("\n").split("\n"):
        words += [*line.split(), END_OF_SENTENCE]
    if set(words) <= {END_OF_SENTENCE}:
        raise ConfigError([f"{path}: empty; it has no word"])
    return words


def _count_faults(folder: Path, words: Mapping[str, list[str]], counts: Counts | None) -> list[str]:
    known = set(words["train"])
    faults = []
    for split in ("validation", "test"):
        unknown = sorted(set(words[split]) - known)
        if unknown:
            some = ", ".join(repr(word) for word in unknown[:3])
            faults.append(
                f"{folder / FILES[split]}: {len(unknown)} words are not in {FILES['train']}, "
                f"such as {some}"
            )
    if counts is None:
        return faults
    for split, file in FILES.items():
        expected, got = getattr(counts, split), len(words[split])
        if got != expected:
            faults.append(
                f"{folder / file}: expected {expected} tokens with <eos>, got {got}; these are "
                "not Mikolov's files, or not all of them"
            )
    if len(known) != counts.words:
        faults.append(
            f"{folder / FILES['train']}: expected {counts.words} different words with <eos>, got "
            f"{len(known)}"
        )
    return faults
