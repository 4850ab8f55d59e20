"""Figures of heads and paths."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from PIL import Image

import unbounded as ub
from unbounded.errors import ConfigError
from unbounded.figures import draw_course, draw_lengths, draw_path, draw_tape, read_tape
from unbounded.figures.tape import seen_locations


@pytest.fixture
def tape_trace() -> ub.Trace:
    """Two strings of 4 and 3 steps; on the first the read head follows the path exactly."""
    read = torch.zeros(2, 4, 1, 9)
    for step, place in enumerate((4, 5, 4, 3)):
        read[:, step, 0, place] = 1
    arrays = {
        "read_weights": read,
        "write_weights": torch.full((2, 4, 2, 9), 1 / 9),
        "height": torch.tensor([[1.0, 2, 1, 0]] * 2),
        "chance": torch.tensor([[0.0, 0.1, 0.2, 0.9]] * 2),
    }
    symbols = [list("uudd"), list("uudd")]
    return ub.Trace("TuringTape", arrays, torch.tensor([4, 3]), symbols)


def test_a_trace_is_read_and_drawn(tape_trace: ub.Trace, tmp_path: Path):
    trace = read_tape(tape_trace)
    assert trace.symbols == ("u", "u", "d", "d")
    assert trace.heights.tolist() == [1, 2, 1, 0]
    assert trace.read_weights.shape == (4, 1, 9)
    assert len(read_tape(tape_trace, 1).symbols) == 3
    (svg,) = draw_tape(tape_trace, tmp_path / "out", "heads", title="a $ word")
    text = svg.read_text()
    assert all(word in text for word in ("probability", "height", "write 1", "write 2", "read"))


def test_only_locations_with_a_head_are_drawn(tape_trace: ub.Trace):
    trace = read_tape(tape_trace)
    assert seen_locations([trace]) == (0, 8)
    alone = type(trace)(trace.symbols, trace.read_weights, trace.read_weights, None, None)
    assert seen_locations([alone]) == (3, 5)
    nowhere = type(trace)(trace.symbols, 0 * trace.read_weights, 0 * trace.read_weights, None, None)
    assert seen_locations([nowhere]) == (0, 8)


def test_other_traces_are_refused(figure1a_trace: ub.Trace, tape_trace: ub.Trace, tmp_path: Path):
    with pytest.raises(ConfigError, match="weights of a tape, got a trace of NeuralStack"):
        draw_tape(figure1a_trace, tmp_path)
    with pytest.raises(ConfigError, match="example: expected 0 to 1, got 2"):
        read_tape(tape_trace, 2)


def test_the_course_of_training_is_an_animation(tape_trace: ub.Trace, tmp_path: Path):
    trace = read_tape(tape_trace)
    path = draw_course({200: trace, 100: trace}, tmp_path / "new" / "course.gif", frame_ms=100)
    with Image.open(path) as animation:
        assert animation.n_frames == 2
    with pytest.raises(ConfigError) as caught:
        draw_course({}, tmp_path / "course.mp4")
    assert caught.value.errors == (
        "frames: expected at least one checkpoint, got none",
        "path: expected a name that ends in .gif, got 'course.mp4'",
    )


def test_a_path_below_zero_and_its_errors(tmp_path: Path):
    (svg,) = draw_path("uddu", [1, 0, -1, 0], tmp_path, title="a word")
    assert "height" in svg.read_text()
    with pytest.raises(ConfigError, match="expected the same number of both"):
        draw_path("ud", [1], tmp_path)


def test_the_lengths_of_training_are_shaded(tmp_path: Path):
    own = [{5: 1.0, 20: 0.9}]
    (svg,) = draw_lengths({"tape": own}, tmp_path, trained_to=5, what="AUC on words", shaded=True)
    text = svg.read_text()
    assert "AUC on words" in text
    assert "longest of training" not in text
