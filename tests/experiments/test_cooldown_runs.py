"""Runs with a cooldown, or with a curriculum of growing lengths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.experiments.tiny import (
    assert_interruption_after_changes_nothing,
    assert_interruption_changes_nothing,
    tiny,
)
from tests.metrics import read_metrics
from unbounded.errors import ConfigError
from unbounded.experiments.config.check import checked
from unbounded.experiments.run.plan import plan
from unbounded.experiments.run.run import train_run
from unbounded.tasks import LengthRange
from unbounded.training import Growing
from unbounded.training.trainer import Trainer

COOLDOWN: dict[str, Any] = {"schedule": {"name": "cooldown", "batches": 15}, "checkpoint_every": 10}


def rates(folder: Path) -> list[float]:
    records = read_metrics(folder / "metrics.jsonl")
    return [record["learning_rate"] for record in records if record["kind"] == "train"]


def test_a_budget_has_room_for_the_cooldown(tmp_path: Path) -> None:
    result = train_run(tiny(**COOLDOWN, report_every=5), root=tmp_path, quiet=True)
    assert result.report["batches"] == 40
    assert result.report["stopped"] == (
        "budget: 40 batches are done; the learning rate then fell to 0 over 15 batches"
    )
    found = rates(result.folder)
    assert found[:5] == [0.01] * 5
    assert found[5:] == pytest.approx([0.01 * 2 / 3, 0.01 / 3, 0.0])


@pytest.mark.parametrize(("batches", "cooldown"), [(10, 5), (5, 2), (1, 0)])
def test_the_cooldown_takes_half_of_a_small_budget(
    tmp_path: Path, batches: int, cooldown: int
) -> None:
    config = tiny(**COOLDOWN | {"batches": batches, "checkpoint_every": 1})
    report = train_run(config, root=tmp_path, quiet=True).report
    assert report["batches"] == batches
    assert report["stopped"].endswith(f"; the learning rate then fell to 0 over {cooldown} batches")


def test_a_budget_of_symbols_has_room_for_the_cooldown(tmp_path: Path) -> None:
    symbols = train_run(tiny(batches=40), root=tmp_path, quiet=True).report["symbols"]
    config = tiny(**COOLDOWN | {"batches": 1000, "symbols": symbols, "stop": "budget"})
    report = train_run(config, root=tmp_path, quiet=True).report
    assert report["stopped"].startswith(f"budget: {symbols} symbols are read; the learning rate")
    assert 0.8 * symbols < report["symbols"] < 1.2 * symbols


def test_stalled_progress_starts_the_cooldown(tmp_path: Path) -> None:
    config = tiny(**COOLDOWN | {"batches": 400, "patience": 10, "learning_rate": 1e-9})
    config.training.stop = {"name": "budget"}
    report = train_run(config, root=tmp_path, quiet=True).report
    assert report["stopped"].startswith("stalled: training perplexity was not below the ")
    assert report["stopped"].endswith("; the learning rate then fell to 0 over 15 batches")
    assert report["batches"] < 400


def test_an_aborted_run_has_no_cooldown(tmp_path: Path) -> None:
    config = tiny(**COOLDOWN, early_abort={"name": "perplexity", "after": 20, "perplexity": 1.01})
    report = train_run(config, root=tmp_path, quiet=True).report
    assert report["stopped"].startswith("failed early: ")
    assert report["batches"] == 20


@pytest.mark.parametrize(
    "batch", [24, 25, *(pytest.param(b, marks=pytest.mark.slow) for b in (26, 33)), 39]
)
def test_a_run_interrupted_around_the_cooldown_ends_the_same(tmp_path: Path, batch: int) -> None:
    assert_interruption_after_changes_nothing(tiny(**COOLDOWN, report_every=1), tmp_path, batch)


@pytest.mark.parametrize("batch", [10, 11, pytest.param(30, marks=pytest.mark.slow)])
def test_a_run_interrupted_while_lengths_double_ends_the_same(tmp_path: Path, batch: int) -> None:
    doubling: dict[str, Any] = {"lengths": "1:7", "validation_lengths": "8:9"}
    doubling |= {"curriculum": {"name": "doubling", "below": 100.0, "first": 2}}
    full = assert_interruption_changes_nothing(
        *(tiny(**doubling, report_every=10), tmp_path, Trainer, "_train_batch"),
        lambda _, loop, state: state.batch == batch,
    )
    records = read_metrics(full / "metrics.jsonl")
    assert [each["longest"] for each in records if each["kind"] == "train"] == [2, 4, 7, 7]


@pytest.mark.parametrize(("lengths", "first"), [("1:7", 7), ("20:30", 20), ("8:20", 16)])
def test_the_curriculum_of_a_preset_works_with_custom_lengths(lengths: str, first: int) -> None:
    config = tiny(curriculum={"name": "growing", "first": 16}, lengths=lengths)
    planned = plan(config, checked(config))
    options = planned.phase_options()
    assert options.lengths == Growing(LengthRange.parse(lengths), 1, 16)
    assert options.lengths_of(0).maximum == first


def test_incompatible_options_are_errors() -> None:
    with pytest.raises(ConfigError, match=r"patience: expected a multiple of .* \(10\), got 7"):
        checked(tiny(schedule="cooldown", patience=7))
    with pytest.raises(ConfigError, match=r"schedule 'constant' has no option 'batches'"):
        checked(tiny(schedule={"batches": 3}))
    with pytest.raises(ConfigError, match="two rules would lower the rate"):
        checked(
            tiny(schedule={"name": "cooldown", "batches": 3}, plateau={"name": "halve", "every": 5})
        )
    config = tiny()
    config.hardening = {"name": "gradual", "batches": 60, "every": 15, "cool": 4}
    with pytest.raises(ConfigError, match="4 checks of 15 batches take all of 60, so nothing"):
        checked(config)
    with pytest.raises(
        ConfigError, match=r"training.length_bucketing: a doubling curriculum changes"
    ):
        checked(tiny(curriculum="doubling", length_bucketing=5))
    with pytest.raises(ConfigError, match=r"curriculum 'growing' has no option 'below'"):
        checked(tiny(curriculum={"name": "growing", "below": 0.1}))
    with pytest.raises(ConfigError, match=r"curriculum.below: expected a number above 0, got 0"):
        checked(tiny(curriculum={"name": "doubling", "below": 0.0}))
