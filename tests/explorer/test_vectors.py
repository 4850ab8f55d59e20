"""The reference numbers of the page equal Python's, for every memory and controller."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tests.explorer import vectors
from unbounded.explorer.model_data import CONTROLLERS, model_data, model_tensors
from unbounded.explorer.weights import unpacked_weights
from unbounded.memories.as_data import BASELINES, KINDS, memory_data

MEMORIES: list[dict[str, Any]] = json.loads((vectors.FOLDER / "memories.json").read_text())
MODELS: list[dict[str, Any]] = json.loads((vectors.FOLDER / "models.json").read_text())

TASKS: list[dict[str, Any]] = json.loads((vectors.FOLDER / "tasks.json").read_text())


@pytest.mark.parametrize("case", MEMORIES, ids=lambda case: case["name"])
def test_memories(case: dict[str, Any]) -> None:
    assert case["part"] == vectors.MEMORIES[case["name"]]
    memory = vectors.memory_of(case["part"])
    assert case["memory"] == memory_data(memory)
    # A nested list does not show an axis of no rows.
    initial = {
        name: np.reshape(numbers, case["shapes"][name]) for name, numbers in case["initial"].items()
    }
    results = vectors.memory_results(memory, initial, case["instructions"])
    np.testing.assert_allclose(case["read_vectors"], results["read_vectors"], rtol=1e-9, atol=1e-12)
    for name, numbers in results["last"].items():
        np.testing.assert_allclose(case["last"][name], numbers, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("seed", "case"), list(enumerate(MODELS)), ids=[case["name"] for case in MODELS]
)
def test_models(seed: int, case: dict[str, Any]) -> None:
    assert case["options"] == vectors.MODELS[case["name"]]
    model = vectors.model_of(case["options"], seed)
    assert case["model"] == model_data(model)
    # Drawn again by torch's generator, whose numbers are the same on all platforms.
    stored = unpacked_weights(case["weights"])
    for name, tensor in model_tensors(model).items():
        np.testing.assert_allclose(stored[name], tensor.numpy(), rtol=1e-9, atol=1e-12)
    logits = vectors.model_logits(model, case["tokens"])
    np.testing.assert_allclose(case["logits"], logits, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("case", TASKS, ids=lambda case: case["name"])
def test_tasks(case: dict[str, Any]) -> None:
    """The data of a page is unchanged; after an intended change write the vectors again."""
    again = json.loads(json.dumps(vectors.task_case(case["name"], *vectors.TASKS[case["name"]])))
    assert case["predicted"] == again["predicted"]
    assert case["run"]["task"] == again["run"]["task"]
    assert case["run"]["samples"] == again["run"]["samples"]
    assert case["run"]["model"] == again["run"]["model"]


def test_traces() -> None:
    stored = json.loads((vectors.FOLDER / "traces.json").read_text())
    again = json.loads(json.dumps(vectors.traced_case()))
    assert stored["task"] == again["task"]
    assert stored["model"] == again["model"]
    for name in ("symbols", "predicted", "target", "format", "version"):
        assert [each[name] for each in stored["traces"]] == [each[name] for each in again["traces"]]


def test_baselines() -> None:
    stored = json.loads((vectors.FOLDER / "baselines.json").read_text())
    assert list(stored) == list(vectors.BASELINES)
    for name, run in stored.items():
        again = json.loads(json.dumps(vectors.baseline_case(vectors.BASELINES[name])))
        for part in ("task", "model", "note", "samples"):
            assert run[part] == again[part]
        for part in ("symbols", "predicted", "target", "memory"):
            assert [each[part] for each in run["traces"]] == [e[part] for e in again["traces"]]


def test_vectors_cover_every_memory_controller_layout_and_input() -> None:
    assert {case["memory"]["kind"] for case in MEMORIES} == set(KINDS | BASELINES)
    controllers = {case["model"]["controller"]["kind"] for case in MODELS}
    assert controllers == {*CONTROLLERS.values(), "deep_lstm"}
    layouts = {case["run"]["task"]["layout"] for case in TASKS}
    assert layouts == {"pairs", "answer", "stream", "labels"}
    assert {case["model"]["input"] for case in MODELS} == {"embedding", "one_hot", "bits"}
