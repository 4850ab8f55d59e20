"""Automata of a table: extracted from hardened runs, once for the same weights."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest

from tests.experiments.made_up import write_report
from tests.verification.runs import softened
from unbounded import constructions
from unbounded.errors import CheckpointError, ConfigError
from unbounded.evaluation import make_report
from unbounded.experiments.config.schema import to_dict
from unbounded.experiments.run.run_folder import RunFolder
from unbounded.experiments.run.verification import FORMAT, VERSION
from unbounded.experiments.tables.automata import (
    automata_grid,
    extract_automata,
    is_outdated,
    read_automata,
)
from unbounded.experiments.tables.published import published
from unbounded.experiments.tables.reproduce import missing
from unbounded.experiments.tables.runs_file import VERIFIED, add_to_runs_file
from unbounded.experiments.tables.verified import verifications
from unbounded.experiments.trials.paper_studies import make_study
from unbounded.files import json_text, write_text

STUDY = {"about": "one", "tasks": ["anbn"], "models": ["own-hardened"], "seeds": [1]}


@pytest.fixture
def study():
    return make_study("exact", "tiny", {**STUDY, "preset": True, "extract": ["anbn"]})


def hardened(study, runs, model):
    """The run of the study's only trial, with this model as its hardened model."""
    trial = study.trials[0]
    run = runs / trial.name
    run.mkdir(parents=True)
    RunFolder(run).write_config(to_dict(trial.config), {})
    RunFolder(run).save_model(constructions.anbn())
    RunFolder(run).save_model(model, hardened=True)
    facts = {"task": "anbn", "metric_set": "lengths", "split": "test", "seed": 1, "rows": []}
    write_text(run / "report.json", json_text(make_report(**facts, config=to_dict(trial.config))))
    return run


def extracted(study, tmp_path):
    lines: list[str] = []
    extract_automata(study, study.trials, tmp_path / "runs", tmp_path / "out", lines.append)
    return lines


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    """The hardened run of the study with its automaton, extracted once."""
    folder = tmp_path_factory.mktemp("once")
    study = make_study("exact", "tiny", {**STUDY, "preset": True, "extract": ["anbn"]})
    hardened(study, folder / "runs", constructions.anbn())
    extracted(study, folder)
    return folder


def test_an_automaton_is_extracted_once_for_the_same_weights(study, tmp_path):
    name = study.trials[0].name
    run = hardened(study, tmp_path / "runs", constructions.anbn())
    assert extracted(study, tmp_path) == [f"extracted the automaton of {name}"]
    folder = tmp_path / "out" / "automata" / name
    files = {path.name for path in folder.iterdir()}
    assert files == {f"automaton.{end}" for end in ("svg", "txt", "dot", "py", "json")}
    assert not any(str(tmp_path) in path.read_text() for path in folder.iterdir())
    program = [sys.executable, "-I", "-S", str(folder / "automaton.py"), *"aabb"]
    ran = subprocess.run(program, capture_output=True, text=True, check=True)
    # After a b comes a b; after the last one an a.
    assert [line.split("\t")[-1] for line in ran.stdout.splitlines()][2:] == ["b", "a"]
    text = automata_grid(read_automata(study, tmp_path / "out"), published("exact"))
    assert (
        "| a^n b^n, superposition_stack-elman | 1 | 1 | 1 | 6 | yes | every string to 98: 114/114; "
        in text
    )
    assert f"[picture](automata/{name}/automaton.svg)" in text
    assert extracted(study, tmp_path) == []
    # Other weights have another automaton.
    RunFolder(run).save_model(constructions.anb2n(), hardened=True)
    assert extracted(study, tmp_path) == [f"extracted the automaton of {name}"]


def test_an_automaton_of_other_weights_than_the_verified_ones_is_missing(study, once, tmp_path):
    (trial,) = study.trials
    out = tmp_path / "out"
    shutil.copytree(once, tmp_path, dirs_exist_ok=True)
    trained = replace(trial, phase="trained")
    write_report(out, trained)
    (made,) = read_automata(study, out)
    found = {"format": FORMAT, "version": VERSION, "rows": [], "finished": True}
    for digest, there in ((made[1]["weights_sha256"], True), ("0" * 64, False), (None, True)):
        verification = {**found, "weights_sha256": digest}
        add_to_runs_file(out / VERIFIED, {trial.name: verification})
        assert bool(read_automata(study, out)) is there
        assert missing([trained], out) == (() if there else (trained,))


def test_a_run_without_an_automaton_is_named_and_the_rest_continues(study, tmp_path):
    hardened(study, tmp_path / "runs", softened(constructions.anbn(), 0.9, "action"))
    (line,) = extracted(study, tmp_path)
    assert line.startswith(f"no automaton of {study.trials[0].name}: ")
    assert "action has certainty 0.9000 at least" in line
    assert read_automata(study, tmp_path / "out") == []
    assert automata_grid([], published("exact")) == "No automaton is extracted."


@pytest.mark.parametrize("is_hardened", [True, False])
def test_an_automaton_is_removed_if_its_run_no_longer_yields_one(
    study, once, tmp_path, is_hardened
):
    """Once the automaton of old weights stayed, and its run was always missing."""
    name, out = study.trials[0].name, tmp_path / "out"
    shutil.copytree(once, tmp_path, dirs_exist_ok=True)
    run = tmp_path / "runs" / name
    if is_hardened:
        RunFolder(run).save_model(softened(constructions.anbn(), 0.9, "action"), hardened=True)
    else:
        shutil.rmtree(run / "model-hardened")
    found = {"format": FORMAT, "version": VERSION, "rows": [], "finished": True}
    verification = {**found, "weights_sha256": "0" * 64}
    add_to_runs_file(out / VERIFIED, {name: verification})
    if not is_hardened:
        (run / "report.json").rename(tmp_path / "report.json")
        extracted(study, tmp_path)
        # An unfinished run has no result yet.
        assert is_outdated(out, name, verifications(out))
        (tmp_path / "report.json").rename(run / "report.json")
    extracted(study, tmp_path)
    assert not (out / "automata" / name).exists()
    assert not is_outdated(out, name, verifications(out))


def test_tasks_that_are_not_requested_or_missing_are_skipped(tmp_path):
    other = make_study("exact", "tiny", {**STUDY, "preset": True})
    hardened(other, tmp_path / "runs", constructions.anbn())
    assert extracted(other, tmp_path) == []
    own = make_study("exact", "tiny", {**STUDY, "seeds": [2], "preset": True, "extract": ["anbn"]})
    assert extracted(own, tmp_path) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not an automaton: "),
        ("[]", "is not an automaton of version 2"),
        ('{"format": "unbounded-automaton", "version": 2}', "is damaged: it lacks closed, drawn, "),
    ],
)
def test_a_damaged_automaton_is_named(study, tmp_path, text, message):
    path = tmp_path / "automata" / study.trials[0].name / "automaton.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(CheckpointError, match=message):
        read_automata(study, tmp_path)


def test_a_study_extracts_only_from_its_own_tasks():
    with pytest.raises(ConfigError, match="'copy' under extract is not one of its tasks"):
        make_study("exact", "tiny", {**STUDY, "extract": ["copy"]})


def test_the_shipped_study_verifies_1000_strings_of_copy_and_reversal():
    from unbounded.experiments.trials.paper_studies import load_study

    counts = {t.cell: t.verify.get("count", 100) for t in load_study("exact", "laptop").trials}
    assert counts["copy/own-hardened"] == counts["reversal/own-hardened"] == 1000
    assert counts["anbn/own-hardened"] == 100
    assert json.dumps(counts)
