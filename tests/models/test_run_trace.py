"""Traces of version 3: the replay of instructions equals the memory's steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import unbounded as ub
from tests.constructions import model_of
from tests.explorer.vectors import MEMORIES, memory_of
from unbounded.constructions import CONSTRUCTIONS
from unbounded.errors import CheckpointError, ChoiceError, ConfigError, StorageError
from unbounded.experiments.config import plain_yaml
from unbounded.experiments.run.examples import write_trace
from unbounded.memories.as_data import KINDS, has_name, memory_data, memory_from_data
from unbounded.memories.lie_access.groups import Group
from unbounded.memories.register import Register
from unbounded.models.memory_model import MemoryModel
from unbounded.models.run_trace import run_trace
from unbounded.rnn.deltanet import DeltaPart
from unbounded.rnn.read_only import trace_phases
from unbounded.rnn.trace import (
    RunTrace,
    load_run_trace,
    packed,
    save_run_trace,
    trace_text,
    unpacked,
)
from unbounded.rnn.transformer import SelfAttention
from unbounded.tasks import Batch, LengthRange, Task, make_task


def model_for(task: Task, **options: Any) -> MemoryModel:
    torch.manual_seed(1)
    return model_of(task, **{"hidden_size": 12, "embedding_size": 4, **options})


CASES: dict[str, Any] = plain_yaml.load("""
stack: [copy, {memory: {name: stack, width: 6}}]
queue: [anbn, {memory: {name: queue, width: 6}}]
deque: [dyck, {memory: {name: deque, width: 6}}]
superposition_stack: [memorization, {memory: {name: superposition_stack}}]
superposition_list: [anbn, {memory: {name: superposition_list, count: 3}}]
turing_tape: [dyck, {memory: {name: turing_tape, slots: 9, width: 4, shift: zero,
  variant: deleu2016, writes_first: true}}]
rolling_tape: [answer_copy, {memory: {name: rolling_tape, slots: 9, width: 4}, length_token: 1}]
dnc: [copy, {memory: {name: dnc, slots: 7, width: 4, read_heads: 2}}]
nondeterministic_stack: [copy, {memory: {name: nondeterministic_stack, states: 2, symbols: 2,
  width: 2}}]
lie_access: [answer_copy, {memory: {name: lie_access, width: 5, initial: learned},
  read_only_token: 1}]
random_access: [answer_copy, {memory: {name: unbounded.memories.RandomAccessMemory, width: 5,
  tape: true}}]
""")


def recorded(model: MemoryModel, task: Task, batch: Batch) -> ub.Trace:
    """The trace that the layer records, without a replay."""
    layer, token = model.sequence.layer, model.sequence.read_only_token
    with torch.no_grad():
        embedded = model.sequence.embed(batch.inputs)
        if token is None:
            state = model.sequence.started(batch.inputs, batch.lengths)
            hidden, _, trace = layer(embedded, state, batch.lengths, return_trace=True)
        else:
            hidden, trace = trace_phases(layer, embedded, batch.inputs == token)
        arrays = dict(trace.arrays)
        if task.objective == "binary":
            arrays["chance"] = torch.sigmoid(model.sequence.logits(hidden)[..., 0])
    if (heights := task.heights(batch.inputs)) is not None:
        arrays["height"] = heights.to(hidden.dtype)
    symbols = [[task.input_vocabulary[token] for token in batch.inputs[0].tolist()]]
    complete: ub.Trace = trace._replace(arrays=arrays, symbols=symbols)
    return complete


@pytest.mark.parametrize("kind", KINDS)
def test_the_replay_equals_the_run(kind: str, tmp_path: Path) -> None:
    name, options = CASES[kind]
    task = make_task(name)
    model = model_for(task, **options)
    batch = task.short_example(0)
    path = write_trace(model, task, batch, tmp_path / "traces" / "example")
    assert path == tmp_path / "traces" / "example.json"
    done, again = recorded(model, task, batch), ub.load_trace(path)
    assert again.memory == done.memory
    assert again.symbols == done.symbols
    assert set(again.arrays) == set(done.arrays)
    for field, array in done.arrays.items():
        torch.testing.assert_close(again.arrays[field], array, rtol=1e-4, atol=1e-5, msg=field)


BASELINES: dict[str, Any] = plain_yaml.load("""
deltanet: {name: deltanet}
without a convolution: {name: deltanet, conv_size: 0, negative_eigenvalues: true}
deltaproduct: {name: deltaproduct, householder_steps: 3, num_layers: 1}
transformer: transformer
rotary: {name: transformer, positions: rotary, num_layers: 1}
alibi with a window: {name: transformer, positions: alibi, window: 4}
relative and bidirectional: {name: transformer, positions: relative, bidirectional: true}
""")


@pytest.mark.parametrize("name", BASELINES)
def test_the_replay_of_a_baseline_equals_its_layers(name: str, tmp_path: Path) -> None:
    task = make_task("even_pairs")
    model = model_for(task, memory="none", controller=BASELINES[name], hidden_size=16)
    batch = task.batch(0, "test", 0, 1, LengthRange(9, 9))
    assert run_trace(model, task, batch) is None
    trace = run_trace(model, task, batch, detailed=True)
    assert trace is not None
    save_run_trace(tmp_path / "trace.json", trace)
    arrays = load_run_trace(tmp_path / "trace.json").steps.arrays
    parts = [m for m in model.modules() if isinstance(m, SelfAttention | DeltaPart)]
    calls: list[Any] = []
    for part in parts:
        part.register_forward_hook(lambda _, given, result: calls.append((given, result[0])))
    with torch.no_grad():
        model.sequence.hidden(batch.inputs)
        read = arrays["read_vector"].unflatten(-1, (len(parts), -1))
        for layer, part in enumerate(parts):
            own = read[:, :, layer]
            if isinstance(part, DeltaPart):
                own = part.norm(own.unflatten(-1, (part.num_heads, -1))).flatten(2)
                x, state, _ = calls[layer][0]
                for step in range(x.shape[1]):
                    state = part(x[:, step : step + 1], state, None)[1]
                    torch.testing.assert_close(arrays["matrix"][:, step, layer], state.matrix)
            torch.testing.assert_close(part.output(own), calls[layer][1], rtol=1e-4, atol=1e-5)
    if "read_weights" in arrays:
        weights = arrays["read_weights"][0]
        torch.testing.assert_close(weights.sum(dim=-1), torch.ones(weights.shape[:-1]))
        step, place = torch.meshgrid(
            torch.arange(len(weights)), torch.arange(len(weights)), indexing="ij"
        )
        seen = (place <= step) | name.endswith("bidirectional")
        if "window" in name:
            seen &= place > step - 4
        assert bool(((weights > 0) == seen[:, None, None]).all())


def test_the_distribution_is_recorded_on_request(tmp_path: Path) -> None:
    task, path = make_task("copy", symbols=4), tmp_path / "trace.json"
    model, batch = CONSTRUCTIONS["copy"](symbols=4), task.short_example(0)
    plain = run_trace(model, task, batch)
    assert plain is not None
    assert plain.distribution is None
    assert "distribution" not in trace_text(plain)
    trace = run_trace(model, task, batch, detailed=True)
    assert trace is not None
    save_run_trace(path, trace)
    distribution = load_run_trace(path).distribution
    assert distribution is not None
    assert distribution.shape == (len(trace.symbols), len(task.output_vocabulary))
    likeliest = distribution.max(dim=-1)
    torch.testing.assert_close(likeliest.values, torch.tensor(trace.probability), rtol=1e-3, atol=0)
    assert [task.output_vocabulary[k] for k in likeliest.indices.tolist()] == trace.predicted
    dyck = make_task("dyck")
    trace = run_trace(CONSTRUCTIONS["dyck"](), dyck, dyck.traced(0)["dyck_word"], detailed=True)
    assert trace is not None
    assert trace.distribution is not None
    torch.testing.assert_close(trace.distribution[:, 1], torch.tensor(trace.probability))
    many = make_task("copy", symbols=500)
    trace = run_trace(model_for(many), many, many.short_example(0), detailed=True)
    assert trace is not None
    assert trace.distribution is None


def test_predictions_and_targets() -> None:
    task = make_task("copy", symbols=4)
    model = CONSTRUCTIONS["copy"](symbols=4)
    batch = task.batch(0, "test", 0, 1, LengthRange(3, 3))
    trace = run_trace(model, task, batch)
    assert trace is not None
    source = trace.symbols[1:4]
    assert trace.symbols == ["<s>", *source, "|||", *source]
    assert trace.predicted[4:] == [*source, "</s>"]
    assert trace.target == [None] * 4 + [*source, "</s>"]
    assert trace.correct == [None] * 4 + [True] * 4
    assert min(trace.probability[4:]) > 0.99
    wrong = batch._replace(targets=torch.zeros_like(batch.targets))
    trace = run_trace(model, task, wrong)
    assert trace is not None
    assert trace.correct == [None] * 4 + [False] * 3 + [True]


def test_yes_and_no_bits_and_no_memory() -> None:
    task = make_task("dyck")
    trace = run_trace(CONSTRUCTIONS["dyck"](), task, task.traced(0)["dyck_word"])
    assert trace is not None
    assert (trace.predicted[-1], trace.target[-1], trace.correct[-1]) == ("yes", "yes", True)
    assert trace.heights is not None
    assert trace.heights[-1] == 0
    bits = make_task("ntm_copy")
    options = {"embedding_size": None, "input_bits": bits.data_bits, "memory": "queue"}
    trace = run_trace(model_for(bits, **options), bits, bits.short_example(0))
    assert trace is not None
    assert set("".join(trace.predicted)) <= {"0", "1"}
    copy = make_task("copy", symbols=4)
    assert run_trace(model_for(copy, memory="none"), copy, copy.short_example(0)) is None


def test_a_trace_of_500_steps_is_small(tmp_path: Path) -> None:
    """The paper's widths: values get shorter encodings, strengths do not."""
    task = make_task("copy")
    batch = task.batch(0, "test", 0, 1, LengthRange(249, 249))
    for kind in ("queue", "deque"):
        model = model_for(task, hidden_size=32, memory={"name": kind, "width": 256})
        path = write_trace(model, task, batch, tmp_path / kind)
        assert path is not None
        assert path.stat().st_size < 500_000
        trace, done = load_run_trace(path), recorded(model, task, batch)
        assert len(trace.symbols) == 500
        torch.testing.assert_close(trace.steps.arrays["strengths"], done.arrays["strengths"])
        for name, field in trace.instructions.items():
            worst = float((field - done.arrays[f"instruction.{name}"][0]).abs().max())
            assert worst < 5e-3, name


@pytest.mark.parametrize("part", MEMORIES.values(), ids=MEMORIES)
def test_a_memory_from_its_data(part: dict[str, Any]) -> None:
    memory = memory_of(part)
    data = json.loads(json.dumps(memory_data(memory)))
    assert memory_data(memory_from_data(data)) == data


class CustomGroup(Group):
    """A group without a name in the data."""

    name, key_size, action_size = "custom", 1, 1
    identity = origin = (0.0,)

    def act(self, action: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        return key + action


def test_a_memory_without_a_name(tmp_path: Path) -> None:
    for memory in (Register(3), ub.LieAccessMemory(group=CustomGroup())):
        assert not has_name(memory)
    with pytest.raises(ConfigError, match=r"cannot show a Register; it shows stack"):
        memory_data(Register(3))
    with pytest.raises(ConfigError, match=r"expected a group of translation, .*, got 'custom'"):
        memory_data(ub.LieAccessMemory(group=CustomGroup()))
    task = make_task("copy", symbols=4)
    model = model_for(task, memory={"name": "unbounded.memories.register.Register"})
    path = write_trace(model, task, task.short_example(0), tmp_path / "custom")
    assert path == tmp_path / "custom.safetensors"
    assert ub.load_trace(path).memory == "Register"


def test_data_of_no_memory() -> None:
    with pytest.raises(ConfigError, match=r"expected a kind of stack, .*, got 'shelf'"):
        memory_from_data({"kind": "shelf", "options": {}})
    with pytest.raises(ConfigError, match=r"memory stack: .*width"):
        memory_from_data({"kind": "stack", "options": {"width": -1}})


@pytest.mark.parametrize(("encoding", "apart"), [("float32", 0), ("float16", 1e-3), ("int8", 8e-3)])
def test_numbers_as_text(encoding: str, apart: float) -> None:
    tensor = torch.linspace(-2, 2, 12).reshape(3, 4)
    block = json.loads(json.dumps(packed(tensor, encoding)))
    torch.testing.assert_close(unpacked("x", block), tensor, rtol=0, atol=2 * apart)
    assert unpacked("none", packed(torch.zeros(0, 3), encoding)).shape == (0, 3)
    with pytest.raises(CheckpointError, match="x is not a block of numbers"):
        unpacked("x", {**block, "shape": [5]})
    with pytest.raises(ChoiceError, match="unknown encoding 'int4'"):
        packed(tensor, "int4")


ERRORS = {
    "version 2": ({"version": 2}, "expected a trace of format unbounded-trace version 3"),
    "few predictions": ({"predicted": []}, "predicted: expected 8 entries of str"),
    "no chance": ({"probability": [None] * 8}, "probability: expected 8 entries of float"),
    "heights": ({"heights": [0.5] * 8}, "heights: expected 8 integers or null"),
    "no memory": ({"memory": {"kind": "shelf"}}, "expected a kind of stack"),
    "no instructions": ({"instructions": {}}, "instructions: expected"),
    "distribution": (
        {"distribution": packed(torch.zeros(7, 5), "float16")},
        "distribution: expected (8, outputs), got (7, 5)",
    ),
    "no initial state": ({"initial": {}}, "initial: expected values, strengths"),
    "damaged": (
        {"initial": {"values": {"encoding": "float32", "shape": [1], "data": "%"}}},
        "initial.values is not a block of numbers",
    ),
}


@pytest.mark.parametrize("error", ERRORS)
def test_invalid_traces(error: str, tmp_path: Path) -> None:
    task = make_task("copy", symbols=4)
    batch = task.batch(0, "test", 0, 1, LengthRange(3, 3))
    trace = run_trace(CONSTRUCTIONS["copy"](symbols=4), task, batch)
    assert trace is not None
    change, message = ERRORS[error]
    path = tmp_path / "bad.json"
    path.write_text(json.dumps({**json.loads(trace_text(trace)), **change}))
    with pytest.raises(CheckpointError, match=r"bad\.json: ") as caught:
        load_run_trace(path)
    assert message in str(caught.value)


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"none\.json: not a readable trace"):
        load_run_trace(tmp_path / "none.json")
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(CheckpointError, match="got None version None"):
        load_run_trace(tmp_path / "list.json")
    task = make_task("copy", symbols=4)
    trace = run_trace(CONSTRUCTIONS["copy"](symbols=4), task, task.short_example(0))
    assert isinstance(trace, RunTrace)
    with pytest.raises(StorageError, match=r"writing .*trace.json failed"):
        save_run_trace(tmp_path / "none" / "trace.json", trace)


def test_a_batch_is_traced_by_its_first_example() -> None:
    task = make_task("copy", symbols=4)
    batch = task.batch(0, "test", 0, 3, LengthRange(2, 5))
    first = Batch(*(part[:1] for part in batch))
    model = CONSTRUCTIONS["copy"](symbols=4)
    traces = [run_trace(model, task, example) for example in (batch, first)]
    assert traces[0] is not None
    assert traces[1] is not None
    assert traces[0].symbols == traces[1].symbols
