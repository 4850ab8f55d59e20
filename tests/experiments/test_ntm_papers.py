"""The studies of the papers on Neural Turing Machines: cells without errors, from the presets."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tests.experiments.made_up import report_of
from unbounded.evaluation import METRIC_SETS
from unbounded.evaluation.report import outcome
from unbounded.experiments.tables.published import published
from unbounded.experiments.tables.reproduce import draw_tasks, write_table
from unbounded.experiments.tables.runs_file import RUNS, add_to_runs_file, read_runs_file
from unbounded.experiments.trials.paper_studies import load_study
from unbounded.memories import MEMORIES
from unbounded.tasks import make_task, optimal_probabilities


def test_the_laptop_study_of_dyck_words_has_the_expected_configs():
    trials = load_study("deleu2016", "laptop").trials
    tapes = [trial for trial in trials if trial.model == "ntm"]
    assert [trial.config.seed for trial in tapes] == list(range(1, 11))
    assert all(trial.config.model.memory["name"] == "turing_tape" for trial in tapes)
    growing = [trial for trial in trials if trial.model == "ntm-growing"]
    assert [trial.config.seed for trial in growing] == list(range(1, 11))
    assert {trial.config.training.curriculum["name"] for trial in growing} == {"growing"}
    assert {trial.config.model == tapes[0].config.model for trial in growing} == {True}
    moving = [trial.config for trial in trials if trial.model == "ntm-moving"]
    assert [config.seed for config in moving] == list(range(1, 11))
    assert {config.model.memory["shift_bias"] for config in moving} == {2}
    assert {config.training.batches for config in moving} == {40_000}
    sizes = {(t.config.model.hidden_size, t.config.seed) for t in trials if t.model == "lstm"}
    assert sizes == {(n, seed) for n in (2, 5, 10, 20, 50, 100, 200, 500) for seed in (1, 2, 3)}
    others = {trial.config.model.memory["name"] for trial in trials} - {"none", "turing_tape"}
    assert others == set(MEMORIES) - {
        "turing_tape",
        "rolling_tape",
        "dnc",
        "nondeterministic_stack",
        "ram",
    }
    beside = [t for t in trials if t.config.model.memory["name"] in others]
    assert all(t.config.model.controller == tapes[0].config.model.controller for t in beside)
    assert len(beside) == 3 * len(others)


def test_the_program_of_dyck_words_takes_a_million_words_one_by_one():
    trials = load_study("deleu2016", "program").trials
    assert [trial.config.seed for trial in trials] == [1, 2, 3, 4, 5] * 3
    for config in (trial.config for trial in trials):
        training = config.training
        assert (training.batch_size, training.batches) == (1, 1_000_000)
        # The mean of 500 words is compared with 1e-4.
        assert training.curriculum == {"name": "doubling", "first": 5, "below": 1e-4}
        assert training.report_every == 500
        assert (training.optimizer["name"], training.stop["name"]) == ("adam", "budget")
        assert training.schedule["name"] == "constant"
    by_model = {trial.model: trial.config for trial in trials}
    rates = {name: config.training.learning_rate for name, config in by_model.items()}
    assert rates == {"ntm-program": 5e-4, "ntm-program-40": 1e-3, "lstm-program": 5e-4}
    lengths = {name: config.training.lengths for name, config in by_model.items()}
    assert lengths == {"ntm-program": "1:20", "ntm-program-40": "1:40", "lstm-program": "1:20"}
    assert by_model["lstm-program"].model.hidden_size == 10
    # The model equals the paper's NTM.
    paper = load_study("deleu2016", "laptop").trials[0].config
    assert by_model["ntm-program"].model == by_model["ntm-program-40"].model == paper.model


def test_the_studies_of_few_locations_and_of_brackets():
    paper = load_study("deleu2016", "laptop").trials[0].config
    few = load_study("deleu2016", "locations").trials
    slots = {(t.config.model.memory["slots"], t.config.seed) for t in few}
    assert slots == {(count, seed) for count in (1, 2, 4, 8) for seed in range(1, 11)}
    assert {t.config.training == paper.training for t in few} == {True}
    shifts = {
        (t.config.model.memory["shift"], t.config.model.memory.get("shift_range")) for t in few
    }
    assert shifts == {("zero", None)}
    brackets = load_study("deleu2016", "brackets").trials
    kinds = {(t.task, t.config.task["kinds"]) for t in brackets}
    assert kinds == {("dyck_2", 2), ("dyck_3", 3)}
    assert {t.config.model.input_bits for t in brackets} == {None}  # one input a symbol
    assert {t.config.model.hidden_size for t in brackets if t.model == "lstm"} == {10}


def test_the_laptop_study_of_graves_has_both_models_and_three_seeds():
    trials = load_study("graves2014", "laptop").trials
    tasks = ("ntm_copy", "repeat_copy", "associative_recall")
    cells = {(task, model) for task in tasks for model in ("ntm", "lstm")}
    moving = {("ntm_copy", "ntm-moving"), ("associative_recall", "ntm-moving")}
    forward = {(task, "ntm-feed-forward-moving") for task in ("ntm_copy", "repeat_copy")}
    seeds = [(trial.task, trial.model, trial.config.seed) for trial in trials]
    expected = {(*cell, seed) for cell in cells | moving | forward for seed in (1, 2, 3)}
    assert sorted(seeds) == sorted(expected)
    for trial in trials:
        on_the_move = (trial.task, trial.model) in moving | forward
        assert trial.config.model.memory.get("shift_bias", 0) == (2 if on_the_move else 0)
        assert trial.config.training.batch_size == (8 if on_the_move else 32)
        longer = trial.task == "repeat_copy" and on_the_move
        samples = trial.config.training.batch_size * trial.config.training.batches
        assert samples == (320_000 if longer else 160_000)
    sizes = {trial.config.model.hidden_size for trial in trials}
    assert sizes == {100}


@pytest.mark.parametrize("paper", ["deleu2016", "graves2014"])
def test_papers_without_a_table_have_no_published_values(paper: str):
    own = published(paper)
    assert own.values == {}
    assert "no table" in own.source
    assert all(table.metric_set in METRIC_SETS for table in own.tables)


def dyck_report(trial, auc: float) -> dict:
    words = {"count": 9, "auc": auc, "auc_so_far": auc, "accuracy": auc}
    rows = [
        {"lengths": lengths, "role": role, **words, "per_n": [{"n": n, **words}]}
        for lengths, role, n in (("1:5", "train", 5), ("6:100", "test", 100))
    ]
    report = report_of(
        trial, "membership", rows, train_lengths="1:5", read_head_follows_path=0.9,
        validation={"auc": auc, "nats_per_token": 0.5},
    )  # fmt: skip
    return {**report, **outcome("membership", report)}


def test_the_table_and_the_curve_with_its_band(tmp_path: Path):
    study = load_study("deleu2016", "laptop")
    tapes = [trial for trial in study.trials if trial.model == "ntm"][:3]
    small = [t for t in study.trials if t.model == "lstm" and t.config.model.hidden_size == 10][:1]
    # Committed reports have areas that float32 made greater than 1.
    for trial, auc in zip([*tapes, *small], (1.0000001, 0.9, 1.0, 0.7), strict=True):
        add_to_runs_file(tmp_path / RUNS, {trial.name: dyck_report(trial, auc)})
    text, _ = write_table(study, tmp_path)
    row = next(line for line in text.splitlines() if line.startswith("| Dyck words | NTM |"))
    assert "1.000 / 1.000 / –" in row
    assert "| 2 of 3 |" in row
    assert "0.900–1.000" in row
    assert f"4 of {len(study.trials)} runs are finished" in text
    svg = next(path for path in draw_tasks(study, tmp_path) if path.name == "lengths_dyck.svg")
    assert "AUC on words of semi-length up to n" in svg.read_text()


def test_dynamic_ngrams_of_the_page_are_those_of_the_runs_and_the_bound():
    root = Path(__file__).resolve().parents[2]
    page = (root / "docs/reproducing/graves2014.md").read_text("utf-8")
    reports = read_runs_file(root / "results/graves2014/dynamic_ngrams.jsonl.xz").values()
    task = make_task("dynamic_ngrams")
    batch = task.batch(1, "test", 0, 1000)
    bound = -task.log_probabilities(batch, task.test_lengths).mean() / math.log(2)
    bits = batch.targets.numpy()

    def shown(name: str, value: float) -> str:
        return f"| {name} | {value:.1f} | {value - bound:.1f} |"

    ones = optimal_probabilities(bits, 5)
    shorter = -np.log2(np.where(bits == 1, ones, 1 - ones)).sum(axis=1).mean()
    expected = [
        shown("a fair coin", 200),
        shown("the estimator, contexts of four bits", shorter),
        shown("the estimator, contexts of five bits", bound),
    ]
    names = {"turing_tape-lstm": "NTM", "lstm-1": "LSTM"}
    for report in reports:
        (row,) = report["rows"]
        assert (report["seed"], row["count"], row["lengths"]) == (1, 1000, "200:200")
        assert report["batches"] * report["config"]["training"]["batch_size"] == 64_000
        assert 200 * row["bound"] / math.log(2) == pytest.approx(bound)
        value = 200 * row["nats_per_symbol"] / math.log(2)
        expected.append(shown(f"{names[report['model']]}, 64 000 sequences, one seed", value))
    assert len(expected) == 5
    assert [line for line in expected if line not in page] == []
    assert f"costs {bound:.1f} bits per sequence" in page
