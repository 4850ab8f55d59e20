"""The tasks on bit vectors by name: functions whose options the registry checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from unbounded.errors import ConfigError
from unbounded.tasks.graves import AssociativeRecall, BitCopy, RepeatCopy
from unbounded.tasks.lengths import LengthRange, named_ranges
from unbounded.tasks.randomness import whole_number

Lengths = LengthRange | str | tuple[int, int]

#: Limits of a vector's bits and of a sequence's copies: each symbol has a number and a name.
MOST_BITS: Final = 12
MOST_REPEATS: Final = 1000


def _checked(bits: int, **ranges: Lengths) -> tuple[LengthRange, ...]:
    """The ranges; raises the errors of the ranges and of the bits together."""
    errors: list[str] = []
    checks: list[Callable[[], Any]] = [
        lambda: whole_number("bits", bits, 1, MOST_BITS),
        lambda: named_ranges(**ranges),
    ]
    parsed: Any = ()
    for check in checks:
        try:
            parsed = check()
        except ConfigError as error:
            errors += error.errors
    if errors:
        raise ConfigError(errors)
    return tuple(parsed)


def ntm_copy(
    bits: int = 8, train_lengths: Lengths = "1:20", test_lengths: Lengths = "21:120"
) -> BitCopy:
    """Copy bit vectors after a delimiter.

    Args:
        bits: of a vector, 1 to 12.
        train_lengths: vectors of a sequence of the split "train".
        test_lengths: of the splits "validation" and "test".

    Raises:
        ConfigError: options are out of range; all errors together.
    Source: Graves et al. 2014, arXiv:1410.5401, section 4.1.
    """
    train, test = _checked(bits, train_lengths=train_lengths, test_lengths=test_lengths)
    return BitCopy(bits, train, test)


def repeat_copy(
    bits: int = 8,
    train_repeats: Lengths = "1:10",
    test_repeats: Lengths = "1:10",
    train_lengths: Lengths = "1:10",
    test_lengths: Lengths = "11:20",
) -> RepeatCopy:
    """Copy bit vectors a given number of times, and then output the end.

    Args:
        bits: of a vector, 1 to 12.
        train_repeats: copies of the split "train".
        test_repeats: copies of the splits "validation" and "test".
        train_lengths: vectors of a sequence of the split "train".
        test_lengths: of the splits "validation" and "test".

    Raises:
        ConfigError: options are out of range; all errors together.
    Source: Graves et al. 2014, arXiv:1410.5401, section 4.2.
    """
    train_copies, test_copies, train, test = _checked(
        bits,
        train_repeats=train_repeats,
        test_repeats=test_repeats,
        train_lengths=train_lengths,
        test_lengths=test_lengths,
    )
    errors = [
        f"{name}: expected at most {MOST_REPEATS} copies, got {repeats}"
        for name, repeats in (("train_repeats", train_copies), ("test_repeats", test_copies))
        if repeats.maximum > MOST_REPEATS
    ]
    if errors:
        raise ConfigError(errors)
    return RepeatCopy(bits, train_copies, test_copies, train, test)


def associative_recall(
    bits: int = 6, train_lengths: Lengths = "2:6", test_lengths: Lengths = "7:15"
) -> AssociativeRecall:
    """Recall the item that came after the queried one; an item is three bit vectors.

    Args:
        bits: of a vector, 1 to 12.
        train_lengths: items of a sequence of the split "train", at least 2.
        test_lengths: of the splits "validation" and "test", at least 2.

    Raises:
        ConfigError: options are out of range; all errors together.
    Source: Graves et al. 2014, arXiv:1410.5401, section 4.3.
    """
    train, test = _checked(bits, train_lengths=train_lengths, test_lengths=test_lengths)
    errors = [
        f"{name}: a sequence has at least 2 items, one to ask for and the next; got {lengths}"
        for name, lengths in (("train_lengths", train), ("test_lengths", test))
        if lengths.minimum < 2
    ]
    if errors:
        raise ConfigError(errors)
    return AssociativeRecall(bits, train, test)
