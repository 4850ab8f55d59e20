from __future__ import annotations

import json

import numpy as np
import pytest
from matplotlib.figure import Figure

import unbounded as ub
from unbounded.errors import CheckpointError, ConfigError
from unbounded.figures import Curves, draw_convergence, draw_run, read_curves
from unbounded.figures.convergence import _keep_in_view, over_runs

RECORDS = [
    {"kind": "train", "batch": 100, "perplexity": 90.5, "loss_nats_per_token": 4.5},
    {"kind": "train", "batch": 200, "perplexity": None, "loss_nats_per_token": None},
    {"kind": "validation", "batch": 200, "lengths": "65:128", "exact_match": 0.5},
    {"kind": "accuracy", "batch": 200, "lengths": "8:64", "exact_match": 1.0,
     "partial_accuracy": 1.0},
    {"kind": "accuracy", "batch": 200, "lengths": "65:128", "exact_match": 0.25,
     "partial_accuracy": 0.75},
]  # fmt: skip


def write_run(folder, records, cooldown=""):
    folder.mkdir()
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (folder / "metrics.jsonl").write_text(lines + cooldown)
    return folder


def test_curves_of_a_metrics_file(tmp_path):
    run = write_run(tmp_path / "run", RECORDS, cooldown='{"kind": "tra')
    curves = read_curves(run)
    assert curves.perplexity == {100: 90.5}
    assert curves.exact_match == {"8:64": {200: 1.0}, "65:128": {200: 0.25}}
    assert curves.partial_accuracy == {"8:64": {200: 1.0}, "65:128": {200: 0.75}}
    assert curves.batches == 200
    assert Curves.from_json(json.loads(json.dumps(curves.to_json()))) == curves


def halving(nats: list[float | None], rates: list[float]) -> list[dict]:
    """Metrics of a run whose learning rate depends on validation."""
    records: list[dict] = []
    for batch, (value, rate) in enumerate(zip(nats, rates, strict=True), start=1):
        records += [
            {"kind": "train", "batch": batch, "perplexity": 100.0 / batch, "learning_rate": rate},
            {"kind": "plateau", "batch": batch, "validation_nats_per_token": value,
             "better": True, "learning_rate": rate / 2},
        ]  # fmt: skip
    return records


def test_curves_have_validation_and_learning_rates(tmp_path):
    run = write_run(tmp_path / "run", halving([2.0, None, 1.0, 1e4], [0.1, 0.1, 0.05, 0.1]))
    curves = read_curves(run)
    assert curves.validation == pytest.approx({1: np.exp(2.0), 3: np.exp(1.0)})
    assert curves.learning_rate == {1: 0.1, 3: 0.05, 4: 0.1}
    read = Curves.from_json(json.loads(json.dumps(curves.to_json(), allow_nan=False)))
    assert read.learning_rate == curves.learning_rate
    assert read.validation == pytest.approx(curves.validation, rel=1e-5)


def test_validation_by_errors_is_no_perplexity(tmp_path):
    record = {"kind": "plateau", "batch": 1, "validation_errors": 0.5, "learning_rate": 0.1}
    assert read_curves(write_run(tmp_path / "run", [record])) == Curves()


def test_older_reports_have_no_validation():
    curves = Curves.from_json({"perplexity": [[1, 2.0]], "exact_match": {}, "partial_accuracy": {}})
    assert curves == Curves({1: 2.0})


def test_validation_is_dashed_and_empty_panels_are_not_drawn(tmp_path):
    run = write_run(tmp_path / "run", halving([40.0, 1.5, 1.0], [0.1, 0.1, 0.05]))
    (svg,) = draw_convergence({"RNN": [read_curves(run)]}, tmp_path)
    text = svg.read_text()
    assert ">perplexity<" in text
    assert ">validation<" in text
    assert "accuracy" not in text


def test_an_outlier_in_validation_leaves_the_others_in_view():
    axis = Figure().subplots()
    axis.set_yscale("log")
    _keep_in_view(axis, [Curves({1: 100.0, 2: 30.0}, validation={1: np.exp(40.0), 2: 20.0})])
    assert axis.get_ylim() == pytest.approx((18.0, 200.0))
    before = axis.get_ylim()
    _keep_in_view(axis, [Curves(validation={1: 20.0})])
    assert axis.get_ylim() == before


def test_a_missing_or_foreign_metrics_file(tmp_path):
    with pytest.raises(CheckpointError, match="holds no metrics"):
        read_curves(tmp_path)
    run = write_run(tmp_path / "run", [{"kind": "train"}])
    with pytest.raises(CheckpointError, match=r"metrics\.jsonl is not a metrics file"):
        read_curves(run)


def test_runs_of_different_length_meet_at_common_batches():
    batches, values = over_runs([{1: 0.0, 2: 0.5}, {2: 1.0, 3: 2.0}])
    assert batches.tolist() == [1, 2, 3]
    np.testing.assert_array_equal(values, [[0.0, 0.5, 0.5], [np.nan, 1.0, 2.0]])


def made_up(offset: float) -> Curves:
    points = {100 * n: min(1.0, n / 10 + offset) for n in range(1, 11)}
    return Curves(
        {batch: 129 - value * 128 for batch, value in points.items()},
        {"8:64": points, "65:128": points},
        {"8:64": points, "65:128": points},
    )


def test_groups_are_lines_with_their_number_of_runs(tmp_path):
    groups = {"Queue-LSTM": [made_up(0.0), made_up(0.1), made_up(0.3)], "LSTM": [made_up(0.0)]}
    (svg,) = draw_convergence(groups, tmp_path, title="copy")
    text = svg.read_text()
    for words in (
        "Queue-LSTM (median and range of 3 runs)",
        ">LSTM<",
        "lengths 65:128",
        "lengths 8:64",
        "training perplexity",
        "exact match",
        "partial accuracy",
        ">copy<",
    ):
        assert words in text, words


def test_nothing_measured_is_reported(tmp_path):
    with pytest.raises(ConfigError, match="nothing to draw"):
        draw_convergence({"LSTM": [Curves()]}, tmp_path)


def test_draw_run_draws_the_available_figures(tmp_path, figure1a_trace):
    run = write_run(tmp_path / "copy-queue", RECORDS)
    (run / "traces").mkdir()
    ub.save_trace(run / "traces" / "longest.safetensors", figure1a_trace)
    names = [path.relative_to(run).as_posix() for path in draw_run(run)]
    assert names == ["figures/convergence.svg", "figures/longest.svg"]
    assert draw_run(write_run(tmp_path / "empty", [])) == []
    with pytest.raises(CheckpointError, match="no run folder"):
        draw_run(tmp_path / "nowhere")
