import inspect
import pickle

import pytest
import torch

from unbounded.errors import ChoiceError, ConfigError
from unbounded.tasks import TASKS, LengthRange, make_task
from unbounded.tasks.chomsky import CHOMSKY
from unbounded.tasks.stack_languages import LANGUAGES

TRANSDUCTION = ["copy", "reversal", "bigram_flip", "svo_sov", "gender"]
STREAMS = ["anbn", "anbncn", "anbncndn", "anb2n", "anbmc_sum", "anbmc_product", "anbmcndm"]
STREAMS += ["memorization", "binary_addition"]
ANSWERS = ["answer_reverse", "answer_bigram_flip", "answer_odd_first", "answer_double"]
ANSWERS += ["answer_addition", "answer_repeat_copy", "answer_priority_sort"]
PROGRAMS = ["programs", "small_loops"]
STATE_TRACKING = ["word_problem", "next_parity", "next_cycle_navigation"]
STATE_TRACKING += ["next_modular_arithmetic"]
BITS = ["ntm_copy", "repeat_copy", "associative_recall", "vector_priority_sort", "dynamic_ngrams"]


def test_names():
    assert list(TASKS) == [
        *TRANSDUCTION, "pairs", "answer_copy", *ANSWERS, *PROGRAMS, *STREAMS, "dyck_prefixes",
        "dyck", *BITS, "penn_treebank", "text", *CHOMSKY, *STATE_TRACKING, "flare",
        "stack_language", "mqar",
    ]  # fmt: skip


ALIKE = [*TRANSDUCTION, *ANSWERS, *STREAMS, "dyck_prefixes", "dyck", *BITS, *CHOMSKY]
ALIKE += [*STATE_TRACKING, "flare"]


@pytest.mark.parametrize("name", ALIKE)
def test_a_task_knows_its_name_and_takes_its_options(name):
    assert inspect.getdoc(TASKS[name])
    # A priority sort has at least as many vectors as its target.
    own = {"kept": 8} if name == "vector_priority_sort" else {}
    task = make_task(name, train_lengths="10:12", test_lengths=LengthRange(20, 21), **own)
    assert task.name == name
    assert (task.train_lengths, task.test_lengths) == (LengthRange(10, 12), LengthRange(20, 21))


#: Other tests cover tasks with files of the user.
DRAWN = [name for name in TASKS if name not in (*STREAMS, "pairs", "penn_treebank", "text")]
OF_ROWS = [*((name, {}) for name in DRAWN), ("programs", {"nesting": 2})]
OF_ROWS += [("dyck", {"kinds": 4}), ("dyck", {"labels": "word"}), ("repeat_copy", {"bits": 3})]
OF_ROWS += [(name, {"sequences": 5}) for name in STREAMS]
OF_ROWS.append(("dynamic_ngrams", {"train_lengths": "5:40"}))


@pytest.mark.parametrize(("name", "options"), OF_ROWS)
def test_an_example_equals_its_row_of_any_batch(name, options):
    task = make_task(name, **options)
    batch = task.batch(1, "test", 5, 6, task.train_lengths)
    for row in range(6):
        alone = task.batch(1, "test", 5 + row, 1, task.train_lengths)
        steps = int(alone.lengths)
        assert int(batch.lengths[row]) == steps
        for field, own in zip(batch[:3], alone[:3], strict=True):
            assert torch.equal(field[row, :steps], own[0])
            assert int(field[row, steps:].sum()) == 0
    example = task.example(1, "test", 7, task.train_lengths)
    assert example == task.examples(1, "test", 5, 6, task.train_lengths)[2]
    for seed, split in ((2, "test"), (1, "validation"), (1, "train")):
        other = task.batch(seed, split, 5, 6, task.train_lengths)
        assert not all(map(torch.equal, other, batch)), (seed, split)


@pytest.mark.parametrize(
    ("name", "options"),
    [*OF_ROWS, *(("stack_language", {"language": each, "symbols": 2}) for each in LANGUAGES)],
)
def test_a_pickled_task_draws_the_same(name, options):
    """A DataLoader pickles a data set for its worker processes."""
    task = make_task(name, **options)
    copied = pickle.loads(pickle.dumps(task))
    assert (copied.name, copied.train_lengths) == (task.name, task.train_lengths)
    for lengths in (task.train_lengths, task.test_lengths):
        pair = [each.batch(1, "test", 0, 3, lengths) for each in (task, copied)]
        assert all(map(torch.equal, *pair))


def test_unknown_task():
    with pytest.raises(ChoiceError, match=r"unknown task 'copi'\. Did you mean 'copy'\?"):
        make_task("copi")


def test_all_errors_together():
    with pytest.raises(ConfigError) as caught:
        make_task("copy", symbols=0, train_lengths="64:8", test_lengths="x", symbol=3)
    errors = caught.value.errors
    assert len(errors) == 4
    assert "task 'copy' has no option 'symbol'. Did you mean 'symbols'?" in errors[0]
    assert "symbols: expected an integer" in errors[1]
    assert "train_lengths: length range: 64:8 is reversed" in errors[2]
    assert "test_lengths: length range: expected MINIMUM:MAXIMUM" in errors[3]


def test_an_unknown_option_alone():
    with pytest.raises(ConfigError, match=r"task 'gender' has no option 'symbols'"):
        make_task("gender", symbols=3)


def test_unknown_length_distribution():
    with pytest.raises(ConfigError, match=r"unknown length distribution 'unifrm'.*'uniform'"):
        make_task("gender", length_distribution="unifrm")
