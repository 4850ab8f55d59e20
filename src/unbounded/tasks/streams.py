"""Tasks as streams: concatenated sequences without a separator.

The model predicts each next symbol of the stream. Much of a sequence is not determined by the
symbols before it. Only determined symbols can be scored. The task defines which symbols are
determined.

Source: Joulin & Mikolov 2015, arXiv:1503.01007, sections 4 and 5.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from unbounded.checks import check_choice
from unbounded.errors import ChoiceError, ConfigError, collected
from unbounded.tasks.batch import Batch, batch_of
from unbounded.tasks.lengths import LengthRange, errors_of_ranges
from unbounded.tasks.randomness import LAST_INDEX, Integers, Stream, whole_number
from unbounded.tasks.task import Example, Task

LOSSES: Final = ("all", "answer")


class Sequences(NamedTuple):
    """Sequences of symbols, and the number of given symbols of each.

    Fields:
        symbols: int64 [K, L]; values beyond `lengths` have no meaning.
        lengths: int64 [K], in 1..L.
        given: number of first symbols that determine the rest, int64 [K].
    """

    symbols: Integers
    lengths: Integers
    given: Integers


class SequenceSource(ABC):
    """The source of a stream's sequences.

    Attributes:
        alphabet: the symbols.
        shortest: the least n that has a sequence.
        starts_alike: whether all sequences start with the same symbol. The first symbol of the next
            sequence is then determined too, and belongs to the score of the sequence before it.
    """

    alphabet: tuple[str, ...]
    shortest: int
    starts_alike: bool

    @abstractmethod
    def draw(self, stream: Stream, start: int, size: int, lengths: LengthRange) -> Sequences:
        """Draw sequences `start`, ..., `start + size - 1`, with each n uniform over `lengths`."""

    def count_of(self, n: int) -> int | None:
        """The number of sequences of one n, which is 0 below the shortest; None if it is unknown.

        A custom source that defines this method must define `every` too.
        """
        return None

    def every(self, n: int) -> Sequences:
        """All sequences of one n, each once; call `count_of` first.

        Raises:
            ConfigError: the source cannot list them.
        """
        raise ConfigError(f"{type(self).__name__}: its sequences of one n cannot be listed")


class JudgedStreams(NamedTuple):
    """Streams, with the sequence to whose score each step belongs.

    Fields:
        batch: B streams.
        judged: int64 [B, T]: the number, within its stream, of the sequence to whose score the
            step's target belongs. -1 if the target belongs to no score.
        scored: sequences of each stream that are scored. The last one is not: its end shows only
            in the next sequence, and the authors' program closes all sequences there.
        longest: symbols of the longest sequence.
    """

    batch: Batch
    judged: Tensor
    scored: int
    longest: int


def lay_out_alone(drawn: Sequences, source: SequenceSource) -> Batch:
    """Lay out each sequence as its own stream. The mask selects its determined symbols.

    The last step reads the last symbol. If all sequences start with the same symbol, the target of
    this step is the first symbol of the next sequence, which the end determines. If sequences start
    with different symbols, this step is not scored.

    Args:
        drawn: K sequences of `source`.
        source: gives the alphabet and whether sequences start alike.
    Returns:
        K rows of L + 1 steps.
    """
    place = np.arange(drawn.symbols.shape[1] + 1)
    length, determined_from = drawn.lengths[:, None], drawn.given[:, None]
    symbols = np.pad(drawn.symbols, ((0, 0), (0, 1)))
    targets = np.where(place < length, symbols, 0)
    if source.starts_alike:
        targets = np.where(place == length, drawn.symbols[:, :1], targets)
    inputs = np.zeros_like(targets)
    inputs[:, 1:] = targets[:, :-1]
    inputs[:, 0] = len(source.alphabet) - 1
    inputs[np.broadcast_to(place > length, inputs.shape)] = 0
    mask = (place >= determined_from) & (place < length + int(source.starts_alike))
    return batch_of(inputs, targets * mask, mask, drawn.lengths + 1)


def lay_out(drawn: Sequences, source: SequenceSource, sequences: int, loss: str) -> JudgedStreams:
    """Concatenate each group of `sequences` drawn sequences to a stream.

    Args:
        drawn: B * `sequences` sequences of `source`.
        source: gives the alphabet and whether sequences start alike.
        sequences: of each stream.
        loss: as for `StreamTask`.
    """
    size = len(drawn.lengths) // sequences
    totals = drawn.lengths.reshape(size, sequences).sum(axis=1)
    place = np.arange(drawn.symbols.shape[1])
    within = place < drawn.lengths[:, None]
    answer = place >= drawn.given[:, None]
    number = np.tile(np.arange(sequences), size)[:, None]
    judged = np.where(answer, number, -1)
    if source.starts_alike:
        judged[:, :1] = number - 1
    steps = np.arange(totals.max()) < totals[:, None]

    def streams_of(values: Integers, beyond: int) -> Integers:
        filled = np.full(steps.shape, beyond, dtype=np.int64)
        filled[steps] = values[within]
        return filled

    targets = streams_of(drawn.symbols, 0)
    inputs = np.zeros_like(targets)
    inputs[:, 1:] = targets[:, :-1]
    inputs[:, 0] = len(source.alphabet) - 1
    inputs[~steps] = 0
    mask = steps if loss == "all" else streams_of(answer.astype(np.int64), 0) > 0
    batch = batch_of(inputs, targets, mask, totals)
    longest = int(drawn.lengths.max())
    return JudgedStreams(batch, torch.from_numpy(streams_of(judged, -1)), sequences - 1, longest)


class StreamTask(Task):
    """Predict the next symbol of streams. Example i of a split is stream i.

    A stream consists of `sequences` sequences and starts with empty memories. Stream i starts with
    sequence i * sequences of the source. The input at the first step is the last symbol of the
    alphabet, as in the authors' program.

    Args:
        name: the name it is listed under.
        source: draws the sequences.
        sequences: number of sequences in a stream, at least 2.
        train_lengths: range of n of the split "train"; a curriculum passes its own ranges.
        test_lengths: range of n of the splits "validation" and "test".
        loss: "all" steps count in the loss, or only the determined ones of the "answer".

    Raises:
        ConfigError: an argument is out of range; all errors together.
        ChoiceError: there is no such loss.
    """

    layout = "stream"
    metric_set = "lengths"

    def __init__(
        self,
        name: str,
        source: SequenceSource,
        sequences: int,
        train_lengths: LengthRange,
        test_lengths: LengthRange,
        loss: str = "all",
    ) -> None:
        check_choice("loss", loss, LOSSES)
        errors = errors_of_ranges(
            lambda lengths: self._length_errors(name, source, lengths),
            train_lengths=train_lengths,
            test_lengths=test_lengths,
        )
        with collected(errors):
            self.sequences = whole_number("sequences", sequences, 2, 2**31)
        if errors:
            raise ConfigError(errors)
        self.name, self.source, self.loss = name, source, loss
        self.train_lengths, self.test_lengths = train_lengths, test_lengths
        self.input_vocabulary = self.output_vocabulary = source.alphabet

    @property
    def before(self) -> str:
        """The input at a stream's first step: the last symbol of the alphabet."""
        return self.source.alphabet[-1]

    def batch(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> Batch:
        """See `Task.batch`.

        B is `size`, the number of streams, and T is the length of the longest stream.
        """
        return self.judged(seed, split, start, size, lengths).batch

    def judged(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> JudgedStreams:
        """Return the streams of `batch`, with the sequence to whose score each step belongs.

        Args and errors are as for `batch`.
        """
        start = whole_number("start", start, 0, LAST_INDEX // self.sequences)
        size = whole_number("size", size, 1, LAST_INDEX // self.sequences - start + 1)
        drawn = self._draw(seed, split, start * self.sequences, size * self.sequences, lengths)
        return lay_out(drawn, self.source, self.sequences, self.loss)

    def examples(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> list[Example]:
        """The sequences from number `start` on, split into given and determined symbols.

        Args and errors are as for `batch`; sequence i is in stream i // sequences.
        """
        start = whole_number("start", start, 0, LAST_INDEX)
        size = whole_number("size", size, 1, LAST_INDEX + 1 - start)
        drawn = self._draw(seed, split, start, size, lengths)
        rows = zip(*(field.tolist() for field in drawn), strict=True)
        named = (
            (tuple(self.source.alphabet[symbol] for symbol in row[:length]), given)
            for row, length, given in rows
        )
        return [Example(row[:given], row[given:]) for row, given in named]

    def short_example(self, seed: int, lengths: LengthRange | None = None) -> Batch:
        """Two short test sequences, one after the other."""
        shortest = (self.train_lengths if lengths is None else lengths).minimum
        short = LengthRange(shortest, shortest + 2)
        return self.with_sequences(2).batch(seed, "test", 0, 1, short)

    def with_sequences(self, sequences: int) -> StreamTask:
        """Return the same task with another number of sequences in each stream.

        Raises:
            ConfigError: `sequences` is not an integer of at least 2.
        """
        return StreamTask(
            self.name, self.source, sequences, self.train_lengths, self.test_lengths, self.loss
        )

    def encode(self, symbols: Iterable[str]) -> Tensor:
        """Tokens of symbols, int64 [T]; a string is read letter by letter.

        Raises:
            ChoiceError: a symbol is not in the alphabet.
        """
        places = {symbol: place for place, symbol in enumerate(self.source.alphabet)}
        symbol_list = list(symbols)
        for symbol in symbol_list:
            if symbol not in places:
                raise ChoiceError(f"symbol of task {self.name}", symbol, self.source.alphabet)
        return torch.tensor([places[symbol] for symbol in symbol_list], dtype=torch.int64)

    def _draw(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None
    ) -> Sequences:
        stream = Stream(seed, split)
        chosen = self.split_lengths(split) if lengths is None else LengthRange.of(lengths)
        errors = self._length_errors(self.name, self.source, chosen)
        if errors:
            raise ConfigError(errors)
        return self.source.draw(stream, start, size, chosen)

    @staticmethod
    def _length_errors(name: str, source: SequenceSource, lengths: LengthRange) -> list[str]:
        if lengths.minimum >= source.shortest:
            return []
        return [f"lengths: {name} has no sequence with n below {source.shortest}, got {lengths}"]
