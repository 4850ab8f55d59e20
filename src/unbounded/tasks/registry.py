"""The tasks by name."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from os import PathLike
from typing import Any, Final, TypeVar

from unbounded.custom_components import find_part
from unbounded.errors import ChoiceError, ConfigError
from unbounded.options import fits, option_errors, options_of
from unbounded.tasks import algorithmic, answer_layout, bit_tasks, dyck, state_tracking
from unbounded.tasks.associative_queries import mqar
from unbounded.tasks.chomsky import CHOMSKY
from unbounded.tasks.derivation import GrammarPairs
from unbounded.tasks.dynamic_ngrams import dynamic_ngrams
from unbounded.tasks.grammar import GENDER, SVO_SOV
from unbounded.tasks.lengths import Lengths
from unbounded.tasks.pair_file import FilePairs
from unbounded.tasks.penn_treebank import PUBLISHED, read_penn_treebank
from unbounded.tasks.recognition import flare
from unbounded.tasks.stack_languages import stack_language
from unbounded.tasks.symbols import RandomSymbols
from unbounded.tasks.task import LAYOUTS, OBJECTIVES, Task
from unbounded.tasks.text import TextTask, read_text
from unbounded.tasks.transduction import TransductionTask, transduction

T = TypeVar("T")


def copy(
    symbols: int = 128, train_lengths: Lengths = "8:64", test_lengths: Lengths = "65:128"
) -> TransductionTask:
    """Copy the source: a_1 ... a_k to a_1 ... a_k.

    Args:
        symbols: number of symbols, at least 1.
        train_lengths: source lengths of the split "train".
        test_lengths: source lengths of the splits "validation" and "test".

    Raises:
        ConfigError: options are out of range; all errors together.
    Source: Grefenstette et al. 2015, arXiv:1506.02516, section 4.1.
    """
    return transduction("copy", lambda: RandomSymbols("copy", symbols), train_lengths, test_lengths)


def reversal(
    symbols: int = 128, train_lengths: Lengths = "8:64", test_lengths: Lengths = "65:128"
) -> TransductionTask:
    """Reverse the source: a_1 ... a_k to a_k ... a_1.

    Args, errors and source as for `copy`.
    """
    return transduction(
        "reversal", lambda: RandomSymbols("reversal", symbols), train_lengths, test_lengths
    )


def bigram_flip(
    symbols: int = 128,
    train_lengths: Lengths = "8:64",
    test_lengths: Lengths = "65:128",
    odd_lengths: str = "left_out",
) -> TransductionTask:
    """Swap the two symbols of each pair: a_1 a_2 a_3 a_4 ... to a_2 a_1 a_4 a_3 ...

    Lengths are even, as the paper requires; the paper does not describe how odd draws are treated.

    Args:
        odd_lengths: "left_out" draws only even lengths: 66, 68, ..., 128 of 65:128. "padded" draws
            all, and a source of odd length ends with one more symbol, "pad", before its target.
            "unpaired" draws all too, and adds a random symbol to a target of odd length, as the
            partner of the last symbol.

    Everything else is as for `copy`.
    """
    return transduction(
        "bigram_flip",
        lambda: RandomSymbols("bigram_flip", symbols, odd_lengths=odd_lengths),
        train_lengths,
        test_lengths,
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
        ConfigError: options are out of range; all errors together.
    Source: Grefenstette et al. 2015, arXiv:1506.02516, appendix C, Table 1(a).
    """
    return transduction(
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
    """Translate English nouns to German, where the article shows the gender.

    Args and errors as for `svo_sov`.
    Source: Grefenstette et al. 2015, arXiv:1506.02516, appendix C, Table 1(b).
    """
    return transduction(
        "gender",
        lambda: GrammarPairs(GENDER, length_distribution),
        train_lengths,
        test_lengths,
    )


def pairs(data: str | None = None, characters: bool = False) -> TransductionTask:
    """Map sources to targets, for your own pairs from a file (--data FILE).

    Args:
        data: a file with a source, a tab and its target in each line; a tenth of the lines is held
            out for validation, and a tenth for the test.
        characters: whether each character is a symbol; otherwise each word is one.

    Raises:
        ConfigError: no file was given, or its lines are not pairs; all errors together, by line.
    """
    if data is None:
        raise ConfigError(
            "data: give a file with a source, a tab and its target in each line (--data FILE)"
        )
    source = _of_data(data, lambda: FilePairs(data, characters))
    return TransductionTask("pairs", source, source.lengths, source.lengths)


def text(data: str | None = None, unknown: str = "error") -> TextTask:
    """Predict the next word of your own text, from a folder (--data FOLDER).

    Args:
        data: folder of train.txt, valid.txt and test.txt, words separated by blanks.
        unknown: treatment of words that are not in train.txt: "error", or "replace" for <unk>.

    Raises:
        ConfigError: no folder was given, or its files are not such files; all errors together.
    """
    if data is None:
        raise ConfigError("data: give the folder of train.txt, valid.txt, test.txt (--data FOLDER)")
    return _of_data(data, lambda: read_text(data, unknown))


def penn_treebank(data: str | None = None, published_counts: bool = True) -> TextTask:
    """Predict the next word of Penn Treebank. The project does not distribute the text.

    Args:
        data: folder of ptb.train.txt, ptb.valid.txt and ptb.test.txt.
        published_counts: whether the files must have the counts of Mikolov's; False accepts
            another corpus under these names.

    Raises:
        ConfigError: no folder was given, or its files are not such files; all errors together.
    Source: Mikolov et al. 2010; Joulin & Mikolov 2015, Table 4.
    """
    if data is None:
        raise ConfigError(
            "data: give the folder of ptb.train.txt, ptb.valid.txt, ptb.test.txt (--data DIR)"
        )
    return _of_data(data, lambda: read_penn_treebank(data, PUBLISHED if published_counts else None))


def _of_data(data: object, read: Callable[[], T]) -> T:
    """Read a user's files; errors are reported for the option `data`."""
    if not isinstance(data, str | PathLike):
        raise ConfigError(f"data: expected the path of a file or folder, got {data!r}")
    try:
        return read()
    except ConfigError as error:
        raise ConfigError(f"data: {message}" for message in error.errors) from None


TASKS: Final[dict[str, Callable[..., Task]]] = {
    "copy": copy,
    "reversal": reversal,
    "bigram_flip": bigram_flip,
    "svo_sov": svo_sov,
    "gender": gender,
    "pairs": pairs,
    "answer_copy": answer_layout.answer_copy,
    "answer_reverse": answer_layout.answer_reverse,
    "answer_bigram_flip": answer_layout.answer_bigram_flip,
    "answer_odd_first": answer_layout.answer_odd_first,
    "answer_double": answer_layout.answer_double,
    "answer_addition": answer_layout.answer_addition,
    "answer_repeat_copy": answer_layout.answer_repeat_copy,
    "answer_priority_sort": answer_layout.answer_priority_sort,
    "programs": answer_layout.programs,
    "small_loops": answer_layout.small_loops,
    "anbn": algorithmic.anbn,
    "anbncn": algorithmic.anbncn,
    "anbncndn": algorithmic.anbncndn,
    "anb2n": algorithmic.anb2n,
    "anbmc_sum": algorithmic.anbmc_sum,
    "anbmc_product": algorithmic.anbmc_product,
    "anbmcndm": algorithmic.anbmcndm,
    "memorization": algorithmic.memorization,
    "binary_addition": algorithmic.binary_addition,
    "dyck_prefixes": dyck.dyck_prefixes,
    "dyck": dyck.dyck,
    "ntm_copy": bit_tasks.ntm_copy,
    "repeat_copy": bit_tasks.repeat_copy,
    "associative_recall": bit_tasks.associative_recall,
    "vector_priority_sort": bit_tasks.vector_priority_sort,
    "dynamic_ngrams": dynamic_ngrams,
    "penn_treebank": penn_treebank,
    "text": text,
    **CHOMSKY,
    "word_problem": state_tracking.word_problem,
    "next_parity": state_tracking.next_parity,
    "next_cycle_navigation": state_tracking.next_cycle_navigation,
    "next_modular_arithmetic": state_tracking.next_modular_arithmetic,
    "flare": flare,
    "stack_language": stack_language,
    "mqar": mqar,
}


def task_factory(name: str) -> Callable[..., Task]:
    """The constructor of the task with a name or an import path.

    Raises:
        ChoiceError: there is no such task. ConfigError: its module was not imported.
    """
    return find_part("task", name, TASKS, Task)


def make_task(name: str, **options: Any) -> Task:
    """Build a task by name, with the options of its function in `TASKS`.

    Args:
        name: one of TASKS, or the import path of a custom subclass of `Task`, whose module has been
            imported.
        options: by keyword.
    Raises:
        ChoiceError: there is no such task.
        ConfigError: options are unknown or out of range; all errors together.
    """
    factory = task_factory(name)
    known = options_of(factory)
    if "data" in options and "data" not in known:
        errors = [f"data: the task {name!r} reads no data; leave it out."]
    else:
        errors = []
    other = {key: value for key, value in options.items() if key != "data"}
    wrong_options = option_errors(f"task {name!r}", factory, other, filled=("data",))
    errors += wrong_options
    is_custom = name not in TASKS
    if is_custom and wrong_options:
        raise ConfigError(errors)
    # Built-in tasks are built without the options of a wrong type, so that all errors are reported
    # together.
    valid_options = {
        key: value
        for key, value in options.items()
        if key in known and (key == "data" or fits(value, known[key].kind))
    }
    try:
        task: Task = factory(**valid_options)
    except ConfigError as error:
        raise ConfigError([*errors, *error.errors]) from None
    except (TypeError, ValueError) as error:
        if errors or is_custom:
            raise ConfigError([*errors, f"{type(error).__name__}: {error}"]) from error
        raise
    errors += _custom_task_errors(name, task) if is_custom else []
    if errors:
        raise ConfigError(errors)
    return task


def _custom_task_errors(name: str, task: Task) -> list[str]:
    """List attributes that a custom task lacks.

    A task without a name is named by its import path.
    """
    if not hasattr(task, "name"):
        with suppress(AttributeError):  # an immutable task must have a name
            task.name = name
    needed = ["name", "metric_set", "input_vocabulary", "output_vocabulary"]
    needed += ["train_lengths", "test_lengths"] if task.has_lengths else []
    missing = [name_ for name_ in needed if not hasattr(task, name_)]
    errors = [f"task {name!r} has no {', '.join(missing)}: a Task must"] if missing else []
    for what, valid in (("layout", LAYOUTS), ("objective", OBJECTIVES)):
        value = getattr(task, what, None)
        if value not in valid:
            errors.append(f"task {name!r}: {ChoiceError(what, value, valid)}")
    return errors
