"""A metric against an axis, with intervals over seeds."""

from __future__ import annotations

from pathlib import Path

import pytest
from scipy import stats

from unbounded.errors import ConfigError
from unbounded.figures.sweep import draw_sweep, interval_of


def test_the_interval_of_a_mean_is_students() -> None:
    values = [1.0, 2.0, 4.0, 4.5]
    expected = stats.t.interval(0.95, 3, loc=2.875, scale=stats.sem(values))
    own = interval_of(values)
    assert (own.middle, own.low, own.high) == pytest.approx((2.875, *expected))


def test_one_seed_has_no_interval() -> None:
    own = interval_of([0.3])
    assert (own.low, own.middle, own.high) == (0.3, 0.3, 0.3)


def test_a_share_has_wilsons_interval() -> None:
    own = interval_of([1.0] * 9 + [0.0], is_share=True)
    result = stats.binomtest(9, 10).proportion_ci(method="wilson")
    assert (own.middle, own.low, own.high) == pytest.approx((0.9, result.low, result.high))


def test_an_interval_is_clipped_to_its_bounds() -> None:
    own = interval_of([1.0, 1.0, 0.1], bounds=(0.0, 1.0))
    assert (own.low, own.high) == (0.0, 1.0)
    own = interval_of([1.0, 1.0, 0.1])
    assert own.low < 0.0
    assert own.high > 1.0


def test_figures_of_numbers_and_of_names(tmp_path: Path) -> None:
    lines = {"a $b$": {1e-4: [0.1, 0.2], 1e-2: [0.3]}, "c": {1e-3: [0.5]}}
    (path,) = draw_sweep(lines, tmp_path, "rate", axis="learning_rate", metric="loss")
    assert "learning_rate" in path.read_text()
    names = {"": {"stack": [1.0, 0.0], "queue": [1.0, 1.0], None: [0.0]}}
    (path,) = draw_sweep(names, tmp_path, "memory", axis="m", metric="success", is_share=True)
    assert "queue" in path.read_text()
    same = draw_sweep(names, tmp_path, "again", axis="m", metric="success", is_share=True)[0]
    assert same.read_text() == path.read_text()


def test_nothing_to_draw(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no finished run has loss and rate"):
        draw_sweep({}, tmp_path, "none", axis="rate", metric="loss")
