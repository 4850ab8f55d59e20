"""The table of details that change a result is made of the committed runs; its pairs are fair."""

from __future__ import annotations

import json
import lzma
import re
import runpy
from statistics import median

import pytest

from tests.docs.pages import ROOT

FOLDER = ROOT / "results" / "details"
PAGE = (ROOT / "docs" / "reproducing" / "details.md").read_text(encoding="utf-8")
ROWS = json.loads((FOLDER / "table.json").read_text(encoding="utf-8"))["rows"]


@pytest.fixture(scope="module")
def details():
    return runpy.run_path(str(ROOT / "docs" / "make_details.py"), run_name="make_details")


def test_the_committed_table_is_made_of_the_committed_runs(details):
    table = details["table"]()
    assert (FOLDER / "table.json").read_text(encoding="utf-8") == details["json_of"](table) + "\n"
    assert (FOLDER / "table.md").read_text(encoding="utf-8") == details["markdown"](table)
    assert details["filled"](PAGE, table) == PAGE


def test_the_page_has_at_most_ten_rows_and_the_strongest_first(details):
    lines = PAGE.split(details["BEGIN"])[1].split(details["END"])[0].splitlines()[3:]
    effects = [abs(float(re.search(r"\| ([+-]\d\.\d\d) \|", line)[1])) for line in lines]
    assert 0 < len(effects) <= 10
    assert effects == sorted(effects, reverse=True)


def test_the_pages_summary_of_all_rows_is_correct():
    def of(detail):
        return [row["effect"] for row in ROWS if row["detail"] == detail]

    cooldown = of("cooldown of the rate")
    better = sum(effect > 0.01 for effect in cooldown)
    assert f"It is better in {better} of {len(cooldown)} rows" in PAGE
    assert min(cooldown) >= -0.01
    small = ("strips of text a batch", "initial weights of words", "when the rate is halved")
    assert max(abs(effect) for detail in small for effect in of(detail)) < 0.02
    assert {max(map(abs, of(d))) > 0.3 for d in ("empty cells of a list", "NO-OP")} == {True}
    for detail in ("length bucketing", "initial output embeddings", "empty cells of a list"):
        assert min(of(detail)) < -0.1
        assert max(of(detail)) > 0.1


# The code below reads the files of runs directly.

#: Config sections without effect on the weights, and those that end training.
FREE = {"id", "seed", "evaluation", "hardening"}
FREE_HARDWARE = {"data", "device", "threads", "backend"}
FREE_TRAINING = {
    "batches", "patience", "stop", "accuracy_every", "accuracy_count", "checkpoint_every",
    "keep_checkpoints",
}  # fmt: skip


def differing(one, other, path=()):
    """Paths at which two configs differ, apart from the free parts."""
    if isinstance(one, dict) and isinstance(other, dict):
        paths = set()
        for name in one.keys() | other.keys():
            is_free = (
                (not path and name in FREE)
                or (path == ("hardware",) and name in FREE_HARDWARE)
                or (path == ("training",) and name in FREE_TRAINING)
            )
            if not is_free:
                paths |= differing(one.get(name), other.get(name), (*path, name))
        return paths
    return set() if one == other else {".".join(path)}


@pytest.fixture(scope="module")
def reports():
    by_name = {}
    for path in sorted(ROOT.glob("results/*/*.jsonl.xz")):
        if path.stem.split(".")[0] in ("runs", "beginnings", "precision", "rates"):
            with lzma.open(path, "rt", encoding="utf-8") as file:
                for line in file:
                    report = json.loads(line)
                    by_name.setdefault(report["run"], []).append(report)
    return by_name


#: The fields of each detail, with dependent fields that have no effect of their own.
FIELDS = {
    "initial output embeddings": {"model.output_initialization"},
    "initial weights of words": {"model.symbol_initialization"},
    "length bucketing": {"training.length_bucketing"},
    "cooldown of the rate": {"training.schedule.name", "training.schedule.batches"},
    "initial pop bias": {"model.memory.pop_bias"},
    "initial push bias": {"model.memory.push_bias"},
    "initial biases of the deque": {"model.memory.name", "model.memory.pop_bias"},
    "epsilon of RMSProp": {"training.optimizer.eps"},
    "learning rate of the paper's grid": {"training.learning_rate"},
    "lengths of training sentences": {"task.length_distribution"},
    "clipping": {"training.clip", "training.clip_by", "model.controller.skip_input"},
    "strips of text a batch": {"training.batch_size"},
    "when the rate is halved": {"training.plateau.threshold", "training.plateau.least"},
    "sequences between two empty memories": {
        "task.sequences", "training.report_every", "training.curriculum.every",
        "training.plateau.every", "training.plateau.hold",
    },
    "empty cells of a list": {"model.memory.empty"},
    "NO-OP": {"model.memory.noop"},
    "cells read of a list": {"model.memory.depth"},
    "read vector in the logits": {"model.output_read_vector"},
    "precision of float32 products": {"hardware.matmul_precision"},
}  # fmt: skip


def test_the_sides_of_a_row_differ_only_in_its_detail(reports):
    assert {row["detail"] for row in ROWS} == FIELDS.keys()
    for row in ROWS:
        first, second = (
            reports[f"{side['setting']}-seed{side['seeds'][0]}"][0]["config"]
            for side in row["sides"]
        )
        extra = differing(first, second) - FIELDS[row["detail"]]
        # A deque's default pop bias, written out.
        assert extra <= {"model.memory.pop_bias"}, (row["detail"], row["sides"])
        biases = {config["model"]["memory"].get("pop_bias") for config in (first, second)}
        assert not extra or biases == {None, -1.0}


def test_the_medians_are_those_of_the_values():
    for row in ROWS:
        for side in row["sides"]:
            assert side["median"] == median(side["values"])
            assert len(side["seeds"]) == len(set(side["seeds"])) == len(side["values"])
        assert set(row["sides"][0]["seeds"]) & set(row["sides"][1]["seeds"])


def test_the_values_at_the_end_are_those_of_the_reports(reports):
    """Exact match at 65 to 128 symbols, row by row, without the library's readers."""
    checked = 0
    for row in ROWS:
        if row["metric"] != "exact match, 65:128" or row["task"].startswith("answer"):
            continue
        for side in row["sides"]:
            for seed, value in zip(side["seeds"], side["values"], strict=True):
                candidates = [
                    report
                    for report in reports.get(f"{side['setting']}-seed{seed}", ())
                    if report["seed"] == seed
                ]
                rows = [each for report in candidates for each in report["rows"]]
                own = [each for each in rows if each.get("lengths") == "65:128"]
                if own:
                    assert value in [each["exact_match"] for each in own]
                    checked += 1
    assert checked > 100
