"""`unbounded verify` and `extract` as a user types them: tiny runs, Ctrl-C, and bad input."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.cli.failing import failing
from tests.constructions import model_of
from tests.experiments.tiny import tiny
from tests.experiments.tiny_streams import tiny_streams
from tests.verification.runs import constructed_run, softened
from unbounded import constructions
from unbounded.cli import main, verify
from unbounded.constructions import CONSTRUCTIONS
from unbounded.experiments.run.run import train_run
from unbounded.experiments.run.run_folder import RunFolder
from unbounded.experiments.run.verification import verification_of, verify_run
from unbounded.files import file_digest
from unbounded.tasks import make_task
from unbounded.verification import VerifyOptions


@pytest.fixture(scope="module")
def copying(tmp_path_factory):
    return train_run(tiny(batches=3), root=tmp_path_factory.mktemp("copy"), quiet=True).folder


def test_a_tiny_trained_run(copying, capsys):
    """It has learned nothing: errors are counted and shown."""
    options = ["--symbols_each", "60", "--times", "2", "--count", "5"]
    assert main(["verify", str(copying), *options]) == 0
    out = capsys.readouterr().out
    assert "proven by enumeration: no length" in out
    assert "wrong, for example: s0" in out
    assert "sampled: 0 of 5 drawn sequences" in out
    report = json.loads((copying / "verification-model.json").read_text())
    assert report["alphabet"] == ["s0", "s1"]
    assert {row["how"] for row in report["rows"]} == {"every", "drawn"}
    drawn = [row for row in report["rows"] if row["how"] == "drawn"]
    assert all(0 <= row["correct_share_95"][0] <= row["correct_share_95"][1] <= 1 for row in drawn)
    assert all(0.5 <= row["least_certainty"] < 0.999 for row in report["rows"])
    assert drawn[-1]["course"][0]["steps"][0] == 0
    message = failing(capsys, "extract", str(copying))
    assert "its gates are not saturated" in message
    assert "`unbounded harden RUN`" in message


def test_strings_are_drawn_at_multiples_of_the_training_range_of_the_run(tmp_path):
    config = tiny(batches=1, lengths="1:2", stop="budget")
    run = train_run(config, root=tmp_path, quiet=True).folder
    options = VerifyOptions(most=1, times=(4,), count=2)
    report = verify_run(run, options, look=lambda name, share: None)
    assert {row["length"] for row in report["rows"] if row["how"] == "drawn"} == {1, 2, 8}


def test_a_task_that_cannot_list_its_sequences_is_named(tmp_path, capsys):
    task = make_task("modular_arithmetic_brackets")
    assert task.count_of(5, 2) is None
    run = str(constructed_run(tmp_path, task.name, model=model_of(task)))
    message = failing(capsys, "verify", run, "--most", "12", "--times", "0")
    assert f"task '{task.name}' cannot list its sequences" in message
    assert "--times 2" in message


def test_the_same_progress_is_printed_once(capsys, monkeypatch):
    clock = iter(range(0, 100, 3))
    monkeypatch.setattr(verify.time, "monotonic", lambda: next(clock))
    look = verify.progress()
    for share in (0.01, 0.011, 0.5):
        look("all strings", share)
    assert capsys.readouterr().err.splitlines() == ["all strings: 1 %", "all strings: 50 %"]


def test_findings_are_printed_if_they_cannot_be_written(tmp_path, capsys):
    run = train_run(tiny_streams(batches=2), root=tmp_path, quiet=True).folder
    (run / "verification-model.json").mkdir()
    assert main(["verify", str(run), "--most", "4", "--times", "0"]) == 2
    shown = capsys.readouterr()
    assert "1:4" in shown.out
    assert "verification-model.json" in shown.err


def test_a_hardened_model_is_preferred(tmp_path, capsys):
    soft = softened(constructions.anbn(), 0.9, "action")
    run = constructed_run(tmp_path, "anbn", model=soft)
    RunFolder(run).save_model(constructions.anbn(), hardened=True)
    options = ["--most", "8", "--times", "0"]
    assert main(["verify", str(run), *options]) == 0
    assert "weights model-hardened" in capsys.readouterr().out
    assert main(["verify", str(run), *options, "--no-hardened"]) == 0
    assert "weights model," in capsys.readouterr().out
    hardened, plain = (
        json.loads((run / f"verification-{name}.json").read_text())["least_certainty"]
        for name in ("model-hardened", "model")
    )
    assert hardened == 1.0
    assert plain == pytest.approx(0.9)
    assert main(["extract", str(run), "--symbols", "200", "--lengths", "9"]) == 0
    assert "the states close" in capsys.readouterr().out
    assert "action has certainty 0.9000" in failing(capsys, "extract", str(run), "--no-hardened")


def test_extract_compares_at_the_longest_verified_lengths(tmp_path, capsys):
    run = constructed_run(tmp_path, "anbn")
    assert main(["verify", str(run), "--most", "30", "--times", "3"]) == 0
    assert main(["extract", str(run), "--symbols", "200"]) == 0
    out = capsys.readouterr().out
    assert "random strings of length 30" in out
    assert "random strings of length 57" in out
    path = run / "verification-model.json"
    full = json.loads(path.read_text())
    for length in (None, "abc", True):
        path.write_text(json.dumps({**full, "rows": [{**full["rows"][0], "length": length}]}))
        assert "is damaged: a row of the verification" in failing(capsys, "extract", str(run))
    path.write_text("{}")
    assert "is not a verification report" in failing(capsys, "extract", str(run))


def test_findings_before_ctrl_c_are_reported(tmp_path):
    run = constructed_run(tmp_path, "anbn")
    calls = iter(range(6))

    def look(name: str, share: float) -> None:
        if next(calls, None) is None:
            raise KeyboardInterrupt

    report = verify_run(run, VerifyOptions(most=200), look=look)
    assert report["finished"] is False
    assert [row["length"] for row in report["rows"]] == list(range(1, len(report["rows"]) + 1))
    assert 0 < len(report["rows"]) < 10
    assert (run / "verification-model.json").is_file()
    with pytest.raises(KeyboardInterrupt):
        verify_run(run, VerifyOptions(most=200), look=look)


def test_a_folder_with_a_hardened_model_alone_gives_advice(tmp_path, capsys):
    run = constructed_run(tmp_path, "anbn")
    (run / "model").rename(run / "model-hardened")
    assert "it has a hardened model: give --hardened" in failing(capsys, "evaluate", str(run))


def test_a_larger_verification_is_not_overwritten(tmp_path, capsys):
    run = constructed_run(tmp_path, "anbn")
    file = run / "verification-model.json"
    assert main(["verify", str(run), "--most", "20", "--times", "2", "--count", "6"]) == 0
    before = file.read_bytes()

    calls = iter(range(6))

    def interrupt(name: str, share: float) -> None:
        if next(calls, None) is None:
            raise KeyboardInterrupt

    report = verify_run(run, VerifyOptions(most=200), look=interrupt)
    assert report["rows"]
    assert report["file"] is None
    assert file.read_bytes() == before
    capsys.readouterr()
    less = ["verify", str(run), "--most", "10", "--times", "2", "--count", "6"]
    assert main(less) == 0
    assert "not written: the earlier report" in capsys.readouterr().out
    assert file.read_bytes() == before
    # More in one option and less in another is not less.
    assert main([*less[:2], "--most", "10", "--times", "2,4", "--count", "6"]) == 0
    assert json.loads(file.read_text())["options"]["most"] == 10
    assert main([*less[:2], "--most", "5", "--times", "2", "--count", "6", "--overwrite"]) == 0
    assert json.loads(file.read_text())["options"]["most"] == 5
    # Findings on other weights do not count.
    other = {**json.loads(before), "weights_sha256": "0" * 64}
    file.write_text(json.dumps(other))
    assert main(less) == 0
    assert json.loads(file.read_text())["options"]["most"] == 10


@pytest.mark.parametrize("verb", ["verify", "extract"])
def test_a_run_that_is_not_finished(verb, tmp_path, capsys):
    run = constructed_run(tmp_path, "anbn")
    (run / "report.json").unlink()
    message = failing(capsys, verb, str(run))
    assert "is not finished: it has no report.json" in message
    assert "`unbounded train anbn --resume`, with its other original options" in message
    assert "is not a run folder" in failing(capsys, verb, str(tmp_path))
    (run / "report.json").write_text("[]")
    assert "report.json is not a report" in failing(capsys, verb, str(run))


@pytest.mark.parametrize("verb", ["verify", "extract"])
def test_a_task_without_a_rule(verb, tmp_path, capsys):
    words = tmp_path / "pairs.tsv"
    words.write_text("".join(f"{'ab' * k}\t{'ba' * k}\n" for k in range(1, 60)))
    model = CONSTRUCTIONS["copy"](symbols=2)
    config = {"data": str(words)}
    run = constructed_run(tmp_path, "pairs", config, model=model)
    assert "task 'pairs' has no rule" in failing(capsys, verb, str(run))
    run = constructed_run(tmp_path, "ntm_copy", model=model)
    message = failing(capsys, verb, str(run))
    assert "task 'ntm_copy' answers with vectors of bits; margins exist only" in message
    assert "has no rule" not in message


def test_options_out_of_range(tmp_path, capsys):
    run = str(constructed_run(tmp_path, "anbn"))
    message = failing(capsys, "verify", run, "--count", "0", "--times", "x", "--alphabet", "0")
    assert "--count: expected an integer of at least 1, got 0" in message
    assert "--alphabet: expected an integer of at least 1, got 0" in message
    assert "--times: expected numbers such as 2,4,10, got 'x'" in message
    assert "--times: expected numbers above 0, at most 10000, got -1.0" in failing(
        capsys, "verify", run, "--times", "2,-1"
    )
    # Before the run is read: there is none of that name.
    for full in ("--most", "--symbols_each"):
        message = failing(capsys, "verify", "nowhere", full, "0", "--times", "0")
        assert "--most: nothing is to be checked: no length in full, and none drawn" in message
    assert "has no hardened model" in failing(capsys, "verify", run, "--hardened")
    message = failing(capsys, "extract", run, "--symbols", "0", "--lengths", "5,x")
    assert "--symbols: expected at least 1, got 0" in message
    assert "--lengths: expected lengths of at least 1 such as 128,640, got '5,x'" in message


def test_an_alphabet_larger_than_that_of_the_task_is_an_error(tmp_path, capsys):
    run = str(constructed_run(tmp_path, "copy", {"symbols": 3}, symbols=3))
    for verb in ("verify", "extract"):
        message = failing(capsys, verb, run, "--alphabet", "99")
        assert (
            "alphabet: expected at most 3, the symbols of a source of task 'copy', got 99"
            in message
        )
    assert main(["verify", run, "--alphabet", "3", "--most", "2", "--times", "0"]) == 0
    assert "over the symbols s0 s1 s2" in capsys.readouterr().out


@pytest.mark.parametrize("verb", ["verify", "extract"])
def test_an_alphabet_without_effect_is_an_error(tmp_path, capsys, verb):
    run = str(constructed_run(tmp_path, "anbn"))
    message = failing(capsys, verb, run, "--alphabet", "3")
    assert (
        "alphabet: 3 has no effect on task 'anbn', which has all strings checked; leave it at 2"
        in message
    )


def test_a_verification_of_other_weights_is_refused(tmp_path, capsys):
    run = constructed_run(tmp_path, "anbn")
    assert main(["verify", str(run), "--most", "30", "--times", "0"]) == 0
    report = json.loads((run / "verification-model.json").read_text())
    assert report["weights_sha256"] == file_digest(run / "model" / "model.safetensors")
    capsys.readouterr()
    assert verification_of(run) == report
    RunFolder(run).save_model(constructions.anb2n())
    assert verification_of(run) is None
    message = failing(capsys, "extract", str(run))
    assert "verification-model.json was made with other weights than" in message
    assert "`unbounded verify" in message
    assert main(["extract", str(run), "--symbols", "200", "--lengths", "9"]) == 0
    # An older one, without the weights' digest, is accepted.
    del report["weights_sha256"]
    (run / "verification-model.json").write_text(json.dumps(report))
    assert verification_of(run) == report


def test_damaged_weights_of_a_hardened_model_have_their_own_advice(tmp_path, capsys):
    run = constructed_run(tmp_path, "anbn")
    RunFolder(run).save_model(constructions.anbn(), hardened=True)
    path = run / "model-hardened" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    message = failing(capsys, "verify", str(run))
    assert f"`unbounded harden {run} --overwrite` recreates it" in message
    assert "checkpoint" not in message


def test_a_tape_with_soft_gates_is_no_automaton_yet(tmp_path, capsys):
    config = tiny(batches=2)
    model = replace(
        config.model, memory={"name": "turing_tape", "slots": 8, "width": 3}, readout_size=None
    )
    run = train_run(replace(config, model=model), root=tmp_path, quiet=True).folder
    message = failing(capsys, "extract", str(run))
    assert "its gates are not saturated (read_gate has certainty 0." in message
    assert "`unbounded harden RUN`" in message
