"""The stream tasks: sequences, layout, judged symbols, bad input."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest
import torch
from scipy import stats

from unbounded.errors import ChoiceError, ConfigError
from unbounded.tasks import LengthRange, Stream, chunks, make_task

#: A pattern whose groups are the runs, and a condition on the runs' lengths.
RUNS = {
    "anbn": (r"(a+)(b+)", lambda n, b: b == n, lambda n, b: n),
    "anbncn": (r"(a+)(b+)(c+)", lambda n, b, c: b == c == n, lambda n, b, c: n),
    "anbncndn": (r"(a+)(b+)(c+)(d+)", lambda n, b, c, d: b == c == d == n, lambda n, *_: n),
    "anb2n": (r"(a+)(b+)", lambda n, b: b == 2 * n, lambda n, b: n),
    "anbmc_sum": (r"(a+)(b+)(c+)", lambda n, m, c: c == n + m, lambda n, m, c: n + m),
    "anbmc_product": (r"(a+)(b+)(c+)", lambda n, m, c: c == n * m, lambda n, m, c: n + m),
    "anbmcndm": (
        r"(a+)(b+)(c+)(d+)",
        lambda n, m, c, d: (c, d) == (n, m),
        lambda n, m, c, d: n + m,
    ),
}
STREAM_TASKS = [*RUNS, "memorization", "binary_addition"]


def joined(example):
    return "".join(example.source + example.target)


@pytest.mark.parametrize("name", RUNS)
def test_runs_have_the_lengths_of_their_form_and_n_is_uniform(name):
    pattern, agrees, length = RUNS[name]
    task, lengths = make_task(name), LengthRange(2, 9)
    counts: Counter[int] = Counter()
    for example in task.examples(5, "train", 0, 2000, lengths):
        match = re.fullmatch(pattern, joined(example))
        assert match, joined(example)
        runs = [len(run) for run in match.groups()]
        assert agrees(*runs)
        counts[length(*runs)] += 1
        free = 1 if name in ("anbn", "anbncn", "anbncndn", "anb2n") else 2
        assert len(example.source) == sum(runs[:free]) + 1
    assert set(counts) == set(lengths)
    assert stats.chisquare([counts[n] for n in lengths]).pvalue > 1e-4


def test_the_two_free_runs_share_their_sum_uniformly():
    drawn = make_task("anbmc_sum").examples(0, "train", 0, 2000, LengthRange(6, 6))
    counts = Counter(joined(example).count("b") for example in drawn)
    assert set(counts) == {1, 2, 3, 4, 5}
    assert stats.chisquare(list(counts.values())).pvalue > 1e-4


@pytest.mark.parametrize(("name", "place"), [("anb2n", 1), ("anbmc_product", 2)])
def test_the_last_run_may_be_of_any_further_letter(name, place):
    task = make_task(name, letters=5)
    drawn = task.examples(0, "train", 0, 1000, LengthRange(2, 4))
    counts = Counter(joined(example)[-1] for example in drawn)
    assert set(counts) == set("abcde"[place:])
    assert stats.chisquare(list(counts.values())).pvalue > 1e-4


def test_another_number_of_repeats():
    (example,) = make_task("anb2n", repeats=3).examples(0, "train", 0, 1, LengthRange(4, 4))
    assert joined(example) == "aaaa" + 12 * "b"


def test_memorization_is_a_string_and_its_reversal():
    task = make_task("memorization", symbols=3)
    for example in task.examples(1, "test", 0, 300, LengthRange(1, 12)):
        assert example.source[-1] == "="
        assert example.target == example.source[-2::-1]
        assert set(example.target) <= {"1", "2", "3"}


def test_binary_addition_adds():
    task, lengths = make_task("binary_addition"), LengthRange(1, 30)
    shares: Counter[int] = Counter()
    for example in task.examples(1, "train", 0, 1000, lengths):
        match = re.fullmatch(r"(0|1[01]*)\+(0|1[01]*)=(0|[01]*1)\.", joined(example))
        assert match, joined(example)
        first, second, answer = match.groups()
        assert int(first, 2) + int(second, 2) == int(answer[::-1], 2)
        assert "".join(example.source)[-1] == "="
        digits = len(first) * (first != "0") + len(second) * (second != "0")
        assert digits in lengths
    for example in task.examples(1, "train", 0, 1100, LengthRange(10, 10)):
        first = joined(example).split("+")[0]
        shares[len(first) * (first != "0")] += 1
    assert set(shares) == set(range(11))
    assert stats.chisquare(list(shares.values())).pvalue > 1e-4


def test_long_sums_are_correct():
    for example in make_task("binary_addition").examples(0, "test", 0, 3, LengthRange(1000, 1000)):
        first, second, answer = re.split(r"[+=]", joined(example)[:-1])
        assert int(first, 2) + int(second, 2) == int(answer[::-1], 2)


@pytest.mark.parametrize("name", STREAM_TASKS)
def test_a_stream_is_the_concatenation_of_its_sequences(name):
    task = make_task(name, sequences=4)
    lengths = LengthRange(2, 6)
    streams = task.judged(3, "train", 2, 3, lengths)
    batch, vocabulary = streams.batch, task.output_vocabulary
    drawn = task.examples(3, "train", 8, 12, lengths)
    assert streams.scored == 3
    for b in range(3):
        own = drawn[4 * b : 4 * b + 4]
        text = "".join(joined(example) for example in own)
        steps = int(batch.lengths[b])
        got = "".join(vocabulary[token] for token in batch.targets[b, :steps].tolist())
        assert got == text
        before = "".join(vocabulary[token] for token in batch.inputs[b, :steps].tolist())
        assert before == vocabulary[-1] + text[:-1]
        assert not batch.mask[b, steps:].any()
        assert (streams.judged[b, steps:] == -1).all()
        want = []
        for number, example in enumerate(own):
            marks = [-1] * len(example.source) + [number] * len(example.target)
            if name not in ("memorization", "binary_addition"):
                marks[0] = number - 1
            want += marks
        assert streams.judged[b, :steps].tolist() == want
        if name == "binary_addition":
            assert batch.mask[b, :steps].tolist() == [mark >= 0 for mark in want]
        else:
            assert batch.mask[b, :steps].all()


def test_the_curriculum_is_a_range_of_the_draw():
    task = make_task("anbn")
    for maximum in (2, 3, 19, 1000):
        batch = task.batch(0, "train", 0, 2, LengthRange(2, maximum))
        assert int(batch.lengths.max()) <= 60 * 2 * maximum
    assert torch.equal(
        task.batch(0, "train", 0, 1, LengthRange(2, 2)).targets[0, :4].diff() >= 0,
        torch.tensor([True] * 3),
    )


def test_chunks_put_together_are_the_batch():
    batch = make_task("anbncn", sequences=6).batch(0, "train", 0, 4)
    cut = list(chunks(batch, 50))
    assert [chunk.inputs.shape[1] for chunk in cut[:-1]] == [50] * (len(cut) - 1)
    for name in ("inputs", "targets", "mask"):
        assert torch.equal(torch.cat([getattr(p, name) for p in cut], 1), getattr(batch, name))
    assert torch.equal(torch.stack([p.lengths for p in cut]).sum(0), batch.lengths)


@pytest.mark.parametrize("steps", [0, -1, 2.5, True])
def test_a_chunk_has_at_least_one_step(steps):
    batch = make_task("anbn").batch(0, "train", 0, 1)
    with pytest.raises(ConfigError, match="steps of a chunk: expected an integer of at least 1"):
        list(chunks(batch, steps))


def test_drawing_a_long_stream_is_vectorised():
    task = make_task("anbncndn", sequences=200)
    streams = task.judged(0, "test", 0, 1, LengthRange(1000, 1000))
    assert streams.batch.inputs.shape == (1, 800_000)


def test_symbols_of_a_text():
    task = make_task("memorization")
    assert task.encode("12=21").tolist() == [1, 2, 0, 2, 1]
    with pytest.raises(
        ChoiceError, match=r"unknown symbol of task memorization '3'\. Valid: 1, 2, =\."
    ):
        task.encode("123")


@pytest.mark.parametrize("name", ["anbmc_sum", "anbmc_product", "anbmcndm"])
def test_an_n_below_the_smallest_of_a_form_is_an_error(name):
    message = f"{name} has no sequence with n below 2, got 1:9"
    with pytest.raises(ConfigError, match=f"train_lengths: lengths: {message}"):
        make_task(name, train_lengths="1:9")
    with pytest.raises(ConfigError, match=message):
        make_task(name).batch(0, "train", 0, 1, LengthRange(1, 9))


def test_all_bad_options_are_reported_together():
    with pytest.raises(ConfigError) as caught:
        make_task("anb2n", letters=1, repeats=0, train_lengths="9:2")
    errors = "\n".join(caught.value.errors)
    assert len(caught.value.errors) == 3
    assert "letters: expected an integer from 2 to 26, got 1" in errors
    assert "repeats: expected an integer from 1 to 1000, got 0" in errors
    assert "train_lengths: length range: 9:2 is reversed" in errors
    with pytest.raises(ConfigError, match="sequences: expected an integer from 2"):
        make_task("anbn", sequences=1)
    with pytest.raises(ChoiceError, match=r"unknown loss 'answers'.*Did you mean 'answer'"):
        make_task("binary_addition", loss="answers")
    with pytest.raises(ConfigError, match="start: expected an integer from 0"):
        make_task("anbn").batch(0, "train", -1, 1)


def test_n_of_one_can_be_requested():
    task = make_task("anbn", sequences=2)
    batch = task.batch(0, "train", 0, 1, LengthRange(1, 1))
    assert batch.targets.tolist() == [[0, 1, 0, 1]]
    drawn = make_task("anbn").source.draw(Stream(0, "train"), 0, 5, LengthRange(1, 1))
    assert np.array_equal(drawn.given, np.full(5, 2))
