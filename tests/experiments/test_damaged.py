"""Files of a run that were changed by hand, by a disk or by another program."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.experiments.tiny import tiny
from unbounded.errors import CheckpointError, ConfigError, StorageError, UnboundedError
from unbounded.experiments.run import run as run_module
from unbounded.experiments.run.evaluate import evaluate_run
from unbounded.experiments.run.run import train_run
from unbounded.experiments.run.run_folder import RunFolder

CONFIG = {
    "batches": 3,
    "accuracy_every": 0,
    "stop": "budget",
    "checkpoint_every": 2,
    "report_every": 1,
}


@pytest.fixture(scope="module")
def trained_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_run(tiny(**CONFIG), root=tmp_path_factory.mktemp("whole"), quiet=True).folder


@pytest.fixture
def folder(trained_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained_run, tmp_path / trained_run.name))


def resumed(folder: Path) -> dict[str, Any]:
    return train_run(tiny(**CONFIG), root=folder.parent, quiet=True, resume=True).report


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)


def test_sizes_are_compared_before_memory_is_allocated(folder: Path) -> None:
    """Once a huge vocabulary took gigabytes before it was compared with the weights."""
    path = folder / "model" / "config.json"
    options = json.loads(path.read_text())
    path.write_text(json.dumps({**options, "inputs": 10**9}))
    with pytest.raises(CheckpointError, match=r"has shape \[.*\] in the file, and \[1000000000, "):
        evaluate_run(folder)


def test_weights_that_are_a_pipe_are_an_error(folder: Path) -> None:
    """Once the pipe was read for ever."""
    path = folder / "model" / "model.safetensors"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(CheckpointError, match="is missing or is not a file"):
        evaluate_run(folder)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"{]\n", b'"x"\n', b'{"kind": "training"}\n'])
def test_a_run_finishes_even_if_its_figures_cannot_be_drawn(
    folder: Path,
    content: bytes,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Once a run with a damaged metrics.jsonl could not finish."""
    from unbounded.figures import draw_run

    monkeypatch.setattr(run_module, "draw_run", draw_run)
    (folder / "report.json").unlink()
    path = folder / "metrics.jsonl"
    path.write_bytes(content + path.read_bytes().split(b"\n", 1)[1])
    assert resumed(folder)["rows"]
    assert "could not be drawn" in capsys.readouterr().err
    assert not train_run(tiny(**CONFIG), root=folder.parent, quiet=True, resume=True).fresh


def test_a_config_deleted_during_the_run_is_rewritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the run finished, and --resume then failed."""
    (tmp_path / "any").mkdir()
    monkeypatch.setattr(
        run_module, "draw_run", lambda folder: (folder / "config.yaml").unlink() or []
    )
    first = train_run(tiny(**CONFIG), root=tmp_path, quiet=True)
    path = first.folder / "config.yaml"
    assert path.is_file()
    path.unlink()
    again = train_run(tiny(**CONFIG), root=tmp_path, quiet=True, resume=True)
    assert not again.fresh
    assert again.report == first.report
    assert path.is_file()


@pytest.mark.parametrize("way", ["cut off", "edited"])
def test_an_edited_config_is_reported_and_rewritten(
    folder: Path, way: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "config.yaml"
    sound = path.read_text()
    if way == "cut off":
        path.write_text(sound[: sound.index("evaluation:")])
    else:
        path.write_text(yaml.safe_dump({**yaml.safe_load(sound), "seed": 77}))
    (folder / "report.json").unlink()
    resumed(folder)
    assert "config.yaml is damaged or was edited" in capsys.readouterr().err
    assert yaml.safe_load(path.read_text()) == yaml.safe_load(sound)
    (folder / "report.json").unlink()
    resumed(folder)
    assert "was edited" not in capsys.readouterr().err


def test_a_refused_resume_does_not_change_the_config(folder: Path) -> None:
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "seed": 77}))
    edited = path.read_text()
    (folder / "report.json").unlink()
    for manifest in folder.glob("checkpoints/*/manifest.json"):
        manifest.write_text("[]")
    with pytest.raises(CheckpointError, match="no checkpoint can be used"):
        resumed(folder)
    assert path.read_text() == edited


def test_a_file_instead_of_the_checkpoint_folder_is_an_error_at_the_start(folder: Path) -> None:
    (folder / "report.json").unlink()
    shutil.rmtree(folder / "checkpoints")
    (folder / "checkpoints").write_text("")
    with pytest.raises(CheckpointError, match="is a file, but the folder of checkpoints"):
        resumed(folder)


def test_errors_of_an_unfinished_run_advise_resume(folder: Path) -> None:
    (folder / "report.json").unlink()
    with pytest.raises(CheckpointError, match=r"no hardened model.*train copy --resume"):
        evaluate_run(folder, hardened=True)
    shutil.rmtree(folder / "model")
    shutil.rmtree(folder / "checkpoints")
    with pytest.raises(CheckpointError, match=r"no model that can be used.*train copy --resume"):
        evaluate_run(folder)


def test_a_run_without_its_checkpoints_restarts_with_a_message(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once there was no message, and --quiet hid a damaged checkpoint too."""
    for name in ("report.json", "model/model.safetensors"):
        (folder / name).unlink()
    shutil.rmtree(folder / "model")
    newest = max((folder / "checkpoints").iterdir())
    damage(newest / "model.safetensors")
    resumed(folder)
    assert "is damaged" in capsys.readouterr().err
    (folder / "report.json").unlink()
    shutil.rmtree(folder / "checkpoints")
    resumed(folder)
    assert "has no checkpoint, although this run had started" in capsys.readouterr().err


REPORTS: dict[str, Any] = {
    "only the format": lambda report: {"format": report["format"]},
    "no rows": lambda report: {**report, "rows": None},
    "rows of another form": lambda report: {**report, "rows": [{"lengths": 3}]},
    "an unknown scoring": lambda report: {**report, "metric_set": "sums"},
    "nothing rounded": lambda report: {**report, "hardened": None},
    "a config that is none": lambda report: {**report, "config": {"task": []}},
    "an old one of an unknown kind": lambda report: {
        **{key: report[key] for key in report if key != "metric_set"},
        "kind": "sums",
    },
}


@pytest.mark.parametrize("change", REPORTS.values(), ids=REPORTS)
def test_an_invalid_report_is_named(folder: Path, change: Any) -> None:
    """Once these ended in a traceback."""
    path = folder / "report.json"
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    with pytest.raises(CheckpointError, match=r"report\.json is (damaged, or )?not a run's report"):
        resumed(folder)


def test_a_report_of_another_version_is_named(folder: Path) -> None:
    path = folder / "report.json"
    report = json.loads(path.read_text())
    path.write_text(json.dumps({**report, "version": 4}))
    message = r"report\.json is a report of version 4, .* with version 5\. Use the version"
    with pytest.raises(CheckpointError, match=message):
        resumed(folder)


def test_a_report_of_brackets_is_named(folder: Path) -> None:
    (folder / "report.json").write_text("[" * 100_000)
    message = r"report\.json is not a report: .* Delete it, and --resume"
    with pytest.raises(CheckpointError, match=message):
        resumed(folder)


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        ("task", [], r"task: expected a mapping such as .*, got \[\]"),
        ("model", None, "model: expected options, got None"),
        ("model.memory", [1, 2], "model.memory: expected a mapping such as"),
        ("model.memory", {}, r"model.memory: expected a name in it, got \{\}"),
        ("evaluation.count", "x", "evaluation.count: expected an integer, got 'x'"),
        ("evaluation.count", 0, "evaluation.count: expected a number at least 1, got 0"),
        ("evaluation.lengths", 5, "evaluation.lengths: expected a list such as "),
        ("training.lengths", 1e30, "training.lengths: expected a text or null, got 1e"),
        ("training.other", 1, "other"),
        ("seed", True, "seed: expected an integer, got True"),
    ],
)
def test_an_invalid_config_is_named(
    tmp_path: Path, folder: Path, where: str, value: Any, message: str
) -> None:
    path = folder / "config.yaml"
    data = yaml.safe_load(path.read_text())
    *above, name = where.split(".")
    (data[above[0]] if above else data)[name] = value
    path.write_text(yaml.safe_dump(data))
    with pytest.raises((CheckpointError, ConfigError), match=message):
        evaluate_run(folder)


def test_the_error_for_a_config_with_invalid_yaml_is_one_line(folder: Path) -> None:
    (folder / "config.yaml").write_text("]][\n")
    with pytest.raises(
        CheckpointError, match=r"config\.yaml is not YAML, line 1, column 1: "
    ) as caught:
        evaluate_run(folder)
    assert "\n" not in str(caught.value)


def test_an_explicit_count_is_kept(folder: Path) -> None:
    """Once the run's own bound of symbols reduced the count silently."""
    path = folder / "config.yaml"
    data = yaml.safe_load(path.read_text())
    data["evaluation"]["symbols"] = 10
    path.write_text(yaml.safe_dump(data))
    assert {row["count"] for row in evaluate_run(folder, count=7)["rows"]} == {7}
    assert {row["count"] for row in evaluate_run(folder)["rows"]} != {7}


def test_a_prefix_of_its_name_identifies_a_run(folder: Path) -> None:
    """Once no runs were listed, and prefixes were not accepted."""
    root = folder.parent
    assert RunFolder.find(root / "copy-queue").path == folder
    assert RunFolder.find("copy", root).path == folder
    assert RunFolder.find(folder / "config.yaml").path == folder
    with pytest.raises(CheckpointError, match=f"Runs in {root}:\n  {folder}"):
        RunFolder.find(root / "reversal")
    shutil.copytree(folder, f"{folder}1")
    with pytest.raises(CheckpointError, match="is a prefix of several runs; name one"):
        RunFolder.find(root / "copy")
    with pytest.raises(UnboundedError, match="holds no run"):
        RunFolder.find("copy", root / "none")
    with pytest.raises(CheckpointError, match=f"Runs in {root}:\n  {folder}"):
        RunFolder.find(root)


def test_a_finished_run_on_a_read_only_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once --resume failed, because it wrote a lock."""

    def refuse(folder: Path) -> None:
        raise StorageError("read-only file system")

    monkeypatch.setattr(run_module, "lock", refuse)
    assert not train_run(tiny(**CONFIG), root=folder.parent, quiet=True, resume=True).fresh
    with pytest.raises(StorageError):
        train_run(tiny(**CONFIG), root=folder.parent, quiet=True)
