"""Text as a task: predict the next word. The text is cut into parallel strips."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from unbounded.checks import check_choice
from unbounded.errors import ConfigError, collected
from unbounded.tasks.batch import Batch, batch_of
from unbounded.tasks.data_file import read_lines
from unbounded.tasks.lengths import LengthRange
from unbounded.tasks.randomness import SPLITS, Integers, whole_number
from unbounded.tasks.task import Example, Task

END_OF_SENTENCE: Final = "<eos>"
UNKNOWN: Final = "<unk>"
#: The files of a user's text.
FILES: Final = {"train": "train.txt", "validation": "valid.txt", "test": "test.txt"}
# Number of words in a trace.
_SHORT = 12


class TextTask(Task):
    """Predict the next word of a text cut into parallel strips; one example is one strip.

    Strip i of B starts where strip i - 1 ends. The first input of a strip is the word before its
    first target, or <eos> at the start of the text. So each token is predicted exactly once, for
    any B. `batch(seed, split, 0, B)` returns the full split. Cut it with `chunks` and carry the
    state. The seed has no effect on a text. A range of lengths is an error.

    Args:
        name: the name it is listed under.
        words: the words of each split, <eos> at the end of each line. The words of "train" are the
            vocabulary, in order of first occurrence.
    """

    layout = "text"
    metric_set = "perplexity"
    has_lengths = False
    is_determined = False

    def __init__(self, name: str, words: Mapping[str, Sequence[str]]) -> None:
        self.name = name
        known = dict.fromkeys(words["train"])
        if any(UNKNOWN in text for text in words.values()):
            known.setdefault(UNKNOWN)  # a word that is not in the training text is never learned
        vocabulary = tuple(known)
        places = {word: place for place, word in enumerate(vocabulary)}
        self.input_vocabulary = self.output_vocabulary = vocabulary
        self.end_token = places[END_OF_SENTENCE]
        self._tokens: dict[str, Integers] = {
            split: np.array([places[word] for word in text]) for split, text in words.items()
        }
        digest = hashlib.sha256(repr(vocabulary).encode())
        for split in sorted(self._tokens):
            digest.update(split.encode() + self._tokens[split].tobytes())
        self.data_digest = digest.hexdigest()
        whole = LengthRange(1, max(map(len, words.values())))
        self.train_lengths = self.test_lengths = whole

    def tokens(self, split: str) -> int:
        """The number of tokens of a split.

        Raises:
            ChoiceError: there is no such split.
        """
        return len(self._of(split))

    def available(self, split: str, lengths: LengthRange) -> int | None:
        """The number of sentences in a split, for `examples`. The lengths have no effect.

        Raises:
            ChoiceError: there is no such split.
        """
        return int((self._of(split) == self.end_token).sum())

    def batch(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> Batch:
        """The split as `size` strips, [B, T]. The last strips may be one step shorter.

        Args:
            seed: without effect: a text is fixed.
            split: "train", "validation" or "test".
            start: without effect: each batch is the whole split.
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
        return batch_of(inputs[place] * mask, text[place] * mask, mask, steps)

    def examples(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> list[Example]:
        """Sentences `start`, ... of a split, as sources without a target.

        Raises:
            ConfigError: there are fewer sentences, or a range of lengths is given.
            ChoiceError: there is no such split.
        """
        self._check_lengths(lengths)
        text = self._of(split)
        ends = np.flatnonzero(text == self.end_token)
        start = whole_number("start", start, 0, len(ends) - 1)
        size = whole_number("size", size, 1, len(ends) - start)
        starts = np.concatenate([[0], ends[:-1] + 1])
        return [
            Example(tuple(self.input_vocabulary[token] for token in text[first:end]), ())
            for first, end in zip(
                starts[start : start + size], ends[start : start + size], strict=True
            )
        ]

    def _check_lengths(self, lengths: LengthRange | None) -> None:
        if lengths is not None and lengths != self.train_lengths:
            raise ConfigError(f"lengths: a text has no lengths to choose, got {lengths}")

    def _of(self, split: str) -> Integers:
        check_choice("split", split, SPLITS)
        return self._tokens[split]

    def short_example(self, seed: int, lengths: LengthRange | None = None) -> Batch:
        """The first words of the test split."""
        whole = self.batch(seed, "test", 0, 1)
        steps = min(_SHORT, whole.inputs.shape[1])
        inputs, targets, mask = (field[:, :steps] for field in whole[:3])
        return Batch(inputs, targets, mask, whole.lengths.clamp(max=steps))


def read_text(folder: str | Path, unknown: str = "error") -> TextTask:
    """The text in the files train.txt, valid.txt and test.txt of a user's folder.

    Args:
        folder: the folder of the files; a line is a sentence of words separated by blanks.
        unknown: treatment of words that are not in the training file: "error" gives an error that
            names the first line with such a word. "replace" reads these words, and every word that
            occurs once in the training file, as <unk>.
    Raises:
        ConfigError: a file is missing, empty or not UTF-8, or has unknown words; all together.
        ChoiceError: `unknown` is neither.
    """
    check_choice("treatment of unknown words", unknown, ("error", "replace"))
    errors: list[str] = []
    words: dict[str, list[str]] = {}
    for split, file in FILES.items():
        with collected(errors):
            words[split] = read_words(Path(folder) / file, FILES.values())
    if not errors and unknown == "replace":
        words = _replaced(words)
    elif not errors:
        for split in ("validation", "test"):
            errors += _unknown_words(Path(folder) / FILES[split], words["train"], words[split])
    if errors:
        raise ConfigError(errors)
    return TextTask("text", words)


def _replaced(words: Mapping[str, list[str]]) -> dict[str, list[str]]:
    counts: dict[str, int] = {}
    for word in words["train"]:
        counts[word] = counts.get(word, 0) + 1
    known = {word for word, count in counts.items() if count > 1} | {END_OF_SENTENCE}
    return {
        split: [word if word in known else UNKNOWN for word in text]
        for split, text in words.items()
    }


def _unknown_words(path: Path, train: Sequence[str], text: Sequence[str]) -> list[str]:
    """The first word in a text that is missing in the training file, with its line."""
    known, line, unknown = set(train), 1, []
    for word in text:
        if word not in known:
            unknown.append((line, word))
        line += word == END_OF_SENTENCE
    if not unknown:
        return []
    line, word = unknown[0]
    others = f" (nor are {len(unknown) - 1} more)" if len(unknown) > 1 else ""
    return [
        f"{path}, line {line}: the word {word!r} is not in {FILES['train']}{others}; "
        f"--task.unknown replace reads such words as {UNKNOWN}"
    ]


def read_words(path: Path, files: Iterable[str]) -> list[str]:
    """The words of a file, with <eos> at each end of a line.

    Args:
        path: the file. files: expected files of its folder, for the message.
    Raises:
        ConfigError: the file is missing or cannot be read, empty, or not UTF-8, or has <eos>.
    """

    def check(line: str) -> str | None:
        if END_OF_SENTENCE not in line.split():
            return None
        return f"{END_OF_SENTENCE} is added by the task at each line's end; delete it in the text"

    advice = f"Give the folder of {', '.join(files)} (--data DIR)"
    lines = read_lines(path, advice, check)
    words = [word for line in lines for word in (*line.split(), END_OF_SENTENCE)]
    if set(words) <= {END_OF_SENTENCE}:
        raise ConfigError(f"{path}: empty; it has no word")
    return words
