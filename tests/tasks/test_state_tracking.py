"""Word problems against products of permutations and numbers; next tokens against plain rules."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from scipy.stats import chisquare

from unbounded.errors import ConfigError
from unbounded.tasks import LengthRange, make_task
from unbounded.tasks.state_tracking import GROUPS, group

SIZES = {"S3": 6, "S5": 120, "A5": 60, "Z60": 60, "A4xZ5": 60}


def times(name, first, second):
    """The product of two named elements; the first is applied first."""
    if name == "Z60":
        return str((int(first) + int(second)) % 60)
    if name == "A4xZ5":
        pairs = zip(first.split("_"), second.split("_"), strict=True)
        (left, right), (i, j) = pairs
        return f"{times('A4', left, right)}_{(int(i) + int(j)) % 5}"
    return "".join(second[int(image) - 1] for image in first)


@pytest.mark.parametrize("name", GROUPS)
def test_a_group_is_a_group(name):
    names, table = group(name)
    assert len(names) == len(set(names)) == SIZES[name]
    assert (np.sort(table, axis=0) == np.arange(len(names))[:, None]).all()
    assert (np.sort(table, axis=1) == np.arange(len(names))).all()
    assert (table[0] == np.arange(len(names))).all()
    assert (table[table] == table[:, table]).all()  # (a b) c = a (b c)
    is_commutative = bool((table == table.T).all())
    assert is_commutative == (name == "Z60")


@pytest.mark.parametrize("name", GROUPS)
def test_every_prefix_has_its_product(name):
    task = make_task("word_problem", group=name)
    assert task.chance == 1 / SIZES[name]
    for source, target in task.examples(1, "test", 0, 20, LengthRange(1, 40)):
        assert list(target) == list(itertools.accumulate(source, lambda a, b: times(name, a, b)))
    batch = task.batch(1, "test", 0, 20, LengthRange(1, 40))
    assert (batch.mask.sum(1) == batch.lengths).all()
    assert not batch.inputs[~batch.mask].any()


def test_all_strings_of_a_group_are_listed():
    task = make_task("word_problem", group="S3")
    assert task.count_of(3, 2) == 216
    batch = task.every(3, 2)
    names = task.input_vocabulary
    for inputs, targets in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True):
        product = times("S3", times("S3", names[inputs[0]], names[inputs[1]]), names[inputs[2]])
        assert names[targets[2]] == product


def test_elements_and_lengths_are_uniform():
    task = make_task("word_problem", group="S5")
    assert (str(task.train_lengths), str(task.test_lengths)) == ("1:32", "33:512")
    examples = task.examples(1, "train", 0, 3000)
    for counts, size in (
        (Counter(len(source) for source, _ in examples), 32),
        (Counter(source[0] for source, _ in examples), 120),
    ):
        assert len(counts) == size
        assert chisquare(list(counts.values())).pvalue > 1e-3
    assert task.example(1, "train", 17) == examples[17]
    assert task.example(2, "train", 17) != examples[17]


NEXT = {
    "next_parity": lambda s: str(s.count("1") % 2),
    "next_cycle_navigation": lambda s: str((s.count(">") - s.count("<")) % 5),
    "next_modular_arithmetic": lambda s: str(eval("".join(s)) % 5),
}


@pytest.mark.parametrize("name", NEXT)
def test_the_next_token_is_that_of_the_rule(name):
    task = make_task(name)
    assert task.input_vocabulary == (*task.output_vocabulary, "?")
    assert (str(task.train_lengths), str(task.test_lengths)) == ("3:40", "40:256")
    for source, target in task.examples(1, "test", 0, 100):
        assert target == (NEXT[name](source),)
        assert task.asked(source)[-1] == task.answer_token
    assert task.chance == (0.5 if name == "next_parity" else 0.2)


@pytest.mark.parametrize("name", NEXT)
def test_all_sources_before_a_next_token_are_listed(name):
    task, length = make_task(name), 3
    symbols = {"next_parity": ["01"] * 3, "next_cycle_navigation": ["<=>"] * 3}
    digits = "01234"
    sources = [*itertools.product(*symbols.get(name, [digits, "+-*", digits]))]
    assert task.count_of(length, 2) == len(sources)
    batch, names = task.every(length, 2), task.input_vocabulary
    listed = {
        tuple(names[token] for token in inputs[:length]): names[targets[length]]
        for inputs, targets in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True)
    }
    assert listed == {source: NEXT[name](source) for source in sources}


def test_bad_input_is_named():
    with pytest.raises(ConfigError) as caught:
        make_task("word_problem", group="S55", train_lengths="0:3")
    assert [error[:21] for error in caught.value.errors] == [
        "unknown group 'S55'. ",
        "train_lengths: length",
    ]
    with pytest.raises(ConfigError, match="a symbol that occurs only in answers"):
        make_task("next_cycle_navigation").asked(("<", "0"))
