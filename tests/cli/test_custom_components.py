"""A custom package: named by import path, and imported only if a command names it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.failing import Capture, failing
from unbounded.cli import main

OUTSIDE = Path(__file__).resolve().parents[1] / "outside"
TRAIN = (
    *("train", "bucket.Parity", "--task.longest", "3"),
    *("--model.memory", "bucket.Bucket", "--model.memory.keep_bias", "2.0"),
    *("--model.controller", "bucket.Leaky", "--model.controller.leak", "0.25"),
    *("--model.hidden_size", "4", "--model.embedding_size", "null", "--model.readout_size", "null"),
    *("--model.learn_initial_state", "false", "--training.batches", "4"),
    *("--training.stop.every", "2", "--training.validation_count", "4"),
    *("--training.accuracy_every", "0", "--evaluation.count", "8", "--hardware.threads", "1"),
)


FEW = (
    *("--model.hidden_size", "4", "--training.batches", "1", "--training.schedule", "constant"),
    *("--evaluation.count", "4", "--training.validation_count", "4", "--quiet"),
)


def unbounded(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "unbounded", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(OUTSIDE), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of the package's task, memory, controller and metric set."""
    folder = tmp_path_factory.mktemp("own")
    done = unbounded(folder, *TRAIN)
    assert done.returncode == 0, done.stderr
    assert "labels" in done.stdout
    return folder


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The same folder, and the package to import, for commands in this process."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTHONPATH", str(OUTSIDE))
    monkeypatch.syspath_prepend(OUTSIDE)
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == "bucket"]:
        del sys.modules[name]


def test_a_run_names_its_custom_components_by_import_path(folder: Path) -> None:
    (run,) = (folder / "runs").glob("bucket.Parity-bucket.Bucket-bucket.Leaky-*-seed1")
    report = json.loads((run / "report.json").read_text())
    assert report["metric_set"] == "bucket.RightLabels"
    assert report["model"] == "bucket.Bucket-bucket.Leaky"
    assert report["config"]["task"]["name"] == "bucket.Parity"
    assert report["config"]["model"]["memory"] == {"name": "bucket.Bucket", "keep_bias": 2.0}
    assert 0 <= report["rows"][0]["labels"] <= 1


def test_a_run_imports_only_modules_that_the_command_names(here: Path, capsys: Capture) -> None:
    (run,) = (here / "runs").glob("bucket*")
    done = unbounded(here, "evaluate", str(run))
    assert done.returncode == 2
    assert (
        "task 'bucket.Parity' is a custom component of package bucket. A config file" in done.stderr
    )
    assert "give --import bucket" in done.stderr
    assert main(["evaluate", str(run), "--import", "bucket", "--lengths", "5:6"]) == 0
    capsys.readouterr()
    assert (run / "evaluations" / "test-5-6-seed1.json").is_file()
    # A name in a file of another user is only looked up, and must be a component.
    config = run / "config.yaml"
    text = config.read_text()
    for name, message in (("os.system", "expected a subclass of"), ("antigravity.x", "--import")):
        config.write_text(text.replace("bucket.Parity", name))
        assert message in failing(capsys, "evaluate", str(run), "--import", "bucket")
    config.write_text(text)


def test_restarts_in_processes_import_the_package(here: Path, capsys: Capture) -> None:
    assert main([*TRAIN, "--restarts", "2", "--jobs", "2", "--resume", "--quiet"]) == 0
    assert "bucket.Parity, 2 restarts" in capsys.readouterr().out


def test_a_custom_memory_on_a_built_in_task(here: Path, capsys: Capture) -> None:
    small = ("--model.hidden_size", "4", "--training.batches", "1", "--evaluation.count", "4")
    few = ("--training.validation_count", "4", "--training.accuracy_every", "0", "--quiet")
    command = ("train", "anbn", "--model.memory")
    assert main([*command, "bucket.Bucket", "--evaluation.lengths", "2:3", *small, *few]) == 0
    capsys.readouterr()
    for path, message in (
        ("bucket.Buckte", "Did you mean 'Bucket'?"),
        ("nowhere.Heap", "the package of nowhere cannot be imported"),
    ):
        assert message in failing(capsys, *command, path)


def test_several_modules_are_imported(here: Path, capsys: Capture) -> None:
    (run,) = (here / "runs").glob("bucket.Parity-*-seed1")
    command = ("evaluate", str(run), "--lengths", "5:5", "--import")
    assert main([*command, "bucket.learning, bucket.network"]) == 0
    assert {"bucket.learning", "bucket.network"} <= set(sys.modules)
    capsys.readouterr()
    assert "package of bucket.nowhere cannot" in failing(capsys, *command, "bucket,bucket.nowhere")
    twice = ("--import", "bucket", "--import", "bucket.shear")
    message = failing(capsys, "evaluate", "RUN", *twice)
    assert "--import: expected it once, got it 2 times. Give one list, such as --import A,B" in (
        message
    )


def test_list_shows_the_options_of_a_custom_component(here: Path, capsys: Capture) -> None:
    for name, place, option in (
        ("Bucket", "model.memory", "width      as wide as the hidden layer"),
        ("Leaky", "model.controller", "leak  0.5"),
        ("Parity", "task", "longest  4"),
    ):
        assert main(["list", f"bucket.{name}"]) == 0
        output = capsys.readouterr().out
        assert output.startswith(f"bucket.{name} ({place}): ")
        assert option in output
    assert "of training; tests are twice as long" in output
    text = failing(capsys, "list", "bucket.Shear")
    assert "expected a subclass of Task, Memory or Controller in bucket" in text


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("\nraise ValueError('boom')", "ValueError: boom ({file}, line 2)"),
        ("raise SystemExit(4)", "SystemExit: 4 ({file}, line 1)"),
        ("def f(:", "SyntaxError: invalid syntax ({file}, line 1)"),
    ],
)
def test_a_module_that_fails_on_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, source: str, message: str
) -> None:
    file = tmp_path / "failing_module.py"
    file.write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    for arguments in (
        ("evaluate", "RUN", "--import", "failing_module"),
        ("train", "copy", "--model.memory", "failing_module.Heap"),
        ("train", "failing_module.Maze"),
    ):
        text = failing(capsys, *arguments)
        assert "the package of failing_module cannot be imported: " in text
        assert message.format(file=file) in text
    text = failing(capsys, "evaluate", "RUN", "--import", "failing_module.py")
    assert "got 'failing_module.py'. Leave out .py" in text


@pytest.mark.slow
def test_a_custom_group(folder: Path) -> None:
    group = "--model.memory.group"
    done = unbounded(folder, "train", "answer_copy", group, "bucket.Shear", *FEW)
    assert done.returncode == 0, done.stderr
    assert "no kernel supports the group shear" in done.stderr
    (run,) = (folder / "runs").glob("answer_copy-*")
    report = json.loads((run / "report.json").read_text())
    assert report["config"]["model"]["memory"]["group"] == "bucket.Shear"
    done = unbounded(folder, "evaluate", str(run))
    assert done.returncode == 2
    assert "group 'bucket.Shear' is a custom component of package bucket" in done.stderr
    done = unbounded(folder, "evaluate", str(run), "--import", "bucket", "--lengths", "2:3")
    assert done.returncode == 0, done.stderr
    none = "which has none of that name; subclasses there: Shear"
    for path, *messages in (
        ("bucket.Sheer", none, "Did you mean 'Shear'?"),
        ("bucket.Bucket", "expected a subclass of unbounded.memories.lie_access.groups.Group"),
        ("nowhere.Shear", "the package of nowhere cannot be imported"),
        ("sheer", "translation"),
    ):
        done = unbounded(folder, "train", "answer_copy", group, path)
        assert done.returncode == 2
        for message in messages:
            assert message in done.stderr, done.stderr


@pytest.mark.slow
def test_a_custom_weighting(folder: Path) -> None:
    weighting = "--model.memory.weighting"
    done = unbounded(folder, "train", "answer_copy", weighting, "bucket.nearest", *FEW)
    assert done.returncode == 0, done.stderr
    assert "no kernel supports the weighting nearest" in done.stderr
    done = unbounded(folder, "train", "answer_copy", weighting, "bucket.naerest", *FEW)
    assert done.returncode == 2
    assert "Did you mean 'nearest'?" in done.stderr


def test_a_package_of_this_folder_is_found_by_pythonpath(tmp_path: Path) -> None:
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "__init__.py").touch()
    done = unbounded(tmp_path, "sample", "beside.Task")  # python -m imports from the current folder
    assert "expected a subclass of" in done.stderr
    script = Path(sys.executable).with_name("unbounded")
    completed = subprocess.run(
        [script, "sample", "beside.Task"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert completed.returncode == 2
    assert "beside is in this folder: PYTHONPATH=. before the command" in completed.stderr
