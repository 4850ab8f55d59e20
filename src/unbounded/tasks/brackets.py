"""The tasks on brackets by name: functions whose options the registry checks."""

from __future__ import annotations

from unbounded.errors import ConfigError
from unbounded.tasks.dyck_membership import DyckMembership, option_errors
from unbounded.tasks.dyck_prefixes import DyckPrefixes
from unbounded.tasks.lengths import LengthRange, named_ranges

Lengths = LengthRange | str | tuple[int, int]


def dyck_prefixes(train_lengths: Lengths = "2:24", test_lengths: Lengths = "25:48") -> DyckPrefixes:
    """Label each prefix of a bracket string: is it balanced so far?

    Args:
        train_lengths: brackets of a word of the split "train".
        test_lengths: brackets of a word of the splits "validation" and "test".

    Raises:
        ConfigError: a range is not valid; all errors together.
    """
    return DyckPrefixes(*named_ranges(train_lengths=train_lengths, test_lengths=test_lengths))


def dyck(
    kinds: int = 1,
    labels: str = "prefixes",
    length_distribution: str = "uniform",
    train_lengths: Lengths = "1:5",
    test_lengths: Lengths = "6:100",
) -> DyckMembership:
    """Classify balanced words as Dyck words or not; the length is n of 2n symbols.

    Args:
        kinds: kinds of brackets, 1 to 64.
        labels: "prefixes" for a label at each prefix, or "word" for one at the last symbol alone.
        length_distribution: "uniform" draws n uniformly, as in the authors' program; "catalan" in
            proportion to the number of words, as the paper's text can be read.
        train_lengths: n of the split "train".
        test_lengths: n of the splits "validation" and "test".

    Raises:
        ConfigError: options are out of range; all errors together.
    Source: Deleu & Dureau 2016, arXiv:1612.00827.
    """
    errors = option_errors(kinds, labels, length_distribution)
    try:
        ranges = named_ranges(train_lengths=train_lengths, test_lengths=test_lengths)
    except ConfigError as error:
        raise ConfigError([*errors, *error.errors]) from None
    if errors:
        raise ConfigError(errors)
    train, test = ranges
    return DyckMembership(kinds, labels, length_distribution, train, test)
