"""The stream tasks of Joulin & Mikolov, as functions. The registry checks their options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from unbounded.errors import collected
from unbounded.tasks.addition import BinaryAddition
from unbounded.tasks.counting import Counting
from unbounded.tasks.lengths import Lengths, named_ranges
from unbounded.tasks.memorization import Memorization
from unbounded.tasks.streams import SequenceSource, StreamTask

#: Ranges of n: below 20 for training, up to 60 for the test. The authors' program never draws 1.
TRAIN: Final = "2:19"
TEST: Final = "2:60"
#: Number of sequences in a stream. With 32 streams an epoch has about the authors' 2000 sequences.
SEQUENCES: Final = 60


def _streams(
    name: str,
    make: Callable[[], SequenceSource],
    sequences: int,
    train_lengths: Lengths,
    test_lengths: Lengths,
    loss: str = "all",
) -> StreamTask:
    """Build a stream task from its parts; collect all errors."""
    errors: list[str] = []
    with collected(errors):
        source = make()
    train, test = named_ranges(*errors, train_lengths=train_lengths, test_lengths=test_lengths)
    return StreamTask(name, source, sequences, train, test, loss)


def anbn(
    sequences: int = SEQUENCES, train_lengths: Lengths = TRAIN, test_lengths: Lengths = TEST
) -> StreamTask:
    """Count: sequences a^n b^n, one after the other.

    Args:
        sequences: number of sequences in a stream.
        train_lengths: n of the split "train".
        test_lengths: n of the splits "validation" and "test".

    Raises:
        ConfigError: options are out of range; all errors together.
    Source: Joulin & Mikolov 2015, arXiv:1503.01007, Table 1.
    """
    return _streams("anbn", lambda: Counting("equal", 2), sequences, train_lengths, test_lengths)


def anbncn(
    sequences: int = SEQUENCES, train_lengths: Lengths = TRAIN, test_lengths: Lengths = TEST
) -> StreamTask:
    """Count twice: a^n b^n c^n.

    Args, errors and source as for `anbn`.
    """
    return _streams("anbncn", lambda: Counting("equal", 3), sequences, train_lengths, test_lengths)


def anbncndn(
    sequences: int = SEQUENCES, train_lengths: Lengths = TRAIN, test_lengths: Lengths = TEST
) -> StreamTask:
    """Count three times: a^n b^n c^n d^n.

    Args, errors and source as for `anbn`.
    """
    return _streams(
        "anbncndn", lambda: Counting("equal", 4), sequences, train_lengths, test_lengths
    )


def anb2n(
    letters: int = 2,
    repeats: int = 2,
    sequences: int = SEQUENCES,
    train_lengths: Lengths = TRAIN,
    test_lengths: Lengths = TEST,
) -> StreamTask:
    """Count in steps: a^n b^(2n).

    Args:
        letters: size of the alphabet; the second run is of one of the letters after a.
        repeats: ratio of the runs' lengths; 3 gives a^n b^(3n).

    Everything else is as for `anbn`.
    """
    return _streams(
        "anb2n",
        lambda: Counting("repeated", letters, repeats),
        sequences,
        train_lengths,
        test_lengths,
    )


def anbmc_sum(
    sequences: int = SEQUENCES, train_lengths: Lengths = TRAIN, test_lengths: Lengths = TEST
) -> StreamTask:
    """Add in unary: a^n b^m c^(n+m); lengths are n + m.

    Args, errors and source as for `anbn`.
    """
    return _streams("anbmc_sum", lambda: Counting("sum", 3), sequences, train_lengths, test_lengths)


def anbmc_product(
    letters: int = 3,
    sequences: int = SEQUENCES,
    train_lengths: Lengths = TRAIN,
    test_lengths: Lengths = TEST,
) -> StreamTask:
    """Multiply in unary: a^n b^m c^(n m); lengths are n + m.

    Args:
        letters: size of the alphabet; the last run is of one of the letters after b.

    Everything else is as for `anbn`. This task is not in the paper, but is task 5 of the authors'
    program. The program scores only sequences whose last run has the last letter; here all
    sequences are scored.
    """
    return _streams(
        "anbmc_product",
        lambda: Counting("product", letters),
        sequences,
        train_lengths,
        test_lengths,
    )


def anbmcndm(
    sequences: int = SEQUENCES, train_lengths: Lengths = TRAIN, test_lengths: Lengths = TEST
) -> StreamTask:
    """Count two crossed: a^n b^m c^n d^m; lengths are n + m.

    Args and errors as for `anbn`. The task is not in the paper, but is task 6 of the authors'
    program.
    """
    return _streams(
        "anbmcndm", lambda: Counting("crossed", 4), sequences, train_lengths, test_lengths
    )


def memorization(
    symbols: int = 2,
    sequences: int = SEQUENCES,
    train_lengths: Lengths = TRAIN,
    test_lengths: Lengths = TEST,
) -> StreamTask:
    """Reverse: n symbols, "=", the symbols from the last to the first.

    Args:
        symbols: size of the dictionary.

    Everything else is as for `anbn`.
    """
    return _streams(
        "memorization", lambda: Memorization(symbols), sequences, train_lengths, test_lengths
    )


def binary_addition(
    loss: str = "answer",
    sequences: int = 10,
    train_lengths: Lengths = "1:19",
    test_lengths: Lengths = TEST,
) -> StreamTask:
    """Add in binary: 101+1=011. with the sum's lowest digit first; lengths are digits in all.

    Args:
        loss: "answer" (as the authors) counts the steps after "=", "all" every step.
        sequences: number of sequences in a stream; the authors empty the stacks after every 10.

    Everything else is as for `anbn`. Source: Joulin & Mikolov 2015, section 5.2.
    """
    return _streams("binary_addition", BinaryAddition, sequences, train_lengths, test_lengths, loss)
