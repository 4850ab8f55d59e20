"""Question tasks: the network reads a source, then answers step by step without feedback.

The inputs are the source, optional computation tokens, and one answer token for each symbol of the
answer. There are no start and end symbols, so each scored step is a symbol of the answer.

Source: Delétang et al. 2023, arXiv:2207.02098, section 4.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from unbounded.errors import ConfigError, collected
from unbounded.tasks.batch import Batch, batch_of
from unbounded.tasks.lengths import LengthRange, Lengths, errors_of_ranges, named_ranges
from unbounded.tasks.randomness import (
    Integers,
    Stream,
    Words,
    bounded,
    whole_number,
)
from unbounded.tasks.symbols import all_strings
from unbounded.tasks.transduction import Pairs, PairSource, PairsTask

#: The inputs to the model while it computes and while it answers.
COMPUTE, ANSWER = ".", "?"
#: Greatest number of computation tokens for each symbol of a source.
MOST_COMPUTATION: Final = 100


class QuestionSource(PairSource):
    """A source of questions, which draws sources of one length at a time and answers them.

    A subclass defines the two vocabularies, `sources` and `answers`. The default draws symbols
    independently and uniformly.

    Attributes:
        shortest: the least length of a source.
        chance: the share of correct symbols of a guess.
        room: if it is not None, an answer is padded with the first target symbol to the length of
            the source plus `room`. The loss counts the padding, and the scores do not.
    """

    shortest: int = 1
    chance: float = 0.5
    room: int | None = None

    def words_of(self, length: int) -> int:
        """The number of random words for a source of one length."""
        return length

    def sources(self, words: Words, length: int) -> Integers:
        """Random sources of one length.

        Args:
            words: uniform words, uint64 [K, `words_of(length)`].
            length: of the sources, at least `shortest`.
        Returns:
            int64 [K, L]; L may differ from `length` where the task has no sources of that length.
        """
        return bounded(words, len(self.source_vocabulary))

    @abstractmethod
    def answers(self, sources: Integers) -> tuple[Integers, Integers]:
        """The answers to sources of one length.

        Args:
            sources: int64 [K, L].
        Returns:
            answers, int64 [K, A], and the number of symbols of each, int64 [K], at least 1.
        """

    def source_error(self, source: Sequence[int]) -> str:
        """The reason why a typed source has no answer; empty if it has an answer."""
        if len(source) < self.shortest:
            return f"expected at least {self.shortest} symbols, got {len(source)}"
        return ""

    def draw(self, stream: Stream, start: int, size: int, lengths: LengthRange) -> Pairs:
        """See `PairSource.draw`. Lengths are uniform over the range."""
        indices = start + np.arange(size)
        chosen = lengths.minimum + bounded(stream.length_words(indices), len(lengths))
        words_of = {length: self.words_of(length) for length in np.unique(chosen).tolist()}
        _, words = stream.sequence_words(indices, max(words_of.values()))
        drawn: list[tuple[Integers, Integers, Integers, Integers]] = []
        for length, count in words_of.items():
            rows = np.flatnonzero(chosen == length)
            sources = self.sources(words[rows, :count], length)
            drawn.append((rows, sources, *self.answers(sources)))
        source = np.zeros((size, max(part[1].shape[1] for part in drawn)), dtype=np.int64)
        target = np.zeros((size, max(part[2].shape[1] for part in drawn)), dtype=np.int64)
        source_lengths, target_lengths = (np.zeros(size, dtype=np.int64) for _ in range(2))
        for rows, sources, answers, counts in drawn:
            source[rows, : sources.shape[1]] = sources
            target[rows, : answers.shape[1]] = answers
            source_lengths[rows], target_lengths[rows] = sources.shape[1], counts
        return Pairs(source, source_lengths, target, target_lengths)

    def range_errors(self, lengths: LengthRange) -> list[str]:
        if lengths.minimum >= self.shortest:
            return []
        return [f"length range: the shortest source has {self.shortest} symbols, got {lengths}"]

    def count(self, length: int) -> int | None:
        """The number of sources of one length, at least `shortest`; None if it is unknown.

        A subclass that returns this number, or that draws uniform strings, can list its sources
        with `listed`.
        """
        if type(self).sources is not QuestionSource.sources:
            return None
        return int(len(self.source_vocabulary) ** length)

    def listed(self, length: int) -> Integers:
        """All sources of one length, each once, int64 [K, L]; call `count` first."""
        return all_strings(len(self.source_vocabulary), length)

    def count_of(self, length: int, symbols: int) -> int | None:
        """See `PairSource.count_of`. The result counts sources over all symbols."""
        return self.count(length) if length >= self.shortest else 0

    def every(self, length: int, symbols: int) -> Pairs:
        if not self.count_of(length, symbols):
            return super().every(length, symbols)
        sources = self.listed(length)
        answers, counts = self.answers(sources)
        return Pairs(sources, np.full(len(sources), sources.shape[1]), answers, counts)


class QuestionTask(PairsTask):
    """Read the source, then output its answer at the answer tokens.

    The input tokens are the source symbols, the answer token "?", and the computation token "." if
    it is used. The output tokens are the target symbols. The loss and the scores count only the
    symbols of the answer, and the loss also counts padding, if answers have it.

    Args:
        name: the name it is listed under.
        pairs: draws sources and answers them.
        train_lengths, test_lengths: lengths of sources of the splits.
        computation: number of computation tokens for each symbol of the source, which are fed
            between source and answer; 0 for none.
    Attributes:
        chance: the share of correct symbols of a guess.
    Raises:
        ConfigError: a range has lengths without a source, or `computation` is not an integer, or is
            out of range; all errors together.
    Source: Delétang et al. 2023, arXiv:2207.02098, section 4; their Tape-RNN has 0, 1 or 2
        computation tokens for each symbol, their other networks none.
    """

    layout = "answer"
    metric_set = "by_length"
    pairs: QuestionSource

    def __init__(
        self,
        name: str,
        pairs: QuestionSource,
        train_lengths: LengthRange,
        test_lengths: LengthRange,
        computation: int = 0,
    ) -> None:
        errors = errors_of_ranges(
            pairs.range_errors, train_lengths=train_lengths, test_lengths=test_lengths
        )
        with collected(errors):
            self.computation = whole_number("computation", computation, 0, MOST_COMPUTATION)
        if errors:
            raise ConfigError(errors)
        self.name, self.pairs = name, pairs
        self.train_lengths, self.test_lengths = train_lengths, test_lengths
        self.chance = pairs.chance
        self.has_further_loss = pairs.room is not None
        self.source_vocabulary = pairs.source_vocabulary
        extra = (ANSWER, COMPUTE) if self.computation else (ANSWER,)
        self.input_vocabulary = (*pairs.source_vocabulary, *extra)
        self.output_vocabulary = pairs.target_vocabulary
        self.answer_token: int = len(pairs.source_vocabulary)
        self.source_end_token = self.input_vocabulary.index(extra[-1])

    def lay_out(self, pairs: Pairs) -> Batch:
        """Return pairs as a batch.

        The number of steps T is the greatest sum of the lengths of source, computation and answer.
        """
        prompt = (1 + self.computation) * pairs.source_lengths
        ends = steps = prompt + pairs.target_lengths
        if self.pairs.room is not None:
            steps = prompt + pairs.source_lengths + self.pairs.room
        place = np.arange(int(steps.max()))
        inputs = np.where(place < steps[:, None], self.answer_token, 0)
        if self.computation:
            inputs = np.where(place < prompt[:, None], self.answer_token + 1, inputs)
        rows, places = np.nonzero(np.arange(pairs.source.shape[1]) < pairs.source_lengths[:, None])
        inputs[rows, places] = pairs.source[rows, places]
        targets = np.zeros_like(inputs)
        rows, places = np.nonzero(np.arange(pairs.target.shape[1]) < pairs.target_lengths[:, None])
        targets[rows, prompt[rows] + places] = pairs.target[rows, places]
        mask = (place >= prompt[:, None]) & (place < ends[:, None])
        return batch_of(inputs, targets, mask, steps)

    def further_loss(self, logits: Tensor, batch: Batch) -> Tensor:
        """See `Task.further_loss`. It is the cross entropy of the padding after the answers."""
        place = torch.arange(batch.mask.shape[1], device=logits.device)
        ends = (place * batch.mask).amax(dim=1, keepdim=True)
        padding = (place > ends) & (place < batch.lengths[:, None].to(logits.device))
        own = logits[padding].float()
        return functional.cross_entropy(
            own, own.new_zeros(len(own), dtype=torch.long), reduction="sum"
        )

    def asked(self, symbols: Sequence[str]) -> Tensor:
        """See `Task.asked`.

        The result includes the computation tokens and the first answer token.
        """
        source = self._typed(symbols)
        compute = [self.answer_token + 1] * (self.computation * len(source))
        return torch.tensor([*source, *compute, self.answer_token])

    def answer_steps(self, prompt: Tensor) -> int:
        source = prompt[: (len(prompt) - 1) // (1 + self.computation)]
        return int(self.pairs.answers(source.unsqueeze(0).numpy())[1][0])

    def _typed(self, symbols: Sequence[str]) -> list[int]:
        """The tokens of a typed source.

        Raises:
            ConfigError: the source is empty, has an unknown symbol or has no answer.
        """
        places = {symbol: place for place, symbol in enumerate(self.source_vocabulary)}
        errors = [
            f"source: symbol {number} is {symbol!r}, which is not among those of task "
            f"{self.name}: {' '.join(places)}"
            for number, symbol in enumerate(symbols, start=1)
            if symbol not in places
        ]
        source = [places[symbol] for symbol in symbols if symbol in places]
        if not errors and (error := self.pairs.source_error(source)):
            errors = [f"source of task {self.name}: {error}"]
        if errors:
            raise ConfigError(errors)
        return source


def question(
    name: str,
    pairs: QuestionSource,
    train_lengths: Lengths,
    test_lengths: Lengths,
    computation: int = 0,
) -> QuestionTask:
    """Build a question task with ranges of any form.

    Args:
        name: the name it is listed under.
        pairs: draws sources and answers them.
        train_lengths, test_lengths: of the splits, in any form of a range.
        computation: as for `QuestionTask`.
    Raises:
        ConfigError: options are out of range; all errors together.
    """
    train, test = named_ranges(train_lengths=train_lengths, test_lengths=test_lengths)
    return QuestionTask(name, pairs, train, test, computation)
