"""`unbounded explore`: the written file and the errors."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import webbrowser
from pathlib import Path

import pytest

from tests.cli.failing import Capture, failing
from tests.experiments.tiny import tiny
from tests.explorer.test_pages import data_of
from unbounded.cli import main
from unbounded.experiments.run.run import train_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    return train_run(tiny(batches=2, accuracy_every=1), root=root, quiet=True).folder


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that a browser would open."""
    addresses: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: not addresses.append(address))
    return addresses


def test_explore_without_a_run_shows_the_built_in_models(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["explore"]) == 0
    page = tmp_path / "unbounded-explore.html"
    assert opened == [page.as_uri()]
    data = data_of(page.read_text(encoding="utf-8"))
    kinds = ["queue", "stack", "superposition_stack"]
    assert [run["model"]["memory"]["kind"] for run in data["runs"]] == [*kinds, *kinds]
    output = capsys.readouterr().out
    assert "Copy with a queue, trained: Trained on lengths 4 to 24" in output
    assert "wrote unbounded-explore.html" in output


def test_options_for_a_run_are_refused_without_a_run(capsys: Capture) -> None:
    flags = "--weights int8", "--hardened", "--course", "--data x", "--import x"
    for given in map(str.split, flags):
        message = failing(capsys, "explore", *given)
        assert f"{given[0]}: needs a RUN" in message


def test_the_page_of_built_in_models_does_not_import_torch(tmp_path: Path) -> None:
    """The first page opens fast, because importing torch takes two seconds."""
    code = (
        "import sys; from unbounded.cli import main; assert main(['explore', '--no-open']) == 0; "
        "print(sorted({'torch', 'numpy', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.endswith("\n[]\n")
    assert (tmp_path / "unbounded-explore.html").is_file()


def test_a_run_has_its_page_in_its_folder(capsys: Capture, folder: Path, opened: list[str]) -> None:
    assert main(["explore", str(folder)]) == 0
    assert opened == [(folder / "explore.html").as_uri()]
    (run,) = data_of((folder / "explore.html").read_text(encoding="utf-8"))["runs"]
    assert run["name"] == folder.name
    assert run["title"] == "queue-lstm on copy"
    assert run["curves"][0]["name"].startswith("exact match, length ")
    assert "half precision" in capsys.readouterr().out


def test_two_runs_in_one_page(
    folder: Path, tmp_path: Path, opened: list[str], capsys: Capture
) -> None:
    page = tmp_path / "both.html"
    other = Path(shutil.copytree(folder, tmp_path / "other-seed"))
    assert main(["explore", str(folder), str(other), "--export", str(page), "--no-open"]) == 0
    assert opened == []
    runs = data_of(page.read_text(encoding="utf-8"))["runs"]
    # Equal titles get the names of the folders.
    assert [run["title"] for run in runs] == [
        f"queue-lstm on copy: {folder.name}",
        "queue-lstm on copy: other-seed",
    ]
    assert f"wrote {page}" in capsys.readouterr().out


def test_the_course_of_training(
    tmp_path: Path, opened: list[str], capsys: Capture, folder: Path
) -> None:
    config = tiny(batches=4, accuracy_every=0, checkpoint_every=1, keep_checkpoints=4)
    run = train_run(config, root=tmp_path, quiet=True).folder
    assert main(["explore", str(run), "--course", "--no-open"]) == 0
    assert not (run / "explore.html").exists()
    runs = data_of((run / "explore-course.html").read_text(encoding="utf-8"))["runs"]
    assert [run["title"] for run in runs] == [
        f"queue-lstm after {batches} batches" for batches in (1, 2, 3, 4)
    ]
    assert [run["after_batches"] for run in runs] == [1, 2, 3, 4]
    assert runs[0]["weights"] != runs[-1]["weights"]
    capsys.readouterr()
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "config.yaml").write_text((folder / "config.yaml").read_text())
    message = failing(capsys, "explore", str(bare), "--course")
    assert "has no checkpoint; train with --training.keep_checkpoints" in message


def test_no_browser(
    capsys: Capture, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda address: False)
    page = tmp_path / "page.html"
    page = page.parent / "pages of mine" / page.name  # the folder is created
    assert main(["explore", str(folder), "--export", str(page)]) == 0
    assert f"no browser could be opened here: open {page} in one" in capsys.readouterr().err


def test_invalid_run_folders_and_output_files_are_errors(
    capsys: Capture, folder: Path, tmp_path: Path
) -> None:
    assert "is not a run folder" in failing(capsys, "explore", str(tmp_path))
    assert "nothing-here does not exist. " in failing(capsys, "explore", "nothing-here")
    assert "is a folder; name a file" in failing(
        capsys, "explore", str(folder), "--export", str(tmp_path)
    )
    assert "expected a name such as page.html, got" in failing(
        capsys, "explore", str(folder), "--export", str(tmp_path / "README.txt")
    )
    own = tmp_path / "own.html"
    own.write_text("mine")
    message = failing(capsys, "explore", str(folder), "--export", str(own))
    assert "--overwrite replaces it" in message
    assert own.read_text() == "mine"


def test_a_run_without_a_model(capsys: Capture, folder: Path, tmp_path: Path) -> None:
    """A run that is still training, and has no checkpoint yet."""
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "config.yaml").write_text((folder / "config.yaml").read_text())
    assert "has no model that can be used" in failing(capsys, "explore", str(bare))


def test_a_damaged_or_missing_report_is_reported(
    capsys: Capture, folder: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(folder, run)
    (run / "report.json").write_text("{")
    assert main(["explore", str(run), "--no-open"]) == 0
    output = capsys.readouterr().out
    assert "Its report is damaged: " in output
    assert "report.json" in output
    (run / "report.json").unlink()
    assert main(["explore", str(run), "--no-open"]) == 0
    output = capsys.readouterr().out
    assert "It has no report.json, so its scores are unknown." in output
    (page,) = data_of((run / "explore.html").read_text(encoding="utf-8"))["runs"]
    assert page["note"].startswith("It has no report.json")


def test_one_spelling_of_flags(capsys: Capture, folder: Path) -> None:
    """Hyphens; the same in each verb that takes a trained or a hardened model."""
    assert "unknown option '--no_open'" in failing(capsys, "explore", str(folder), "--no_open")
    for verb in ("explore", "evaluate", "verify", "extract", "actions"):
        with pytest.raises(SystemExit):
            main([verb, "--help"])
        assert "--hardened, --no-hardened" in capsys.readouterr().out
    message = failing(capsys, "explore", str(folder), "--hardened")
    assert "has no hardened model" in message
    assert main(["explore", str(folder), "--no-hardened", "--no-open"]) == 0


@pytest.mark.parametrize(
    ("hardened", "title"),
    [
        ({"saturated": True}, ", hardened"),
        ({"saturated": False}, ", hardened in part"),
        ({"saturated": False, "harm": True}, ", as trained: the hardened model was not better"),
    ],
)
def test_a_title_states_whether_gates_are_hardened(
    folder: Path, tmp_path: Path, hardened: dict[str, bool], title: str
) -> None:
    run = tmp_path / "run"
    shutil.copytree(folder, run)
    shutil.copytree(run / "model", run / "model-hardened")
    report = json.loads((run / "report.json").read_text())
    (run / "report.json").write_text(json.dumps({**report, "hardened": hardened}))
    assert main(["explore", str(run), "--hardened", "--no-open"]) == 0
    (page,) = data_of((run / "explore.html").read_text(encoding="utf-8"))["runs"]
    assert page["title"].endswith(title)


def test_a_damaged_run(capsys: Capture, folder: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged"
    (damaged / "model").mkdir(parents=True)
    (damaged / "config.yaml").write_text((folder / "config.yaml").read_text())
    for name in ("config.json", "model.safetensors.sha256"):
        (damaged / "model" / name).write_bytes((folder / "model" / name).read_bytes())
    weights = bytearray((folder / "model" / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (damaged / "model" / "model.safetensors").write_bytes(weights)
    assert "is damaged" in failing(capsys, "explore", str(damaged))
    assert not (damaged / "explore.html").exists()


def test_damaged_curves_are_reported(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    run = Path(shutil.copytree(folder, tmp_path / folder.name))
    for damaged in (b"{}\n", b"\xff\xfe\n"):
        (run / "metrics.jsonl").write_bytes(damaged)
        assert main(["explore", str(run), "--no-open"]) == 0
        assert "no curves of its training: " in capsys.readouterr().out
    (run / "metrics.jsonl").unlink()
    assert main(["explore", str(run), "--no-open"]) == 0
    assert "no curves" not in capsys.readouterr().out
