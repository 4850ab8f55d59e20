"""The bit tasks of Graves et al. against their rules in plain Python, and their distributions."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from scipy.stats import chisquare

from unbounded.errors import ConfigError
from unbounded.models.inputs import bit_inputs
from unbounded.tasks import LengthRange, make_task

TASKS = {
    "ntm_copy": {"train_lengths": "1:9", "test_lengths": "10:12"},
    "repeat_copy": {"train_lengths": "1:4", "test_lengths": "5:6", "test_repeats": "11:13"},
    "associative_recall": {"train_lengths": "2:4", "test_lengths": "5:6"},
    "vector_priority_sort": {"kept": 3, "train_lengths": "3:6", "test_lengths": "7:9"},
}


def rows(task, seed, split, count):
    """Inputs and targets as token lists without padding, from a batch."""
    batch = task.batch(seed, split, 0, count)
    for inputs, targets, mask, steps in zip(*batch, strict=True):
        answer = targets[mask].tolist()
        first = int(mask.nonzero()[0])
        assert mask[first:steps].all()
        assert not mask[:first].any()
        assert not inputs[first:].any()  # inputs are 0 in the answer and after it
        assert not targets[~mask].any()
        yield inputs[:first].tolist(), answer


@pytest.mark.parametrize("split", ["train", "test"])
def test_copy(split):
    task = make_task("ntm_copy", **TASKS["ntm_copy"])
    lengths = Counter()
    for read, answer in rows(task, 1, split, 300):
        assert read == [*answer, 256]
        assert all(0 <= vector < 256 for vector in answer)
        lengths[len(answer)] += 1
    assert (task.objective, task.layout, task.metric_set) == ("bits", "answer", "bits")
    assert set(lengths) == set(task.split_lengths(split))
    assert len(task.input_vocabulary) == 512
    assert len(task.output_vocabulary) == 8


@pytest.mark.parametrize("split", ["train", "test"])
def test_repeat_copy(split):
    task = make_task("repeat_copy", **TASKS["repeat_copy"])
    often = Counter()
    for read, answer in rows(task, 1, split, 300):
        *vectors, number = read
        times = number // 256
        assert number % 256 == 0
        assert answer == [*(vectors * times), 256]
        assert len(vectors) in task.split_lengths(split)
        often[times] += 1
    assert set(often) == set(range(1, 11) if split == "train" else range(11, 14))
    assert task.output_vocabulary[-1] == "end"
    assert len(task.output_vocabulary) == 9


@pytest.mark.parametrize("split", ["train", "test"])
def test_associative_recall(split):
    task = make_task("associative_recall", **TASKS["associative_recall"])
    asked = Counter()
    for read, answer in rows(task, 1, split, 300):
        *listed, query_begin, a, b, c, query_end = read
        assert query_begin == query_end == 128
        items = [listed[place : place + 4] for place in range(0, len(listed), 4)]
        assert all(item[0] == 64 for item in items)
        items = [tuple(item[1:]) for item in items]
        assert len(items) in task.split_lengths(split)
        place = items.index((a, b, c))
        assert tuple(answer) == items[place + 1]
        asked[len(items), place] += 1
    assert len(asked) == sum(length - 1 for length in task.split_lengths(split))


def priority(number, levels):
    """Of L numbers 0 .. L / 2 - 1 stand for 0 .. 1 and the others for -1 .. 0."""
    return (number if number < levels // 2 else number - levels) / (levels // 2)


@pytest.mark.parametrize("split", ["train", "test"])
def test_vector_priority_sort(split):
    task = make_task("vector_priority_sort", **TASKS["vector_priority_sort"])
    lengths = Counter()
    for read, answer in rows(task, 1, split, 300):
        *items, delimiter = read
        assert delimiter == 256
        vectors = [token % 256 for token in items]
        assert all(token // 256 % 2 == 0 for token in items)  # the delimiter's channel
        priorities = [priority(token // 512, 128) for token in items]
        assert len({*priorities}) == len(items)
        assert all(-1 <= each < 1 for each in priorities)
        order = sorted(range(len(items)), key=lambda place: -priorities[place])
        assert answer == [vectors[place] for place in order[:3]]
        lengths[len(items)] += 1
    assert set(lengths) == set(task.split_lengths(split))
    assert len(task.input_vocabulary) == 256 * 2 * 128
    assert len(task.output_vocabulary) == 8


def test_each_vector_of_a_source_shows_its_priority():
    lengths = {"train_lengths": "4:4", "test_lengths": "4:4"}
    task = make_task("vector_priority_sort", kept=2, levels=4, bits=2, **lengths)
    for example in task.examples(1, "train", 0, 20):
        *vectors, last = example.source
        assert {vector.split()[0] for vector in vectors} == {"+0", "+0.5", "-1", "-0.5"}
        assert last == "end of input"
        assert all(set(name) <= {"0", "1"} for name in example.target)
    assert task.input_vocabulary[2] == "+0 01"


def test_priorities_are_uniform_and_the_sequence_is_that_of_the_paper():
    task = make_task("vector_priority_sort", levels=32)
    batch = task.batch(3, "train", 0, 2000)
    assert batch.inputs.shape == (2000, 20 + 1 + 16)
    assert batch.mask.sum(dim=1).tolist() == [16] * 2000
    numbers = Counter((batch.inputs[:, :20] >> 9).flatten().tolist())
    assert chisquare([numbers[n] for n in range(32)]).pvalue > 1e-3
    first = Counter((batch.inputs[:, 0] >> 9).tolist())
    assert chisquare([first[n] for n in range(32)]).pvalue > 1e-3
    ones = [int((batch.inputs[:, :20] >> place & 1).sum()) for place in range(8)]
    assert all(abs(each - 20_000) < 4 * 10_000**0.5 for each in ones)
    drawn = task.batch(3, "train", 5, 3, LengthRange(18, 18)).inputs >> 9
    assert torch.equal(drawn[:, :18], (batch.inputs[5:8] >> 9)[:, :18])  # of every range


def test_the_model_sees_bits_a_delimiter_and_the_priority():
    lengths = {"train_lengths": "2:3", "test_lengths": "2:3"}
    task = make_task("vector_priority_sort", kept=2, levels=8, bits=2, **lengths)
    tokens = torch.tensor([[0b01, 0b10 + 8 * 3, 0b11 + 8 * 4, 0b00 + 8 * 7, 4]])
    assert [task.symbol(int(token)) for token in tokens[0]] == [
        "10",
        "+0.75 01",
        "-1 11",
        "-0.25",
        "end of input",
    ]
    seen = bit_inputs(tokens, len(task.input_vocabulary), 3, torch.float64, "fraction")
    assert seen[0].tolist() == [
        [1, 0, 0, 0],
        [0, 1, 0, 0.75],
        [1, 1, 0, -1],
        [0, 0, 0, -0.25],
        [0, 0, 1, 0],
    ]


def test_bits_are_fair_and_lengths_uniform():
    task = make_task("ntm_copy")
    batch = task.batch(3, "train", 0, 4000)
    ones = [int((batch.targets[batch.mask] >> place & 1).sum()) for place in range(8)]
    count = int(batch.mask.sum())
    assert all(abs(each - count / 2) < 4 * (count / 4) ** 0.5 for each in ones)
    lengths = Counter(batch.mask.sum(dim=1).tolist())
    assert chisquare([lengths[n] for n in range(1, 21)]).pvalue > 1e-3
    recall = make_task("associative_recall")
    asked = Counter((len(source) - 5) // 4 for source, _ in recall.examples(1, "train", 0, 2000))
    assert chisquare([asked[n] for n in range(2, 7)]).pvalue > 1e-3


def test_examples_are_written_as_bits():
    task = make_task("repeat_copy", bits=3)
    source, target = task.example(1, "train", 2, LengthRange(2, 2))
    times = int(source[-1].split()[0])
    assert source[-1] == f"{times} times"
    assert target == (*(source[:-1] * times), "end")
    assert all(set(symbol) <= {"0", "1"} and len(symbol) == 3 for symbol in source[:-1])
    assert task.symbol(0b110) == "011"
    assert task.input_vocabulary[8 + 1] == "1 times 100"
    assert make_task("ntm_copy", bits=2).input_vocabulary[4] == "end of input"
    recall = make_task("associative_recall").example(1, "train", 0)
    assert recall.source[0] == "item"
    assert recall.source[-1] == recall.source[-5] == "query"


def test_bad_options():
    with pytest.raises(ConfigError) as caught:
        make_task("ntm_copy", bits=0, train_lengths="9:1")
    assert caught.value.errors == (
        "bits: expected an integer from 1 to 12, got 0",
        "train_lengths: length range: 9:1 is reversed; write 1:9",
    )
    with pytest.raises(ConfigError) as caught:
        make_task("vector_priority_sort", levels=33, train_lengths="15:20", test_lengths="20:34")
    expected = "expected from 16 vectors, those of the target, to 33, one a priority; got"
    assert caught.value.errors == (
        "levels: expected an even number, got 33",
        f"train_lengths: {expected} 15:20",
        f"test_lengths: {expected} 20:34",
    )
    with pytest.raises(ConfigError, match=r"bits: .*1 to 8, got 9\n.*levels: .* got 1$"):
        make_task("vector_priority_sort", bits=9, levels=1)
    with pytest.raises(
        ConfigError, match=r"lengths: vector_priority_sort: expected from 16 vectors, .* got 3:3"
    ):
        make_task("vector_priority_sort").batch(1, "test", 0, 1, LengthRange(3, 3))
    with pytest.raises(ConfigError, match="train_lengths: a sequence has at least 2 items"):
        make_task("associative_recall", train_lengths="1:3")
    recalled = "associative_recall: a sequence has at least 2 items, the queried one and the next"
    with pytest.raises(ConfigError, match=f"lengths: {recalled}; got 1:2"):
        make_task("associative_recall").batch(1, "test", 0, 1, LengthRange(1, 2))
    with pytest.raises(ConfigError, match="test_repeats: expected at most 1000 copies, got 1:1001"):
        make_task("repeat_copy", test_repeats="1:1001")
    with pytest.raises(ConfigError, match="train_repeats: length range: the minimum must be"):
        make_task("repeat_copy", train_repeats="0:3")
