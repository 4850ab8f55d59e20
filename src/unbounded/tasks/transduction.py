"""Source-to-target tasks: <s> source ||| target </s>, with or without target feedback.

The task lays out pairs as tokens; a `PairSource` draws the pairs (random symbols, a grammar).

Source: Grefenstette et al. 2015, arXiv:1506.02516, section 4.1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from unbounded.checks import check_choice
from unbounded.errors import ConfigError, collected
from unbounded.tasks.batch import Batch, batch_of
from unbounded.tasks.lengths import LengthRange, Lengths, errors_of_ranges, named_ranges
from unbounded.tasks.randomness import Integers, Stream
from unbounded.tasks.task import Example, Task, symbol_names

START, SEPARATOR, END = "<s>", "|||", "</s>"
_SEPARATOR_TOKEN = 1
_LAYOUTS = ("pairs", "answer")


class Pairs(NamedTuple):
    """Pairs of symbol sequences, each symbol numbered within its side's vocabulary.

    Fields:
        source: int64 [B, K]; values beyond `source_lengths` have no meaning.
        source_lengths: int64 [B], in 1..K.
        target: int64 [B, L]; values beyond `target_lengths` have no meaning.
        target_lengths: int64 [B], in 0..L.
    """

    source: Integers
    source_lengths: Integers
    target: Integers
    target_lengths: Integers


class PairSource(ABC):
    """The source of a transduction's pairs.

    Attributes:
        source_vocabulary: the source symbols, without <s> and |||.
        target_vocabulary: the target symbols, without </s>.
        data_digest, notes: as of a Task.
    """

    source_vocabulary: tuple[str, ...]
    target_vocabulary: tuple[str, ...]
    data_digest: str | None = None
    notes: tuple[str, ...] = ()

    @abstractmethod
    def draw(self, stream: Stream, start: int, size: int, lengths: LengthRange) -> Pairs:
        """Draw the pairs `start`, ..., `start + size - 1`, with source lengths within `lengths`.

        Raises:
            ConfigError: no pair has a length of this range.
        """

    def available(self, split: str, lengths: LengthRange) -> int | None:
        """The number of distinct pairs; None if it is unlimited."""
        return None

    @property
    def most_symbols(self) -> int:
        """The size of the largest alphabet for `count_of`."""
        return len(self.source_vocabulary)

    def count_of(self, length: int, symbols: int) -> int | None:
        """The number of pairs of one length over a small alphabet; None if it is unknown.

        Args:
            length: in the unit of `draw`.
            symbols: number of source symbols that may occur, the first ones (of each word class in
                a grammar).
        """
        return None

    def alphabet(self, symbols: int) -> tuple[str, ...]:
        """The source symbols that `count_of` and `every` use, for a number of symbols."""
        return self.source_vocabulary[:symbols]

    def over(self, symbols: int) -> PairSource | None:
        """Return the same source with only its first `symbols` symbols, in the same vocabularies.

        None if the source cannot draw from fewer symbols.
        """
        return None

    def every(self, length: int, symbols: int) -> Pairs:
        """All pairs that `count_of` counts, each once.

        First call `count_of` with the same arguments.

        Raises:
            ConfigError: the source cannot list them, or there is none.
        """
        raise ConfigError(f"{type(self).__name__}: its pairs of one length cannot be listed")

    def range_errors(self, lengths: LengthRange) -> list[str]:
        """Errors in a range of lengths before anything is drawn, a line each."""
        return []


class Prompt(NamedTuple):
    """The inputs before generation, and the targets.

    Fields:
        inputs: <s> source |||, int64 [B, T]; 0 beyond `lengths`.
        lengths: steps of each prompt, int64 [B]; the last of them reads |||.
        targets: target </s>, int64 [B, L] in the output vocabulary; 0 (</s>) beyond.
        target_lengths: symbols of each target with its </s>, int64 [B].
    """

    inputs: Tensor
    lengths: Tensor
    targets: Tensor
    target_lengths: Tensor


class PairsTask(Task):
    """A task whose examples are the pairs of a source.

    Attributes:
        pairs: draws the pairs.
    """

    pairs: PairSource

    @abstractmethod
    def lay_out(self, pairs: Pairs) -> Batch:
        """Return pairs as a batch."""

    def batch(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> Batch:
        """See `Task.batch`. `lay_out` says what the number of steps T is."""
        return self.lay_out(self._draw(seed, split, start, size, lengths))

    def examples(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> list[Example]:
        pairs = self._draw(seed, split, start, size, lengths)
        sources = symbol_names(self.pairs.source_vocabulary, pairs.source, pairs.source_lengths)
        targets = symbol_names(self.pairs.target_vocabulary, pairs.target, pairs.target_lengths)
        return [Example(*sides) for sides in zip(sources, targets, strict=True)]

    def available(self, split: str, lengths: LengthRange) -> int | None:
        return self.pairs.available(split, lengths)

    def count_of(self, length: int, symbols: int) -> int | None:
        return self.pairs.count_of(length, symbols)

    def every(self, length: int, symbols: int) -> Batch:
        return self.lay_out(self.pairs.every(length, symbols))

    def _range_errors(self, lengths: LengthRange) -> list[str]:
        return self.pairs.range_errors(lengths)

    def _draw(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None
    ) -> Pairs:
        stream, start, size, chosen = self._request(seed, split, start, size, lengths)
        return self.pairs.draw(stream, start, size, chosen)


class TransductionTask(PairsTask):
    """Read the source up to |||, then output the target and </s>.

    Inputs are <s> source ||| target; targets are the same one step ahead. In the layout "answer"
    ||| is fed at each step of the answer instead of the target. Only the target's symbols and </s>
    are masked in (the paper does not say which symbols count; this is the usual reading). The
    source defines the unit of a length: symbols, or for example digits. Input tokens: <s> is 0, |||
    is 1, then the source symbols, then the target symbols. Output tokens: </s> is 0, then the
    target symbols.

    Args:
        name: the name it is listed under.
        pairs: draws the pairs.
        train_lengths, test_lengths: source lengths of the splits.
        layout: "pairs" or "answer"; answers are scored per symbol too.
    Attributes:
        source_vocabulary: the source symbols, without <s> and |||.
        target_vocabulary: the target symbols, without </s>.
        end_token: the output token of </s>.
        output_to_input: the input token that feeds an output token back, int64 [V_out]; </s>,
            after which nothing is fed, maps to <s>.
    Source: Grefenstette et al. 2015, arXiv:1506.02516, section 4.1.
    """

    metric_set: str = "sequences"

    def __init__(
        self,
        name: str,
        pairs: PairSource,
        train_lengths: LengthRange,
        test_lengths: LengthRange,
        layout: str = "pairs",
    ) -> None:
        check_choice("layout", layout, _LAYOUTS)
        self.name, self.layout = name, layout
        self.pairs, self.data_digest, self.notes = pairs, pairs.data_digest, pairs.notes
        self.train_lengths = train_lengths
        self.test_lengths = test_lengths
        source, target = pairs.source_vocabulary, pairs.target_vocabulary
        self.source_vocabulary = source
        self.target_vocabulary = target
        self._fed_back = layout == "pairs"
        fed = target if self._fed_back else ()
        self.input_vocabulary = (START, SEPARATOR, *source, *fed)
        self.output_vocabulary = (END, *target)
        self.end_token: int = 0
        self.source_end_token = _SEPARATOR_TOKEN
        self._first_source = 2
        self._first_target = 2 + len(source)
        self.output_to_input = torch.arange(len(self.output_vocabulary)) + self._first_target - 1
        if not self._fed_back:
            self.output_to_input[:] = self.answer_token = _SEPARATOR_TOKEN
            self.metric_set = "answers"
        self.output_to_input[self.end_token] = 0

    def prompt(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> Prompt:
        """Return the same examples as `batch`, cut at |||, for generation.

        Args and errors are as for `batch`.
        """
        pairs = self._draw(seed, split, start, size, lengths)
        steps = pairs.source_lengths + 2
        inputs = self._prompts(pairs, int(steps.max()))
        target_lengths = pairs.target_lengths + 1
        targets = np.zeros((size, int(target_lengths.max())), dtype=np.int64)
        rows, places = _within(pairs.target_lengths, pairs.target.shape[1])
        targets[rows, places] = pairs.target[rows, places] + 1
        return Prompt(*(torch.from_numpy(a) for a in (inputs, steps, targets, target_lengths)))

    def over(self, symbols: int) -> TransductionTask | None:
        few = self.pairs.over(symbols)
        if few is None:
            return None
        return TransductionTask(self.name, few, self.train_lengths, self.test_lengths, self.layout)

    def lay_out(self, pairs: Pairs) -> Batch:
        """Return pairs as a batch.

        The number of steps T is the greatest sum of the lengths of source and target, plus 2.
        """
        steps = pairs.source_lengths + pairs.target_lengths + 2
        inputs = self._prompts(pairs, int(steps.max()))
        targets = np.zeros_like(inputs)
        rows, places = _within(pairs.target_lengths, pairs.target.shape[1])
        symbols = pairs.target[rows, places]
        steps_of_symbols = pairs.source_lengths[rows] + 1 + places
        fed = symbols + self._first_target if self._fed_back else _SEPARATOR_TOKEN
        inputs[rows, steps_of_symbols + 1] = fed
        targets[rows, steps_of_symbols] = symbols + 1
        step = np.arange(inputs.shape[1])
        mask = (step > pairs.source_lengths[:, None]) & (step < steps[:, None])
        return batch_of(inputs, targets, mask, steps)

    def asked(self, symbols: Sequence[str]) -> Tensor:
        return super().asked(symbols) if self._fed_back else self.prompt_of(symbols)

    def prompt_of(self, symbols: Sequence[str]) -> Tensor:
        """The tokens <s> source ||| of one source, as in `prompt`, int64 [K + 2].

        Args:
            symbols: of the source, K of them.
        Raises:
            ConfigError: there is none, or some are not in the vocabulary; all together.
        """
        places = {symbol: place for place, symbol in enumerate(self.source_vocabulary)}
        errors = [] if symbols else ["source: expected at least one symbol, got none"]
        errors += [
            f"source: symbol {number} is {symbol!r}, which is not among the {len(places)} of task "
            f"{self.name}: {', '.join(list(places)[:3])} ... {list(places)[-1]}"
            for number, symbol in enumerate(symbols, start=1)
            if symbol not in places
        ]
        if errors:
            raise ConfigError(errors)
        source = [self._first_source + places[symbol] for symbol in symbols]
        return torch.tensor([0, *source, _SEPARATOR_TOKEN])

    def _prompts(self, pairs: Pairs, width: int) -> Integers:
        """Write <s> source ||| into the first steps of int64 [B, width], followed by 0."""
        inputs = np.zeros((len(pairs.source), width), dtype=np.int64)
        rows, places = _within(pairs.source_lengths, pairs.source.shape[1])
        inputs[rows, places + 1] = pairs.source[rows, places] + self._first_source
        inputs[np.arange(len(inputs)), pairs.source_lengths + 1] = _SEPARATOR_TOKEN
        return inputs


def _within(lengths: Integers, width: int) -> tuple[Integers, Integers]:
    """Row and column indices of the places in [B, width] that are within each row's length."""
    rows, places = np.nonzero(np.arange(width) < lengths[:, None])
    return rows, places


def transduction(
    name: str,
    pairs: Callable[[], PairSource],
    train_lengths: Lengths,
    test_lengths: Lengths,
    layout: str = "pairs",
) -> TransductionTask:
    """Build a transduction from its parts; collect all errors.

    Args:
        name: the name it is listed under.
        pairs: constructs the source of the pairs.
        train_lengths, test_lengths: of the splits, in any form of a range.
        layout: "pairs" or "answer".
    Raises:
        ConfigError: options are out of range; all errors together.
    """
    errors: list[str] = []
    with collected(errors):
        source = pairs()
    train, test = named_ranges(*errors, train_lengths=train_lengths, test_lengths=test_lengths)
    errors = errors_of_ranges(source.range_errors, train_lengths=train, test_lengths=test)
    if errors:
        raise ConfigError(errors)
    return TransductionTask(name, source, train, test, layout)
