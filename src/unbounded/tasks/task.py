"""The interface of all tasks to training and evaluation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple

from torch import Tensor

from unbounded.checks import check_choice, check_kind
from unbounded.errors import ConfigError
from unbounded.tasks.batch import Batch
from unbounded.tasks.lengths import LengthRange
from unbounded.tasks.randomness import LAST_INDEX, SPLITS, Integers, Stream, whole_number

#: The layouts of a task's batches. pairs: a source, then its target, whose symbols are fed back.
#: answer: a source, then its target, while one fixed symbol is fed. stream: sequences without an
#: end, split for truncated BPTT. labels: a label at each prefix. text: one long text.
LAYOUTS: Final = ("pairs", "answer", "stream", "labels", "text")
#: Training objectives (`Task.objective`).
OBJECTIVES: Final = ("cross_entropy", "binary", "bits")
# Greatest number of symbols in a readable figure.
_READABLE = 16


class Example(NamedTuple):
    """One pair in symbols; `str(example)` is the line "source ||| target"."""

    source: tuple[str, ...]
    target: tuple[str, ...]

    def __str__(self) -> str:
        return f"{' '.join(self.source)} ||| {' '.join(self.target)}"


def symbol_names(
    vocabulary: Sequence[str], symbols: Integers, lengths: Integers
) -> list[tuple[str, ...]]:
    """The names of the symbols in each row [B, K], up to its length."""
    rows = zip(symbols.tolist(), lengths.tolist(), strict=True)
    return [tuple(vocabulary[symbol] for symbol in row[:length]) for row, length in rows]


def labelled_examples(batch: Batch, inputs: Sequence[str], targets: Sequence[str]) -> list[Example]:
    """The rows of a batch in symbols: the inputs, and the targets at the steps that count."""
    return [
        Example(
            tuple(inputs[token] for token in row[:length].tolist()),
            tuple(targets[token] for token in labels[mask].tolist()),
        )
        for row, labels, mask, length in zip(*batch, strict=True)
    ]


def check_task(value: object) -> None:
    """Raise DTypeError unless an argument `task` is a Task."""
    check_kind("task", value, Task, "Make one with unbounded.tasks.make_task('copy').")


class Task(ABC):
    """A task, which generates batches of tokens. A task does not depend on a model.

    Attributes:
        layout: one of LAYOUTS.
        objective: one of OBJECTIVES: "cross_entropy" over the output vocabulary, "binary" for
            targets 0 and 1, or "bits" for numbers whose bits are predicted one by one.
        metric_set: name of the task's metric set, or the import path of a custom one.
        has_lengths: whether examples are drawn from ranges of lengths.
        has_empty: whether the empty string is an example. Ranges that begin at 1 include it.
        is_determined: whether outputs can be verified: each counted one has one correct value, or
            `determined` counts those that do. False for language models without such outputs.
        has_path: whether `heights` gives the number of symbols to keep at each step.
        has_further_loss: whether training adds `further_loss` to the objective. A binary objective
            then counts the first output alone.
        answer_token: the input that is fed while answering and never before; None if a task has no
            such input.
        source_end_token: the input at which a source has ended; None if there is none.
        end_token: the output that ends an answer; None if no output ends it.
        start_symbol: the input before each string, which a person need not type. None if strings
            have no such input, or if the task adds it itself.
        data_digest: SHA-256 in hexadecimal digits of the data, by which a run recognizes its data;
            None without data.
        notes: notes on the data for the user, a line each.
        name: the name it is listed under; for a custom task without one, its import path.
        input_vocabulary: symbols that `Batch.inputs` indexes. A name may occur twice, once for each
            side of a transduction: the place counts, not the name.
        output_vocabulary: symbols that `Batch.targets` indexes; for a binary task the one that is
            true or not; for a task of bits the name of each bit, the lowest first.
        train_lengths: lengths drawn for the split "train".
        test_lengths: lengths drawn for the splits "validation" and "test".
    """

    layout: str
    objective: ClassVar[str] = "cross_entropy"
    metric_set: str
    has_lengths: ClassVar[bool] = True
    has_empty: ClassVar[bool] = False
    is_determined: bool = True
    has_path: ClassVar[bool] = False
    has_further_loss: bool = False
    answer_token: int | None = None
    source_end_token: int | None = None
    end_token: int | None = None
    start_symbol: str | None = None
    data_digest: str | None = None
    notes: tuple[str, ...] = ()
    name: str
    input_vocabulary: tuple[str, ...]
    output_vocabulary: tuple[str, ...]
    train_lengths: LengthRange
    test_lengths: LengthRange

    @abstractmethod
    def batch(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> Batch:
        """Examples `start`, ..., `start + size - 1` of a split, padded to the longest.

        An example depends only on (seed, split, index, lengths). An example depends neither on the
        other examples in its batch nor on earlier draws. Splits never share a random draw.

        Args:
            seed: 0..2**64 - 1.
            split: "train", "validation" or "test".
            start: index of the first example, 0..2**63 - 1.
            size: number of examples B, at least 1.
            lengths: range of lengths to draw from; None for the split's own.

        Returns:
            int64 and bool tensors on the CPU, [B, T] and [B].

        Raises:
            ConfigError: seed, start or size is not an integer, or is out of range, or the task has
                no example in the range of lengths.
            ChoiceError: there is no such split.
        """

    @abstractmethod
    def examples(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> list[Example]:
        """The examples of `batch`, in symbols.

        Args and errors are as for `batch`.
        """

    def example(
        self, seed: int, split: str, index: int, lengths: LengthRange | None = None
    ) -> Example:
        """The example at `index`, in symbols: the row of any batch that holds it.

        Args and errors are as for `batch`.
        """
        return self.examples(seed, split, index, 1, lengths)[0]

    def short_example(self, seed: int, lengths: LengthRange | None = None) -> Batch:
        """One test example with a readable trace, from the shorter end of a range.

        Args:
            lengths: None for the training range.
        """
        trained = self.train_lengths if lengths is None else lengths
        longest = min(trained.maximum, max(_READABLE, self.shortest_in(trained)))
        return self.batch(seed, "test", 0, 1, LengthRange(trained.minimum, longest))

    def shortest_in(self, lengths: LengthRange) -> int:
        """The least length of a range that has an example."""
        return lengths.minimum

    def traced(self, seed: int, lengths: LengthRange | None = None) -> dict[str, Batch]:
        """Single examples by name, for the traces and figures of a run."""
        return {"example": self.short_example(seed, lengths)}

    def heights(self, inputs: Tensor) -> Tensor | None:
        """The number of symbols to keep in memory after each step [B, T]; None if unknown."""
        return None

    def asked(self, symbols: Sequence[str]) -> Tensor:
        """The inputs for a source that a person typed, up to the first `answer_token`, int64 [T].

        `unbounded actions` uses it.

        Raises:
            ConfigError: the task has no answer phase, or the source is empty or has an unknown
                symbol.
        """
        if self.answer_token is None:
            raise ConfigError(f"task {self.name!r} has no answer phase with one fixed input symbol")
        raise ConfigError(
            f"task {self.name!r} cannot read a typed source. A custom task with an answer_token "
            "defines `asked`, and `answer_steps` if it has no end_token"
        )

    def further_loss(self, logits: Tensor, batch: Batch) -> Tensor:
        """An additional loss that training minimises, summed over the sequences, in nats.

        Args:
            logits: [B, T, V].
            batch: its sequences, on the device of the logits.
        """
        return logits.new_zeros(())

    def answer_steps(self, prompt: Tensor) -> int | None:
        """The number of symbols of an answer; None if `end_token` ends it.

        Args:
            prompt: from `asked`, int64 [T].
        """
        return None

    def range_errors(self, lengths: LengthRange) -> list[str]:
        """Errors in a range of lengths before anything is drawn, a line each."""
        return [f"{self.name}: {error}" for error in self._range_errors(lengths)]

    def _range_errors(self, lengths: LengthRange) -> list[str]:
        """The errors of `range_errors` without the task's name."""
        return []

    def available(self, split: str, lengths: LengthRange) -> int | None:
        """The number of distinct examples; None if it is unlimited."""
        return None

    def count_of(self, length: int, symbols: int) -> int | None:
        """The number of examples of one length over a small alphabet.

        Args:
            length: in the unit of ranges.
            symbols: number of symbols that may occur in a source, the first ones.
        Returns:
            None if they cannot be listed.
        """
        return None

    def every(self, length: int, symbols: int) -> Batch:
        """All examples that `count_of` counts, each once.

        First call `count_of` with the same arguments.

        Raises:
            ConfigError: they cannot be listed, or there is none.
        """
        raise ConfigError(f"task {self.name!r}: its examples cannot be listed")

    def determined(self, batch: Batch) -> Batch:
        """A batch of this task in which only outputs with one correct value count.

        `unbounded verify` and `extract` use it.
        """
        return batch

    def over(self, symbols: int) -> Task | None:
        """Return the same task with only the first `symbols` symbols, in the same vocabularies.

        Args:
            symbols: at least 1; more than exist leave the task unchanged.
        Returns:
            None if the task cannot draw from fewer symbols.
        """
        return None

    def most_held(self, lengths: LengthRange) -> int | None:
        """The greatest number of symbols that must be kept at once; None if it is unknown."""
        return None

    def split_lengths(self, split: str) -> LengthRange:
        """The range of lengths from which a split draws by default.

        Raises:
            ChoiceError: there is no such split.
        """
        check_choice("split", split, SPLITS)
        return self.train_lengths if split == "train" else self.test_lengths

    def _request(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None
    ) -> tuple[Stream, int, int, LengthRange]:
        """Check the arguments of `batch`: the random stream, first index, size, and lengths.

        Raises:
            ChoiceError: there is no such split.
            ConfigError: another argument is out of range, or the task has no example of the range.
        """
        stream = Stream(seed, split)
        start = whole_number("start", start, 0, LAST_INDEX)
        size = whole_number("size", size, 1, LAST_INDEX + 1 - start)
        chosen = self.split_lengths(split) if lengths is None else LengthRange.of(lengths)
        if errors := self.range_errors(chosen):
            raise ConfigError([f"lengths: {error}" for error in errors])
        return stream, start, size, chosen
