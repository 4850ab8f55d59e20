"""Runs on recognition: with further losses, from data, evaluated, predicted and verified."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.experiments.small import small
from tests.tasks.test_recognition import official
from unbounded.errors import ConfigError
from unbounded.evaluation.predictions import predictions, read_inputs
from unbounded.experiments.config.check import errors
from unbounded.experiments.run.evaluate import evaluate_run
from unbounded.experiments.run.examples import prefix_lines, typed_word
from unbounded.experiments.run.run import train_run
from unbounded.experiments.run.run_folder import RunFolder
from unbounded.models import MemoryModel
from unbounded.tasks import LengthRange, make_task
from unbounded.verification import VerifyOptions, findings_of


def test_a_run_with_every_loss(data: Path, tmp_path: Path) -> None:
    config = small("flare", {"memory": "stack"}, data)
    config.task |= {"language": "marked_reversal", "lm": 0.3, "ns": 0.7}
    result = train_run(config, root=tmp_path, quiet=True)
    assert evaluate_run(result.folder)["rows"] == result.report["rows"]
    model, _ = RunFolder(result.folder).load_model()
    task = make_task("flare", language="marked_reversal", lm=0.3, ns=0.7)
    assert model.config["outputs"] == 9
    one, same = predictions(model, task, read_inputs(task, ["0 # 0", "<s> 0 # 0"]))
    # The start symbol need not be typed; there is a label after each symbol.
    assert one == same
    assert len(one.symbols) == len(one.probabilities) == 3
    batch = typed_word(task, "0 # 0")
    assert [task.input_vocabulary[token] for token in batch.inputs[0]] == ["<s>", "0", "#", "0"]
    with torch.no_grad():
        chances = model(batch.inputs)[0][0, 1:, 0].sigmoid()
    assert one.probabilities == pytest.approx(chances.tolist())
    assert len(prefix_lines(model, task, batch)) == 5
    options = VerifyOptions(most=3, times=(), symbols_each=20)
    findings = [(each.length, each.count) for each in findings_of(model, task, options)]
    assert findings == [(0, 1), (1, 3), (2, 9)]


def test_further_losses_teach_further_outputs(data: Path, tmp_path: Path) -> None:
    """The loss of next symbols falls where its coefficient is not 0."""
    losses = {}
    for lm in (0.0001, 5.0):
        config = small("flare", {"memory": "none"}, data)
        config.task |= {"language": "repeat_01", "lm": lm, "train_lengths": "1:8"}
        config.training.batches, config.training.batch_size = 60, 16
        config.training.schedule, config.training.learning_rate = {"name": "constant"}, 0.02
        config.training.report_every = config.training.checkpoint_every = 60
        config.training.stop = {"name": "budget"}
        config.model.hidden_size = 12
        result = train_run(config, root=tmp_path / str(lm), quiet=True)
        model, _ = RunFolder(result.folder).load_model()
        task = make_task("flare", language="repeat_01", lm=1.0)
        batch = task.batch(5, "test", 0, 64, LengthRange(1, 8))
        losses[lm] = float(task.further_loss(model(batch.inputs)[0], batch).detach()) / 64
    assert losses[5.0] < 0.7 * losses[0.0001]


def test_a_further_loss_needs_full_strings(data: Path) -> None:
    config = small("flare", {"memory": "none"}, data)
    config.task["lm"] = 1.0
    config.training.chunk_steps, config.training.length_bucketing = 5, 1
    assert errors(config) == [
        "training.chunk_steps: the further loss on task 'flare' needs full strings; give null"
    ]


def test_a_run_of_the_authors_files(data: Path, tmp_path: Path) -> None:
    folder = official(tmp_path / "data")
    config = small("flare", {"memory": "none"}, data)
    config.task |= {"published_counts": False}
    config.hardware.data = str(folder)
    config.training.lengths, config.training.validation_lengths = "1:40", "1:80"
    config.evaluation = {"lengths": ["1:500"]}
    assert errors(config) == []
    result = train_run(config, root=tmp_path / "runs", quiet=True)
    (row,) = result.report["rows"]
    assert (row["count"], row["role"]) == (20, "longer")
    assert result.report["validation"]["lengths"] == "1:80"
    config.hardware.data = str(tmp_path / "nothing")
    (error, *_) = errors(config)
    assert "Give the folder of FLaRe's data" in error


def test_computation_tokens_of_a_task_without_them_are_named(data: Path) -> None:
    config = small("flare", {"memory": "stack"}, data)
    config.task["computation"] = 2
    (error,) = errors(config)
    assert "task 'flare' has no option 'computation'" in error


@pytest.mark.parametrize(
    ("name", "options", "counts"),
    [("parity_check", {}, [2, 4, 8, 16]), ("word_problem", {"group": "S3"}, [6, 36])],
)
def test_the_rules_of_the_tasks_verify_a_network(
    name: str, options: dict[str, str], counts: list[int], data: Path, tmp_path: Path
) -> None:
    config = small(name, {"memory": "none"}, data)
    config.task |= options
    result = train_run(config, root=tmp_path, quiet=True)
    model, _ = RunFolder(result.folder).load_model()
    task = make_task(name, **options)
    findings = list(findings_of(model, task, VerifyOptions(most=4, times=(), symbols_each=200)))
    assert [finding.count for finding in findings] == counts
    assert all(finding.every for finding in findings)


def test_lengths_without_strings_at_their_start_are_accepted(data: Path) -> None:
    config = small("stack_language", {"memory": "none"}, data)
    config.task = {"name": "stack_language", "language": "count_3"}
    config.training.lengths = "40:50"
    assert errors(config) == []
    config.training.lengths = "40:41"
    (error, *_) = errors(config)
    assert "the language has no string of 40:41" in error


@pytest.mark.parametrize(
    ("name", "options"),
    [("stack_language", {"language": "unmarked_reversal"}), ("dynamic_ngrams", {})],
)
def test_a_task_without_determined_outputs_is_not_verified(
    name: str, options: dict[str, str]
) -> None:
    task = make_task(name, **options)
    with pytest.raises(ConfigError, match="at most steps several symbols may follow, or"):
        list(findings_of(MemoryModel(inputs=4, outputs=4), task, VerifyOptions()))
