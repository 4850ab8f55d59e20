"""The tasks by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from unbounded.errors import ChoiceError, ConfigError, did_you_mean
from unbounded.tasks import algorithmic
from unbounded.tasks.derivation import GrammarPairs
from unbounded.tasks.grammars import GENDER, SVO_SOV
from unbounded.tasks.lengths import LengthRange
from unbounded.tasks.penn_treebank import PUBLISHED, PennTreebank
from unbounded.tasks.symbols import RandomSymbols
from unbounded.tasks.task import Task
from unbounded.tasks.transduction import PairSource, TransductionTask

Lengths: TypeAlias = LengthRange | str | tuple[int, int]


def _transduction(
    name: str, pairs: Callable[[], PairSource], train_lengths: Lengths, test_lengths: Lengths
) -> TransductionTask:
    """Build the parts, collect the faults of all of them, put them together."""
    faults: list[str] = []
    built: dict[str, Any] = {}
    for part, build in (
        ("pairs", pairs),
        ("train_lengths", lambda: LengthRange.of(train_lengths)),
        ("test_lengths", lambda: LengthRange.of(test_lengths)),
    ):
        try:
            built[part] = build()
        except ConfigError as error:
            prefix = "" if part == "pairs" else f"{part}: "
            faults += [prefix + fault for fault in error.faults]
        except ChoiceError as error:
            faults.append(str(error))
    if faults:
        raise ConfigError(faults)
    return TransductionTask(name, **built)


def copy(
    symbols: int = 128, train_lengths: Lengths = "8:64", test_lengths: Lengths = "65:128"
) -> TransductionTask:
    """Say the source again: a_1 ... a_k to a_1 ... a_k.

    Args:
        symbols: number of symbols, at least 1.
        train_lengths: source lengths of the split "train".
        test_lengths: source lengths of the splits "validation" and "test".

    Raises:
        ConfigError: options are out of range; all faults together.
    Source: Grefenstette et al. 2015, arXiv:1506.02516, section 4.1.
    """
    return _transduction(
        "copy", lambda: RandomSymbols("copy", symbols), train_lengths, test_lengths
    )


def reversal(
    symbols: int = 128, train_lengths: Lengths = "8:64", test_lengths: Lengths = "65:128"
) -> TransductionTask:
    """Say the source backwards: a_1 ... a_k to a_k ... a_1.

    Args, errors and source as for `copy`.
    """
    return _transduction(
        "reversal", lambda: RandomSymbols("reversal", symbols), train_lengths, test_lengths
    )


def bigram_flip(
    symbols: int = 128, train_lengths: Lengths = "8:64", test_lengths: Lengths = "65:128"
) -> TransductionTask:
    """Swap the two symbols of each pair: a_1 a_2 a_3 a_4 ... to a_2 a_1 a_4 a_3 ...

    Even lengths only: 66, 68, ..., 128 of 65:128. Args, errors and source as for `copy`.
    """
    return _transduction(
        "bigram_flip", lambda: RandomSymbols("bigram_flip", symbols), train_lengths, test_lengths
    )


def svo_sov(
    length_distribution: str = "grammar",
    train_lengths: Lengths = "8:64",
    test_lengths: Lengths = "65:128",
) -> TransductionTask:
    """Move the verb: subject-verb-object to subject-object-verb, with relative clauses.

    Args:
        length_distribution: "grammar" (the paper: lengths as frequent as in the grammar) or
            "uniform" (all lengths of the range that the grammar has, equally).
        train_lengths: source lengths of the split "train", at most 4096.
        test_lengths: source lengths of the splits "validation" and "test", at most 4096.

    Raises:
        ConfigError: options are out of range; all faults together.
    Source: Grefenstette et al. 2015, arXiv:1506.02516, appendix C, Table 1(a).
    """
    return _transduction(
        "svo_sov",
        lambda: GrammarPairs(SVO_SOV, length_distribution),
        train_lengths,
        test_lengths,
    )


def gender(
    length_distribution: str = "grammar",
    train_lengths: Lengths = "8:64",
    test_lengths: Lengths = "65:128",
) -> TransductionTask:
    """Put English nouns into German, where the article shows the gender.

    Args and errors as for `svo_sov`.
    Source: Grefenstette et al. 2015, arXiv:1506.02516, appendix C, Table 1(b).
    """
    return _transduction(
        "gender",
        lambda: GrammarPairs(GENDER, length_distribution),
        train_lengths,
        test_lengths,
    )


def penn_treebank(data: str | None = None, published_counts: bool = True) -> PennTreebank:
    """Predict the next word of Penn Treebank; the project ships no text.

    Args:
        data: folder of ptb.train.txt, ptb.valid.txt and ptb.test.txt.
        published_counts: whether the files must have the counts of Mikolov's; False takes a
            corpus of your own under these names.

    Raises:
        ConfigError: no folder was given, or its files are not such files; all faults together.
    Source: Mikolov et al. 2010; Joulin & Mikolov 2015, Table 4.
    """
    if data is None:
        raise ConfigError(
            ["data: give the folder of ptb.train.txt, ptb.valid.txt, ptb.test.txt (--data DIR)"]
        )
    try:
        return PennTreebank(data, PUBLISHED if published_counts else None)
    except ConfigError as error:
        raise ConfigError(f"data: {fault}" for fault in error.faults) from None


TASKS: Final[dict[str, Callable[..., Task]]] = {
    "copy": copy,
    "reversal": reversal,
    "bigram_flip": bigram_flip,
    "svo_sov": svo_sov,
    "gender": gender,
    "anbn": algorithmic.anbn,
    "anbncn": algorithmic.anbncn,
    "anbncndn": algorithmic.anbncndn,
    "anb2n": algorithmic.anb2n,
    "anbmc_sum": algorithmic.anbmc_sum,
    "anbmc_product": algorithmic.anbmc_product,
    "anbmcndm": algorithmic.anbmcndm,
    "memorization": algorithmic.memorization,
    "binary_addition": algorithmic.binary_addition,
    "penn_treebank": penn_treebank,
}


def make_task(name: str, **options: Any) -> Task:
    """Build a task by name, with options as its function in `TASKS` takes them.

    Raises:
        ChoiceError: there is no such task.
        ConfigError: options are unknown or out of range; all faults together.
    """
    if name not in TASKS:
        raise ChoiceError("task", name, TASKS)
    known = list(inspect.signature(TASKS[name]).parameters)
    faults = []
    for option in options:
        if option == "data" and option not in known:
            faults.append(f"data: the task {name!r} reads no corpus; leave it out.")
        elif option not in known:
            hint = did_you_mean(option, known)
            faults.append(
                f"unknown option {option!r} of task {name!r}.{hint} Valid: {', '.join(known)}."
            )
    try:
        task = TASKS[name](**{key: value for key, value in options.items() if key in known})
    except ConfigError as error:
        raise ConfigError([*faults, *error.faults]) from None
    if faults:
        raise ConfigError(faults)
    return task
