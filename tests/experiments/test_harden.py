"""Hardened runs: with training, later, interrupted; with every memory and layout."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from tests.experiments.small import small
from tests.experiments.tiny import gradual, interrupted, tiny
from tests.experiments.tiny_streams import tiny_streams
from unbounded.cli.harden import hardened_text
from unbounded.cli.main import main
from unbounded.errors import (
    CheckpointError,
    ConfigError,
    NonFiniteError,
    RunExistsError,
    StorageError,
)
from unbounded.evaluation import table
from unbounded.evaluation.comparison import ComparisonSet, Share
from unbounded.evaluation.metric_sets import Evaluator, MetricSet, Place
from unbounded.evaluation.metric_sets.lengths import Lengths
from unbounded.evaluation.metric_sets.sequences import Sequences
from unbounded.evaluation.provenance import commit
from unbounded.evaluation.removal import Removal
from unbounded.evaluation.score import Score
from unbounded.evaluation.streams import StreamScore
from unbounded.experiments.config import plain_yaml
from unbounded.experiments.config.check import checked
from unbounded.experiments.config.compose import composed, overlay, preset_of, with_hardening
from unbounded.experiments.config.schema import ModelConfig
from unbounded.experiments.run import finished_run_hardening, hardening_phase
from unbounded.experiments.run.evaluate import evaluate_run
from unbounded.experiments.run.finished_run_hardening import harden_run
from unbounded.experiments.run.hardening_phase import (
    far_evaluators,
    hardening_lengths,
    kept_lengths,
    shorter_lengths,
)
from unbounded.experiments.run.plan import plan
from unbounded.experiments.run.run import train_run
from unbounded.experiments.run.run_folder import RunFolder
from unbounded.experiments.run.verification import read_verification
from unbounded.explorer.run_data import run_of_folder
from unbounded.memories import MEMORIES
from unbounded.models import MemoryModel, certainties
from unbounded.tasks import LengthRange
from unbounded.training import Harden
from unbounded.training.chunk_update import ChunkUpdate
from unbounded.training.hooks.curricula import ShorterToo
from unbounded.training.optimizers import make_optimizer
from unbounded.training.state import LoopState
from unbounded.training.trainer import Trainer
from unbounded.verification import VerifyOptions

CHANGES = {"batches": 4, "every": 2, "factor": 3.0, "validation_count": 8}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_run(tiny(), root=tmp_path_factory.mktemp("runs"), quiet=True).folder


@pytest.fixture
def nothing_is_worse(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tiny model gets worse if it is hardened in a few batches; these tests check its files."""
    monkeypatch.setattr(hardening_phase, "worse_sets", lambda sets, before, after: [])


def compare_as(monkeypatch: pytest.MonkeyPatch, share: Callable[[ComparisonSet], Share]) -> None:
    """Every comparison of a model and its hardened one has these shares."""

    def comparison(metric_set: MetricSet, model: nn.Module, sets: list[ComparisonSet]) -> Any:
        return {each.name: share(each) for each in sets}

    monkeypatch.setattr(hardening_phase, "compare", comparison)


def copied(folder: Path, root: Path) -> Path:
    return Path(shutil.copytree(folder, root / folder.name))


def weights_of(folder: Path, name: str = "model-hardened") -> dict[str, torch.Tensor]:
    return load_file(folder / name / "model.safetensors")


def assert_equal_weights(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def assert_the_trained_model_stayed(folder: Path) -> None:
    assert_equal_weights(weights_of(folder), weights_of(folder, "model"))


@pytest.mark.usefixtures("nothing_is_worse")
def test_hardening_a_finished_run_keeps_the_trained_model(trained: Path, tmp_path: Path) -> None:
    folder = copied(trained, tmp_path)
    before = RunFolder(folder).report()
    assert before is not None
    report = harden_run(folder, {**CHANGES, "tolerance": 1.0}, quiet=True)
    hardened = report.pop("hardened")
    assert report == before
    assert hardened["batches"] == 4
    assert hardened["saturated"]
    assert hardened["steps_back"] == 0
    assert set(hardened["gates"]) == {"push", "pop"}
    assert all(
        each["least"] == 1 and not each["unsaturated"] for each in hardened["gates"].values()
    )
    assert evaluate_run(folder, hardened=True)["rows"] == hardened["rows"]
    assert evaluate_run(folder)["rows"] == report["rows"]
    model, source = RunFolder(folder).load_model(hardened=True)
    task = checked(tiny())
    batch = task.batch(0, "validation", 0, 4, task.train_lengths)
    assert source == "model-hardened"
    assert all(each.least == 1 for each in certainties(model, batch).values())
    card = (folder / "model-hardened" / "README.md").read_text(encoding="utf-8")
    assert "# queue-lstm on copy, hardened" in card.splitlines()
    assert "| hardening | every gate is saturated (0 or 1) |" in card.splitlines()
    assert "between 0 and 1, so that errors" not in card
    with pytest.raises(RunExistsError, match="is hardened already; --overwrite hardens it again"):
        harden_run(folder, CHANGES, quiet=True)
    again = harden_run(folder, {**CHANGES, "tolerance": 1.0}, overwrite=True, quiet=True)
    assert again["hardened"]["rows"] == hardened["rows"]


def test_the_old_hardened_model_stays_until_a_new_one_replaces_it(
    trained: Path, tmp_path: Path
) -> None:
    folder = copied(trained, tmp_path)
    before = harden_run(folder, CHANGES, quiet=True)
    weights = weights_of(folder)
    (folder / "automaton").mkdir()
    (folder / "verification-model-hardened.json").write_text("{}")

    longer = {**CHANGES, "batches": 8, "tolerance": 1.0}
    with interrupted(ChunkUpdate, "_step", lambda *_: True):
        harden_run(folder, longer, overwrite=True, quiet=True)
    assert RunFolder(folder).report() == before
    assert_equal_weights(weights_of(folder), weights)
    assert (folder / "automaton").is_dir()
    assert (folder / "verification-model-hardened.json").is_file()

    # It has started: without `overwrite` it resumes, and with other options it does not.
    with pytest.raises(RunExistsError, match="was begun with other options"):
        harden_run(folder, CHANGES, quiet=True)
    assert harden_run(folder, longer, quiet=True)["hardened"]["batches"] == 8
    for old in ("automaton", "verification-model-hardened.json"):
        assert not (folder / old).exists()
    with pytest.raises(RunExistsError, match="is hardened already"):
        harden_run(folder, longer, quiet=True)


def test_a_damaged_trained_model_leaves_the_hardened_model(trained: Path, tmp_path: Path) -> None:
    folder = copied(trained, tmp_path)
    before = harden_run(folder, CHANGES, quiet=True)
    with (folder / "model" / "model.safetensors").open("r+b") as file:
        file.truncate(1000)
    with pytest.raises(CheckpointError, match="is damaged"):
        harden_run(folder, CHANGES, overwrite=True, quiet=True)
    assert RunFolder(folder).report() == before
    assert RunFolder(folder).load_model(hardened=True)[1] == "model-hardened"


def test_hardening_later_equals_training_with_hardening(trained: Path, tmp_path: Path) -> None:
    config = tiny()
    at_once = train_run(with_hardening(config, CHANGES), root=tmp_path, quiet=True).folder
    folder = copied(trained, tmp_path)
    harden_run(folder, CHANGES, quiet=True)
    assert_equal_weights(weights_of(at_once), weights_of(folder))


def test_an_interrupted_hardening_resumes_bit_by_bit(trained: Path, tmp_path: Path) -> None:
    full = copied(trained, tmp_path / "whole")
    harden_run(full, CHANGES, quiet=True)
    folder = copied(trained, tmp_path / "cut")
    with interrupted(ChunkUpdate, "_step", lambda step, *_: step == 2):
        harden_run(folder, CHANGES, quiet=True)
    report = RunFolder(folder).report()
    assert report is not None
    assert "hardened" not in report
    with pytest.raises(RunExistsError, match=r"was begun with other options .*; give the same"):
        harden_run(folder, {**CHANGES, "factor": 2.0}, quiet=True)
    again = harden_run(folder, CHANGES, quiet=True)
    assert (expected := RunFolder(full).report()) is not None
    assert again["hardened"]["rows"] == expected["hardened"]["rows"]
    assert_equal_weights(weights_of(full), weights_of(folder))


#: A nondeterministic stack has weights and no gates.
CELLS = [("copy", memory) for memory in MEMORIES if memory != "nondeterministic_stack"]
CELLS += [(task, "turing_tape") for task in ("ntm_copy", "dyck", "dyck_prefixes", "anbn")]
CELLS += [("answer_reverse", "lie_access"), ("anbn", "stack"), ("memorization", "queue")]
#: Each of these memories is fast on another task.
SLOW_CELLS = [("copy", name) for name in ("stack", "queue", "turing_tape", "lie_access")]
SLOW_CELLS.append(("anbn", "turing_tape"))


@pytest.mark.parametrize(
    ("task", "memory"),
    [pytest.param(*cell, marks=pytest.mark.slow if cell in SLOW_CELLS else ()) for cell in CELLS],
)
def test_every_memory_with_gates_is_hardened_on_every_layout(
    task: str, memory: str, data: Path, tmp_path: Path
) -> None:
    config = small(task, {"memory": memory}, data)
    config.hardening = gradual(tolerance=1.0)
    hardened = train_run(config, root=tmp_path, quiet=True).report["hardened"]
    assert hardened["batches"] == 2
    assert hardened["gates"]
    assert hardened["rows"]


def test_a_harmful_hardening_keeps_the_trained_model(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Models are compared at each range, far beyond, and shifted; one worse set is harm."""
    folder = copied(trained, tmp_path)

    def comparison(
        metric_set: MetricSet, model: nn.Module, sets: list[ComparisonSet]
    ) -> dict[str, Share]:
        nonlocal asked
        asked += 1
        shares = {each.name: Share(1000, 1000) for each in sets}
        return shares if asked == 1 else {**shares, "two symbols, lengths 4:6": Share(990, 1000)}

    asked = 0
    monkeypatch.setattr(hardening_phase, "compare", comparison)
    report = harden_run(folder, {**CHANGES, "far": 2}, quiet=True)
    hardened = report["hardened"]
    assert hardened["harm"]
    assert not hardened["saturated"]
    assert hardened["inverse_temperature"] == 1
    assert_the_trained_model_stayed(folder)
    # Its table is above; a second one would have the same numbers.
    assert hardened_text(report).endswith(
        "hardened, it is worse on two symbols, lengths 4:6; the trained model stays"
    )
    assert hardened["worse"] == ["two symbols, lengths 4:6"]
    rows = {row["set"]: row for row in hardened["comparison"]}
    assert rows["two symbols, lengths 4:6"]["hardened"] == 990
    assert set(rows) > {"lengths 1:3", "lengths 4:6", "lengths 6:6", "lengths 1:1"}
    hardened["saturated"], hardened["harm"] = True, False
    assert table(report) in hardened_text(report)


@pytest.mark.parametrize("errors", [0, 1])
def test_a_success_is_confirmed_on_all_unshifted_strings(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, errors: int
) -> None:
    """The few strings of the checks are all correct; one of 1000 in the comparison is wrong."""
    # The shares before are equal, so that nothing is worse.
    compare_as(monkeypatch, lambda each: Share(1000 - errors * (not each.is_shifted), 1000))
    monkeypatch.setattr(Sequences, "validation_error", lambda metric_set, evaluator: 0.0)
    changes = {**CHANGES, "settle": 2, "factor": 1.01}
    hardened = harden_run(copied(trained, tmp_path), changes, quiet=True)["hardened"]
    assert hardened["stopped"].startswith("budget" if errors else "hardening: the hardened model's")
    assert hardened["harm"] is False


def test_a_model_correct_only_on_shifted_strings_is_not_hardened(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed 104 of copy was such a model: only some strings of one symbol were correct."""
    compare_as(monkeypatch, lambda each: Share(5 * each.is_shifted, 200))
    hardened = harden_run(copied(trained, tmp_path), CHANGES, quiet=True)["hardened"]
    assert (hardened["batches"], hardened["harm"]) == (0, True)
    assert "correct on no validation sequence" in hardened["stopped"]


def test_a_non_finite_loss_keeps_the_trained_model(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Turing tape had NaN gradients at an inverse temperature of 2000."""
    train = Trainer._train_batch

    def until_the_fourth(self: Trainer, state: LoopState) -> None:
        if state.batch == 3:
            raise NonFiniteError("training stopped in batch 4: the loss is not finite")
        train(self, state)

    monkeypatch.setattr(Trainer, "_train_batch", until_the_fourth)
    folder = copied(trained, tmp_path)
    hardened = harden_run(folder, CHANGES, quiet=True)["hardened"]
    assert (hardened["batches"], hardened["harm"], hardened["saturated"]) == (3, True, False)
    assert "not finite" in hardened["stopped"]
    assert_the_trained_model_stayed(folder)


def test_an_unsaturated_model_that_is_not_better_is_not_accepted(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare_as(monkeypatch, lambda each: Share(900, 1000))
    monkeypatch.setattr(Harden, "is_saturated", property(lambda rule: False))
    folder = copied(trained, tmp_path)
    hardened = harden_run(folder, {**CHANGES, "factor": 1.01}, quiet=True)["hardened"]
    assert (hardened["harm"], hardened["saturated"], hardened["worse"]) == (True, False, [])
    assert_the_trained_model_stayed(folder)


def test_a_link_instead_of_the_hardened_model_is_refused_at_the_start(
    trained: Path, tmp_path: Path
) -> None:
    folder = copied(trained, tmp_path)
    (tmp_path / "elsewhere").mkdir()
    (folder / "model-hardened").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="link"):
        harden_run(folder, CHANGES, quiet=True)
    assert not (folder / "hardening").exists()


def test_runs_that_cannot_be_hardened_give_a_reason(
    trained: Path, data: Path, tmp_path: Path
) -> None:
    folder = copied(trained, tmp_path)
    with pytest.raises(
        ConfigError, match=r"hardening.batches: expected a number at least 1, got 0"
    ):
        harden_run(folder, {"batches": 0}, quiet=True)
    (folder / "report.json").unlink()
    with pytest.raises(CheckpointError, match=r"is not finished; `unbounded train .* --resume`"):
        harden_run(folder, quiet=True)
    plain = replace(tiny(batches=1), model=ModelConfig(memory={"name": "none"}, readout_size=None))
    folder = train_run(plain, root=tmp_path, quiet=True).folder
    with pytest.raises(ConfigError, match="hardening: the model has no memory, so it has no gates"):
        harden_run(folder, quiet=True)
    part = {"name": "transformer", "num_layers": 1, "memory": "stack"}
    plain = replace(plain, model=replace(plain.model, controller=part))
    folder = train_run(plain, root=tmp_path, quiet=True).folder
    with pytest.raises(ConfigError, match="the memory of a Transformer cannot be hardened"):
        harden_run(folder, quiet=True)
    folder = train_run(small("text", {"memory": "queue"}, data), root=tmp_path, quiet=True).folder
    with pytest.raises(ConfigError, match=r"'text' has no correct outputs .* its models cannot"):
        harden_run(folder, quiet=True)
    folder = copied(trained, tmp_path / "other")
    with pytest.raises(ConfigError, match=r"hardening.tolerance: .*got -1"):
        harden_run(folder, {"tolerance": -1.0}, quiet=True)


def test_default_hardening_options_keep_explicit_options() -> None:
    usual = preset_of("copy")["hardening"]
    assert usual["batches"] == 6000
    assert with_hardening(tiny()).hardening == usual
    streams = tiny_streams()
    of_streams = {"name": "gradual", "batches": 60, "every": 1, "far": 5}
    assert with_hardening(streams).hardening == of_streams
    own = {"factor": 2.0, "batches": 7}
    assert with_hardening(streams, own).hardening == {**of_streams, **own}
    # As on a command line with --harden.
    streams.hardening = {"name": "none", "every": 5}
    assert with_hardening(streams).hardening == {**of_streams, "every": 5}
    words = composed(preset_of("dyck"))
    assert with_hardening(words).hardening["every"] == 15


def test_hardening_options_of_a_preset_do_not_apply_to_another_protocol() -> None:
    preset = composed(preset_of("binary_addition"))
    kept = with_hardening(replace(preset, hardening={"name": "none"})).hardening
    assert kept == preset.hardening
    assert kept["learning_rate"] == 0.1
    paper = composed(preset_of("binary_addition", "paper"))
    of_streams = {"name": "gradual", "batches": 60, "every": 1, "far": 5}
    assert with_hardening(paper).hardening == of_streams


def test_a_hardened_model_is_checked_at_the_requested_far_lengths(tmp_path: Path) -> None:
    config = tiny(batches=1)
    config.hardening = gradual(validation_count=20, far=7, tolerance=1)
    planned = plan(config, checked(config))
    evaluator = planned.evaluator(MemoryModel(inputs=2, outputs=2), Place(torch.device("cpu")))
    (far,) = far_evaluators(planned, replace(evaluator, validation_count=20))
    assert (str(far.validation_lengths), far.validation_count) == ("21:21", 2)
    assert train_run(config, root=tmp_path, quiet=True).report["hardened"]["batches"] == 2
    config.hardening["far"] = 0
    assert far_evaluators(plan(config, checked(config)), evaluator) == []


def test_a_model_without_correct_sequences_is_not_hardened(tmp_path: Path) -> None:
    config = tiny(batches=1)
    config.hardening = gradual(validation_count=20)
    result = train_run(config, root=tmp_path, quiet=True)
    part = result.report["hardened"]
    assert (part["batches"], part["harm"], part["saturated"]) == (0, True, False)
    assert part["inverse_temperature"] == 1
    assert "correct on no validation sequence" in part["stopped"]
    assert (
        hardened_text(result.report) == f"not hardened ({part['stopped']}); the trained model stays"
    )
    assert not (result.folder / "hardening").exists()
    assert_the_trained_model_stayed(result.folder)


@pytest.mark.parametrize(
    ("task", "far"),
    [
        ("dyck_prefixes", "240:240"),
        ("dyck", "400:400"),
        ("answer_reverse", "640:640"),
        ("anbn", "190:190"),
        ("memorization", "190:190"),
    ],
)
def test_tasks_with_lengths_have_far_lengths(task: str, far: str) -> None:
    config = composed(
        overlay(preset_of(task), {"hardening": {"name": "gradual", "batches": 2, "far": 10}})
    )
    planned = plan(config, checked(config))
    evaluator = planned.evaluator(MemoryModel(inputs=2, outputs=2), Place(torch.device("cpu")))
    assert [str(each.validation_lengths) for each in far_evaluators(planned, evaluator)] == [far]


def test_a_memory_without_gates_is_not_hardened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert preset_of("copy")["hardening"]["batches"] > 0
    for memory in ("none", "stack", "turing_tape"):
        checked(composed(overlay(preset_of("copy"), {"model": {"memory": memory}})))
    config = tiny(batches=1)
    config.model.memory, config.hardening = {"name": "none"}, {"name": "gradual"}
    result = train_run(config, root=tmp_path)
    assert "hardened" not in result.report
    assert "not hardened: the model has no memory with gates" in capsys.readouterr().out
    published = composed(preset_of("copy", "paper"))
    assert published.hardening == {"name": "none"}
    assert published.training.schedule == {"name": "constant"}


def test_hardening_options_of_the_command_line_are_kept(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for options in (
        ["--hardening.every", "5"],
        ["--hardening.every=5"],
        ["--hardening", '{"every": 5}'],
    ):
        assert main(["train", "dyck", "--harden", *options, "--print_config"]) == 0
        assert plain_yaml.load(capsys.readouterr().out)["hardening"]["every"] == 5
    assert main(["train", "copy", "--harden", "--hardening", "none"]) != 0
    assert "cannot be combined with --hardening none" in capsys.readouterr().err


def test_one_option_turns_hardening_off() -> None:
    config = composed(overlay(preset_of("copy"), {"hardening": "none"}))
    checked(config)
    config.hardening["every"] = 7
    with pytest.raises(ConfigError, match=r"hardening 'none' has no option 'every'"):
        checked(config)


@pytest.mark.parametrize(
    ("task", "shorter", "lengths"),
    [("copy", "1:7", "8:64"), ("bigram_flip", "2:7", "8:64"), ("svo_sov", "3:7", "8:64")],
)
def test_hardening_also_trains_on_shorter_strings(task: str, shorter: str, lengths: str) -> None:
    config = composed(preset_of(task))
    planned = plan(config, checked(config))
    drawn = hardening_lengths(planned, shorter_lengths(planned))
    assert isinstance(drawn, ShorterToo)
    bucket = config.training.length_bucketing  # this number of batches share their lengths
    ranges = [str(drawn(batch)) for batch in range(4 * bucket)]
    assert ranges == ([shorter] * bucket + [lengths] * bucket) * 2
    assert str(drawn.final) == lengths


def test_the_hardening_of_a_stream_mixes_all_lengths() -> None:
    config = composed(preset_of("anbn"))
    planned = plan(config, checked(config))
    assert str(hardening_lengths(planned, shorter_lengths(planned))) == "1:19"


@pytest.mark.parametrize(("correct", "kept"), [(0, None), (1, "1:7")])
def test_hardening_adds_shorter_strings_that_the_model_has_learned(
    correct: int, kept: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a^n b^2n, seed 1, loses 14 % of longer strings; n = 1 is never correct."""
    config = composed(preset_of("copy"))
    planned = plan(config, checked(config))
    evaluator = planned.evaluator(nn.Linear(1, 1), lambda tensor: tensor)
    asked = []

    def assess(*arguments: Any) -> Score:
        asked.append(str(arguments[1]))
        return Score(1000, correct, 0.0, 0.0)

    monkeypatch.setattr(planned.metric_set, "assess", assess)
    lengths = kept_lengths(planned, evaluator)
    assert (None if lengths is None else str(lengths)) == kept
    assert asked == ["1:7"]
    drawn = hardening_lengths(planned, lengths)
    assert isinstance(drawn, ShorterToo) == (kept is not None)


def test_a_hardened_model_without_correct_sequences_is_not_accepted(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = chain([Share(1, 1000)], repeat(Share(0, 1000)))
    monkeypatch.setattr(
        hardening_phase,
        "compare",
        lambda metric_set, model, sets: dict.fromkeys([one.name for one in sets], next(shares)),
    )
    monkeypatch.setattr(hardening_phase, "worse_sets", lambda sets, before, after: [])
    monkeypatch.setattr(hardening_phase, "least_saturated", lambda model, batch, device: 1.0)
    report = harden_run(copied(trained, tmp_path), {**CHANGES, "tolerance": 1.0}, quiet=True)
    assert report["hardened"]["harm"] is True


def test_a_hardening_may_have_another_optimizer(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def noting(*given: Any, **options: Any) -> torch.optim.Optimizer:
        asked.append((options["name"], options["options"]))
        return make_optimizer(*given, **options)

    monkeypatch.setattr(hardening_phase, "make_optimizer", noting)
    folder = copied(trained, tmp_path)
    harden_run(folder, {**CHANGES, "optimizer": "sgd"}, quiet=True)
    harden_run(folder, CHANGES, quiet=True, overwrite=True)
    assert asked == [("sgd", {}), ("rmsprop", {})]


def test_far_lengths_are_multiples_of_training_with_fewer_strings(tmp_path: Path) -> None:
    config = tiny(batches=1)
    config.evaluation["multiples"], config.evaluation["symbols"] = [10, 100], 320
    report = train_run(config, root=tmp_path, quiet=True)
    rows = [(row["lengths"], row["count"], row["role"]) for row in report.report["rows"]]
    assert rows == [
        ("1:3", 20, "train"),
        ("4:6", 20, "test"),
        ("7:12", 20, "longer"),
        ("30:30", 10, "longer"),
        ("300:300", 1, "longer"),
    ]
    assert evaluate_run(report.folder)["rows"] == report.report["rows"]
    asked = evaluate_run(report.folder, lengths=[LengthRange(4, 6)])
    assert [row["lengths"] for row in asked["rows"]] == ["4:6"]
    config.evaluation["multiples"], config.evaluation["symbols"] = [0], 0
    with pytest.raises(ConfigError) as error:
        checked(config)
    assert [fault.partition(":")[0] for fault in error.value.errors] == [
        "evaluation.multiples",
        "evaluation.symbols",
    ]
    streams = tiny_streams()
    streams.evaluation["multiples"] = [10]
    with pytest.raises(ConfigError, match="evaluation has no option 'multiples'"):
        checked(streams)


@pytest.mark.parametrize(
    "text", ["[]", '{"format": "unbounded-verification", "version": 1}', '{"format": "x"}', "{"]
)
def test_a_damaged_verification_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "verification-model.json"
    path.write_text(text)
    with pytest.raises(CheckpointError, match=r"verification-model.json is (no|damaged)"):
        read_verification(path)


@pytest.mark.parametrize("times", [float("inf"), float("nan"), 0.0, -1.0, 1e300])
def test_multiples_of_a_verification_are_bounded(times: float) -> None:
    with pytest.raises(ConfigError, match="times: expected numbers above 0, at most 10000, got"):
        VerifyOptions(times=(times,))


@pytest.mark.usefixtures("nothing_is_worse")
def test_the_title_of_a_page_names_the_hardened_model(trained: Path, tmp_path: Path) -> None:
    folder = copied(trained, tmp_path)
    harden_run(folder, {**CHANGES, "tolerance": 1.0}, quiet=True)
    assert run_of_folder(folder)["title"] == "queue-lstm on copy"
    assert run_of_folder(folder, hardened=True)["title"].startswith("queue-lstm on copy, hardened")
    assert main(["explore", str(folder), "--course", "--hardened"]) == 2


def test_a_new_hardening_keeps_the_runs_options_unless_overridden(tmp_path: Path) -> None:
    config = tiny()
    config.hardening = gradual(every=2, factor=3.0, tolerance=0.5)
    folder = train_run(config, root=tmp_path, quiet=True).folder
    report = harden_run(folder, {"batches": 4, "every": 5}, overwrite=True, quiet=True)
    assert report["hardened"]["batches"] == 4
    options = json.loads((folder / "hardening" / "options.json").read_text())
    assert report["hardened"]["options"] == options
    assert report["hardened"]["commit"] == commit()
    assert options["every"] == 5  # the default value, given explicitly
    assert options["factor"] == 3.0
    assert options["tolerance"] == 0.5


def test_a_stack_that_is_needed_far_beyond_training_is_not_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[tuple[str, int]] = []

    def correct_on_all(
        self: Lengths, evaluator: Evaluator, lengths: LengthRange, start: int, count: int
    ) -> Any:
        looked.append((str(lengths), count))
        return StreamScore(count, count, 1.0, 0.0)

    def asked_once(model: MemoryModel, correct: Callable[[MemoryModel], float], **_: Any) -> Any:
        looked.clear()
        assert correct(model) == sum(count for _, count in looked)
        asked.extend(looked)
        return Removal(model, (), 1, 2, True)

    asked: list[tuple[str, int]] = []
    monkeypatch.setattr(Lengths, "assess", correct_on_all)
    monkeypatch.setattr("unbounded.experiments.run.hardening_phase.remove_unused", asked_once)
    config = tiny_streams(batches=1)
    config.hardening = gradual(batches=1, validation_count=30, far=7)
    train_run(config, root=tmp_path, quiet=True)
    longest = 7 * plan(config, checked(config)).train_lengths.maximum
    assert {count for _, count in asked[:-1]} == {30}
    assert asked[-1] == (f"{longest}:{longest}", 3)


def test_hardening_uses_the_backend_and_device_of_the_config(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = copied(trained, tmp_path)
    config = RunFolder(folder).config()
    seen = []
    monkeypatch.setattr(RunFolder, "config", lambda _: config)
    monkeypatch.setattr(
        finished_run_hardening, "plan", lambda own, task: seen.append(own) or plan(own, task)
    )
    for backend, device in (("reference", "cpu"), ("cpu", "cuda")):
        config.hardware.backend, config.hardware.device = backend, device
        harden_run(folder, CHANGES, quiet=True, overwrite=True)
    places = [(own.hardware.backend, own.hardware.device) for own in seen]
    assert places == [("reference", "cpu"), ("auto", "auto")]
