"""Restarts: every seed reported, the best by validation and never by test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.experiments.tiny import tiny
from tests.experiments.tiny_streams import tiny_streams
from unbounded.errors import ConfigError, RunExistsError, UnboundedError
from unbounded.evaluation.provenance import kernels
from unbounded.experiments.config.identity import run_name
from unbounded.experiments.config.schema import RunConfig, to_dict
from unbounded.experiments.run.run import RunResult, train_run
from unbounded.experiments.tables.measures import measures
from unbounded.experiments.trials.restarts import report_restarts, seeds_of, train_restarts
from unbounded.kernels import has_tiles
from unbounded.tasks import LengthRange


def made_up(config: RunConfig, percent: float, nats: float) -> dict[str, Any]:
    row = {"lengths": "2:6", "role": "test", "percent_of_lengths": percent}
    longer = {**row, "lengths": "7:9", "role": "longer", "percent_of_lengths": 0.0}
    return {
        "config": to_dict(config),
        "metric_set": "lengths",
        "rows": [row, longer],
        "selection_metric": nats,
        "success": percent == 100,
        "batches": 4,
        "minutes": 0.5,
        "stopped": "budget",
    }


def test_the_best_is_chosen_by_validation(tmp_path: Path) -> None:
    configs = seeds_of(tiny_streams(), 3)
    assert [config.seed for config in configs] == [3, 4, 5]
    reports = [
        made_up(config, percent, nats)
        for config, percent, nats in zip(configs, (100.0, 40.0, 80.0), (0.3, 0.1, 0.2), strict=True)
    ]
    result = report_restarts(configs, reports, tmp_path)
    # It is the worst on the test split, but validation selects it.
    assert result.data["best"] == run_name(configs[1])
    assert [each["percent"] for each in result.data["restarts"]] == [100.0, 40.0, 80.0]
    assert result.data["median"] == {"percent": 80.0}
    assert (result.data["least"], result.data["greatest"]) == (
        {"percent": 40.0},
        {"percent": 100.0},
    )
    assert result.data["successes"] == 1
    assert "percent: median 80.0, from 40.0 to 100.0; every length mastered: 1 of 3" in result.text
    assert "4 (best)" in result.text
    assert "by validation nats per determined symbol" in result.text
    saved = json.loads((result.folder / "restarts.json").read_text())
    assert saved["restarts"] == result.data["restarts"]
    assert (result.folder / "restarts.md").read_text() == result.text + "\n"
    assert measures(reports[0]).longer == {"7:9": (0.0,)}


def test_the_table_of_restarts_has_the_matmul_precision(tmp_path: Path) -> None:
    configs = seeds_of(tiny_streams(), 2)
    for config in configs:
        config.hardware.matmul_precision = "medium"
    reports = [made_up(config, 80.0, 0.1) for config in configs]
    result = report_restarts(configs, reports, tmp_path)
    used = ", products of medium precision" if has_tiles() else ""
    assert result.data["hardware"]["kernels"] == f"{kernels()}{used}"


def test_restarts_of_other_seeds_have_a_separate_table(tmp_path: Path) -> None:
    tables = {}
    for seed in (1, 7):
        config = tiny_streams()
        config.seed = seed
        configs = seeds_of(config, 2)
        reports = [made_up(own, 40.0, 0.1) for own in configs]
        tables[seed] = report_restarts(configs, reports, tmp_path).folder
    name = run_name(seeds_of(tiny_streams(), 1)[0]).removesuffix("-seed3")
    assert tables == {1: tmp_path / f"{name}-restarts", 7: tmp_path / f"{name}-seed7-restarts"}
    for seed, folder in tables.items():
        saved = json.loads((folder / "restarts.json").read_text())
        assert [each["seed"] for each in saved["restarts"]] == [seed, seed + 1]


def test_the_table_has_hardened_numbers_and_they_select_the_best(tmp_path: Path) -> None:
    configs = seeds_of(tiny_streams(), 2)
    reports = [made_up(configs[0], 40.0, 0.1), made_up(configs[1], 20.0, 0.2)]
    reports[0]["hardened"] = made_up(configs[0], 60.0, 0.04)
    reports[1]["hardened"] = made_up(configs[1], 100.0, 0.03)
    result = report_restarts(configs, reports, tmp_path)
    assert result.data["best"] == run_name(configs[1])
    assert result.data["restarts"][1]["percent"] == 20.0
    assert result.data["restarts"][1]["hardened"]["percent"] == 100.0
    assert result.data["hardened"]["greatest"] == {"percent": 100.0}
    assert (result.data["successes"], result.data["hardened"]["successes"]) == (0, 1)
    head, _, first, second = result.text.splitlines()[2:6]
    assert [cell.strip() for cell in head.split("|")[3:6]] == [
        "percent",
        "percent, hardened",
        "batches",
    ]
    assert [cell.strip() for cell in first.split("|")[3:6]] == ["40.0", "60.0", "8"]
    assert "4 (best) | 0.03" in second
    assert "percent: median 30.0, from 20.0 to 40.0; every length mastered: 0 of 2" in result.text
    assert "percent, hardened: median 80.0, from 60.0 to 100.0" in result.text
    assert "every length mastered, hardened: 1 of 2" in result.text


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_restarts_are_trained_and_resumed(tmp_path: Path, jobs: int) -> None:
    config = tiny_streams(batches=1)
    result = train_restarts(config, 2, root=tmp_path, jobs=jobs, quiet=True)
    assert result is not None
    names = {path.name for path in tmp_path.iterdir() if (path / "report.json").exists()}
    assert names == {each["run"] for each in result.data["restarts"]}
    with pytest.raises(RunExistsError):
        train_restarts(config, 2, root=tmp_path, jobs=jobs, quiet=True)
    again = train_restarts(config, 2, root=tmp_path, jobs=jobs, quiet=True, resume=True)
    assert again is not None
    assert again.data["restarts"] == result.data["restarts"]
    for name in names:
        (tmp_path / name / "mark").touch()
    retrained = train_restarts(config, 2, root=tmp_path, jobs=jobs, quiet=True, overwrite=True)
    assert retrained is not None
    assert not list(tmp_path.glob("*/mark"))
    assert not list(tmp_path.glob(".replaced-*"))


def test_restarts_end_with_the_first_that_solves_the_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = []

    def stopped(config: RunConfig, **_: Any) -> RunResult:
        trained.append(config.seed)
        end = "solved: 20 validation sequences" if config.seed == 4 else "budget"
        report = {**made_up(config, 100.0, 0.1), "stopped": end}
        return RunResult(tmp_path, report, fresh=True)

    monkeypatch.setattr("unbounded.experiments.trials.restarts.train_run", stopped)
    result = train_restarts(tiny_streams(), 4, root=tmp_path, until_solved=True)
    assert result is not None
    assert trained == [each["seed"] for each in result.data["restarts"]] == [3, 4]
    trained.clear()
    train_restarts(tiny_streams(), 3, root=tmp_path)
    assert trained == [3, 4, 5]
    with pytest.raises(ConfigError, match="until_solved: concurrent restarts cannot end early"):
        train_restarts(tiny_streams(), 2, root=tmp_path, until_solved=True, jobs=2)


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_resume_starts_missing_restarts(
    tmp_path: Path, jobs: int, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tiny_streams(batches=1)
    options: dict[str, Any] = {"root": tmp_path, "jobs": jobs, "quiet": True, "resume": True}
    # One of them exists under the name that a killed overwrite left.
    second = tmp_path / run_name(seeds_of(config, 2)[1])
    train_run(seeds_of(config, 2)[1], root=tmp_path, quiet=True)
    second.rename(tmp_path / f".replaced-{second.name}")
    result = train_restarts(config, 2, **options)
    assert result is not None
    assert [each["seed"] for each in result.data["restarts"]] == [3, 4]
    first = tmp_path / run_name(seeds_of(config, 2)[0])
    assert f"there is no run to resume: starting {first}" in capsys.readouterr().err


def test_restarts_on_a_transduction_task(tmp_path: Path) -> None:
    config = tiny(batches=2, accuracy_every=0, report_every=1)
    result = train_restarts(config, 2, root=tmp_path, quiet=True)
    assert result is not None
    assert result.data["chosen_by"] == "training perplexity"
    assert set(result.data["median"]) == {
        "train_exact_match",
        "train_prefix_accuracy",
        "test_exact_match",
        "test_prefix_accuracy",
    }


@pytest.mark.parametrize("lengths", [["5:6"], ["01:3"], ["1 : 3", "4:6"], ["4:6"]])
def test_restarts_scored_at_any_lengths_are_compared(tmp_path: Path, lengths: list[str]) -> None:
    """Once training ended with KeyError '1:3', because ranges were compared as text."""
    config = tiny(batches=2, accuracy_every=0, report_every=1)
    config.evaluation["lengths"] = lengths
    result = train_restarts(config, 2, root=tmp_path, quiet=True)
    assert result is not None
    scored = {str(LengthRange.parse(text)) for text in lengths}
    median = result.data["median"]
    assert (median["train_exact_match"] is not None) is ("1:3" in scored)
    assert (median["test_exact_match"] is not None) is ("4:6" in scored)


def test_a_restart_that_fails_is_named(tmp_path: Path) -> None:
    config = tiny_streams(batches=1)
    bad = tmp_path / run_name(config)
    bad.mkdir()
    (bad / "config.yaml").write_text("just: a note")
    # A finished one leaves a single process.
    train_run(seeds_of(config, 2)[1], root=tmp_path, quiet=True)
    with pytest.raises(UnboundedError, match=r"seed3 failed; see .*seed3\.log"):
        train_restarts(config, 2, root=tmp_path, jobs=2, quiet=True, resume=True)


def test_no_restarts_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="restarts: expected at least 1, got 0"):
        train_restarts(tiny_streams(), 0, root=tmp_path)


def test_without_a_selection_metric_no_restart_is_the_best(tmp_path: Path) -> None:
    """Once a budget below report_every made all perplexities infinite; the first was the best."""
    config = tiny(batches=4, report_every=10, stop={"every": 4}, accuracy_every=4)
    result = train_restarts(config, 2, root=tmp_path, quiet=True)
    assert result is not None
    assert result.data["best"] is None
    assert "the best by training perplexity: none: no restart has a value" in result.text
    assert "(best)" not in result.text
    assert "inf" not in result.text
