"""Streams in the training loop: chunks with carried state, clipping, curriculum, plateau."""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from torch.nn import functional as F

import unbounded as ub
from tests.metrics import read_metrics
from tests.training.runs import InterruptAt, Run
from unbounded.errors import ConfigError
from unbounded.evaluation import score_lengths, stream_loss
from unbounded.models import SequenceModel, draw_sums
from unbounded.tasks import LengthRange, StreamTask, chunks, make_task
from unbounded.training import (
    Doubling,
    Growing,
    HalveOnPlateau,
    Hook,
    Interrupted,
    OneLength,
    PhaseOptions,
    WhenConverged,
    WhenStalled,
)
from unbounded.training.hook import Assess, Record
from unbounded.training.hooks.curricula import Curriculum
from unbounded.training.progress import describe
from unbounded.training.state import LoopState

CONTROLLER = functools.partial(
    ub.ElmanController, activation="sigmoid", recurrent=False, bias=False
)
ANBN = make_task("anbn", sequences=3)


def stack_rnn(
    symbols: int, hidden: int = 20, stacks: int = 4, seed: int = 0, backend: str = "reference"
) -> SequenceModel:
    torch.manual_seed(seed)
    memory = ub.SuperpositionStack(stacks, capacity=40, overflow="drop_bottom")
    layer = ub.MemoryRNN(symbols, hidden, memory, CONTROLLER, batch_first=True, backend=backend)
    model = SequenceModel(symbols, symbols, None, layer, hidden, output_bias=False)
    draw_sums(model)
    return model


class StreamRun(Run):
    def __init__(self, folder: Path, task: StreamTask, model: torch.nn.Module, **options: Any):
        names = {"optimizer", "learning_rate", "batches"} & set(options)
        super().__init__(folder, model, **{name: options.pop(name) for name in names})
        self.plateau = None
        hook: Hook | None = options.pop("hook", None)
        if "validate" in options:
            self.plateau = HalveOnPlateau(
                self.model,
                self.optimizer,
                self.schedule,
                options.pop("validate"),
                **options.pop("plateau", {}),
            )
        hooks = [each for each in (self.plateau, hook) if each is not None]
        self.begin(task, *hooks, **options)


def weights(model: torch.nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


@pytest.mark.parametrize("name", ["anbn", "binary_addition"])
def test_a_batch_is_truncated_bptt_over_its_chunks(tmp_path: Path, name: str) -> None:
    """Against an explicit loop: a step of SGD a chunk, the state carried and detached."""
    task = make_task(name, sequences=3)
    assert isinstance(task, StreamTask)
    symbols = len(task.input_vocabulary)
    run = StreamRun(tmp_path, task, stack_rnn(symbols), chunk_steps=7)
    state = run.train()
    by_hand = stack_rnn(symbols)
    optimizer = torch.optim.SGD(by_hand.parameters(), lr=0.1)
    for number in range(2):
        carried = None
        batch = task.batch(0, "train", 3 * number, 3, LengthRange(2, 4))
        for chunk in chunks(batch, 7):
            logits, carried = by_hand(chunk.inputs, carried)
            carried = ub.detach_state(carried)
            if not chunk.mask.any():
                continue
            loss = F.cross_entropy(logits[chunk.mask], chunk.targets[chunk.mask])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    assert torch.allclose(weights(run.model), weights(by_hand), rtol=1e-5, atol=1e-7)
    assert state.finished == "budget: 2 batches are done"
    assert [line["kind"] for line in read_metrics(run.metrics)] == ["train", "train"]


def test_one_long_chunk_equals_a_batch_without_chunks(tmp_path: Path) -> None:
    one = StreamRun(tmp_path / "one", ANBN, stack_rnn(2), chunk_steps=1000)
    full = StreamRun(tmp_path / "whole", ANBN, stack_rnn(2))
    one.train()
    full.train()
    assert torch.equal(weights(one.model), weights(full.model))


def test_the_sum_of_a_step_is_so_many_times_the_mean(tmp_path: Path) -> None:
    """Plain SGD on one chunk: the same direction, longer by the number of counted steps."""
    before, moved = weights(stack_rnn(2)), []
    for reduction in ("mean", "sum"):
        options: dict[str, Any] = {"batches": 1, "reduction": reduction, "clip": 1e9}
        run = StreamRun(tmp_path / reduction, ANBN, stack_rnn(2), **options)
        run.train()
        moved.append(weights(run.model) - before)
    counted = int(ANBN.batch(0, "train", 0, 3, LengthRange(2, 4)).mask.sum())
    assert torch.allclose(moved[1], counted * moved[0], rtol=1e-3, atol=1e-5)


def test_the_curriculum_adds_a_length_at_a_time() -> None:
    assert [str(Growing(LengthRange(2, 4))(batch)) for batch in range(4)] == [
        *("2:2", "2:3", "2:4", "2:4")
    ]
    assert str(Growing(LengthRange(2, 19), every=10)(25)) == "2:4"
    wider = Growing(LengthRange(2, 5), first=4)
    assert [str(wider(batch)) for batch in range(3)] == ["2:4", "2:5", "2:5"]
    assert str(Growing(LengthRange(2, 5), first=6)(0)) == "2:5"
    assert str(Growing(LengthRange(2, 5), first=1)(0)) == "2:2"
    with pytest.raises(ConfigError, match="every: expected an integer >= 1, got 0"):
        Growing(LengthRange(2, 4), every=0)


def test_the_longest_length_doubles_where_the_loss_is_low():
    doubling = Doubling(LengthRange(1, 20), below=1e-4, first=5)
    ranges = []
    for loss in (2e-4, 0.9e-4, 0.0, 0.0):
        ranges.append(str(doubling(0)))
        assert doubling.on_report(LoopState(), loss) == {"longest": int(ranges[-1][2:])}
    assert ranges == ["1:5", "1:5", "1:10", "1:20"]
    assert str(doubling(0)) == "1:20"
    again = Doubling(LengthRange(1, 20), below=1e-4, first=5)
    again.load_state_dict(doubling.state_dict())
    assert str(again(0)) == "1:20"
    assert str(Doubling(LengthRange(2, 20), below=1.0)(0)) == "2:2"
    assert str(Doubling(LengthRange(2, 5), below=1.0, first=6)(0)) == "2:5"
    with pytest.raises(ConfigError, match="below: expected a number above 0, got 0"):
        Doubling(LengthRange(2, 5), below=0.0)


def test_the_loop_uses_the_curriculum(tmp_path: Path) -> None:
    seen = []

    def curriculum(batch: int) -> LengthRange:
        seen.append(batch)
        return LengthRange(2, 2 + batch)

    StreamRun(tmp_path, ANBN, stack_rnn(2), lengths=curriculum, batches=3).train()
    assert seen == [0, 1, 2]


def test_a_batch_has_one_length_of_the_range() -> None:
    drawn = [OneLength(LengthRange(3, 6), seed=1)(batch) for batch in range(400)]
    assert all(lengths.minimum == lengths.maximum for lengths in drawn)
    counts = [sum(lengths.minimum == length for lengths in drawn) for length in range(3, 7)]
    assert min(counts) > 60
    assert drawn == [OneLength(LengthRange(3, 6), seed=1)(batch) for batch in range(400)]
    assert drawn != [OneLength(LengthRange(3, 6), seed=2)(batch) for batch in range(400)]


def test_the_rate_is_halved_and_the_backup_restored(tmp_path: Path) -> None:
    measured = iter([3.0, 2.0, 2.5, 1.0, 1.5, 1.5])
    kept: list[torch.Tensor] = []
    model = stack_rnn(2)

    def validate() -> float:
        kept.append(weights(model))
        return next(measured)

    run = StreamRun(tmp_path, ANBN, model, validate=validate, batches=9, plateau={"least": 0.02})
    state = run.train()
    assert state.finished == "plateau: the learning rate is below 0.02"
    assert state.batch == 6
    lines = [line for line in read_metrics(run.metrics) if line["kind"] == "plateau"]
    assert [line["better"] for line in lines] == [True, True, False, True, False, False]
    rates = [line["learning_rate"] for line in lines]
    assert rates == pytest.approx([0.1, 0.1, 0.05, 0.05, 0.025, 0.0125])
    trained = [
        line["learning_rate"] for line in read_metrics(run.metrics) if line["kind"] == "train"
    ]
    assert trained == pytest.approx([0.1, 0.1, 0.1, 0.05, 0.05, 0.025])
    assert torch.equal(weights(run.model), kept[3])
    assert "validation 3.0000 nats/token, the best so far, learning rate 0.1" in describe(lines[0])


def test_the_backup_survives_an_interruption(tmp_path: Path) -> None:
    values = [3.0, 2.0, 2.5, 2.2]
    full = StreamRun(
        tmp_path / "whole", ANBN, stack_rnn(2), validate=iter(values).__next__, batches=4
    )
    full.train()
    first = StreamRun(
        *(tmp_path / "cut", ANBN, stack_rnn(2)),
        validate=iter(values).__next__,
        batches=4,
        hook=InterruptAt(3),
    )
    with pytest.raises(Interrupted):
        first.train()
    again = StreamRun(
        *(tmp_path / "cut", ANBN, stack_rnn(2, seed=9)),
        validate=iter(values[3:]).__next__,
        batches=4,
        hook=Hook(),
    )
    again.train()  # the check of batch 3 is not repeated
    checks = [
        [line for line in read_metrics(run.metrics) if line["kind"] == "plateau"]
        for run in (again, full)
    ]
    assert checks[0] == checks[1]
    assert torch.equal(weights(again.model), weights(full.model))
    assert again.optimizer.param_groups[0]["lr"] == 0.025


def test_loss_of_a_stream_does_not_depend_on_its_chunks() -> None:
    task = make_task("anbncn", sequences=5)
    model = stack_rnn(3)
    batch = task.batch(0, "validation", 0, 4, LengthRange(2, 6))
    logits, _ = model(batch.inputs)
    want = F.cross_entropy(logits[batch.mask], batch.targets[batch.mask]).item()
    assert stream_loss(model, batch) == pytest.approx(want, rel=1e-5)
    assert stream_loss(model, batch, chunk_steps=7) == pytest.approx(want, rel=1e-5)


def test_first_weights_are_sums_of_uniform_numbers() -> None:
    torch.manual_seed(0)
    drawn = torch.nn.Linear(100, 100)
    draw_sums(drawn)
    assert drawn.weight.std().item() == pytest.approx(0.1, rel=0.05)
    assert 0.25 < drawn.weight.abs().max().item() <= 0.3
    with pytest.raises(ConfigError, match="2 errors"):
        draw_sums(drawn, bound=0, terms=0)


@pytest.mark.parametrize(
    ("lengths", "length_bucketing", "stages"),
    [
        (LengthRange(2, 6), 1, [None] * 6),
        pytest.param(OneLength(LengthRange(2, 6), 0), 1, [None] * 6, marks=pytest.mark.slow),
        (Doubling(LengthRange(2, 6), below=100.0), 1, [2, 4, None, None, None, None]),
        # A report of 10 batches starts with the shortest strings: full range from batch 32 on.
        (Growing(LengthRange(2, 6), every=8), 1, [2, 3, 4, 5, None, None]),
        # Buckets of 12, with the first one's lengths: full range from batch 36 on.
        (Growing(LengthRange(2, 6), every=8), 12, [2, 2, 3, 5, None, None]),
        pytest.param(
            Growing(LengthRange(2, 6), every=10), 12, [2, 2, 3, 4, 5, None], marks=pytest.mark.slow
        ),
    ],
)
def test_the_state_has_the_longest_length_until_the_curriculum_ends(
    lengths: LengthRange | Curriculum,
    length_bucketing: int,
    stages: list[int | None],
    tmp_path: Path,
) -> None:
    seen = []

    class Watch(Hook):
        def after_batch(self, state: LoopState, assess: Assess, record: Record) -> None:
            if state.batch % 10 == 0:
                seen.append(state.stage)

    run = StreamRun(
        *(tmp_path, make_task("anbn", sequences=2), stack_rnn(2, backend="auto")),
        **{"batches": 60, "batch_size": 1, "lengths": lengths, "report_every": 10},
        length_bucketing=length_bucketing,
        hook=Watch(),
    )
    run.train()
    assert seen == stages


@pytest.mark.parametrize(
    ("rule", "below", "batch", "why"),
    [
        # 2, 4, 6: full range from the third report on.
        (WhenConverged(10, perplexity=1e9, reports=2), 100.0, 40, "converged"),
        # Never doubles.
        (WhenStalled(every=10, patience=20), 1e-9, 30, "stalled"),
    ],
)
def test_stop_rules_where_lengths_double(
    rule: Hook, below: float, batch: int, why: str, tmp_path: Path
) -> None:
    run = StreamRun(
        *(tmp_path, make_task("anbn", sequences=4), stack_rnn(2, backend="auto")),
        **{"batches": 90, "batch_size": 2, "report_every": 10, "learning_rate": 0.0},
        lengths=Doubling(LengthRange(2, 6), below=below),
        hook=rule,
    )
    state = run.train()
    assert state.finished is not None
    assert (state.batch, state.finished.partition(":")[0]) == (batch, why)


def test_a_doubling_curriculum_has_no_length_bucketing() -> None:
    with pytest.raises(
        ConfigError, match="length_bucketing: a doubling curriculum changes lengths"
    ):
        PhaseOptions(
            seed=0,
            lengths=Doubling(LengthRange(2, 6), 1.0),
            batch_size=2,
            batches=3,
            length_bucketing=3,
        )


def learn(folder: Path, batches: int) -> list[float]:
    task = make_task("anbn", sequences=12)
    assert isinstance(task, StreamTask)
    run = StreamRun(
        *(folder, task, stack_rnn(2, backend="auto")),
        optimizer="adam",
        learning_rate=0.02,
        batches=batches,
        batch_size=16,
        lengths=Growing(LengthRange(2, 6), every=8),
        chunk_steps=25,
        clip=1.0,
    )
    run.train()
    scores = score_lengths(run.model, task, LengthRange(2, 6), seed=0, streams=4)
    return [score.accuracy for score in scores]


def test_a_stack_rnn_learns_to_count(tmp_path: Path) -> None:
    assert min(learn(tmp_path, 60)) > 0.9


def test_nothing_is_learned_from_a_broken_gradient(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        backward = Accelerator.backward
        patch.setattr(Accelerator, "backward", lambda self, loss: backward(self, -loss))
        accuracies = learn(tmp_path, 10)
    assert max(accuracies) < 0.5
    assert not math.isnan(sum(accuracies))
