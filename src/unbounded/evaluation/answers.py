"""A model's answers with their targets, and its answer to a source that a person typed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from unbounded.checks import check_module, check_symbols
from unbounded.errors import CheckpointError, ConfigError
from unbounded.evaluation.score import logits_or_nan
from unbounded.models.memory_room import with_room
from unbounded.tasks import Batch, Task
from unbounded.tasks.batch import check_batch
from unbounded.tasks.task import check_task
from unbounded.training.objective import OBJECTIVES

FORMAT, VERSION = "unbounded-answers", 2


class Answer(NamedTuple):
    """One answer.

    Fields:
        source: the input symbols. target: the correct answer with its end. predicted: the model's.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    predicted: tuple[str, ...]

    @property
    def first_error(self) -> int | None:
        """Index of the first incorrect symbol, from 0; None if all are correct."""
        pairs = enumerate(zip(self.target, self.predicted, strict=True))
        return next((place for place, (target, symbol) in pairs if target != symbol), None)


def answers_of(model: nn.Module, task: Task, batch: Batch) -> list[Answer]:
    """A model's answers to the examples of a batch, with an enlarged memory (`with_room`).

    Args:
        model: as in `logits_of`.
        task: the batch's task.
        batch: on the CPU.
    Raises:
        DTypeError: an argument is of another kind.
    """
    check_module("model", model)
    check_task(task)
    check_batch(batch)
    device = next(model.parameters()).device
    model, _ = with_room(model, batch.inputs.shape[1])
    with torch.no_grad():
        logits = logits_or_nan(model, batch.inputs.to(device), batch.lengths)
    predictions = OBJECTIVES[task.objective].predict(logits).cpu()
    return [
        Answer(
            _named(task.input_vocabulary, inputs[: int(mask.nonzero()[0])]),
            _named(task.output_vocabulary, targets[mask]),
            _named(task.output_vocabulary, predicted[mask]),
        )
        for inputs, targets, mask, predicted in zip(
            batch.inputs, batch.targets, batch.mask, predictions, strict=True
        )
    ]


def answer_to(model: nn.Module, task: Task, symbols: Sequence[str]) -> Batch:
    """A model's answer to a source that a person typed, with an enlarged memory (`with_room`).

    Args:
        model: called as model(inputs), returns logits [B, T, V] first.
        task: has the symbols, and the input symbol of the answer phase.
        symbols: of the source.
    Returns:
        one sequence, whose targets are the predicted symbols. They are as many as the answer of the
        task has. If an end symbol ends the answer, they end there, or after four times the source's
        length and 40 symbols.
    Raises:
        ConfigError: the task has no answer phase, or the source is empty or has an unknown symbol.
    """
    check_module("model", model)
    check_task(task)
    prompt = task.asked(check_symbols("symbols", symbols))
    steps_of_answer = task.answer_steps(prompt)
    most = 4 * len(prompt) + 40 if steps_of_answer is None else steps_of_answer
    if task.answer_token is None:
        raise ConfigError(f"task {task.name!r} has no answer phase with one fixed input symbol")
    more = torch.full((most - 1,), task.answer_token)
    inputs = torch.cat([prompt, more]).unsqueeze(0)
    device = next(model.parameters()).device
    model, _ = with_room(model, inputs.shape[1])
    with torch.no_grad():
        predicted = OBJECTIVES[task.objective].predict(model(inputs.to(device))[0]).cpu()
    first = len(prompt) - 1
    ends = torch.eq(
        predicted[0, first:], -1 if task.end_token is None else task.end_token
    ).nonzero()
    steps = first + (int(ends[0]) + 1 if len(ends) else most)
    mask = (torch.arange(steps) >= first).unsqueeze(0)
    targets = predicted[:, :steps].masked_fill(~mask, 0)
    return Batch(inputs[:, :steps], targets, mask, torch.tensor([steps]))


def answers_json(named: Mapping[str, Sequence[Answer]]) -> dict[str, Any]:
    """Answers by length range, as plain data."""
    examples = [
        {"lengths": lengths, **{name: list(part) for name, part in answer._asdict().items()}}
        for lengths, answers in named.items()
        for answer in answers
    ]
    return {"format": FORMAT, "version": VERSION, "examples": examples}


def answers_from_json(data: Any) -> list[Answer]:
    """Read answers from the data that `answers_json` returns.

    Raises:
        CheckpointError: the data has another form.
    """
    try:
        if (data["format"], data["version"]) != (FORMAT, VERSION):
            raise ValueError(f"expected {FORMAT} version {VERSION}")
        answers = [
            Answer(*(tuple(map(str, example[field])) for field in Answer._fields))
            for example in data["examples"]
        ]
        if any(len(example.target) != len(example.predicted) for example in answers):
            raise ValueError("an answer and its target differ in their number of symbols")
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"the file does not hold the answers of a run: {error}") from error
    return answers


def _named(vocabulary: Sequence[str], tokens: Tensor) -> tuple[str, ...]:
    return tuple(vocabulary[token] for token in tokens.tolist())
