from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.experiments.made_up import tiny_study, write_report
from unbounded.cli import reproduce
from unbounded.errors import CheckpointError, ChoiceError, ConfigError, StorageError
from unbounded.experiments.run.verification import FORMAT, VERSION
from unbounded.experiments.tables import reproduce as work
from unbounded.experiments.tables.runs_file import RUNS, VERIFIED, add_to_runs_file
from unbounded.experiments.trials import paper_studies
from unbounded.signals import Interrupted

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    study = tiny_study(seeds=[0])
    monkeypatch.setattr(paper_studies, "load_study", lambda paper, name, data=None: study)
    monkeypatch.chdir(tmp_path)
    return study


def test_dry_run_trains_and_writes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert reproduce.run(["grefenstette2015", "--dry-run"]) == 0
    text = capsys.readouterr().out
    assert "51 of 51 runs to train" in text
    assert "copy-queue-lstm-" in text
    assert list(tmp_path.iterdir()) == []


def test_dry_run_of_a_part(capsys):
    assert reproduce.run(["grefenstette2015", "--only", "copy/queue", "--dry-run"]) == 0
    first, *lines, last, time = capsys.readouterr().out.splitlines()
    assert first.startswith("grefenstette2015, study laptop: ")
    assert [line.split()[-1] for line in lines] == ["copy/queue"] * 3
    assert last == "3 of 3 runs to train"
    assert time.startswith("about ")


def test_fields_before_the_paper_and_several_of_them(capsys):
    where = ["--where", "seed=1,2", "--where", "model.hidden_size=50"]
    asked = [*where, "joulin2015", "--study", "paper", "--only", "anbn/lstm", "--dry-run"]
    assert reproduce.run(asked) == 0
    # One layer and two of each seed.
    assert "4 of 4 runs to train" in capsys.readouterr().out.splitlines()


def test_dry_run_reports_errors_of_training(tmp_path):
    asked = ["joulin2015", "--dry-run", "--data", str(tmp_path / "nowhere")]
    with pytest.raises(ConfigError, match=r"--data: .*nowhere"):
        reproduce.run(asked)


def test_table_only_works_from_reports(tiny, tmp_path, capsys):
    out = tmp_path / "results" / "grefenstette2015"
    write_report(out, tiny.trials[0])
    assert reproduce.run(["grefenstette2015", "--table-only"]) == 0
    text = capsys.readouterr().out
    assert "1 of 2 runs are finished" in text
    assert "results/grefenstette2015/table.md" in text
    assert "## Every run" not in text  # in table.md
    assert "## Every run" in (out / "table.md").read_text()
    assert (out / "figures" / "convergence_copy.svg").is_file()
    assert not (tmp_path / "runs").exists()


def test_table_only_needs_no_corpus(tmp_path):
    # Without --data no run of this study can be trained, but its reports make a table.
    with pytest.raises(ConfigError, match="give --data DIR"):
        reproduce.run(["joulin2015", "--study", "halving", "--dry-run"])
    out = tmp_path / "out"
    out.mkdir()
    shutil.copy(ROOT / "results" / "joulin2015-halving" / RUNS, out)
    asked = ["joulin2015", "--study", "halving", "--table-only", "--out", str(out)]
    assert reproduce.run(asked) == 0
    assert "of 4 runs are finished" in (out / "table.md").read_text()


def test_table_only_needs_reports_and_takes_no_part(tiny, tmp_path, capsys):
    with pytest.raises(ConfigError, match="no file results/grefenstette2015/runs"):
        reproduce.run(["grefenstette2015", "--table-only"])
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ConfigError, match="only has no effect with table_only"):
        reproduce.run(["grefenstette2015", "--table-only", "--only", "copy/queue"])


def test_another_study_gets_a_folder_of_its_own(tiny, tmp_path):
    write_report(tmp_path / "results" / "grefenstette2015-paper", tiny.trials[0])
    assert reproduce.run(["grefenstette2015", "--study", "paper", "--table-only"]) == 0
    assert (tmp_path / "results" / "grefenstette2015-paper" / "table.md").is_file()


def test_runs_with_a_report_are_not_missing(tiny, tmp_path, monkeypatch, capsys):
    out = tmp_path / "results" / "grefenstette2015"
    write_report(out, tiny.trials[0])
    assert reproduce.run(["grefenstette2015", "--missing", "--dry-run"]) == 0
    text = capsys.readouterr().out
    assert "1 of 1 runs to train" in text.splitlines()
    assert tiny.trials[1].name in text
    assert tiny.trials[0].name not in text
    write_report(out, tiny.trials[1])
    asked = []
    monkeypatch.setattr(
        work, "train_trials", lambda waiting, *rest, **options: asked.extend(waiting)
    )
    assert reproduce.run(["grefenstette2015", "--missing"]) == 0
    assert asked == []
    assert "2 of 2 runs are finished" in capsys.readouterr().out
    assert reproduce.run(["grefenstette2015", "--missing", "--dry-run"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("nothing is missing in results")
    with pytest.raises(ConfigError, match="missing has no effect with table_only"):
        reproduce.run(["grefenstette2015", "--missing", "--table-only"])


def test_device_and_precision_of_products_go_to_every_run(tiny, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        work, "train_trials", lambda waiting, *rest, **options: asked.extend(waiting)
    )
    options = ["--matmul-precision", "medium", "--device", "cpu"]
    reproduce.run(["grefenstette2015", *options, "--out", str(tmp_path)])
    machines = [trial.config.hardware for trial in asked]
    assert {hardware.matmul_precision for hardware in machines} == {"medium"}
    assert {hardware.device for hardware in machines} == {"cpu"}
    assert [trial.name for trial in asked] == [trial.name for trial in tiny.trials]
    # Without the second option the study's own value is used.
    asked.clear()
    reproduce.run(["grefenstette2015", "--device", "cpu", "--out", str(tmp_path)])
    assert {trial.config.hardware.matmul_precision for trial in asked} == {None}
    for trial in tiny.trials:
        trial.config.hardware.matmul_precision = "high"
        trial.config.hardware.device = "auto"
    asked.clear()
    reproduce.run(["grefenstette2015", "--device", "cpu", "--out", str(tmp_path)])
    assert {trial.config.hardware.matmul_precision for trial in asked} == {"high"}
    asked.clear()
    reproduce.run(["grefenstette2015", "--matmul-precision", "medium", "--out", str(tmp_path)])
    assert {trial.config.hardware.device for trial in asked} == {"auto"}
    with pytest.raises(ConfigError) as error:
        reproduce.run(["grefenstette2015", *options, "--table-only"])
    assert list(error.value.errors) == [
        f"{name} has no effect with table_only: nothing is trained"
        for name in ("device", "matmul_precision")
    ]


def test_a_missing_cuda_device_is_an_error_before_the_first_run(tiny, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for more in ([], ["--dry-run"]):
        with pytest.raises(ConfigError, match="torch finds no CUDA device"):
            reproduce.run(["grefenstette2015", "--device", "cuda", *more])


def test_a_run_is_missing_until_its_verification_is_complete(tmp_path):
    study = tiny_study(seeds=[0])
    first, second = (replace(trial, verify={"count": 1000}) for trial in study.trials)
    write_report(tmp_path, first)
    write_report(tmp_path, second)
    path = tmp_path / VERIFIED
    found = {"format": FORMAT, "version": VERSION, "rows": [], "finished": True}
    add_to_runs_file(path, {first.name: {**found, "options": {"count": 1000}}})
    assert work.missing((first, second), tmp_path) == (second,)
    # A verification with fewer strings, or an interrupted one, does not count.
    add_to_runs_file(path, {first.name: {**found, "options": {"count": 100}}})
    assert work.missing((first, second), tmp_path) == (first, second)
    broken_off = {**found, "finished": False, "options": {"count": 1000}}
    add_to_runs_file(path, {first.name: broken_off})
    assert work.missing((first, second), tmp_path) == (first, second)
    add_to_runs_file(path, {first.name: {"format": FORMAT}})
    with pytest.raises(
        CheckpointError,
        match=r"is not a verification report of version .* delete it: `unbounded reproduce`",
    ):
        work.missing((first, second), tmp_path)


def test_an_interrupted_call_prints_how_to_resume(tiny, monkeypatch, capsys):
    def interrupted(*arguments, **options):
        raise Interrupted(2)

    monkeypatch.setattr(work, "reproduce", interrupted)
    assert reproduce.run(["grefenstette2015"]) == 130
    assert "the same command resumes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["grefenstete2015"], "unknown paper 'grefenstete2015'. Did you mean 'grefenstette2015'?"),
        (["grefenstette2015", "--study", "labtop"], "Did you mean 'laptop'"),
        (["grefenstette2015", "--only", "copy/qeue"], "Did you mean 'copy/queue'"),
        (["grefenstette2015", "--jobs", "0"], "jobs: expected at least 1, got 0"),
        (["grefenstette2015", "--jobs", "two"], "jobs"),
        (["grefenstette2015", "--where", "seed=1", "seed=2"], "give --where once for each"),
        (["--where", "seed=1", "seed=2", "grefenstette2015"], "give --where once for each"),
        (
            ["grefenstette2015", "--where", "seed"],
            "where: expected FIELD=VALUE or FIELD=VALUE,VALUE",
        ),
        (["grefenstette2015", "--where", "seed=1,"], "where: expected FIELD=VALUE"),
        (
            ["grefenstette2015", "--matmul-precision", "hi"],
            "unknown precision 'hi'. Did you mean 'high'?",
        ),
        (["grefenstette2015", "--device", "gpu"], "unknown device 'gpu'."),
        (["grefenstette2015", "--where", "=1"], "where: expected FIELD=VALUE"),
        (
            ["grefenstette2015", "--where", "seed=1", "--where", "seed=2"],
            "where: no trial has seed=2; seed is 1 in the trials that match the other conditions",
        ),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises((ChoiceError, ConfigError)) as caught:
        reproduce.run(arguments)
    assert message in str(caught.value)


def test_all_errors_together():
    with pytest.raises(ConfigError) as caught:
        reproduce.run(["grefenstette2015", "--jobs", "-1", "--dry-run", "--table-only"])
    assert len(caught.value.errors) == 2


def test_a_results_folder_that_cannot_be_made(tiny, tmp_path):
    (tmp_path / "results").write_text("a file")
    with pytest.raises(StorageError, match="results"):
        reproduce.run(["grefenstette2015"])


def test_dry_run_estimates_hours_from_measured_minutes(tiny, tmp_path, capsys):
    assert reproduce.run(["grefenstette2015", "--dry-run"]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "2 of 2 runs to train",
        "time unknown: no run of this study has a report in runs or results/grefenstette2015",
    ]
    write_report(tmp_path / "results" / "grefenstette2015", tiny.trials[0], minutes=120)
    assert reproduce.run(["grefenstette2015", "--dry-run"]) == 0
    # The estimate for the other run is the same time.
    assert capsys.readouterr().out.splitlines()[-1] == (
        "about 4.0 hours of training with --jobs 1, estimated from the minutes of 1 finished "
        "run on its hardware"
    )
    assert reproduce.run(["grefenstette2015", "--dry-run", "--jobs", "2"]) == 0
    assert "about 2.0 hours of training with --jobs 2" in capsys.readouterr().out


def test_a_line_is_printed_before_the_study_is_loaded(monkeypatch, capsys):
    def nothing(*arguments):
        assert capsys.readouterr().err == "planning grefenstette2015, study laptop ...\n"
        raise ConfigError(["enough"])

    monkeypatch.setattr(paper_studies, "load_study", nothing)
    with pytest.raises(ConfigError, match="enough"):
        reproduce.run(["grefenstette2015"])


def test_only_prints_the_requested_rows(tiny, tmp_path, monkeypatch, capsys):
    out = tmp_path / "results" / "grefenstette2015"
    for trial in tiny.trials:
        write_report(out, trial)
    monkeypatch.setattr(work, "train_trials", lambda waiting, *rest, **options: None)
    for asked in (["--only", "copy/queue"], ["--where", "model.memory.name=queue"]):
        assert reproduce.run(["grefenstette2015", *asked]) == 0
        printed = capsys.readouterr().out
        assert "| Copy | Queue-LSTM |" in printed
        assert "1-layer LSTM |" not in printed
        assert "1 of 1 runs are finished" in printed
        assert "every run line by line: results/grefenstette2015/table.md" in printed
        assert "| Copy | 1-layer LSTM |" in (out / "table.md").read_text()
    assert reproduce.run(["grefenstette2015"]) == 0
    printed = capsys.readouterr().out
    assert "| Copy | Queue-LSTM |" in printed
    assert "| Copy | 1-layer LSTM |" in printed
