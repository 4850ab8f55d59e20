"""Every answer of the tasks of the answer layout, against plain Python on the symbols."""

from __future__ import annotations

from collections import Counter

import pytest
from scipy.stats import chisquare

from unbounded.errors import ConfigError
from unbounded.tasks import TASKS, LengthRange, RandomSymbols, make_task


def swapped(source):
    return [symbol for k in range(0, len(source), 2) for symbol in (source[k + 1], source[k])]


def number(digits):
    return int("".join(reversed(digits)))


def doubled(source):
    return list(str(2 * number(source)).zfill(len(source) + 1)[::-1])


def added(source):
    total = number(source[0::2]) + number(source[1::2])
    return list(str(total).zfill(len(source) // 2 + 1)[::-1])


def repeated(source):
    marks = source.count("mark")
    assert source[:marks] == ["mark"] * marks
    return source[marks:] * marks


def sorted_by_marks(source):
    items, waiting = [], 0
    for symbol in source:
        if symbol == "mark":
            waiting += 1
        else:
            items.append((waiting, symbol))
            waiting = 0
    assert waiting == 0
    assert sorted(priority for priority, _ in items) == list(range(len(items)))
    return [symbol for _, symbol in sorted(items)]


RULES = {
    "answer_copy": lambda source: source,
    "answer_reverse": lambda source: source[::-1],
    "answer_bigram_flip": swapped,
    "answer_odd_first": lambda source: source[0::2] + source[1::2],
    "answer_double": doubled,
    "answer_addition": added,
    "answer_repeat_copy": repeated,
    "answer_priority_sort": sorted_by_marks,
}
#: k of a source.
SIZES = {
    "answer_bigram_flip": lambda source: len(source) // 2,
    "answer_odd_first": lambda source: len(source) // 2,
    "answer_addition": lambda source: len(source) // 2,
    "answer_repeat_copy": lambda source: source.count("mark"),
    "answer_priority_sort": lambda source: len(source) - source.count("mark"),
}
TRAINED = {
    "answer_copy": ("2:64", "65:128", 130, 129),
    "answer_reverse": ("2:64", "65:128", 130, 129),
    "answer_bigram_flip": ("1:16", "17:32", 130, 129),
    "answer_odd_first": ("1:16", "17:32", 130, 129),
    "answer_double": ("2:40", "41:80", 12, 11),
    "answer_addition": ("2:16", "17:32", 12, 11),
    "answer_repeat_copy": ("1:5", "6:10", 131, 129),
    "answer_priority_sort": ("2:10", "11:20", 131, 129),
}


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("times", [1, 2, 4, 8])
def test_every_answer_is_correct(name, times):
    task = make_task(name)
    longest = task.train_lengths.maximum
    lengths = {1: task.train_lengths, 2: task.test_lengths}.get(
        times, LengthRange(longest * times // 2 + 1, longest * times)
    )
    split = "train" if times == 1 else "test"
    size = SIZES.get(name, len)
    for source, target in task.examples(3, split, 0, 400 // times, lengths):
        assert list(target) == RULES[name](list(source))
        assert size(list(source)) in lengths


@pytest.mark.parametrize("name", RULES)
def test_a_batch_is_laid_out_as_encoder_and_decoder(name):
    task = make_task(name)
    assert (task.layout, task.objective) == ("answer", "cross_entropy")
    batch, examples = task.batch(5, "train", 7, 20), task.examples(5, "train", 7, 20)
    for inputs, targets, mask, steps, (source, target) in zip(*batch, examples, strict=True):
        fed = [task.input_vocabulary[token] for token in inputs[:steps].tolist()]
        assert fed == ["<s>", *source, *["|||"] * (len(target) + 1)]
        answer = [task.output_vocabulary[token] for token in targets[mask].tolist()]
        assert answer == [*target, "</s>"]
        assert mask.nonzero()[0] == len(source) + 1
        assert not inputs[steps:].any()


@pytest.mark.parametrize("name", RULES)
def test_sizes_and_vocabularies_are_those_of_the_papers(name):
    train, test, inputs, outputs = TRAINED[name]
    task = make_task(name)
    assert (str(task.train_lengths), str(task.test_lengths)) == (train, test)
    assert (len(task.input_vocabulary), len(task.output_vocabulary)) == (inputs, outputs)


@pytest.mark.parametrize("name", RULES)
def test_lengths_are_uniform(name):
    task = make_task(name, train_lengths="2:6")
    size = SIZES.get(name, len)
    counts = Counter(size(list(source)) for source, _ in task.examples(2, "train", 0, 2000))
    assert chisquare([counts[k] for k in range(2, 7)]).pvalue > 1e-3


def test_digits_and_priorities_are_fair():
    digits = Counter()
    for source, _ in make_task("answer_addition").examples(1, "train", 0, 500):
        digits.update(source)
    assert chisquare([digits[str(d)] for d in range(10)]).pvalue > 1e-3
    first = Counter()
    for source, _ in make_task("answer_priority_sort", train_lengths="5:5").examples(
        1, "train", 0, 2000
    ):
        first[list(source).index(next(s for s in source if s != "mark"))] += 1
    # The first item has any of the priorities 0 to 4, which is its number of marks.
    assert chisquare([first[p] for p in range(5)]).pvalue > 1e-3


def test_a_number_of_any_size_is_doubled():
    [(source, target)] = make_task("answer_double").examples(1, "test", 0, 1, LengthRange(500, 500))
    assert number(target) == 2 * number(source)
    assert len(target) == 501


@pytest.mark.parametrize("name", RULES)
def test_options_out_of_range(name):
    assert TASKS[name].__doc__
    with pytest.raises(ConfigError, match="train_lengths: length range: 9:2 is reversed"):
        make_task(name, train_lengths="9:2")
    with pytest.raises(ConfigError, match="expected MINIMUM:MAXIMUM"):
        make_task(name, test_lengths="9")
    if "double" not in name and "addition" not in name:
        with pytest.raises(ConfigError, match="symbols: expected an integer from 1"):
            make_task(name, symbols=0)


def test_a_k_beyond_the_maximum_of_a_task_is_an_error():
    with pytest.raises(ConfigError) as caught:
        make_task("answer_priority_sort", train_lengths="2:5000", test_lengths="5000:6000")
    assert caught.value.errors == (
        "train_lengths: length range: expected k of at most 1000 items, got 2:5000",
        "test_lengths: length range: expected k of at most 1000 items, got 5000:6000",
    )
    task = make_task("answer_repeat_copy")
    with pytest.raises(ConfigError, match=r"answer_repeat_copy: .* at most 10000 copies, got 1:"):
        task.batch(1, "test", 0, 1, LengthRange(1, 10_001))
    with pytest.raises(ConfigError, match="sequence_length: expected an integer from 1"):
        make_task("answer_repeat_copy", sequence_length=0)
    with pytest.raises(ConfigError, match="unit: expected an integer from 1"):
        RandomSymbols("copy", 3, 0)
