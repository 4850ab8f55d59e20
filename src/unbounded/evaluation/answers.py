"""What a model answers beside the truth, and what it answers to a source that a person typed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from unbounded.checks import check_module, check_symbols
from unbounded.errors import CheckpointError, ConfigError
from unbounded.models.memory_room import with_room
from unbounded.tasks import Batch, Task
from unbounded.tasks.batch import check_batch
from unbounded.tasks.task import check_task
from unbounded.training.objective import OBJECTIVES

FORMAT, VERSION = "unbounded-answers", 1


class Answer(NamedTuple):
    """One answer.

    Fields:
        source: what was read. wanted: the right answer with its end. said: as many symbols.
    """

    source: tuple[str, ...]
    wanted: tuple[str, ...]
    said: tuple[str, ...]

    @property
    def first_error(self) -> int | None:
        """Place of the first symbol that is wrong, from 0; None where all are right."""
        pairs = zip(self.wanted, self.said, strict=True)
        return next((place for place, (right, said) in enumerate(pairs) if right != said), None)


def answers_of(model: nn.Module, task: Task, batch: Batch) -> list[Answer]:
    """What a model says to the examples of a batch, with room in its memory (`with_room`).

    Args:
        model: called as model(inputs), gives logits [B, T, V] first.
        task: of the batch.
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
        logits = model(batch.inputs.to(device))[0]
    predicted = OBJECTIVES[task.objective].predict(logits).cpu()
    return [
        Answer(
            _named(task.input_vocabulary, inputs[: int(mask.nonzero()[0])]),
            _named(task.output_vocabulary, targets[mask]),
            _named(task.output_vocabulary, said[mask]),
        )
        for inputs, targets, mask, said in zip(
            batch.inputs, batch.targets, batch.mask, predicted, strict=True
        )
    ]


def answer_to(model: nn.Module, task: Task, symbols: Sequence[str]) -> Batch:
    """What a model answers to a source that no task drew, with room in its memory (`with_room`).

    Args:
        model: called as model(inputs), gives logits [B, T, V] first.
        task: knows the symbols, and what is fed while answering.
        symbols: of the source.
    Returns:
        one sequence, whose targets are what was said, to its end or to four times the source's
        length and 40 symbols.
    Raises:
        ConfigError: the task has no answer phase, or the source is empty or has an unknown symbol.
    """
    check_module("model", model)
    check_task(task)
    prompt = task.asked(check_symbols("symbols", symbols))
    most = 4 * len(prompt) + 40
    if task.answer_token is None:
        raise ConfigError([f"task {task.name!r} is not fed one symbol while it answers"])
    more = torch.full((most - 1,), task.answer_token)
    inputs = torch.cat([prompt, more]).unsqueeze(0)
    device = next(model.parameters()).device
    model, _ = with_room(model, inputs.shape[1])
    with torch.no_grad():
        said = OBJECTIVES[task.objective].predict(model(inputs.to(device))[0]).cpu()
    first = len(prompt) - 1
    ends = torch.eq(said[0, first:], -1 if task.end_token is None else task.end_token).nonzero()
    steps = first + (int(ends[0]) + 1 if len(ends) else most)
    mask = (torch.arange(steps) >= first).unsqueeze(0)
    targets = said[:, :steps].masked_fill(~mask, 0)
    return Batch(inputs[:, :steps], targets, mask, torch.tensor([steps]))


def answers_json(named: Mapping[str, Sequence[Answer]]) -> dict[str, Any]:
    """Answers by their range of lengths, as plain data."""
    examples = [
        {"lengths": lengths, **{name: list(part) for name, part in answer._asdict().items()}}
        for lengths, answers in named.items()
        for answer in answers
    ]
    return {"format": FORMAT, "version": VERSION, "examples": examples}


def answers_from_json(data: Any) -> list[Answer]:
    """The answers that `answers_json` made data of.

    Raises:
        CheckpointError: the data has another form.
    """
    try:
        if (data["format"], data["version"]) != (FORMAT, VERSION):
            raise ValueError(f"expected {FORMAT} version {VERSION}")
        found = [
            Answer(*(tuple(map(str, each[field])) for field in Answer._fields))
            for each in data["examples"]
        ]
        if any(len(each.wanted) != len(each.said) for each in found):
            raise ValueError("an answer has another number of symbols than the truth")
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"these are no answers of a run: {error}") from error
    return found


def _named(vocabulary: Sequence[str], tokens: Tensor) -> tuple[str, ...]:
    return tuple(vocabulary[token] for token in tokens.tolist())
