"""The table of a study, and the selection by validation."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.studies.made_up import run
from tests.studies.tiny_study import begun, tiny
from unbounded.errors import CheckpointError, ConfigError
from unbounded.evaluation.metric_sets import metric_set_of
from unbounded.experiments.trials.claims import CLAIMS, ClaimRecord
from unbounded.experiments.trials.study_file import make_study_file
from unbounded.studies import StudyFolder, study_runs
from unbounded.studies.missing import missing_notes
from unbounded.studies.run_results import cells_of, longer_columns
from unbounded.studies.study_table import table_of

AXES = {"model.memory": ["stack", "queue"], "training.learning_rate": [0.1, 0.2]}


def study(**changes: Any) -> Any:
    return make_study_file("made-up", {"preset": "copy", "axes": AXES, **changes})


def grid(values: dict[tuple[str, float], list[tuple[float, float]]]) -> list[Any]:
    """Runs from (memory, rate) -> (validation, test) of each seed."""
    return [
        run({"model.memory": memory, "training.learning_rate": rate}, seed, test, validation)
        for (memory, rate), seeds in values.items()
        for seed, (validation, test) in enumerate(seeds)
    ]


def test_validation_chooses_and_never_the_test_split() -> None:
    runs = grid(
        {
            ("stack", 0.1): [(0.3, 0.1), (0.3, 0.2)],
            ("stack", 0.2): [(0.9, 1.0), (0.9, 1.0)],  # better on the test split
        }
    )
    (cell,) = cells_of(runs, ("training.learning_rate",))
    assert cell.chosen == {"training.learning_rate": 0.1}
    assert cell.numbers("test_exact_match") == [0.1, 0.2]
    assert (cell.finished, cell.planned) == (4, 4)


def test_a_table_with_a_chosen_axis() -> None:
    runs = grid({("stack", 0.1): [(0.3, 0.1), (0.5, 0.2), (0.4, 0.9)], ("stack", 0.2): [(2, 0)]})
    text = table_of(study(select=["training.learning_rate"]), runs).markdown()
    assert "| memory | learning_rate | runs |" in text
    assert "| stack  | 0.1           | 4/4  |" in text
    assert "0.20 (0.10 to 0.90)" in text
    assert "chosen by the median selection metric on validation" in text


def test_a_table_of_rows_and_columns() -> None:
    runs = grid({("stack", 0.1): [(1, 0.25)], ("queue", 0.1): [(1, 0.5)], ("queue", 0.2): [(1, 1)]})
    table = table_of(study(table={"columns": ["training.learning_rate"]}), runs)
    assert table.header == ("memory", "0.1", "0.2")
    assert table.rows == (("stack", "0.25", "–"), ("queue", "0.50", "1.00"))


def test_rows_are_in_the_order_of_the_file() -> None:
    runs = grid({("stack", 0.1): [(1, 0)], ("queue", 0.1): [(1, 0)]})
    table = table_of(study(table={"rows": ["training.learning_rate"]}), runs)
    assert table.header[:2] == ("learning_rate", "memory")
    assert [row[1] for row in table.rows] == ["stack", "queue"]


def test_successes_have_wilsons_interval() -> None:
    axes = {"model.memory": "stack", "training.learning_rate": 0.1}
    runs = [run(axes, seed, success=seed < 9) for seed in range(10)]
    table = table_of(study(), runs)
    # Wilson's interval of 9 of 10, as in textbooks: 0.596 to 0.982.
    assert "9/10 [0.60, 0.98]" in table.rows[0]


def test_an_unknown_metric_is_named() -> None:
    runs = grid({("stack", 0.1): [(1, 0)]})
    with pytest.raises(ConfigError, match=r"'test_exact_mach'\. Did you mean"):
        table_of(study(table={"metric": "test_exact_mach"}), runs)


@pytest.mark.parametrize("columns", [[], ["model.memory"]])
def test_a_table_without_numbers_names_the_ranges_and_their_roles(columns: list[str]) -> None:
    axes = {"model.memory": "stack", "training.learning_rate": 0.1}
    made = study(table={"metric": "test_exact_match", "columns": columns})
    roles = {"1:8": "train", "6:9": "longer"}
    text = table_of(made, [run(axes, test=None, roles=roles)]).markdown()
    assert "No finished run has test_exact_match." in text
    assert "1:8 (train), 6:9 (longer)" in text
    assert "task.test_lengths" in text
    assert "No finished run" not in table_of(made, [run(axes, test=0.5, roles=roles)]).markdown()


def test_each_empty_metric_of_a_task_has_its_reason() -> None:
    roles = {"1:8": "train", "6:9": "longer"}
    axes = {"model.memory": "stack", "training.learning_rate": 0.1}
    sound = run(axes, roles={"1:8": "train", "9:16": "test"})
    for numbers in (sound.numbers, (lacking := run(axes, 1, None, roles=roles)).numbers):
        assert numbers is not None
        numbers.values["train_exact_match"] = 1.0
    (note,) = missing_notes([lacking], ["train_exact_match", "test_exact_match"])
    assert note.startswith("No finished run has test_exact_match. The scored ranges and their")
    assert "train_exact_match" not in note
    other = replace(sound, task="reversal")
    (note,) = missing_notes([lacking, other], ["test_exact_match"])
    assert note.startswith("No finished run of copy has test_exact_match.")
    assert missing_notes([lacking, sound], ["test_exact_match"]) == []
    (note,) = missing_notes([sound], ["longer_exact_match"])
    assert 'The role "longer" is for other ranges' in note


def test_nothing_is_chosen_without_a_selection_metric() -> None:
    missing = math.inf
    runs = grid(
        {
            ("stack", 0.1): [(missing, 0.1)],
            ("stack", 0.2): [(missing, 0.2)],
            ("queue", 0.1): [(missing, 0.3)],
            ("queue", 0.2): [(0.5, 0.4)],
        }
    )
    own = study(select=["training.learning_rate"])
    table = table_of(own, runs)
    assert [row[:3] for row in table.rows] == [("stack", "–", "2/2"), ("queue", "0.2", "2/2")]
    assert set(table.rows[0][3:]) == {"–"}
    text = table.markdown()
    assert "No value of learning_rate can be chosen in 1 of 2 cells" in text
    assert "measured every `training.report_every` batches" in text
    text = table_of(own, runs[:2]).markdown()
    assert "No value of learning_rate can be chosen, because" in text
    assert "is chosen by the median" not in text


def test_the_notes_fit_the_columns() -> None:
    axes = {"model.memory": "stack", "training.learning_rate": 0.1}
    own = study(select=["training.learning_rate"])
    text = table_of(own, [run(axes)]).markdown()
    assert "Solved:" not in text
    assert "The column `runs` counts the runs of every value" in text
    assert "Solved:" in table_of(own, [run(axes, success=True)]).markdown()


def test_longer_ranges_are_metrics() -> None:
    axes = {"model.memory": "stack", "training.learning_rate": 0.1}
    roles = {"1:8": "train", "9:16": "test", "17:32": "longer", "33:64": "longer"}
    longer = {"17:32": (0.25, 0.5), "33:64": (0.0, 0.125)}
    runs = [run(axes, roles=roles, longer=longer)]
    assert runs[0].values()["longer_exact_match"] == 0.25
    assert runs[0].values()["longer_prefix_accuracy"] == 0.5
    assert not any(name.startswith("longer") for name in table_of(study(), runs).header)
    assert table_of(study(), runs, longer=True).header[-2:] == (
        "longer_exact_match", "longer_prefix_accuracy",
    )  # fmt: skip
    table = table_of(study(table={"metric": "longer_exact_match"}), runs)
    assert (table.header[-1], table.rows[0][-1]) == ("longer_exact_match", "0.25")
    # A range that another column shows, as 4x on answer tasks, is not in `longer`.
    shown = run(axes, roles=roles, longer={"33:64": (0.0, 0.125)})
    assert shown.values()["longer_prefix_accuracy"] == 0.125
    # Without such a range the metric is known and empty.
    text = table_of(study(table={"metric": "longer_exact_match"}), [run(axes)]).markdown()
    assert "No finished run has longer_exact_match." in text


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("sequences", ["longer_exact_match", "longer_prefix_accuracy"]),
        ("lengths", ["longer_percent"]),
        ("bits", ["longer"]),
        ("recognition", ["longer_accuracy"]),
        ("perplexity", []),
    ],
)
def test_each_metric_set_has_longer_columns(name: str, columns: list[str]) -> None:
    assert longer_columns(metric_set_of(name)) == columns


def test_the_state_of_each_run_is_reported(tmp_path: Path) -> None:
    own, folder = begun(tmp_path / "tiny", tiny(seeds="0:2"))
    names = [trial.name for trial in folder.trials()]
    (folder.runs / CLAIMS).mkdir(parents=True)
    records = (
        ClaimRecord("w", "failed", error="it broke"),
        ClaimRecord("w", "running"),
        ClaimRecord("w", "released"),
    )
    for name, record in zip(names, records, strict=False):
        (folder.runs / CLAIMS / f"{name}.1").write_text(json.dumps(vars(record)))
    runs = study_runs(folder)
    assert [each.state for each in runs] == ["failed", "running", "interrupted", "waiting"]
    assert runs[0].error == "it broke"
    text = table_of(own, runs).markdown()
    assert "0 of 4 runs are finished; 1 failed, 1 running, 1 interrupted, 1 waiting." in text


def test_results_of_real_runs(finished: Any) -> None:
    own, folder = finished
    runs = study_runs(folder)
    assert [each.state for each in runs] == ["finished"] * 8
    assert set(runs[0].values()) == {"percent", "selection_metric", "success"}
    assert runs[0].batches == 2
    assert "test" in runs[0].numbers.roles.values()
    assert len(table_of(own, runs).rows) == 4
    assert folder.study().axes == own.axes


def test_an_invalid_study_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"it has no plan\.jsonl"):
        study_runs(StudyFolder(tmp_path))
    with pytest.raises(CheckpointError, match=r"it has no study\.yaml"):
        StudyFolder(tmp_path).study()
    (tmp_path / "plan.jsonl").write_text("{}\n")
    with pytest.raises(CheckpointError, match="line 1 is damaged"):
        study_runs(StudyFolder(tmp_path))
    (tmp_path / "study.yaml").write_text("a: 1")
    with pytest.raises(CheckpointError, match=r"study\.yaml is damaged"):
        StudyFolder(tmp_path).study()
