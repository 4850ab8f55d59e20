from __future__ import annotations

import pytest

from unbounded.errors import ConfigError
from unbounded.figures import draw_lengths


def falling(start, stop=60):
    return {n: 1.0 if n < start else 0.0 for n in range(2, stop)}


def test_a_line_a_model_and_a_band_over_restarts(tmp_path):
    groups = {"Stack RNN": [falling(20), falling(40), falling(60)], "LSTM": [falling(15)]}
    paths = draw_lengths(groups, tmp_path, trained_to=19, title="Counting")
    assert [path.name for path in paths] == ["lengths.svg"]
    text = paths[0].read_text()
    for label in ("Counting", "Stack RNN (median and range of 3 runs)", "LSTM", "longest of train"):
        assert f">{label}" in text
    again = draw_lengths(groups, tmp_path / "again", trained_to=19, title="Counting")
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in paths]
    assert "longest" not in draw_lengths(groups, tmp_path / "unmarked")[0].read_text()


def test_restarts_may_have_been_scored_at_different_lengths(tmp_path):
    paths = draw_lengths({"a": [{2: 1.0, 3: 0.5}, {3: 1.0, 100: 0.0}, {}]}, tmp_path)
    assert "median and range of 2 runs" in paths[0].read_text()
    assert "median" not in draw_lengths({"a": [{2: 1.0}], "b": []}, tmp_path)[0].read_text()


def test_bad_input(tmp_path):
    with pytest.raises(ConfigError, match="no run has an accuracy"):
        draw_lengths({"a": [{}]}, tmp_path)
    with pytest.raises(ConfigError, match=r"a: expected accuracies in 0\.\.1, got 95 at n = 3"):
        draw_lengths({"a": [{2: 1.0, 3: 95}]}, tmp_path)
    with pytest.raises(ConfigError, match=r"a: expected finite numbers, got inf at n = 3"):
        draw_lengths({"a": [{2: 1.0, 3: float("inf")}]}, tmp_path, shares=False)


def test_numbers_that_are_no_shares(tmp_path):
    (path,) = draw_lengths({"a": [{2: -0.01, 3: 2.5}]}, tmp_path, what="nats", shares=False)
    assert ">2.5<" in path.read_text()
