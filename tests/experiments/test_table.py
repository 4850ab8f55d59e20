from __future__ import annotations

import json
import lzma
from dataclasses import replace

import pytest

from tests.experiments.made_up import made_up_report, tiny_study, write_report
from unbounded.errors import CheckpointError
from unbounded.experiments.tables.measures import Measures
from unbounded.experiments.tables.reproduce import draw_tasks, write_table
from unbounded.experiments.tables.results import Measured, Summary, read_results, summarise
from unbounded.experiments.tables.runs_file import RUNS, add_to_runs_file, read_runs_file
from unbounded.experiments.tables.table_data import run_json
from unbounded.figures.curves import Curves


def rows_of(text: str, header: str) -> list[list[str]]:
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(header))
    rows = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def fill(out, study):
    queue = [trial for trial in study.trials if trial.model == "queue"]
    lstm = [trial for trial in study.trials if trial.model == "lstm-1"]
    write_report(out, queue[0], test=(1.0, 1.0), perplexity=1.02, batches=1000, minutes=2.0)
    write_report(out, queue[1], test=(0.5, 0.75), perplexity=1.01, batches=1500, minutes=5.0)
    write_report(out, queue[2], test=(0.996, 0.999), perplexity=1.30, batches=3000, minutes=9.0)
    write_report(
        out,
        lstm[0],
        train=(0.25, 0.5),
        test=(0.0, 0.375),
        perplexity=9.0,
        batches=9000,
        curve={1000: 0.125, 2000: 0.25, 9000: 0.875},
    )


def test_the_table_to_the_digit(tmp_path):
    study = tiny_study()
    fill(tmp_path, study)
    text, paths = write_table(study, tmp_path)
    assert [path.name for path in paths] == ["table.md", "table.json"]
    assert (tmp_path / "table.md").read_text() == text
    header, _, queue, lstm = rows_of(text, "| task | model")
    assert dict(zip(header, queue, strict=True)) == {
        "task": "Copy",
        "model": "Queue-LSTM",
        "published train": "1.00 / 1.00",
        "published test": "1.00 / 1.00",
        # The run with the least training perplexity is the worst on the test split.
        "best run train": "1.00 / 1.00",
        "best run test": "0.50 / 0.75",
        "median test": "1.00 / 1.00",
        "spread of test exact match": "0.50–1.00",
        "solved": "2 of 3",
        "batches": "1500",
        "minutes": "5",
        "units": "8",
        "learning rate": "0.001",
        # The baseline after 1500 batches is read off at 2000.
        "1-layer LSTM then": "0.25",
    }
    assert lstm[2:7] == ["0.62 / 0.87", "0.00 / 0.38", "0.25 / 0.50", "0.00 / 0.38", "0.00 / 0.38"]
    assert lstm[7:] == ["0.00–0.00", "0 of 1", "9000", "2", "8", "0.001", "itself"]
    runs = rows_of(text, "| run |")
    assert len(runs) == 2 + 4
    assert runs[2][-4:] == ["1.000 / 1.000", "1.000 / 1.000", "7:12: 0.125 / 0.500", runs[2][-1]]
    assert "4 of 6 runs are finished" in text
    assert "contradicts itself, 0.01 or 0.07" in text


def test_the_table_has_the_mean_gates_of_each_run(tmp_path):
    study = tiny_study()
    fill(tmp_path, study)
    assert "memory" not in rows_of(write_table(study, tmp_path)[0], "| run |")[0]
    reports = read_runs_file(tmp_path / RUNS)
    name = next(
        name for name in reports if name.startswith("copy-queue") and name.endswith("seed0")
    )
    gates = {"unscored": {"push": 0.96, "pop": 0.01}, "scored": {"push": 0.5, "pop": 0.98}}
    other = {"unscored": {"push": 0.1}}
    report = {**reports[name], "memory_use": {"2:4": other, "5:6": gates}}
    add_to_runs_file(tmp_path / RUNS, {name: report})
    text, _ = write_table(study, tmp_path)
    head, _, *runs = rows_of(text, "| run |")
    column = [run[head.index("memory")] for run in runs]
    assert column[0] == "reading push 0.96, pop 0.01; answering push 0.50, pop 0.98"
    assert column[1:] == ["–"] * 3
    assert '"memory" is the mean of the instructions to the memory' in text


def test_the_table_has_the_matmul_precision_if_one_run_differs(tmp_path):
    study = tiny_study()
    write_report(tmp_path, study.trials[0])
    write_report(tmp_path, study.trials[1])
    text, _ = write_table(study, tmp_path)
    assert "products" not in text
    other = study.trials[1]
    hardware = replace(other.config.hardware, matmul_precision="medium")
    # It is the same trial, found by the same name.
    write_report(tmp_path, replace(other, config=replace(other.config, hardware=hardware)))
    text, _ = write_table(study, tmp_path)
    heading, _, *rows = rows_of(text, "| run |")
    column = heading.index("products")
    assert sorted(row[column] for row in rows) == ["highest", "medium"]
    assert '"medium" represents each number by one bfloat16 number' in text
    data = json.loads((tmp_path / "table.json").read_text())
    names = [
        name for cell in data["cells"] if cell["measured"] for name in cell["measured"]["runs"]
    ]
    results = read_results(study.trials, tmp_path).values()
    assert sorted(names) == sorted(run.trial.name for run in results)
    numbers = [run_json(run) for run in results]
    assert [run.get("matmul_precision") for run in numbers].count("medium") == 1


def test_the_same_numbers_as_data(tmp_path):
    study = tiny_study()
    fill(tmp_path, study)
    write_table(study, tmp_path)
    table = json.loads((tmp_path / "table.json").read_text())
    queue, lstm = table["cells"]
    assert queue["published"]["test_exact_match"] == 1.0
    measured = queue["measured"]
    runs = {run.trial.name: run_json(run) for run in read_results(study.trials, tmp_path).values()}
    assert runs[measured["best"]]["test_exact_match"] == 0.5
    assert measured["median"] == pytest.approx(
        {
            "train_exact_match": 1.0,
            "train_prefix_accuracy": 1.0,
            "test_exact_match": 0.996,
            "test_prefix_accuracy": 0.999,
        }
    )
    assert (measured["least"]["test_exact_match"], measured["greatest"]["test_exact_match"]) == (
        0.5,
        1.0,
    )
    assert measured["success_rate"] == pytest.approx(2 / 3)
    assert measured["lstm_1_exact_match_at_as_many_batches"] == 0.25
    assert [runs[name]["seed"] for name in measured["runs"]] == [0, 1, 2]
    assert lstm["measured"]["seeds"] == 1
    assert (table["trials"], table["finished"]) == (6, 4)


def test_missing_runs_are_marked_in_the_table(tmp_path):
    text, _ = write_table(tiny_study(), tmp_path)
    _, _, queue, lstm = rows_of(text, "| task | model")
    assert queue[4:] == ["not run"] * 10
    assert lstm[4:] == ["not run"] * 10
    assert draw_tasks(tiny_study(), tmp_path) == []


def test_without_the_baseline_its_column_is_not_run(tmp_path):
    study = tiny_study(models=["queue"])
    write_report(tmp_path, study.trials[0])
    _, _, queue = rows_of(write_table(study, tmp_path)[0], "| task | model")
    assert queue[-1] == "not run"


def test_a_grid_is_chosen_by_training_perplexity(tmp_path):
    study = tiny_study(models=["queue"], learning_rates=[0.1, 0.2], seeds=[0, 1, 2])
    rates = {0.1: [1.0, 5.0, 6.0], 0.2: [2.0, 3.0, None]}
    for trial in study.trials:
        rate, seed = trial.config.training.learning_rate, trial.config.seed
        better = (0.0, 0.0) if rate == 0.2 else (1.0, 1.0)
        write_report(tmp_path, trial, perplexity=rates[rate][seed], test=better)
    summary = summarise(read_results(study.trials, tmp_path).values())
    assert summary.best.measures.selection_metric == 1.0
    assert {run.trial.config.training.learning_rate for run in summary.chosen} == {0.2}
    assert len(summary.runs) == 6
    assert summary.solved == 0


def test_the_table_has_the_output_initialization_if_it_differs(tmp_path):
    study = tiny_study(models=["queue"], output_initializations=["normal", "torch"])
    for trial in study.trials:
        better = trial.config.model.output_initialization == "torch"
        write_report(tmp_path, trial, perplexity=1.0 if better else 2.0)
    text = write_table(study, tmp_path)[0]
    heading, _, queue = rows_of(text, "| task | model")
    assert queue[heading.index("output weights")] == "torch"
    heading, _, *runs = rows_of(text, "| run |")
    place = heading.index("output weights")
    assert {run[place] for run in runs} == {"normal", "torch"}
    assert '"torch" as torch.nn.Linear' in text
    # Also between the models of a task.
    mixed = {"copy/lstm-1": {"output_initializations": ["torch"]}}
    study = tiny_study(cells=mixed)
    fill(tmp_path / "mixed", study)
    heading, _, *rows = rows_of(write_table(study, tmp_path / "mixed")[0], "| task | model")
    assert [row[heading.index("output weights")] for row in rows] == ["normal", "torch"]
    other = tiny_study(models=["queue"], output_initializations=["torch"])
    write_report(tmp_path / "other", other.trials[0])
    assert "output weights" not in write_table(other, tmp_path / "other")[0]


def test_options_of_a_grid_other_than_the_rate_have_a_column(tmp_path):
    grids = [{"clips": [1.0, 0.25]}, {"batch_sizes": [3]}, {"symbol_initializations": ["sums"]}]
    study = tiny_study(models=["queue"], seeds=[0], cells={"copy/queue": {"grids": grids}})
    for trial in study.trials:
        write_report(tmp_path, trial)
    heading, _, *runs = rows_of(write_table(study, tmp_path)[0], "| run |")
    places = [heading.index(name) for name in ("clip", "batch size", "symbol weights")]
    options = [tuple(run[place] for place in places) for run in runs]
    usual = str(study.trials[0].config.training.batch_size)
    assert '"as_model"\ninitializes them like the model' in write_table(study, tmp_path)[0]
    assert options == [
        ("1", usual, "as_model"),
        ("0.25", usual, "as_model"),
        ("1", "3", "as_model"),
        ("1", usual, "sums"),
    ]


def test_options_that_differ_only_between_cells_have_no_column(tmp_path):
    cells = {"copy/queue": {"clips": [0.25], "batch_sizes": [3]}}
    study = tiny_study(cells=cells)
    assert len({trial.config.training.clip for trial in study.trials}) == 2
    fill(tmp_path, study)
    heading = rows_of(write_table(study, tmp_path)[0], "| run |")[0]
    assert "clip" not in heading
    assert "batch size" not in heading


def test_figures_are_drawn_from_reports_only(tmp_path):
    study = tiny_study()
    fill(tmp_path, study)
    names = [path.name for path in draw_tasks(study, tmp_path)]
    assert names == ["convergence_copy.svg"]
    svg = (tmp_path / "figures" / "convergence_copy.svg").read_text()
    assert "Queue-LSTM (median and range of 3 runs)" in svg


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"format": "unbounded-report"}', '{"run": "x", "config": {}}', '"run"']
)
def test_a_foreign_file_is_named(tmp_path, text):
    (tmp_path / RUNS).write_bytes(lzma.compress(text.encode()))
    with pytest.raises(
        CheckpointError, match=r"runs\.jsonl\.xz.* delete it: `unbounded reproduce`"
    ):
        write_table(tiny_study(), tmp_path)


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("rows", '"x"'),
        ("rows", "[null]"),
        ("batches", "1e400"),
        ("curves", '{"perplexity": [], "exact_match": null, "partial_accuracy": {}}'),
        ("curves", '{"perplexity": [], "exact_match": {}, "partial_accuracy": null}'),
    ],
)
def test_a_damaged_report_is_named(tmp_path, field, text):
    study = tiny_study()
    name = study.trials[0].name
    report = json.dumps({"run": name, **made_up_report(study.trials[0]), field: None})
    line = report.replace(f'"{field}": null', f'"{field}": {text}')
    (tmp_path / RUNS).write_bytes(lzma.compress(line.encode()))
    with pytest.raises(
        CheckpointError, match=r"is not a trial's report: .* delete it: `unbounded reproduce`"
    ):
        write_table(study, tmp_path)


def _over_seeds(*found: float | None) -> tuple[float | None, float | None, float | None]:
    trial = tiny_study().trials[0]
    runs = tuple(
        Measured(
            trial=trial,
            measures=Measures("sequences", {"test": value}),
            batches=1,
            minutes=1.0,
            stopped="",
            curves=Curves(),
            trained_to=None,
            per_n={},
        )
        for value in found
    )
    return Summary(runs, runs[0], runs).over_seeds("test")


def test_a_missing_number_is_not_zero():
    """A 0 would be a result: no wrong bits, or no correlation."""
    assert _over_seeds(None, 5.0, 3.0) == (4.0, 3.0, 5.0)
    assert _over_seeds(None, None) == (None, None, None)
