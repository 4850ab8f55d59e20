"""Machines beside a table: extracted from hardened runs, once for the same weights."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest

from tests.experiments.made_up import write_report
from tests.verification.runs import softened
from unbounded import machines
from unbounded.errors import CheckpointError, ConfigError
from unbounded.evaluation import make_report
from unbounded.experiments.config.schema import to_dict
from unbounded.experiments.run.folder import save_model, write_config
from unbounded.experiments.run.verification import FORMAT, VERSION
from unbounded.experiments.tables.machines import (
    extract_machines,
    is_outdated,
    machines_grid,
    read_machines,
)
from unbounded.experiments.tables.published import published
from unbounded.experiments.tables.reproduce import missing
from unbounded.experiments.trials.tiers import make_tier
from unbounded.files import json_text, write_text

TIER = {"about": "one", "tasks": ["anbn"], "models": ["own-hardened"], "seeds": [1]}


@pytest.fixture
def tier():
    return make_tier("exact", "tiny", {**TIER, "preset": True, "extract": ["anbn"]})


def hardened(tier, runs, model):
    """The run of the tier's one trial, as if it had been trained and hardened to this model."""
    trial = tier.trials[0]
    run = runs / trial.name
    run.mkdir(parents=True)
    write_config(run, to_dict(trial.config), {})
    save_model(machines.anbn(), run / "model")
    save_model(model, run / "model-rounded")
    facts = {"task": "anbn", "scoring": "lengths", "split": "test", "seed": 1, "rows": []}
    write_text(run / "report.json", json_text(make_report(**facts, config=to_dict(trial.config))))
    return run


def extracted(tier, tmp_path):
    lines: list[str] = []
    extract_machines(tier, tier.trials, tmp_path / "runs", tmp_path / "out", lines.append)
    return lines


def test_a_machine_is_extracted_once_for_the_same_weights(tier, tmp_path):
    name = tier.trials[0].name
    run = hardened(tier, tmp_path / "runs", machines.anbn())
    assert extracted(tier, tmp_path) == [f"extracted the machine of {name}"]
    folder = tmp_path / "out" / "machines" / name
    files = {path.name for path in folder.iterdir()}
    assert files == {f"machine.{end}" for end in ("svg", "txt", "dot", "py", "json")}
    assert not any(str(tmp_path) in path.read_text() for path in folder.iterdir())
    program = [sys.executable, "-I", "-S", str(folder / "machine.py"), *"aabb"]
    ran = subprocess.run(program, capture_output=True, text=True, check=True)
    # After a b comes a b; after the last one an a.
    assert [line.split("\t")[-1] for line in ran.stdout.splitlines()][2:] == ["b", "a"]
    text = machines_grid(read_machines(tier, tmp_path / "out"), published("exact"))
    assert (
        "| a^n b^n, superposition_stack-elman | 1 | 1 | 1 | 6 | yes | every word to 98: 114/114; "
        in text
    )
    assert f"[picture](machines/{name}/machine.svg)" in text
    assert extracted(tier, tmp_path) == []
    # Of other weights there is another one.
    save_model(machines.anb2n(), run / "model-rounded")
    assert extracted(tier, tmp_path) == [f"extracted the machine of {name}"]


def test_a_machine_of_other_weights_than_the_verified_ones_is_missing(tier, tmp_path):
    (trial,) = tier.trials
    out = tmp_path / "out"
    hardened(tier, tmp_path / "runs", machines.anbn())
    extracted(tier, tmp_path)
    trained = replace(trial, phase="trained")
    write_report(out, trained)
    (out / "verified").mkdir()
    (made,) = read_machines(tier, out)
    found = {"format": FORMAT, "version": VERSION, "rows": [], "finished": True}
    for digest, there in ((made[1]["weights_sha256"], True), ("0" * 64, False), (None, True)):
        verification = {**found, "weights_sha256": digest}
        write_text(out / "verified" / f"{trial.name}.json", json_text(verification))
        assert bool(read_machines(tier, out)) is there
        assert missing([trained], out) == (() if there else (trained,))


def test_what_is_no_machine_is_said_and_the_rest_goes_on(tier, tmp_path):
    hardened(tier, tmp_path / "runs", softened(machines.anbn(), 0.9, "action"))
    (line,) = extracted(tier, tmp_path)
    assert line.startswith(f"no machine of {tier.trials[0].name}: ")
    assert "action is 0.9000 sure at least" in line
    assert read_machines(tier, tmp_path / "out") == []
    assert machines_grid([], published("exact")) == "None is extracted."


@pytest.mark.parametrize("is_hardened", [True, False])
def test_a_run_that_gives_no_machine_any_more_has_none(tier, tmp_path, is_hardened):
    """It stayed, of other weights, and its run was missing for ever."""
    name, out = tier.trials[0].name, tmp_path / "out"
    run = hardened(tier, tmp_path / "runs", machines.anbn())
    extracted(tier, tmp_path)
    if is_hardened:
        save_model(softened(machines.anbn(), 0.9, "action"), run / "model-rounded")
    else:
        shutil.rmtree(run / "model-rounded")
    (out / "verified").mkdir()
    found = {"format": FORMAT, "version": VERSION, "rows": [], "finished": True}
    verification = {**found, "weights_sha256": "0" * 64}
    write_text(out / "verified" / f"{name}.json", json_text(verification))
    if not is_hardened:
        (run / "report.json").rename(tmp_path / "report.json")
        extracted(tier, tmp_path)
        assert is_outdated(out, name)  # a run that is not finished says nothing yet
        (tmp_path / "report.json").rename(run / "report.json")
    extracted(tier, tmp_path)
    assert not (out / "machines" / name).exists()
    assert not is_outdated(out, name)


def test_what_is_not_asked_for_or_not_there_is_left(tmp_path):
    other = make_tier("exact", "tiny", {**TIER, "preset": True})
    hardened(other, tmp_path / "runs", machines.anbn())
    assert extracted(other, tmp_path) == []
    own = make_tier("exact", "tiny", {**TIER, "seeds": [2], "preset": True, "extract": ["anbn"]})
    assert extracted(own, tmp_path) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no machine: "),
        ("[]", "is no machine of version 1"),
        ('{"format": "unbounded-machine", "version": 1}', "is damaged: it has not all"),
    ],
)
def test_a_damaged_machine_is_named(tier, tmp_path, text, message):
    path = tmp_path / "machines" / tier.trials[0].name / "machine.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(CheckpointError, match=message):
        read_machines(tier, tmp_path)


def test_a_tier_extracts_of_its_own_tasks_alone():
    with pytest.raises(ConfigError, match="'copy' under extract is not one of its tasks"):
        make_tier("exact", "tiny", {**TIER, "extract": ["copy"]})


def test_the_tier_that_is_shipped_counts_a_thousand_words_of_copy_and_reversal():
    from unbounded.experiments.trials.tiers import load_tier

    counts = {t.cell: t.verify.get("count", 100) for t in load_tier("exact", "laptop").trials}
    assert counts["copy/own-hardened"] == counts["reversal/own-hardened"] == 1000
    assert counts["anbn/own-hardened"] == 100
    assert json.dumps(counts)
