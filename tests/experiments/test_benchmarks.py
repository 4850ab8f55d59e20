"""The studies of Chomsky-15 and FLaRe-18: their cells, their one setting, their overview."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from tests.experiments.made_up import report_of
from unbounded.experiments.config.schema import to_dict
from unbounded.experiments.run.run import train_run
from unbounded.experiments.tables.published import published
from unbounded.experiments.tables.reproduce import draw_tasks, write_table
from unbounded.experiments.tables.runs_file import RUNS, add_to_runs_file, read_runs_file
from unbounded.experiments.trials.paper_studies import load_study
from unbounded.tasks.languages import LANGUAGES

STUDIES = {paper: load_study(paper, "laptop") for paper in ("chomsky15", "flare18")}
CONTEXT_SENSITIVE = published("chomsky15").tables[-1].tasks
#: Batches, and sequences of a batch, of the models whose batches take longer.
FEWER = {
    "deltanet": {"chomsky15": (5000, 64), "flare18": (2500, 128)},
    "deltaproduct": {"chomsky15": (3000, 64), "flare18": (1500, 128)},
    "dnc": {"chomsky15": (5000, 64), "flare18": (2500, 128)},
    "nondeterministic_stack": {"chomsky15": (1500, 16), "flare18": (1500, 32)},
}
#: Slots at the test.
SLOTS = {"turing_tape": 512, "dnc": 512, "rolling_tape": 3200}


@pytest.mark.parametrize("paper", STUDIES)
def test_the_cells_differ_in_task_memory_and_seed_alone(paper: str) -> None:
    study = STUDIES[paper]
    tasks = {trial.task for trial in study.trials}
    models = {trial.model for trial in study.trials}
    assert set(study.cells) == {f"{task}/{model}" for task in tasks for model in models}
    assert len(tasks) == int(paper[-2:])
    settings = set()
    plain: dict[str, Any] = {}
    for trial in study.trials:
        config = to_dict(trial.config)
        of_memory = config["model"].pop("memory")["name"] != "none"
        if trial.model != "elman" and not of_memory:  # a network of its own
            del config["model"]["controller"]
        tokens = config.pop("task").get("computation", 0)
        needs_tokens = paper == "chomsky15" and trial.task in CONTEXT_SENSITIVE
        assert tokens == (needs_tokens and trial.model == "rolling_tape"), trial.cell
        del config["seed"]
        if trial.model in FEWER:
            training = config["training"]
            size = (training["batches"], training["batch_size"])
            assert size == FEWER[trial.model][paper], trial.cell
            for name in ("batches", "batch_size"):
                training[name] = plain["training"][name]
        if trial.model == "nondeterministic_stack":  # in chomsky15 it has fewer tests
            config["evaluation"] = plain["evaluation"]
        # At the test a memory with slots has at least one for each of 500 symbols.
        slots = (config["evaluation"].pop("memory", None) or {}).get("slots")
        assert slots == SLOTS.get(trial.model), trial.cell
        plain = config
        settings.add((of_memory or trial.model == "elman", str(config)))
    assert len(settings) == 2


def test_a_cell_of_flare_is_named_by_its_language() -> None:
    tasks = {trial.task: trial.config.task for trial in STUDIES["flare18"].trials}
    assert set(tasks) == set(LANGUAGES)
    for language, component in tasks.items():
        assert component == {"name": "flare", "language": language}


def test_only_values_that_could_be_checked_are_printed() -> None:
    values = published("chomsky15").values
    assert set(values) == {
        "modular_arithmetic", "parity_check", "cycle_navigation", "stack_manipulation",
        "reverse_string", "duplicate_string", "odds_first",
    }  # fmt: skip
    assert values["stack_manipulation"]["lstm"]["test_token_accuracy"] == 0.591
    assert values["odds_first"]["rolling_tape"]["test_token_accuracy"] == 1.0
    assert published("flare18").values == {}


def test_the_overview_has_the_two_columns_of_the_paper_file(tmp_path: Path) -> None:
    study = STUDIES["flare18"]
    (trial,) = (trial for trial in study.trials if trial.cell == "parity/stack")
    scores = {"1:40": ("train", 1.0), "1:500": ("test", 0.625)}
    rows = [
        {"lengths": n, "role": role, "accuracy": share, "exact_match": share, "nats": 0.1}
        for n, (role, share) in scores.items()
    ]
    report = report_of(trial, "recognition", rows, train_lengths="1:40", selection_metric=0.1)
    add_to_runs_file(tmp_path / RUNS, {trial.name: report})
    text, _ = write_table(study, tmp_path)
    lines = [line.split("|") for line in text.splitlines() if line.startswith("|")]
    (head,) = (cells for cells in lines if cells[1:3] == [" task ", " RNN "])
    (shown,) = (cells for cells in lines if cells[1] == " Parity " and len(cells) == len(head))
    filled = {title.strip(): cell.strip() for title, cell in zip(head, shown, strict=True)}
    assert {title: cell for title, cell in filled.items() if cell} == {
        "task": "Parity", "Stack": "1.00 / 0.62",
    }  # fmt: skip
    assert "Each cell is train accuracy / test accuracy" in text
    assert "matrix.svg" in {path.name for path in draw_tasks(study, tmp_path)}


def test_the_page_counts_the_runs_of_the_tables() -> None:
    root = Path(__file__).resolve().parents[2]
    page = (root / "docs" / "benchmarks.md").read_text()
    counts = {paper: len(read_runs_file(root / "results" / paper / RUNS)) for paper in STUDIES}
    assert (
        f"The first {counts['chomsky15']} runs of Chomsky-15 and the first {counts['flare18']} of "
        "FLaRe-18 show"
    ) in page
    assert f" of the {counts['flare18']} networks output NaN " in page


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_a_tape_rnn_duplicates_strings_with_computation_tokens(tmp_path: Path) -> None:
    """Which seeds learn depends on the processor, because its vectors sum in another order."""
    cells = {trial.cell: trial.config for trial in STUDIES["chomsky15"].trials}
    config = copy.deepcopy(cells["duplicate_string/rolling_tape"])
    config.training.batches = 5000
    config.evaluation = {"count": 4, "lengths": ["1:40", "41:100"]}
    for config.seed in (1, 2, 3):
        rows = train_run(config, root=tmp_path, quiet=True).report["rows"]
        if rows[0]["exact_match"] == 1 and rows[1]["token_accuracy"] > 0.9:
            return
    pytest.fail(f"no seed of three learns the task; the last has {rows}")
