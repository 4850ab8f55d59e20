"""The tasks with the answer layout, in which only the end symbol is fed while answering.

Source: Yang 2016, arXiv:1602.08671; odd first, repeat copy and priority sort: Yang & Rush 2017,
arXiv:1611.02854; programs: Zaremba & Sutskever 2014, arXiv:1410.4615.
"""

from __future__ import annotations

from unbounded.tasks.lengths import Lengths, named_ranges
from unbounded.tasks.program_task import ProgramTask
from unbounded.tasks.symbols import Added, Doubled, PrioritySort, RandomSymbols, RepeatedSymbols
from unbounded.tasks.transduction import TransductionTask, transduction


def answer_copy(
    symbols: int = 128, train_lengths: Lengths = "2:64", test_lengths: Lengths = "65:128"
) -> TransductionTask:
    """Copy the source; only the end symbol is fed while answering.

    Args:
        symbols: number of symbols, at least 1.
        train_lengths: source lengths k of the split "train".
        test_lengths: of the splits "validation" and "test".

    Raises:
        ConfigError: options are out of range; all errors together.
    Source: Yang 2016, arXiv:1602.08671.
    """
    return transduction(
        "answer_copy",
        lambda: RandomSymbols("copy", symbols),
        train_lengths,
        test_lengths,
        "answer",
    )


def answer_reverse(
    symbols: int = 128, train_lengths: Lengths = "2:64", test_lengths: Lengths = "65:128"
) -> TransductionTask:
    """Reverse the source; only the end symbol is fed while answering.

    Args, errors and source as for `answer_copy`.
    """
    return transduction(
        "answer_reverse",
        lambda: RandomSymbols("reversal", symbols),
        train_lengths,
        test_lengths,
        "answer",
    )


def answer_bigram_flip(
    symbols: int = 128, train_lengths: Lengths = "1:16", test_lengths: Lengths = "17:32"
) -> TransductionTask:
    """Swap the two symbols of each of k pairs; only the end symbol is fed while answering.

    Args, errors and source as for `answer_copy`, but lengths k are of 2k symbols.
    """
    return transduction(
        "answer_bigram_flip",
        lambda: RandomSymbols("bigram_flip", symbols, 2),
        train_lengths,
        test_lengths,
        "answer",
    )


def answer_odd_first(
    symbols: int = 128, train_lengths: Lengths = "1:16", test_lengths: Lengths = "17:32"
) -> TransductionTask:
    """Output the first, third, fifth ... of 2k symbols, then the other symbols.

    Args and errors as for `answer_copy`, but lengths k are of 2k symbols.
    Source: Yang & Rush 2017, arXiv:1611.02854.
    """
    return transduction(
        "answer_odd_first",
        lambda: RandomSymbols("odd_first", symbols, 2),
        train_lengths,
        test_lengths,
        "answer",
    )


def answer_double(
    train_lengths: Lengths = "2:40", test_lengths: Lengths = "41:80"
) -> TransductionTask:
    """Double a number of k digits. The answer has k + 1 digits, the lowest digit first.

    Args:
        train_lengths: digits k of the split "train".
        test_lengths: of the splits "validation" and "test".

    Raises:
        ConfigError: options are out of range; all errors together.
    Source: Yang 2016, arXiv:1602.08671.
    """
    return transduction("answer_double", Doubled, train_lengths, test_lengths, "answer")


def answer_addition(
    train_lengths: Lengths = "2:16", test_lengths: Lengths = "17:32"
) -> TransductionTask:
    """Add two numbers of k digits. The digits alternate between them, the lowest digits first.

    Args, errors and source as for `answer_double`; the sum has k + 1 digits.
    """
    return transduction("answer_addition", Added, train_lengths, test_lengths, "answer")


def answer_repeat_copy(
    symbols: int = 128,
    sequence_length: int = 20,
    train_lengths: Lengths = "1:5",
    test_lengths: Lengths = "6:10",
) -> TransductionTask:
    """Copy symbols N times; N is the number of marks before the symbols.

    Args:
        symbols: number of symbols, at least 1.
        sequence_length: symbols of a sequence, at least 1.
        train_lengths: N of the split "train".
        test_lengths: of the splits "validation" and "test".

    Raises:
        ConfigError: options are out of range; all errors together.
    Source: Yang & Rush 2017, arXiv:1611.02854.
    """
    return transduction(
        "answer_repeat_copy",
        lambda: RepeatedSymbols(symbols, sequence_length),
        train_lengths,
        test_lengths,
        "answer",
    )


def answer_priority_sort(
    symbols: int = 128, train_lengths: Lengths = "2:10", test_lengths: Lengths = "11:20"
) -> TransductionTask:
    """Sort k symbols by the number of marks before each symbol.

    Args and errors as for `answer_copy`; lengths k are of k items.
    Source: Yang & Rush 2017, arXiv:1611.02854.
    """
    return transduction(
        "answer_priority_sort",
        lambda: PrioritySort(symbols),
        train_lengths,
        test_lengths,
        "answer",
    )


def programs(
    nesting: int = 1, train_lengths: Lengths = "2:4", test_lengths: Lengths = "4:4"
) -> ProgramTask:
    """Output what a small program prints, its last digit first.

    Args:
        nesting: most operators of a program, 1 to 10.
        train_lengths: digits of the numbers of the split "train", at most 15.
        test_lengths: of the splits "validation" and "test".

    Raises:
        ConfigError: options are out of range; all errors together.
    Source: Zaremba & Sutskever 2014, arXiv:1410.4615; Yang 2016, arXiv:1602.08671.
    """
    train, test = named_ranges(train_lengths=train_lengths, test_lengths=test_lengths)
    return ProgramTask("programs", train, test, nesting)


def small_loops(
    nesting: int = 1, train_lengths: Lengths = "2:4", test_lengths: Lengths = "4:4"
) -> ProgramTask:
    """Output what a program with only small loops prints, its last digit first.

    Args, errors and source as for `programs`.
    """
    train, test = named_ranges(train_lengths=train_lengths, test_lengths=test_lengths)
    return ProgramTask("small_loops", train, test, nesting, ("small_loop",))
