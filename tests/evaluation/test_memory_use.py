"""The mean gates of a memory: by hand, and against the trace."""

from __future__ import annotations

import sys

import pytest
import torch

from tests.constructions import model_of
from unbounded.evaluation import memory_use, table
from unbounded.evaluation.memory_use import use_lines
from unbounded.models import mean_gates
from unbounded.models.memory_room import with_room
from unbounded.tasks import Batch, LengthRange, make_task

RANGE = LengthRange(8, 12)


def model_for(task, memory, **options):
    torch.manual_seed(4)
    return model_of(task, memory=memory, hidden_size=6, embedding_size=4, **options).eval()


def test_means_equal_those_of_the_trace_before_and_in_the_answer():
    task = make_task("copy", symbols=4)
    model, batch = model_for(task, "stack"), task.batch(1, "validation", 0, 5, RANGE)
    layer = model.sequence.layer
    with torch.no_grad():
        embedded = model.sequence.embed(batch.inputs)
        trace = layer(embedded, lengths=batch.lengths, return_trace=True)[2]
    pushes = trace.arrays["instruction.push"]
    there = torch.arange(batch.inputs.shape[1]) < batch.lengths.unsqueeze(1)
    for chunk_steps in (5, 1000):
        use = mean_gates(model, batch, chunk_steps=chunk_steps)
        assert use["scored"]["push"] == pytest.approx(float(pushes[batch.mask].mean()))
        read = pushes[there & ~batch.mask]
        assert use["unscored"]["push"] == pytest.approx(float(read.mean()))
    assert set(use["scored"]) == {"push", "pop"}


def test_a_push_that_depends_on_its_bias_alone():
    task = make_task("copy", symbols=4)
    model = model_for(task, "deque")
    heads = model.sequence.layer.layers[0].heads
    with torch.no_grad():
        heads.weight.zero_()
        heads.bias[heads.rows("top_push")] = 50.0
        heads.bias[heads.rows("bottom_pop")] = -50.0
    use = memory_use(model, task, 1, [RANGE, LengthRange(20, 20)])
    assert list(use) == ["8:12", "20:20"]
    for phases in use.values():
        for phase in ("unscored", "scored"):
            assert phases[phase]["top_push"] == pytest.approx(1)
            assert phases[phase]["bottom_pop"] == pytest.approx(0, abs=1e-12)
    lines = use_lines({"memory_use": use})
    assert lines[0].startswith("memory at 8:12, validation: reading top_push 1.00, ")
    assert "; answering top_push 1.00, " in lines[0]
    assert len(lines) == 2


def test_stacks_of_a_stream_have_a_weight_for_each_action():
    task = make_task("anbn")
    stacks = {"name": "superposition_stack", "count": 3, "capacity": 5}
    assert memory_use(model_for(task, stacks), task, 1, [LengthRange(2, 6)]) == {}  # it overflows
    model = model_for(task, {**stacks, "overflow": "drop_bottom"})
    use = memory_use(model, task, 1, [LengthRange(2, 6)])
    (phases,) = use.values()
    for heads in phases.values():
        sums = torch.tensor(heads["action"])
        assert sums.shape[0] == 3
        torch.testing.assert_close(sums.sum(dim=-1), torch.ones(3))
    assert use_lines({"memory_use": use}) == []  # nine numbers are only in the report
    every_step = {"memory_use": {"2:6": {"scored": {"push": 0.5}}}}
    assert use_lines(every_step) == ["memory at 2:6, validation: at every step push 0.50"]


def test_a_range_on_which_keys_overflow_is_left_out():
    task = make_task("answer_copy", symbols=4)
    memory = {"name": "lie_access", "group": "scaling_rotation", "step": "free"}
    memory["read_key_gate_bias"] = -50.0  # the head moves on from its key
    model = model_for(task, memory)
    with torch.no_grad():
        model.sequence.layer.layers[0].heads.bias.add_(30.0)  # keys grow thirtyfold in each step
    use = memory_use(model, task, 1, [LengthRange(1, 2), RANGE])
    assert list(use) == ["1:2"]


def test_gates_without_effect_in_the_answer_phase_are_not_in_the_mean():
    task = make_task("answer_copy", symbols=4)
    model = model_for(task, "queue", read_only_token=task.answer_token)
    use = memory_use(model, task, 1, [RANGE])
    phases = use["8:12"]
    assert "push" in phases["unscored"]
    assert "push" not in phases["scored"]
    assert "pop" in phases["scored"]


def test_a_range_without_a_validation_sequence_is_left_out(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{'a b ' * (1 + k % 5)}x{k}\ty\n" for k in range(200)))
    task = make_task("pairs", data=str(path))
    model = model_for(task, "queue")
    there = [each for each in map(one, range(1, 30)) if task.available("validation", each)]
    assert there
    assert len(there) < 29
    use = memory_use(model, task, 1, map(one, range(1, 30)))
    assert list(use) == [str(each) for each in there]


def one(length):
    return LengthRange(length, length)


def test_few_sequences_of_a_long_range_are_used(monkeypatch):
    task, asked = make_task("copy", symbols=4), []
    batch = type(task).batch

    def counted(self, seed, split, start, size, lengths=None):
        asked.append(size)
        return batch(self, seed, split, start, min(size, 2), lengths)

    monkeypatch.setattr(type(task), "batch", counted)
    memory_use(model_for(task, "queue"), task, 1, [one(5), one(400), one(1600)])
    memory_use(model_for(task, "queue"), task, 1, [one(5), one(1600)], count=8)
    assert asked == [64, 40, 10, 8, 8]


def test_a_long_stream_has_room_for_its_longest_sequence_and_is_run_alone(monkeypatch):
    task, rooms, streams = make_task("anbn"), [], []
    model = model_for(task, {"name": "superposition_stack", "count": 2, "capacity": 5})
    judged = type(task).judged

    def counted(self, seed, split, start, size, lengths=None):
        streams.append(size)
        return judged(self.with_sequences(3), seed, split, start, size, lengths)

    def room(own, symbols):
        rooms.append(symbols)
        return with_room(own, symbols)

    monkeypatch.setattr(type(task), "judged", counted)
    monkeypatch.setattr(sys.modules[memory_use.__module__], "with_room", room)
    memory_use(model, task, 1, [one(100)])
    assert streams == [1]
    assert rooms == [200]  # the longest sequence, not the stream


def test_a_model_without_a_memory_has_no_memory_use():
    task = make_task("copy", symbols=4)
    assert memory_use(model_for(task, "none"), task, 1, [RANGE]) is None


def test_steps_without_a_mask_have_no_phase():
    task = make_task("copy", symbols=4)
    inputs = torch.tensor([[1, 2, 3]])
    batch = Batch(inputs, inputs, torch.ones_like(inputs, dtype=torch.bool), torch.tensor([2]))
    assert list(mean_gates(model_for(task, "queue"), batch)) == ["scored"]


def test_a_report_without_memory_use_is_shown_without_it():
    row = {
        "lengths": "8:12",
        "role": "test",
        "count": 4,
        "exact_match": 0.5,
        "exact_match_95": [0.1, 0.9],
        "prefix_accuracy": 0.75,
        "prefix_accuracy_error": 0.1,
    }
    report = {"task": "copy", "metric_set": "sequences", "split": "test", "seed": 1, "rows": [row]}
    assert "memory" not in table(report)
    use = {"8:12": {"unscored": {"push": 0.5}}}
    text = table({**report, "memory_use": use})
    assert text.endswith("memory at 8:12, validation: reading push 0.50")
