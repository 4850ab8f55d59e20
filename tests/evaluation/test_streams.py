"""Scores of streams, by hand on the examples of the paper's Table 1."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from tests.constructions import stream_model
from tests.evaluation.evaluators import evaluator_of
from unbounded.errors import ConfigError, ShapeError
from unbounded.evaluation import (
    LengthScore,
    correct_sequences,
    percent_of_lengths,
    score_lengths,
    score_streams,
)
from unbounded.evaluation.metric_sets import EvaluationPlan
from unbounded.evaluation.metric_sets.lengths import Lengths, stream_row
from unbounded.tasks import LengthRange, make_task
from unbounded.tasks.streams import Sequences, lay_out

#: Table 1 with the characters that are evaluated in brackets.
TABLE_1 = {
    "anbn": "aab[ba]aab[bba]b[a]aaaab[bbbb]",
    "anbncn": "aaab[bbccca]b[ca]aaaab[bbbbccccc]",
    "anbncndn": "aab[bccdda]aab[bbcccddda]b[cd]",
    "anb2n": "aab[bbba]aab[bbbbba]b[b]",
    "anbmc_sum": "aabc[cca]aabbc[cccca]bc[c]",
}
MEMORIZATION = "12=[21] 2122=[2212] 11121=[12111]"


def streams_of(name, text):
    """The streams of a task for a text of its sources."""
    task = make_task(name)
    if name == "memorization":
        parts = text.split()
        sources = [part.index("=") + 1 for part in parts]
    else:
        parts = re.findall(r"a+[^a]+", text)
        trigger = "c" if name == "anbmc_sum" else "b"
        sources = [part.index(trigger) + 1 for part in parts]
    symbols = np.zeros((len(parts), max(map(len, parts))), dtype=np.int64)
    for row, part in enumerate(parts):
        symbols[row, : len(part)] = task.encode(part).numpy()
    drawn = Sequences(symbols, np.array([len(p) for p in parts]), np.array(sources))
    return lay_out(drawn, task.source, len(parts), "all")


def brackets(text):
    """Which characters are in brackets."""
    marks, inside = [], False
    for character in text:
        if character in "[]":
            inside = character == "["
        elif character != " ":
            marks.append(inside)
    return marks


@pytest.mark.parametrize(("name", "text"), [*TABLE_1.items(), ("memorization", MEMORIZATION)])
def test_judged_symbols_are_bold_in_table_1(name, text):
    streams = streams_of(name, re.sub(r"[\[\]]", "", text))
    assert (streams.judged[0] >= 0).tolist() == brackets(text)


def test_correct_sequences_by_hand():
    """aab[ba]aab.. : an incorrect symbol affects only the sequence that it is judged for."""
    streams = streams_of("anbn", "aabbaaabbbabaaaabbbb")
    targets, judged = streams.batch.targets, streams.judged
    assert judged[0].tolist() == [
        *(-1, -1, -1, 0),  # a a b b
        *(0, -1, -1, -1, 1, 1),  # a a a b b b: its first a closes sequence 0
        *(1, -1),  # a b
        *(2, -1, -1, -1, -1, 3, 3, 3),  # a a a a b b b b
    ]
    assert streams.scored == 3

    def are_correct(*wrong):
        predicted = targets.clone()
        predicted[0, list(wrong)] = 1 - predicted[0, list(wrong)]
        return correct_sequences(predicted, targets, judged, streams.scored)[0].tolist()

    assert are_correct() == [True, True, True]
    assert are_correct(0, 1, 2, 5, 6, 7, 11) == [True, True, True]  # not determined, so not judged
    assert are_correct(3) == [False, True, True]
    assert are_correct(4) == [False, True, True]  # the first a of the next one
    assert are_correct(8) == [True, False, True]
    assert are_correct(10, 12) == [True, False, False]
    assert are_correct(17, 19) == [True, True, True]  # the last one is not scored


def test_memorization_is_not_judged_by_the_next_sequence():
    streams = streams_of("memorization", "12=21 2122=2212")
    predicted = streams.batch.targets.clone()
    predicted[0, 5] = 0
    are_correct = correct_sequences(predicted, streams.batch.targets, streams.judged, 1)
    assert are_correct.tolist() == [[True]]
    predicted[0, 4] = 2
    are_correct = correct_sequences(predicted, streams.batch.targets, streams.judged, 1)
    assert are_correct.tolist() == [[False]]


def test_percent_of_lengths_by_hand():
    scores = [LengthScore(2, 199, 199), LengthScore(3, 198, 199), LengthScore(4, 0, 199)]
    assert percent_of_lengths(scores) == pytest.approx(100 / 3)
    assert percent_of_lengths(scores, share=0.99) == pytest.approx(200 / 3)
    assert scores[1].accuracy == 198 / 199
    sixty = [LengthScore(n, int(n < 17), 1) for n in range(2, 62)]
    assert percent_of_lengths(sixty) == 25.0  # 15 of 60: the RNN's figure on a^n b^n
    with pytest.raises(ConfigError, match="share: expected a number above 0"):
        percent_of_lengths(scores, share=0)
    with pytest.raises(ConfigError, match="at least one length"):
        percent_of_lengths([])


def test_shapes_must_agree():
    tokens = torch.zeros(2, 3, dtype=torch.int64)
    with pytest.raises(ShapeError, match=r"one shape \[B, T\]"):
        correct_sequences(tokens, tokens[:, :2], tokens, 1)


class Counter(torch.nn.Module):
    """Knows a^n b^n up to a limit; its state is (a's not yet matched, whether b's have begun)."""

    def __init__(self, limit):
        super().__init__()
        self.limit, self.calls = limit, 0

    def forward(self, inputs, state=None, lengths=None):
        self.calls += 1
        states = state or [0] * len(inputs)
        logits = torch.zeros(*inputs.shape, 2)
        for b, row in enumerate(inputs.tolist()):
            steps = len(row) if lengths is None else int(lengths[b])
            for t, token in enumerate(row[:steps]):
                if token == 0:
                    states[b] = min(states[b] + 1, self.limit)
                else:
                    states[b] = max(states[b] - 1, 0)
                logits[b, t, int(token == 1 and states[b] > 0)] = 1
        return logits, states


@pytest.mark.parametrize("chunk_steps", [7, 1000])
@pytest.mark.parametrize("carry_state", [False, True])
def test_each_length_has_a_score(chunk_steps, carry_state):
    task = make_task("anbn", sequences=4)
    scores = score_lengths(
        Counter(6),
        task,
        LengthRange(2, 9),
        seed=0,
        streams=3,
        carry_state=carry_state,
        chunk_steps=chunk_steps,
    )
    assert [score.n for score in scores] == list(range(2, 10))
    # All streams of one n are the same for a^n b^n: one is scored.
    count = 9 if carry_state else 3
    assert [score.correct for score in scores] == [count] * 5 + [0] * 3
    assert {score.count for score in scores} == {count}
    assert percent_of_lengths(scores) == 62.5


class Listener(torch.nn.Module):
    """Records its inputs, and returns their number as its state."""

    def __init__(self, vocabulary):
        super().__init__()
        self.shown, self.vocabulary = [], vocabulary

    def forward(self, inputs, state=None, lengths=None):
        lengths = torch.full((len(inputs),), inputs.shape[1]) if lengths is None else lengths
        rows = [row[:length] for row, length in zip(inputs, lengths, strict=True)]
        if state is None:
            self.shown = [[] for _ in inputs]
        for shown, row in zip(self.shown, rows, strict=True):
            shown += row.tolist()
        return torch.zeros(*inputs.shape, self.vocabulary), torch.ones(1)


@pytest.mark.parametrize("name", ["memorization", "binary_addition", "anbmc_sum"])
@pytest.mark.parametrize("streams", [1, 3])
def test_a_carried_stream_is_one_stream_to_the_model(name, streams):
    """Its first input for each n is its own last symbol, not the alphabet's last letter."""
    task, lengths = make_task(name, sequences=3), LengthRange(2, 6)
    model = Listener(len(task.input_vocabulary))
    score_lengths(model, task, lengths, seed=3, streams=streams, carry_state=True, chunk_steps=5)
    parts = [task.batch(3, "test", 0, streams, LengthRange(n, n)) for n in lengths]
    for row in range(streams):
        own = [part.targets[row, : part.lengths[row]].tolist() for part in parts]
        full = [symbol for part in own for symbol in part]
        assert model.shown[row] == [len(task.input_vocabulary) - 1, *full[:-1]]


class Stumbler(Counter):
    """Like `Counter`, but with an empty memory it treats the first b as the last one."""

    def forward(self, inputs, state=None, lengths=None):
        logits, states = super().forward(inputs, state, lengths)
        if state is None:  # a stream starts with the end of an unscored sequence
            is_first = (inputs == 1) & ((inputs == 1).cumsum(dim=1) == 2)
            logits[is_first] = torch.tensor([1.0, 0.0])
        return logits, states


@pytest.mark.parametrize(
    ("limit", "carry_state", "first"),
    [(99, False, [1, 1, 1]), (99, True, [1, 0, 0]), (3, False, [1] * 3)],
)
def test_a_note_reports_errors_only_after_an_empty_memory(limit, carry_state, first):
    scores = score_lengths(
        Stumbler(limit),
        make_task("anbn", sequences=6),
        LengthRange(3, 5),
        seed=0,
        carry_state=carry_state,
    )
    assert [score.wrong_first for score in scores] == first
    row = stream_row(LengthRange(3, 5), 1, scores)
    (note,) = Lengths().notes([row])
    assert note.endswith("; only sequences scored first after an empty memory are wrong") == (
        limit > 3
    )
    for score in row["per_n"]:  # as in older reports
        del score["wrong_first"]
    assert Lengths().notes([row]) == [note.partition(";")[0]]


def test_different_streams_are_all_scored():
    task = make_task("memorization", sequences=4)
    model = stream_model(vocabulary=3, hidden_size=4, count=1)
    scores = score_lengths(model, task, LengthRange(6, 8), seed=0, streams=5)
    assert {score.count for score in scores} == {15}


def test_any_range_up_to_a_thousand():
    task = make_task("anbn").with_sequences(3)
    scores = score_lengths(Counter(999), task, LengthRange(998, 1000), seed=0)
    assert [score.correct for score in scores] == [2, 2, 0]


def test_a_check_can_stop_the_evaluation_before_the_first_call():
    def stop():
        raise KeyboardInterrupt

    model = Counter(5)
    with pytest.raises(KeyboardInterrupt):
        score_lengths(model, make_task("anbn"), LengthRange(2, 3), seed=0, check=stop)
    assert model.calls == 0


class Forgetful(Counter):
    """Solves a^n b^n, but loses count in a run of many short sequences."""

    def __init__(self, patience):
        super().__init__(99)
        self.patience = patience

    def forward(self, inputs, state=None, lengths=None):
        runs = [0] * len(inputs) if state is None else state[1]
        logits, states = super().forward(inputs, None if state is None else state[0], lengths)
        for b, row in enumerate(inputs.tolist()):
            ends = [t for t in range(1, len(row)) if row[t] == 0 and row[t - 1] == 1]
            begun = 0
            for end in ends:
                runs[b] = runs[b] + 1 if end - begun <= 6 else 0
                begun = end
                if runs[b] > self.patience:
                    logits[b, end:] = -logits[b, end:]
        return logits, (states, runs)


@pytest.mark.parametrize(("patience", "solved"), [(12, False), (1000, True)])
def test_validation_has_runs_of_short_sequences_like_the_test(patience, solved):
    """Validation used to accept models that fail at n = 2 and 3, training lengths."""
    task, lengths = make_task("anbn"), LengthRange(2, 19)
    model = Forgetful(patience)
    evaluator = evaluator_of(model, task, lengths, lengths, 1000, 32)
    mixed = task.with_sequences(33).judged(1, "validation", 0, 32, lengths)
    assert score_streams(model, mixed).exact_match == 1.0  # the old validation
    few, all_of_them = (Lengths().assess(evaluator, lengths, 0, count) for count in (10, 1000))
    assert (all_of_them.exact_match == 1.0) is solved
    assert few.count > 10
    assert all_of_them.count > 1024
    short = score_lengths(
        model, task.with_sequences(200), LengthRange(2, 3), seed=1, carry_state=True
    )
    assert all(score.correct == score.count for score in short) is solved


def test_parallel_streams_are_scored_like_single_ones():
    task = make_task("memorization", sequences=4)
    model = stream_model(vocabulary=3, hidden_size=4, count=1)
    parts = [task.judged(0, "test", 0, 3, LengthRange(n, n)) for n in (2, 9, 4)]
    both = score_streams(model, *parts, chunk_steps=7)
    scores = [score_streams(model, part, chunk_steps=7) for part in parts]
    assert both.count == sum(score.count for score in scores)
    assert both.correct == sum(score.correct for score in scores)
    symbols = [int(((part.judged >= 0) & (part.judged < 3)).sum()) for part in parts]
    nats = sum(score.nats * count for score, count in zip(scores, symbols, strict=True))
    assert both.nats == pytest.approx(nats / sum(symbols))


def test_progress_has_the_share_that_is_done():
    task = make_task("anbn", sequences=3, train_lengths="2:4", test_lengths="2:4")
    ranges = (LengthRange(2, 4), LengthRange(6, 6))
    evaluator = evaluator_of(Counter(9), task, ranges[0], ranges[0], 4)
    seen = []
    evaluation_plan = EvaluationPlan(
        "test", 1, ranges, 5, looking=lambda what, share: seen.append((what, share))
    )
    assert len(Lengths().rows(evaluator, evaluation_plan)) == 2
    first, second = "5 sequences of length 2:4", "5 sequences of length 6:6"
    assert [what for what, _ in seen] == [first] * 4 + [second] * 2 + [""]
    # Ranges and n are weighted by their lengths: 4 and 6, and 2, 3 and 4 of 9.
    shares = [0, 0, 2 / 9 * 0.4, 5 / 9 * 0.4, 0.4, 0.4, 1]
    assert [share for _, share in seen] == pytest.approx(shares)
