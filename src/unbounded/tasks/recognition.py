"""Recognition of complete strings: the label is whether a string is in the language.

Source: Butoi et al. 2025, arXiv:2411.07107, section 4, and the authors' program.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from unbounded.checks import check_choice
from unbounded.errors import ConfigError, collected
from unbounded.options import Range
from unbounded.tasks.batch import Batch, batch_of
from unbounded.tasks.data_file import read_lines
from unbounded.tasks.languages import LANGUAGES, Language
from unbounded.tasks.lengths import LengthRange, Lengths, errors_of_ranges, named_ranges
from unbounded.tasks.randomness import Integers, Stream, bounded
from unbounded.tasks.symbols import all_strings
from unbounded.tasks.task import Example, Task, symbol_names

START, END = "<s>", "</s>"
#: After this many draws, the range is assumed to have no negative string.
ATTEMPTS: Final = 1000
#: Number of strings in an official file, by split. TEST_SETS lists the test files. "long" is the
#: file of validation strings with up to 80 symbols.
PUBLISHED: Final = {"train": 10_000, "validation": 1_000, "long": 1_000}
#: Official files by split, in the folder of a language.
FOLDERS: Final = {
    "train": ".",
    "validation": "datasets/validation-short",
    "long": "datasets/validation-long",
}
#: The authors' files for a test, with their numbers of strings. "test-edit-distance" has edited
#: strings, none of which is in the language. Only a few languages have this file.
TEST_SETS: Final = {"test": 5_010, "test-short-held-out": 1_000, "test-edit-distance": 50}
#: Length of the longest string in the shorter validation file.
SHORT: Final = 40
#: Numbers of wrong labels in official files: (language, split) -> number.
KNOWN_WRONG: Final = {("compute_sqrt", "test"): 943}
_ADVICE = "Give the folder of FLaRe's data, which has a folder for each language (--data FOLDER)"


class Strings(NamedTuple):
    """Strings with their labels.

    Fields:
        symbols: int64 [B, K]; values beyond `lengths` have no meaning.
        lengths: int64 [B], in 0..K.
        labels: 1 for strings of the language, int64 [B].
    """

    symbols: Integers
    lengths: Integers
    labels: Integers


class Drawer:
    """Uniform integers of any size for one example, in order.

    Args:
        stream: the random words of a seed and split.
        index: of the example.
        words: the example's first words; as many again are drawn when they are used up.
    """

    # Number of blocks that are drawn at first. A block is two random words of 64 bits.
    BLOCKS: Final = 64
    # Number of examples whose words are drawn at once.
    EXAMPLES: Final = 1024

    def __init__(self, stream: Stream, index: int, words: list[int]) -> None:
        self._stream, self._index = stream, np.array([index])
        self._words, self._used = words, 0

    @classmethod
    def for_each(cls, stream: Stream, start: int, size: int) -> Iterator[Drawer]:
        """One for each of `size` examples from index `start`."""
        for first in range(0, size, cls.EXAMPLES):
            indices = start + np.arange(first, min(first + cls.EXAMPLES, size))
            pairs = stream.words(indices[:, None], np.arange(cls.BLOCKS))
            words = np.stack(pairs, axis=-1).reshape(len(indices), -1).tolist()
            yield from map(partial(cls, stream), indices.tolist(), words)

    def below(self, count: int) -> int:
        """Draw an integer in 0 .. count - 1, each with a probability within 2**-64 of 1 / count."""
        size = count.bit_length() // 64 + 2
        end = self._used + size
        while end > len(self._words):
            blocks = np.arange(len(self._words) // 2, len(self._words))
            pairs = np.stack(self._stream.words(self._index, blocks), axis=-1)
            self._words += pairs.ravel().tolist()
        number = 0
        for word in self._words[self._used : end]:
            number = number << 64 | word
        self._used = end
        return number * count >> 64 * size


class Recognition(Task):
    """Read a string after <s>; the label at its last symbol is 1 if it is in the language.

    Both labels are drawn with equal probability. The length of a positive string is uniform over
    the lengths in the range that the language has. The string is uniform among the strings of that
    length. A negative string is drawn in one of two ways, with equal probabilities. A negative
    string is a uniform string of a uniform length, or a positive string with K random edits:
    insert, replace or delete a symbol. K is geometric with parameter 1/2. The string is drawn again
    until it is not in the language, as in the authors' program.

    A range that begins at 1 also includes the empty string, because a range cannot begin at 0.

    Training may minimise two further losses on strings of the language. The outputs for these
    losses follow the output for the label. The first loss is the cross entropy of each next symbol
    or the end, averaged over the steps of a string. The second loss is the binary cross entropy of
    whether each symbol, or the end, may come next, averaged over symbols and steps. Both losses are
    averaged over the strings of the language in a batch.

    With `data`, the strings come from the authors' files. A training example is a string of the
    training file, drawn uniformly. Example i of another split is string i of that split's file.
    Validation strings come from the shorter file if the range ends at 40 or below, otherwise from
    the longer file.

    Args:
        language: name of the language, one of LANGUAGES.
        train_lengths, test_lengths: numbers of symbols of the splits.
        data: folder of the authors' data; None draws strings.
        published_counts: whether the files must have as many strings as the authors', with the
            labels of the language.
        test_set: the file of the authors' for the test, one of TEST_SETS.
        lm: coefficient of the cross entropy of the next symbol, 0 for none.
        ns: coefficient of the cross entropy of the sets of possible next symbols, 0 for none.
    Raises:
        ConfigError: the language has no string of a range, or the files are not such files; all
            errors together.
    Source: Butoi et al. 2025, arXiv:2411.07107, section 4.1.
    """

    layout = "labels"
    objective = "binary"
    metric_set = "recognition"
    has_empty = True
    name = "flare"
    start_symbol = START

    def __init__(
        self,
        language: str,
        train_lengths: LengthRange,
        test_lengths: LengthRange,
        data: str | Path | None = None,
        published_counts: bool = True,
        test_set: str = "test",
        lm: float = 0.0,
        ns: float = 0.0,
    ) -> None:
        self.language = LANGUAGES[language]()
        self.input_vocabulary = (START, *self.language.alphabet)
        self.lm, self.ns = float(lm), float(ns)
        self.has_further_loss = self.lm > 0 or self.ns > 0
        following = (END, *self.language.alphabet)
        self.output_vocabulary = (
            "in the language",
            *(f"next {symbol}" for symbol in following if self.lm),
            *(f"possible {symbol}" for symbol in following if self.ns),
        )
        self.train_lengths, self.test_lengths = train_lengths, test_lengths
        self._lengths_of: dict[LengthRange, list[int]] = {}
        self._files: dict[str, Strings] = {}
        errors = errors_of_ranges(
            self._range_errors, train_lengths=train_lengths, test_lengths=test_lengths
        )
        if data is None and test_set != "test":
            errors.append("test_set: has no effect without data; leave it at test")
        if data is not None:
            with collected(errors, "data"):
                self._read(Path(data), language, published_counts, test_set)
        if errors:
            raise ConfigError(errors)

    def batch(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> Batch:
        """See `Task.batch`.

        The number of steps T is the number of symbols of the longest string, plus 1.
        """
        return self._lay_out(self._strings(seed, split, start, size, lengths))

    def examples(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> list[Example]:
        """See `Task.examples`. The target is "1" or "0"."""
        strings = self._strings(seed, split, start, size, lengths)
        names = symbol_names(self.language.alphabet, strings.symbols, strings.lengths)
        labels = strings.labels.tolist()
        return [Example(*pair) for pair in zip(names, ((str(n),) for n in labels), strict=True)]

    def available(self, split: str, lengths: LengthRange) -> int | None:
        """See `Task.available`. The result is the number of strings in a file."""
        file = self._file(split, lengths)
        return None if file is None else len(_within(file, lengths))

    def shortest_in(self, lengths: LengthRange) -> int:
        return max(lengths.minimum, min(self._lengths_in(lengths), default=0))

    def further_loss(self, logits: Tensor, batch: Batch) -> Tensor:
        count = len(self.language.alphabet) + 1
        rows = batch.targets.any(dim=1).nonzero()[:, 0].tolist()
        loss = logits.new_zeros(())
        for row in rows:
            steps = int(batch.lengths[row])
            string = (batch.inputs[row, 1:steps] - 1).tolist()
            own = logits[row, :steps].float()
            if self.lm:
                following = torch.tensor([*(symbol + 1 for symbol in string), 0]).to(own.device)
                loss = loss + self.lm * functional.cross_entropy(own[:, 1 : count + 1], following)
            if self.ns:
                possible = torch.zeros(steps, count)
                for step, (symbols, ends) in enumerate(self.language.next_symbols(string)):
                    possible[step, [symbol + 1 for symbol in symbols]] = 1.0
                    possible[step, 0] = float(ends)
                loss = loss + self.ns * functional.binary_cross_entropy_with_logits(
                    own[:, -count:], possible.to(own.device)
                )
        return loss * (len(batch.lengths) / max(1, len(rows)))

    def count_of(self, length: int, symbols: int) -> int:
        """See `Task.count_of`.

        The result counts every string of a length, in the language or not.
        """
        return int(len(self.language.alphabet) ** length) if length >= 0 else 0

    def every(self, length: int, symbols: int) -> Batch:
        strings = all_strings(len(self.language.alphabet), length)
        labels = np.array([self.language.accepts(row) for row in strings.tolist()], dtype=np.int64)
        return self._lay_out(Strings(strings, np.full(len(strings), length), labels))

    def _lay_out(self, strings: Strings) -> Batch:
        steps = strings.lengths + 1
        place = np.arange(int(steps.max()))
        inside = (place > 0) & (place < steps[:, None])
        inputs = np.zeros(inside.shape, dtype=np.int64)
        inputs[:, 1:] = strings.symbols[:, : inside.shape[1] - 1] + 1
        mask = place == steps[:, None] - 1
        return batch_of(inputs * inside, strings.labels[:, None] * mask, mask, steps)

    def _strings(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None
    ) -> Strings:
        stream, start, size, chosen = self._request(seed, split, start, size, lengths)
        file = self._file(split, chosen)
        if file is not None:
            return self._of_file(file, stream, start + np.arange(size), chosen)
        drawn = [self._draw(drawer, chosen) for drawer in Drawer.for_each(stream, start, size)]
        return _ragged([string for string, _ in drawn], [label for _, label in drawn])

    def _draw(self, drawer: Drawer, lengths: LengthRange) -> tuple[list[int], int]:
        """Draw a string and its label."""
        below = drawer.below
        if below(2):
            return self._positive(drawer, lengths), 1
        shortest = _shortest(lengths)
        count = len(self.language.alphabet)
        for _ in range(ATTEMPTS):
            if below(2):
                string = self._positive(drawer, lengths)
                edits = 1
                while below(2):
                    edits += 1
                for _ in range(edits):
                    _edit(string, count, shortest, lengths.maximum, below)
            else:
                length = shortest + below(lengths.maximum - shortest + 1)
                string = [below(count) for _ in range(length)]
            if not self.language.accepts(string):
                return string, 0
        raise ConfigError(
            f"lengths: {self.name}: all of {ATTEMPTS} strings of {lengths} are in the "
            "language; give a range with other strings"
        )

    def _positive(self, drawer: Drawer, lengths: LengthRange) -> list[int]:
        there = self._lengths_in(lengths)
        return self.language.draw(there[drawer.below(len(there))], drawer.below)

    def _lengths_in(self, lengths: LengthRange) -> list[int]:
        """The lengths of a range that the language has."""
        if lengths not in self._lengths_of:
            possible = range(_shortest(lengths), lengths.maximum + 1)
            self._lengths_of[lengths] = [n for n in possible if self.language.has(n)]
        return self._lengths_of[lengths]

    def _range_errors(self, lengths: LengthRange) -> list[str]:
        if self._files or self._lengths_in(lengths):
            return []
        return [f"length range: the language has no string of {lengths}"]

    def _file(self, split: str, lengths: LengthRange) -> Strings | None:
        """The file of a split; None if strings are drawn."""
        is_long = split == "validation" and lengths.maximum > SHORT
        return self._files.get("long" if is_long else split)

    def _of_file(
        self, file: Strings, stream: Stream, indices: Integers, lengths: LengthRange
    ) -> Strings:
        rows = _within(file, lengths)
        if not len(rows):
            raise ConfigError(
                f"lengths: {self.name}: the data has no string for {stream.split} of {lengths}"
            )
        if stream.split == "train":
            chosen = rows[bounded(stream.length_words(indices), len(rows))]
        else:
            chosen = rows[indices % len(rows)]
        counts = file.lengths[chosen]
        return Strings(file.symbols[chosen, : int(counts.max())], counts, file.labels[chosen])

    def _read(self, root: Path, language: str, published_counts: bool, test_set: str) -> None:
        """Read the official files, and set the digest and the notes.

        Raises:
            ConfigError: a file is missing or damaged, or of another version; all errors together.
        """
        if not root.is_dir():
            raise ConfigError(f"there is no folder {root}. {_ADVICE}")
        folder = root if (root / "main.tok").is_file() else root / language.replace("_", "-")
        if not folder.is_dir():
            raise ConfigError(f"there is no folder {folder}. {_ADVICE}")
        digest = hashlib.sha256()
        errors: list[str] = []
        notes: list[str] = []
        for split, place in {**FOLDERS, "test": f"datasets/{test_set}"}.items():
            if split == test_set and not (folder / place / "main.tok").is_file():
                notes.append(
                    f"{folder / place / 'main.tok'} is not there: strings of the test are drawn"
                )
                continue
            try:
                file = _read_strings(folder / place, self.language)
            except ConfigError as error:
                errors += error.errors
                continue
            self._files[split] = file
            for array in file:
                digest.update(np.ascontiguousarray(array).tobytes())
            kind = test_set if split == "test" else split
            faults, wrong_note = self._faults(file, language, kind, folder / place)
            notes += wrong_note
            (errors if published_counts else notes).extend(faults)
        if errors:
            raise ConfigError(errors)
        self.data_digest, self.notes = digest.hexdigest(), tuple(notes)

    def _faults(
        self, file: Strings, language: str, kind: str, folder: Path
    ) -> tuple[list[str], list[str]]:
        """Differences from the authors' file, and errors in that file, one line each."""
        faults, notes = [], []
        count, there = {**PUBLISHED, **TEST_SETS}[kind], len(file.labels)
        advice = "--task.published_counts false accepts another version"
        if there != count:
            faults.append(f"{folder}: expected the {count} strings of FLaRe, got {there}; {advice}")
        rows = zip(*(field.tolist() for field in file), strict=True)
        wrong = sum(
            self.language.accepts(row[:length]) != bool(label) for row, length, label in rows
        )
        known = KNOWN_WRONG.get((language, kind), 0)
        if wrong != known:
            faults.append(
                f"{folder}: {wrong} of {there} labels are not those of the language, {known} of "
                f"FLaRe's; the files are damaged, or {advice}"
            )
        elif wrong:
            notes.append(
                f"{folder}: {wrong} of {there} labels are wrong, as in FLaRe itself; an exact "
                f"recogniser has an accuracy of {(there - wrong) / there:.3f}"
            )
        return faults, notes


def _path_errors(data: object) -> list[str]:
    if data is None or isinstance(data, str | PathLike):
        return []
    return [f"data: expected the path of a folder, got {data!r}"]


def _shortest(lengths: LengthRange) -> int:
    """The least number of symbols. A range that begins at 1 includes the empty string."""
    return 0 if lengths.minimum == 1 else lengths.minimum


def _within(file: Strings, lengths: LengthRange) -> Integers:
    counts = file.lengths
    return np.flatnonzero((counts >= _shortest(lengths)) & (counts <= lengths.maximum))


def _ragged(strings: Sequence[Sequence[int]], labels: Sequence[int]) -> Strings:
    counts = np.array([len(string) for string in strings], dtype=np.int64)
    symbols = np.zeros((len(strings), int(counts.max(initial=0))), dtype=np.int64)
    for row, string in enumerate(strings):
        symbols[row, : len(string)] = string
    return Strings(symbols, counts, np.array(labels, dtype=np.int64))


def _edit(
    string: list[int], count: int, shortest: int, longest: int, below: Callable[[int], int]
) -> None:
    """Insert, replace or delete a symbol. All possible kinds of edits are equally probable."""
    edits = []
    if len(string) < longest:
        edits.append("insert")
    if string and count > 1:
        edits.append("replace")
    if len(string) > shortest:
        edits.append("delete")
    edit = edits[below(len(edits))]
    if edit == "insert":
        place = below(len(string) + 1)
        string.insert(place, below(count))
        return
    place = below(len(string))
    if edit == "delete":
        del string[place]
    else:
        other = below(count - 1)
        string[place] = other + (other >= string[place])


def _read_strings(folder: Path, language: Language) -> Strings:
    """The strings and labels of a folder.

    Raises:
        ConfigError: a file cannot be read, or a line is not a string or not a label.
    """
    places = {symbol: place for place, symbol in enumerate(language.alphabet)}

    def symbol_error(line: str) -> str | None:
        unknown = next((symbol for symbol in line.split() if symbol not in places), None)
        if unknown is None:
            return None
        return f"{unknown!r} is not among the symbols {' '.join(places)}"

    def label_error(line: str) -> str | None:
        return None if line in ("0", "1") else f"expected a label 0 or 1, got {line!r}"

    lines = read_lines(folder / "main.tok", _ADVICE, symbol_error)
    labels = read_lines(folder / "labels.txt", _ADVICE, label_error)
    if len(lines) != len(labels):
        raise ConfigError(
            f"{folder}: main.tok has {len(lines)} strings and labels.txt {len(labels)} labels; "
            "the files are damaged"
        )
    strings = [[places[symbol] for symbol in line.split()] for line in lines]
    return _ragged(strings, [int(label) for label in labels])


def flare(
    language: str = "parity",
    data: str | None = None,
    published_counts: bool = True,
    test_set: str = "test",
    lm: Annotated[float, Range(0, 100)] = 0.0,
    ns: Annotated[float, Range(0, 100)] = 0.0,
    train_lengths: Lengths = "1:40",
    test_lengths: Lengths = "1:500",
) -> Recognition:
    """Recognise the strings of a formal language.

    Args:
        language: even_pairs, repeat_01, parity, cycle_navigation, modular_arithmetic_simple,
            dyck_2_3, first, majority, stack_manipulation, marked_reversal, unmarked_reversal,
            marked_copy, missing_duplicate_string, odds_first, binary_addition,
            binary_multiplication, compute_sqrt or bucket_sort.
        data: folder of the authors' data; null draws strings.
        published_counts: whether the authors' files must be complete and have the labels of the
            language; false accepts another version.
        test_set: the authors' file for the test: test, test-short-held-out (strings of training
            lengths that are in no other file) or test-edit-distance.
        lm: coefficient of a further loss, the prediction of the next symbol; 0 for none.
        ns: coefficient of a further loss, the prediction of which symbols may come next.
        train_lengths: numbers of symbols of the split "train"; a range that begins at 1 has the
            empty string too.
        test_lengths: of the splits "validation" and "test".

    Raises:
        ConfigError: options are out of range, or the data cannot be read; all errors together.
    Source: Butoi et al. 2025, arXiv:2411.07107.
    """
    errors = _path_errors(data)
    for what, value, valid in (
        ("language", language, LANGUAGES),
        ("test_set", test_set, TEST_SETS),
    ):
        with collected(errors):
            check_choice(what, value, valid)
    train, test = named_ranges(*errors, train_lengths=train_lengths, test_lengths=test_lengths)
    return Recognition(language, train, test, data, published_counts, test_set, lm, ns)
