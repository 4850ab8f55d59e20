"""`unbounded evaluate`, `actions` and `sample` on runs of a second."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.cli.failing import Capture, failing
from tests.constructions import model_of
from tests.experiments.tiny import tiny, tiny_arguments
from tests.experiments.tiny_streams import tiny_streams
from tests.verification.runs import constructed_run
from unbounded.cli import main, verify
from unbounded.errors import StorageError
from unbounded.experiments.config.identity import run_name
from unbounded.experiments.run import run as run_module
from unbounded.experiments.run.run import train_run
from unbounded.experiments.run.run_folder import RunFolder
from unbounded.explorer.built_in import RUNS
from unbounded.figures import draw_run
from unbounded.models import MemoryModel
from unbounded.tasks import LengthRange, Task, make_task


def test_actions_of_a_run(capsys: Capture, tmp_path: Path) -> None:
    config = tiny_streams(batches=1)
    config.hardening = {"name": "gradual", "batches": 1}
    folder = train_run(config, root=tmp_path, quiet=True).folder
    assert main(["actions", str(folder), "aab b"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["current", "next", "predicted"]
    assert [row.split()[:2] for row in rows] == [*map(list, ("ba", "aa", "ab", "bb"))]
    assert "PUSH" in rows[0] or "POP" in rows[0]
    pictures = tmp_path / "pictures"
    arguments = ["actions", str(folder), "aabb", "--hardened", "--out", str(pictures)]
    assert main(arguments) == 0
    assert "action_table.svg" in capsys.readouterr().out
    assert (pictures / "actions.svg").stat().st_size > 0
    assert "--overwrite replaces it" in failing(capsys, *arguments)
    (tmp_path / "a_file").touch()
    message = failing(capsys, "actions", str(folder), "aabb", "--out", str(tmp_path / "a_file"))
    assert "is a file; name a folder" in message
    message = failing(capsys, "actions", str(folder), "aaxb")
    assert "unknown symbol of task anbn 'x'" in message
    assert "expected at least two" in failing(capsys, "actions", str(folder), "a")
    # A long input has only the readable picture, and a note gives the reason.
    arguments = ["actions", str(folder), "ab" * 51, "--out", str(tmp_path / "long")]
    assert main(arguments) == 0
    assert "no picture of the table: it has 102 rows" in capsys.readouterr().out
    names = {path.name for path in (tmp_path / "long").iterdir()}
    assert names == {"actions.svg"}
    assert main([*arguments[:2], "ab" * 50, *arguments[3:], "--overwrite"]) == 0
    assert "no picture" not in capsys.readouterr().out
    assert (tmp_path / "long" / "action_table.svg").exists()


def test_actions_of_a_run_with_a_queue(capsys: Capture, tmp_path: Path) -> None:
    folder = train_run(tiny(batches=1, accuracy_every=0), root=tmp_path, quiet=True).folder
    assert main(["actions", str(folder), "<s> s1 s2 ||| s1"]) == 0
    head, _, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["current", "next", "predicted", "p(next)", "push", "pop"]
    assert [row.split()[:2] for row in rows] == [
        ["<s>", "s1"],
        ["s1", "s2"],
        ["s2", "|||"],
        ["|||", "s1"],
    ]
    message = failing(capsys, "actions", str(folder), "<s> s1", "--out", str(tmp_path / "pictures"))
    assert "superposition stacks or lists only" in message
    assert f"unbounded explore {folder}" in message


def test_actions_and_evaluate_agree_beyond_the_capacity(capsys: Capture, tmp_path: Path) -> None:
    folder = tmp_path / "anbn"
    shutil.copytree(RUNS / "anbn", folder)
    assert main(["evaluate", str(folder), "--hardened", "--lengths", "250:250"]) == 0
    note = "to score these, the memory was given room for 500 cells, more than its own capacity"
    assert note in capsys.readouterr().out.splitlines()
    assert main(["actions", str(folder), "a" * 250 + "b" * 250 + "a", "--hardened"]) == 0
    _, *rows, last_line = capsys.readouterr().out.splitlines()
    assert last_line == note
    predicted = [row.split()[2] for row in rows]
    assert predicted[251:] == ["b"] * 249 + ["a"]
    assert main(["actions", str(folder), "aabba", "--hardened"]) == 0
    assert "room" not in capsys.readouterr().out


@pytest.mark.parametrize("task", ["dyck", "answer_reverse"])
def test_actions_of_words_and_answers_beyond_the_capacity(
    capsys: Capture, tmp_path: Path, task: str
) -> None:
    options = {"kinds": 1} if task == "dyck" else {"symbols": 2}
    own = make_task(task, **options)
    memory = {"name": "superposition_stack", "count": 1, "capacity": 2, "overflow": "error"}
    model = model_of(own, memory=memory, hidden_size=4)
    folder = constructed_run(tmp_path, task, options, model)
    text = "uuuddd" if task == "dyck" else "s0 s1 s0 s1"
    arguments = ["actions", str(folder), text, "--out", str(tmp_path / "pictures")]
    assert main(arguments) == 0
    assert "the memory was given room for" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("task", "options", "length", "steps", "heads"),
    [
        ("dyck", {}, 3, 6, 1),
        ("answer_bigram_flip", {"symbols": 3}, 40, 80, 1),
        ("answer_addition", {}, 9, 18, 1),
        ("answer_copy", {"symbols": 3}, 4, 4, 2),
    ],
)
def test_actions_of_a_test_example_of_a_length(
    capsys: Capture,
    tmp_path: Path,
    task: str,
    options: dict[str, int],
    length: int,
    steps: int,
    heads: int,
) -> None:
    own = make_task(task, **options)
    memory = {"name": "lie_access", "width": 2, "read_heads": heads, "write_heads": heads}
    model = model_of(own, memory=memory, hidden_size=4)
    folder = constructed_run(tmp_path, task, options, model)
    pictures = tmp_path / "pictures"
    drawn = ["--out", str(pictures)] if heads == 1 else []  # figures show one head of each kind
    assert main(["actions", str(folder), "--length", str(length), *drawn]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    table = [line for line in lines if line and line[0].isdigit()]
    (example,) = own.examples(folder_seed(folder), "test", 0, 1, LengthRange(length, length))
    assert len(example.source) == steps
    head = 0 if task == "dyck" else 1  # <s>
    assert tuple(row[1] for row in table[head : head + steps]) == example.source
    assert all(row.count("|") == 2 * (heads - 1) for row in table[head : head + steps])
    if drawn:
        (picture,) = pictures.iterdir()
        assert picture.name == ("path.svg" if task == "dyck" else "keys.svg")


def two_stacks(task: Task) -> MemoryModel:
    return model_of(task, memory={"name": "superposition_stack", "count": 2}, hidden_size=4)


def folder_seed(folder: Path) -> int:
    return RunFolder.find(str(folder)).config().seed


def test_the_length_of_actions_is_an_answer_to_the_input(capsys: Capture, tmp_path: Path) -> None:
    task = make_task("copy", symbols=3)
    model = two_stacks(task)
    run = str(constructed_run(tmp_path, "copy", {"symbols": 3}, model))
    assert "expected either the input's symbols or --length" in failing(capsys, "actions", run)
    both = failing(capsys, "actions", run, "s1", "--length", "3")
    assert "INPUT: expected either the input's symbols or --length" in both
    text = failing(capsys, "actions", run, "--length", "3")
    assert "--length: has no meaning on task 'copy'; give INPUT" in text
    labels = make_task("dyck")
    model = MemoryModel(inputs=2, outputs=1, memory="stack", hidden_size=4)
    assert labels.layout == "labels"
    run = str(constructed_run(tmp_path / "dyck", "dyck", {}, model))
    for length in ("0", "999999999"):
        message = f"--length: expected 1 to 10000, got {length}"
        assert message in failing(capsys, "actions", run, "--length", length)
    assert "INPUT" not in failing(capsys, "actions", run, "--length", "3.5")


def test_actions_of_pairs(capsys: Capture, tmp_path: Path) -> None:
    task = make_task("copy", symbols=3)
    model = two_stacks(task)
    run = str(constructed_run(tmp_path, "copy", {"symbols": 3}, model))
    out = str(tmp_path / "pictures")
    assert main(["actions", run, "<s> s1 s2 ||| s1 s2 </s>", "--out", out]) == 0
    text, written = capsys.readouterr().out.split("\n\n")
    rows = [row.split() for row in text.splitlines()[1:]]
    steps = ["<s> s1", "s1 s2", "s2 |||", "||| s1", "s1 s2", "s2 </s>"]
    assert [" ".join(row[:2]) for row in rows] == steps
    assert {row[2] for row in rows[3:]} <= set(task.output_vocabulary)
    assert "action_table.svg" in written
    # Inputs that crashed, and inputs named by the wrong vocabulary.
    assert main(["actions", run, "<s> s1 s2 |||"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4
    message = failing(capsys, "actions", run, "<s> ||| <s> |||")
    assert "symbols: expected <s> SOURCE ||| TARGET </s>, got '<s>' as symbol 3" in message


def test_train_and_evaluate_with_their_errors(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "draw_run", draw_run)
    arguments = tiny_arguments(tmp_path, batches=20)
    assert main(arguments) == 0
    out = capsys.readouterr().out
    folder = tmp_path / run_name(tiny(batches=20))
    assert f"run folder: {folder}" in out
    assert "lengths  sequences  exact match  95 % interval" in out
    assert "\x1b" not in out
    assert (folder / "figures" / "convergence.svg").exists()

    assert "--resume continues it, --overwrite replaces it" in failing(capsys, *arguments)
    assert main([*arguments, "--resume"]) == 0
    assert "this run is finished: budget: 20 batches" in capsys.readouterr().out

    assert main(["evaluate", str(folder), "--lengths", "1:3,4:6,7:9", "--count", "30"]) == 0
    out = capsys.readouterr().out
    path = Path(out.rsplit("report: ", 1)[1].strip())
    report = json.loads(path.read_text())
    assert [row["lengths"] for row in report["rows"]] == ["1:3", "4:6", "7:9"]
    assert report["rows"][0]["count"] == 30
    assert {"task", "split", "seed", "versions", "commit", "hardware"} <= set(report)
    # The same sequences as in the table of the training run: one function of seed and index.
    assert main(["evaluate", str(folder), "--lengths", "4:6", "--count", "20"]) == 0
    capsys.readouterr()
    path = folder / "evaluations" / "test-4-6-n20-seed3.json"
    again = json.loads(path.read_text())
    full = json.loads((folder / "report.json").read_text())
    assert again["rows"][0] == full["rows"][1]
    # An existing report is replaced only on request.
    path.write_text("mine")
    for number in (2, 3):
        assert main(["evaluate", str(folder), "--lengths", "4:6", "--count", "20"]) == 0
        assert capsys.readouterr().out.endswith(f"test-4-6-n20-seed3_again{number}.json\n")
    assert path.read_text() == "mine"

    message = failing(
        capsys,
        *("evaluate", str(folder), "--lengths", "6:4,x,1:5,3:9", "--count", "0"),
        *("--split", "tst", "--sed", "1"),
    )
    assert "6 errors" in message
    assert "6:4 is reversed; write 4:6" in message
    assert "length ranges 1:5 and 3:9 overlap" in message
    assert "unknown split 'tst'. Did you mean 'test'?" in message
    assert "unknown option '--sed'. Did you mean '--seed'?" in message
    out_file = tmp_path / "out.json"
    out_file.write_text("mine")
    message = failing(capsys, "evaluate", str(folder), "--out", str(out_file))
    assert f"{out_file} exists; --overwrite replaces it" in message


def test_an_unfinished_run_is_scored_at_its_newest_checkpoint(
    capsys: Capture, tmp_path: Path
) -> None:
    config = tiny(batches=3, accuracy_every=0, checkpoint_every=2)
    folder = train_run(config, root=tmp_path, quiet=True).folder
    command = ["evaluate", str(folder), "--count", "5", "--out", str(tmp_path / "report.json")]
    assert main(command) == 0
    assert "not finished" not in capsys.readouterr().out
    assert json.loads((tmp_path / "report.json").read_text())["weights_batch"] is None
    for left in ("model", "checkpoints/batch-000000003"):
        shutil.rmtree(folder / left)
    assert main([*command, "--overwrite"]) == 0
    assert capsys.readouterr().out.startswith(
        "this run is not finished: its newest readable checkpoint is scored, after batch 2 "
    )
    assert json.loads((tmp_path / "report.json").read_text())["weights_batch"] == 2


@pytest.mark.parametrize("name", ["stack_language", "flare"])
def test_evaluate_refuses_a_range_without_a_string(
    capsys: Capture, tmp_path: Path, name: str
) -> None:
    task = make_task(name, language="marked_reversal")
    model = model_of(task)
    options = {"language": "marked_reversal"}
    folder = str(constructed_run(tmp_path, name, options, model))
    message = failing(capsys, "evaluate", folder, "--lengths", "4:4,5:5", "--count", "2")
    assert f"lengths: {name}: length range: the language has no string of 4:4" in message
    assert "5:5" not in message
    assert main(["evaluate", folder, "--lengths", "5:5", "--count", "2"]) == 0


def test_evaluate_accepts_the_lengths_of_the_table(capsys: Capture) -> None:
    for given in (["--evaluation.lengths", "65:128,129:256"], ["--evaluation.lengths=65:128"]):
        assert main(["train", "copy", *given, "--print_config"]) == 0
        assert "lengths:\n  - 65:128\n" in capsys.readouterr().out
    message = failing(capsys, "train", "copy", "--evaluation.lengths", "65:128,x,3:70")
    assert "expected MINIMUM:MAXIMUM such as 65:128, got 'x'" in message
    assert "length ranges 3:70 and 65:128 overlap" in message


def test_evaluate_needs_a_run(capsys: Capture, tmp_path: Path) -> None:
    assert "run: this argument is required" in failing(capsys, "evaluate", "--count", "3")
    assert "is not a run folder: it has no config.yaml" in failing(
        capsys, "evaluate", str(tmp_path)
    )


def test_a_missing_output_folder_is_reported_before_scoring(
    capsys: Capture, tmp_path: Path
) -> None:
    message = failing(capsys, "evaluate", "none", "--out", str(tmp_path / "none" / "report.json"))
    assert f"--out: there is no folder {tmp_path / 'none'}; make it first" in message
    for more in ([], ["--overwrite"]):
        message = failing(capsys, "evaluate", "none", "--out", str(tmp_path), *more)
        assert message.endswith(f"  - --out: {tmp_path} is a folder; name a file in it\n")
        assert "1 error" in message


def test_the_report_of_many_ranges_has_a_short_name(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = train_run(tiny(batches=1, accuracy_every=0), root=tmp_path, quiet=True).folder
    for last in (70, 71):
        ranges = ",".join(f"{n}:{n}" for n in range(1, last + 1))
        assert main(["evaluate", str(folder), "--lengths", ranges, "--count", "1"]) == 0
    names = {path.name[:15] for path in (folder / "evaluations").iterdir()}
    assert names == {"test-70-ranges-", "test-71-ranges-"}
    capsys.readouterr()

    def refuse(path: Path, text: str) -> None:
        raise StorageError(f"writing {path} failed: the disk is full")

    # The scores are printed nevertheless.
    monkeypatch.setattr("unbounded.files.write_text", refuse)
    assert main(["evaluate", str(folder), "--lengths", "1:3", "--count", "1"]) != 0
    out, err = capsys.readouterr()
    assert "lengths  sequences  exact match" in out
    assert "the disk is full" in err


def test_progress_is_printed_if_scoring_takes_long(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = str(constructed_run(tmp_path, "reversal", {"symbols": 4}, symbols=4))
    arguments = ["evaluate", run, "--lengths", "1:2,3:5", "--count", "3"]
    assert main(arguments) == 0
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(verify, "_EVERY_SECONDS", -1.0)
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert err.splitlines() == [
        "scoring 3 sequences of length 1:2, 0% done",
        "scoring 3 sequences of length 3:5, 29% done",
    ]
    assert "scoring" not in out
    assert main([*arguments, "--quiet"]) == 0
    assert capsys.readouterr().err == ""


def test_progress_is_printed_within_a_long_range(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([0.0, 0.1, 3.0, 3.0, 3.5])
    monkeypatch.setattr(verify, "time", SimpleNamespace(monotonic=lambda: next(times)))
    look = verify.progress("scoring {}, {:.0f}% done")
    for _ in range(3):  # once at the start, and between two chunks
        look("3 sequences of length 1:2", 0.0)
    look("3 sequences of length 3:5", 0.5)
    look("", 1.0)
    assert capsys.readouterr().err == "scoring 3 sequences of length 1:2, 0% done\n"
