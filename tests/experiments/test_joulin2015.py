"""The tables of Joulin & Mikolov 2015: published values, studies, and the tables of reports."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.experiments.made_up import report_of
from tests.experiments.tiny_streams import tiny_corpus
from unbounded.errors import CheckpointError, ConfigError
from unbounded.experiments.config.check import errors
from unbounded.experiments.config.compose import composed, preset_of
from unbounded.experiments.run.run import train_run
from unbounded.experiments.tables.published import published
from unbounded.experiments.tables.reproduce import draw_tasks, plan_text, reproduce, write_table
from unbounded.experiments.tables.results import copy_reports, read_results
from unbounded.experiments.tables.runs_file import RUNS, add_to_runs_file, read_runs_file
from unbounded.experiments.tables.table_data import run_json
from unbounded.experiments.trials.paper_studies import Study, load_study, make_study
from unbounded.experiments.trials.selection import select
from unbounded.experiments.trials.trial import Outcome, Trial

PAPER = published("joulin2015")
TINY: dict[str, Any] = {
    "about": "a few batches",
    "preset": True,
    "tasks": ["anbmc_sum", "penn_treebank"],
    "models": ["stack-rnn", "stack-rnn-hardened", "rnn"],
    "needs_data": ["penn_treebank"],
    "skip": ["penn_treebank/stack-rnn-hardened"],
    "seeds": [1, 2, 3],
    "task": {},
    "model": {"hidden_size": 6},
    "training": {"batches": 1, "batch_size": 3, "validation_count": 6},
    "evaluation": {"streams": 2},
    "cells": {
        "anbmc_sum/*": {
            "task": {"sequences": 4, "train_lengths": "2:4", "test_lengths": "2:6"},
            "evaluation": {"count": 4},
        },
        "*/stack-rnn*": {
            "model": {"memory": {"count": 2}},
            "hardening": {"name": "gradual", "batches": 2, "every": 1},
        },
        "penn_treebank/*": {
            "task": {"published_counts": False},
            "hardening": "none",
            "training": {"chunk_steps": 4},
        },
    },
}


def tiny_study(corpus: Path | None = None, **changes: Any) -> Study:
    return make_study(
        "joulin2015", "tiny", {**TINY, **changes}, None if corpus is None else str(corpus)
    )


@cache
def study_of(name: str) -> Study:
    """A study of the paper, read once; no test changes it."""
    return load_study("joulin2015", name)


def write(out: Path, trial: Trial, percent: float, nats: float, hardened: float = 100.0) -> None:
    def part(value: float, selection_metric: float) -> dict[str, Any]:
        scored = [{"n": n, "accuracy": float(n < value)} for n in (2, 3)]
        row = {"lengths": "2:6", "role": "test", "percent_of_lengths": value, "per_n": scored}
        longer = {"lengths": "7:9", "role": "longer", "percent_of_lengths": 33.25, "per_n": []}
        return {
            "rows": [row, longer],
            "selection_metric": selection_metric,
            "success": value == 100,
        }

    ended = {"batches": 2, "minutes": 1.5, "stopped": "rounding: decided"}
    report = report_of(
        trial, "lengths", **part(percent, nats), hardened={**part(hardened, nats / 2), **ended},
        batches=10, minutes=3.0,
        curves={"perplexity": [[1, 2.0]], "exact_match": {}, "partial_accuracy": {}},
    )  # fmt: skip
    add_to_runs_file(out / RUNS, {trial.name: report})


@pytest.mark.parametrize(
    ("task", "model", "values"),
    [
        ("anbn", "rnn", (25,)),
        ("anbncn", "list-rnn", (33.3,)),
        ("anbncndn", "lstm", (68.3,)),
        ("anbmc_sum", "stack-rnn", (43.3,)),
        ("anbmc_sum", "stack-rnn-hardened", (100,)),
        ("penn_treebank", "stack-rnn", (124, 118)),
        ("penn_treebank", "rnn", (137, 129)),
    ],
)
def test_some_cells_to_the_digit(task: str, model: str, values: tuple[float, ...]) -> None:
    assert tuple(PAPER.values[task][model].values()) == values


#: Variants added here, on Penn Treebank only.
VARIANTS_OF_TEXT = {"rnn-tanh", "stack-rnn-tanh", "srcn-tanh", "stack-rnn-tied", "srcn-tied"}
VARIANTS = VARIANTS_OF_TEXT | {
    f"stack-rnn-{variant}{phase}"
    for variant in ("emptied", "sharpened")
    for phase in ("", "-hardened")
}


def test_every_cell_of_table_2_and_measured_row_of_table_4_exists() -> None:
    table_2, _, table_4 = PAPER.tables
    own = {name for name in PAPER.models if name.startswith(("lstm-", "list-rnn-"))}
    studies = [load_study("joulin2015", name) for name in ("parts", "lists", "empty")]
    trials = [trial for study in studies for trial in study.trials]
    assert own == {trial.model for trial in trials} - {"lstm", "list-rnn"}
    for task in table_2.tasks:
        assert set(PAPER.values[task]) == set(PAPER.models) - {"srcn"} - own - VARIANTS
    for task in table_4.tasks:
        assert set(PAPER.values[task]) == {"rnn", "lstm", "srcn", "stack-rnn"}
    assert any("60 lengths" in note for note in PAPER.notes)
    assert {task for table in PAPER.tables for task in table.tasks} == set(PAPER.tasks)


def test_each_part_of_the_protocol_has_ten_restarts() -> None:
    study = study_of("parts")
    assert len([cell for cell in study.cells if cell.startswith("anbn/")]) == 9
    assert {cell for cell in study.cells if not cell.startswith("anbn/")} == {
        f"{task}/lstm-constant" for task in ("anbncn", "anbncndn", "anb2n", "anbmc_sum")
    }
    assert len(study.trials) == 20 * len(study.cells)
    rates = [trial.config.training for trial in study.trials if trial.model == "lstm-constant"]
    assert all(training.plateau == {"name": "none"} for training in rates)
    assert {trial.config.training.clip_by for trial in study.trials} == {"norm", "value"}


def test_the_open_choices_of_the_list_are_tried_one_at_a_time() -> None:
    study = study_of("lists")
    memories = {trial.model: dict(trial.config.model.memory) for trial in study.trials}
    own = memories.pop("list-rnn")
    for memory in memories.values():
        assert len({*memory.items()} - {*own.items()}) == 1


def test_empty_values_and_noop_are_crossed_on_the_three_tasks_below_the_paper() -> None:
    study = study_of("empty")
    crossed = [
        (trial.task, memory["noop"], memory.get("empty", -1), trial.config.seed)
        for trial in study.trials
        for memory in [trial.config.model.memory]
    ]
    assert sorted(crossed) == [
        (task, noop, empty, seed)
        for task in ("anb2n", "anbmc_sum", "anbncndn")
        for noop in (False, True)
        for empty in (-1, 0)
        for seed in range(1, 21)
    ]
    # Its first restarts are runs of study lists.
    earlier = {trial.name for trial in study_of("lists").trials}
    shared = [trial for trial in study.trials if trial.name in earlier]
    assert len(shared) == 3 * 3 * 5


@pytest.mark.parametrize("name", ["laptop", pytest.param("paper", marks=pytest.mark.slow)])
def test_no_trial_has_an_error(name: str, tmp_path: Path) -> None:
    study = load_study("joulin2015", name, str(tiny_corpus(tmp_path)))
    for cell in study.cells:
        config = next(trial.config for trial in study.trials if trial.cell == cell)
        config.task |= {"published_counts": False} if "treebank" in cell else {}
        assert errors(config) == [], cell
        assert len({t.config.seed for t in study.trials if t.cell == cell}) >= (
            1 if "treebank" in cell else 5
        )
    # Without the corpus its rows are in the table, and left out of the training.
    without = load_study("joulin2015", name)
    assert without.cells == study.cells
    untrained = set(study.cells) - {trial.cell for trial in select(without, None)}
    models = {"rnn", "lstm", "stack-rnn", "srcn"} | (
        VARIANTS_OF_TEXT if name == "laptop" else set()
    )
    assert untrained == {f"penn_treebank/{model}" for model in models}
    assert len(select(study, None)) == len(study.trials)
    with pytest.raises(ConfigError, match="needs the folder of its corpus; give --data DIR"):
        select(without, "penn_treebank")


def test_hardened_trials_use_the_trained_runs() -> None:
    trials = study_of("laptop").trials
    trained = [t.name for t in trials if t.cell == "anbn/stack-rnn"]
    hardened = [t for t in trials if t.cell == "anbn/stack-rnn-hardened"]
    assert [trial.name for trial in hardened] == trained
    assert {trial.phase for trial in hardened} == {"hardened"}
    assert len({trial.key for trial in trials}) == len(trials)


def test_run_names_do_not_depend_on_the_folder_of_the_corpus(tmp_path: Path) -> None:
    names = [
        [trial.name for trial in tiny_study(tiny_corpus(tmp_path / place)).trials]
        for place in ("a", "b")
    ]
    assert names[0] == names[1]


def test_the_table_to_the_digit(tmp_path: Path) -> None:
    study = tiny_study()
    stack = [trial for trial in study.trials if trial.cell == "anbmc_sum/stack-rnn"]
    for trial, percent, nats in zip(stack, (100, 40, 80), (0.3, 0.1, 0.2), strict=True):
        write(tmp_path, trial, percent, nats)
    text, _ = write_table(study, tmp_path)
    assert "## Table 2: lengths mastered" in text
    assert "3 of 12 runs are finished" in text
    assert (
        "| a^n b^m c^(n+m) | Stack RNN | 43.3 | 40.0 | 80.0 | 40.0–100.0 | 1 of 3 | 10 | 3 |"
    ) in text
    assert (
        "| a^n b^m c^(n+m) | Stack RNN + rounding | 100.0 | 100.0 | 100.0 | 100.0–100.0 | 3 of 3 |"
    ) in text
    assert "| a^n b^m c^(n+m) | RNN | 33.3 | not run |" in text
    assert "7:9: 33.25" in text
    assert "lowest validation nats per determined symbol" in " ".join(text.split())
    assert "exact_match" not in text
    data = json.loads((tmp_path / "table.json").read_text())
    measured = data["cells"][0]["measured"]
    assert measured["median"] == {"percent": 80.0}
    assert (measured["solved"], measured["success_rate"]) == (1, pytest.approx(1 / 3))
    results = read_results(study.trials, tmp_path).values()
    of_cell = {run.trial.name: run for run in results if run.trial.cell == "anbmc_sum/stack-rnn"}
    assert sorted(of_cell) == sorted(measured["runs"])
    assert run_json(of_cell[measured["best"]])["percent"] == 40.0
    names = {path.name for path in draw_tasks(study, tmp_path)}
    assert {"lengths_anbmc_sum.svg", "convergence_anbmc_sum.svg"} <= names


def test_a_report_without_the_hardening_is_named(tmp_path: Path) -> None:
    study = tiny_study()
    trial = study.trials[0]
    write(tmp_path, trial, 100, 0.1)
    report = read_runs_file(tmp_path / RUNS)[trial.name]
    del report["hardened"]
    add_to_runs_file(tmp_path / RUNS, {trial.name: report})
    with pytest.raises(CheckpointError, match=f"{trial.name} is not a trial's report"):
        write_table(study, tmp_path)


def test_a_truncated_file_of_runs_is_named_with_advice(tmp_path: Path) -> None:
    study = tiny_study()
    trial = study.trials[0]
    write(tmp_path, trial, 100, 0.1)
    path = tmp_path / RUNS
    path.write_bytes(path.read_bytes()[:100])
    message = r"runs\.jsonl\.xz is damaged: .*git checkout.* writes it again"
    with pytest.raises(CheckpointError, match=message):
        write_table(study, tmp_path)


def test_end_to_end(tmp_path: Path) -> None:
    corpus = tiny_corpus(tmp_path / "corpus")
    study = tiny_study(corpus, seeds=[1])
    assert "4 of 4 runs to train" in plan_text(
        study, study.trials, tmp_path / "runs", tmp_path / "out"
    )
    lines: list[str] = []
    runs, out = tmp_path / "runs", tmp_path / "out"

    def train(trials: Sequence[Trial], runs: Path, jobs: int, **options: Any) -> None:
        """In this process; other tests use worker processes."""
        for trial in trials:
            train_run(trial.config, root=runs, quiet=True)
            options["ended"](Outcome(trial, 0, runs, 1.0))

    result = reproduce(
        study, study.trials, jobs=2, runs=runs, out=out, say=lines.append, train=train
    )
    assert result.failed == (), lines
    assert "4 of 4 runs are finished" in result.table
    assert "## Table 4: Penn Treebank" in result.table
    assert "124.0 / 118.0" in result.table
    reports = read_runs_file(out / RUNS)
    assert len(reports) == 4
    assert str(tmp_path) not in json.dumps(reports)
    again = reproduce(study, study.trials, jobs=1, runs=runs, out=out, say=lines.append)
    assert "4 of 4 runs are already finished" in lines
    assert again.table == result.table
    assert not copy_reports([study.trials[0]], runs, out)


def test_penn_treebank_s_three_recipes_stay_apart() -> None:
    own, paper = (composed(preset_of("penn_treebank", each)) for each in (None, "paper"))
    yang = {
        each.model: each.config
        for each in load_study("yang2016", "laptop").trials
        if each.task == "penn_treebank"
    }["lstm"]
    here = {
        each.model: each.config
        for each in study_of("laptop").trials
        if each.task == "penn_treebank"
    }
    settings = [
        (
            config.training.optimizer["name"],
            config.training.learning_rate,
            config.training.schedule["name"],
            config.training.clip,
            config.training.clip_by,
            config.training.batch_size,
            config.training.chunk_steps,
            config.training.precision,
            config.model.symbol_initialization,
        )
        for config in (own, paper, yang, here["rnn"], here["lstm"])
    ]
    assert settings == [
        ("adagrad", 0.1, "linear", 1.0, "norm", 20, 35, "no", "as_model"),
        ("sgd", 0.1, "constant", 15.0, "value", 1, 50, "no", "as_model"),
        ("adagrad", 0.05, "constant", 5.0, "norm", 32, 20, "no", "as_model"),
        ("adagrad", 0.1, "linear", 1.0, "norm", 20, 35, "bf16", "as_model"),
        ("sgd", 40.0, "linear", 0.25, "norm", 20, 35, "bf16", "sums"),  # the second of two rates
    ]
    assert here["lstm"].training.optimizer == {"name": "sgd", "weight_decay": 1.5e-5}


def test_addition_is_trained_and_scored_like_its_preset() -> None:
    of_cell: dict[str, list[Trial]] = {}
    for trial in study_of("laptop").trials:
        of_cell.setdefault(trial.cell, []).append(trial)
    preset = composed(preset_of("binary_addition"))
    for cell in ("stack-rnn-sharpened", "stack-rnn-sharpened-hardened"):
        own = of_cell[f"binary_addition/{cell}"]
        assert {trial.config.seed for trial in own} == {*range(1, 6)}
        for trial in own:
            assert replace(trial.config, seed=preset.seed, hardware=preset.hardware) == preset
    # The same without the additions, with the original evaluation.
    assert preset.model.controller["recurrent"]
    assert preset.training.temperature_noise["limit"] > 1
    for cell in ("stack-rnn", "stack-rnn-hardened"):
        own = of_cell[f"binary_addition/{cell}"]
        assert {trial.config.seed for trial in own} == {*range(1, 11)}
        for trial in own:
            assert not trial.config.model.controller["recurrent"]
            assert trial.config.training.temperature_noise == {"name": "none"}
    paper = composed(preset_of("binary_addition", "paper"))
    assert paper.training.schedule == {"name": "constant"}
    assert paper.hardening == {"name": "none"}
