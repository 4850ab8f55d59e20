"""Figures of keys, gates and answers, and the animation of keys."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from PIL import Image

import unbounded as ub
from unbounded.errors import CheckpointError, ConfigError
from unbounded.evaluation import Answer
from unbounded.evaluation.answers import answers_from_json, answers_json
from unbounded.figures import draw_answers, draw_key_course, draw_keys, read_keys
from unbounded.figures.keys import key_bounds


def trace_of(numbers: int) -> ub.Trace:
    """A copied string of two symbols: written along a line, then read from its start."""
    strength = torch.tensor([[0.5, 1.0, 1.0, 0.0, 0.0, 0.0]])
    line = torch.arange(6.0).view(1, 6, 1).expand(1, 6, numbers)
    arrays = {
        "read_key": line - 3,
        "write_key": line,
        "strengths": strength.unsqueeze(-1).expand(1, 6, 6),
        "instruction.strength": strength,
        "instruction.read_key_gate": torch.full((1, 6), 0.25),
    }
    symbols = [["<s>", "s1", "s2", "|||", "|||", "|||"]]
    return ub.Trace("LieAccessMemory", arrays, torch.tensor([6]), symbols)


def test_several_heads_have_a_path_and_gates_each(tmp_path: Path):
    trace = trace_of(2)
    line = trace.arrays["write_key"]
    trace.arrays["read_key"] = torch.stack([line - 3, line - 2, line + 40], dim=2)
    trace.arrays["write_key"] = torch.stack([line, -line], dim=2)
    strength = trace.arrays["instruction.strength"]
    trace.arrays["instruction.strength"] = torch.stack([0 * strength, strength], dim=2)
    trace.arrays["instruction.read_key_gate"] = torch.full((1, 6, 3), 0.25)
    keys = read_keys(trace)
    assert (keys.read.shape, keys.write.shape, keys.answers) == ((6, 3, 2), (6, 2, 2), 3)
    left, right, _, _ = key_bounds([keys])
    assert left < -5
    assert right > 45
    (svg,) = draw_keys(trace, tmp_path)
    text = svg.read_text()
    for words in ("written, head 2", "read while answering, head 3", "read key, head 3"):
        assert words in text
    assert "head 4" not in text


@pytest.mark.parametrize("numbers", [1, 2, 3])
def test_keys_are_read_and_drawn(numbers: int, tmp_path: Path):
    trace = read_keys(trace_of(numbers))
    assert trace.answers == 3
    assert set(trace.gates) == {"strength", "read_key_gate"}
    assert trace.write.shape == (6, 1, numbers)
    (svg,) = draw_keys(trace_of(numbers), tmp_path / "out", title="a $ word")
    text = svg.read_text()
    for word in ("written", "read while answering", "read before", "strength", "read key", "s2"):
        assert word in text
    assert "write action" not in text


def test_a_long_title_is_cut_at_a_word(tmp_path: Path):
    title = " ".join(f"s{number}" for number in range(64))
    (svg,) = draw_keys(trace_of(2), tmp_path / "out", title=title)
    assert "s0 s1 s2" in svg.read_text()
    assert "s20 …" in svg.read_text()
    assert "s63" not in svg.read_text()


def test_all_frames_have_the_same_axes(tmp_path: Path):
    trace = read_keys(trace_of(2))
    far = type(trace)(trace.symbols, trace.read - 10, trace.write, trace.gates, trace.answers)
    left, right, bottom, top = key_bounds([trace, far])
    assert left == bottom < -13
    assert right == top > 5
    path = draw_key_course({200: trace, 100: far}, tmp_path / "new" / "course.gif", frame_ms=50)
    with Image.open(path) as animation:
        assert animation.n_frames == 2
    with pytest.raises(ConfigError, match=r"path: expected a name that ends in \.gif"):
        draw_key_course({1: trace}, tmp_path / "course.mp4")


def test_other_traces_are_refused(figure1a_trace: ub.Trace, tmp_path: Path):
    with pytest.raises(ConfigError, match="expected keys, got a trace of NeuralStack"):
        draw_keys(figure1a_trace, tmp_path)
    with pytest.raises(ConfigError, match="example: expected 0 to 0, got 1"):
        read_keys(trace_of(2), 1)


def test_answers_are_drawn_with_their_errors(tmp_path: Path):
    right = Answer(("a",), tuple("abc") * 20, tuple("abc") * 20)
    wrong = Answer(("a", "b"), ("s1", "s2", "</s>"), ("s1", "s1", "s3"))
    assert (right.first_error, wrong.first_error) == (None, 1)
    (svg,) = draw_answers([right, wrong], tmp_path, title="a run")
    text = svg.read_text()
    assert "60 symbols, 0 wrong" in text
    assert "3 symbols, 2 wrong, the first at 2" in text
    with pytest.raises(ConfigError, match="answers: there is nothing to draw"):
        draw_answers([], tmp_path)


def test_answers_survive_a_file():
    answer = Answer(("a", "b"), ("s1", "</s>"), ("s1", "s3"))
    data = json.loads(json.dumps(answers_json({"2:4": [answer]})))
    assert answers_from_json(data) == [answer]
    assert data["examples"][0]["lengths"] == "2:4"
    broken = {**data, "examples": [{**data["examples"][0], "predicted": ["s1"]}]}
    for bad in ({}, None, [], {**data, "version": 1}, broken, {**data, "examples": [3]}):
        with pytest.raises(CheckpointError, match="the file does not hold the answers of a run"):
            answers_from_json(bad)
