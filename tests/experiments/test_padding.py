"""The output for a sequence does not depend on the other sequences of the batch."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.experiments.tiny import planned, tiny
from tests.tolerances import assert_close
from unbounded.evaluation.answers import answers_of
from unbounded.evaluation.predictions import predictions
from unbounded.evaluation.score import logits_of, mean_nats, numbers_of
from unbounded.memories import MEMORIES
from unbounded.tasks import Batch, LengthRange

FLARE = {"name": "flare", "language": "dyck_2_3"}
MODELS = {
    **{name: ({"name": name}, {"name": "lstm"}) for name in MEMORIES},
    # On a ring so short, each jump ends on a cell that was written.
    "rolling_tape": ({"name": "rolling_tape", "slots": 40}, {"name": "lstm"}),
    "transformer": ({"name": "none"}, {"name": "transformer", "positions": "relative"}),
    "deltanet": ({"name": "none"}, {"name": "deltanet"}),
}


def model_and_batch(name: str, task: dict[str, Any]) -> tuple[Any, Any, Batch]:
    config = tiny()
    memory, controller = MODELS[name]
    config.task, config.model.memory, config.model.controller = task, memory, controller
    own = planned(config)
    torch.manual_seed(0)
    return (
        own.model().double().eval(),
        own.task,
        own.task.batch(1, "test", 0, 6, LengthRange(2, 30)),
    )


def alone(batch: Batch, row: int) -> Batch:
    steps = int(batch.lengths[row])
    return Batch(*(field[row : row + 1, :steps] for field in batch[:3]), batch.lengths[row, None])


@pytest.mark.parametrize("name", MODELS)
def test_scores_do_not_depend_on_padding(name: str) -> None:
    model, task, batch = model_and_batch(name, FLARE)
    assert len(set(batch.lengths.tolist())) > 3

    def last(logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        steps = mask.shape[1] - 1 - mask.flip(1).long().argmax(dim=1)
        return logits[torch.arange(len(mask)), steps, :1].double()

    together, _ = numbers_of(model, batch, last, 1)
    singles = [numbers_of(model, alone(batch, row), last, 1)[0] for row in range(6)]
    assert_close(together, torch.cat(singles), "logits")
    nats = [mean_nats(model, alone(batch, row), task.objective) for row in range(6)]
    counts = batch.mask.sum(dim=1)
    mean = float((torch.tensor(nats) * counts).sum() / counts.sum())
    assert mean_nats(model, batch, task.objective) == pytest.approx(mean, rel=1e-4)


def test_a_tape_jumps_by_the_length_of_its_own_sequence() -> None:
    model, _, batch = model_and_batch("rolling_tape", FLARE)
    own = logits_of(model, batch.inputs, batch.lengths)
    with torch.no_grad():
        without = model(batch.inputs)[0]
    shortest = int(batch.lengths.argmin())
    steps = int(batch.lengths[shortest])
    assert (own - without)[shortest, :steps].abs().max() > 1e-4


def test_outputs_do_not_depend_on_the_other_lines() -> None:
    model, task, batch = model_and_batch("rolling_tape", FLARE)
    lines = [inputs[:steps] for inputs, steps in zip(batch.inputs, batch.lengths, strict=True)]
    together = predictions(model, task, lines)
    for line, one in zip(lines, together, strict=True):
        (single,) = predictions(model, task, [line])
        assert one.symbols == single.symbols
        assert one.probabilities == pytest.approx(single.probabilities, rel=1e-4)
    model, task, batch = model_and_batch("rolling_tape", {"name": "duplicate_string"})
    answers = answers_of(model, task, batch)
    assert answers == [answers_of(model, task, alone(batch, row))[0] for row in range(6)]
