from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

import pytest
import torch
from tests.evaluation.evaluators import evaluator_of

from unbounded.errors import ConfigError
from unbounded.evaluation import EvaluationPlan, metric_set_of
from unbounded.experiments.config.check import examine
from unbounded.experiments.config.schema import RunConfig
from unbounded.models import MemoryModel
from unbounded.tasks import Batch, Example, LengthRange, Task, make_task
from unbounded.tasks.transduction import TransductionTask

if TYPE_CHECKING:
    from decimal import Decimal


class Backwards(TransductionTask):
    """A custom task with a misspelt layout."""

    def __init__(self) -> None:
        vars(self).update(vars(make_task("copy")))
        self.layout = "pair"


def test_an_unknown_layout_is_named() -> None:
    with pytest.raises(ConfigError, match=r"unknown layout 'pair'\. Did you mean 'pairs'"):
        make_task(f"{__name__}.Backwards")


class Bare(Task):
    """The attributes of the table in docs/custom_components.md, without a name."""

    layout = "pairs"
    metric_set = "sequences"
    input_vocabulary = output_vocabulary = ("a", "b")
    train_lengths = test_lengths = LengthRange(1, 2)

    def __init__(self, symbols: int = 2) -> None:
        if symbols > 9:
            raise ValueError("too many")

    def batch(self, seed, split, start, size, lengths=None):
        tokens = torch.zeros(size, 2, dtype=torch.int64)
        return Batch(tokens, tokens, tokens == 0, tokens[:, 0] + 2)

    def examples(self, seed, split, start, size, lengths=None):
        return [Example(("a",), ("a",))] * size


class Hinted(Bare):
    def __init__(self, symbols: Decimal | None = None) -> None:
        self.symbols = symbols


@dataclasses.dataclass(frozen=True)
class Frozen(Bare):
    symbols: int = 2


class Unscored(Bare):
    metric_set = property()  # hides the attribute
    objective = "mse"


class Wrong(Bare):
    """Its first batch is changed by `wrong`."""

    def batch(self, *arguments, **options):
        return type(self).wrong(super().batch(*arguments, **options))


class Strips(Bare):
    """A text of ones, cut into strips."""

    layout, metric_set, has_lengths = "text", "perplexity", False

    def batch(self, seed, split, start, size, lengths=None):
        tokens = torch.ones(size, 6 // size, dtype=torch.int64)
        return Batch(tokens, tokens, tokens == 1, tokens.sum(1))


class Bounded(Bare):
    metric_set = "above_bound"


class Answering(Bare):
    layout, name, answer_token = "answer", "answering", 1


def test_a_text_task_needs_only_its_batches() -> None:
    model = MemoryModel(inputs=2, outputs=2, memory="none", hidden_size=2)
    evaluator = evaluator_of(model, make_task(f"{__name__}.Strips"))
    plan = EvaluationPlan("test", 0, None, 1, streams=2)
    (row,) = metric_set_of("perplexity").rows(evaluator, plan)
    assert row["tokens"] == 6
    assert row["perplexity"] > 1


def test_a_metric_set_names_what_its_task_lacks() -> None:
    _, errors = examine(RunConfig(task=f"{__name__}.Bounded"))
    needs = "metric set 'above_bound' needs a task with log_probabilities; define it"
    assert any(needs in error for error in errors), errors


def test_a_task_that_reads_no_typed_source_names_what_to_define() -> None:
    with pytest.raises(ConfigError, match="has no answer phase"):
        make_task(f"{__name__}.Bare").asked(["a"])
    with pytest.raises(ConfigError, match=r"'answering' cannot read a typed.* defines `asked`"):
        make_task(f"{__name__}.Answering").asked(["a"])


def test_a_task_without_a_name_is_called_by_its_path() -> None:
    assert make_task(f"{__name__}.Bare").name == f"{__name__}.Bare"


def test_a_task_that_cannot_be_named_must_have_a_name() -> None:
    with pytest.raises(ConfigError, match="Frozen' has no name: a Task must"):
        make_task(f"{__name__}.Frozen")


def test_type_hints_that_cannot_be_checked_are_ignored() -> None:
    assert make_task(f"{__name__}.Hinted", symbols="what it likes").layout == "pairs"


def test_missing_attributes_are_reported_before_training() -> None:
    with pytest.raises(ConfigError) as caught:
        make_task(f"{__name__}.Unscored")
    lacks, objective = caught.value.errors
    assert lacks.endswith("Unscored' has no metric_set: a Task must")
    assert "unknown objective 'mse'. Valid: binary, bits, cross_entropy" in objective


def test_options_of_a_task_are_checked_against_its_signature() -> None:
    with pytest.raises(ConfigError, match="symbols: expected an integer, got 'two'"):
        make_task(f"{__name__}.Bare", symbols="two")
    with pytest.raises(ConfigError, match="ValueError: too many"):
        make_task(f"{__name__}.Bare", symbols=10)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda batch: tuple(batch), "expected a Batch, got tuple"),
        (lambda batch: batch._replace(inputs=batch.inputs[:, :0]), r"one step, got \[2, 0\]"),
        (lambda batch: batch._replace(targets=batch.targets.float()), r"targets \[2, 2\] of torch"),
        (lambda batch: batch._replace(mask=batch.mask[:, :1]), r"expected mask \[2, 2\] of torch"),
        (lambda batch: batch._replace(lengths=[2, 2]), "expected a tensor for lengths, got list"),
        (lambda batch: batch._replace(lengths=batch.lengths + 7), r"lengths in 1..2, got 9 to 9"),
        (lambda batch: batch._replace(inputs=batch.inputs + 5), r"inputs in 0..1, got 5 to 5"),
        (lambda batch: batch._replace(mask=~batch.mask), "no step counts; mask is False"),
        (lambda batch: batch._replace(targets=batch.targets + 2), r"targets in 0..1, got 2 to 2"),
    ],
)
def test_the_first_batch_of_a_task_is_checked(monkeypatch, wrong, message) -> None:
    monkeypatch.setattr(Wrong, "wrong", staticmethod(wrong), raising=False)
    _, errors = examine(RunConfig(task=f"{__name__}.Wrong"))
    assert any(re.search(f"the first batch: .*{message}", error) for error in errors), errors
