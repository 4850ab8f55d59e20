"""Scoring a run that was trained before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from unbounded.errors import ConfigError
from unbounded.evaluation import make_report
from unbounded.evaluation.memory_room import warn_of_room
from unbounded.evaluation.scorings import Place
from unbounded.experiments.config.check import scoring_faults
from unbounded.experiments.config.identity import model_name
from unbounded.experiments.run.data_check import scored_data, task_of_run
from unbounded.experiments.run.denormals import denormals_are_zero
from unbounded.experiments.run.loading import batches_before, load_config, load_model
from unbounded.experiments.run.matmul_precision import matmul_precision
from unbounded.experiments.run.other_memory import with_memory
from unbounded.experiments.run.plan import plan
from unbounded.experiments.run.ram_check import count_faults
from unbounded.experiments.run.scored import own_sweep, used_memory
from unbounded.layers.on_device import on_device
from unbounded.models.discrete import discretized
from unbounded.tasks import LengthRange


@denormals_are_zero()
@matmul_precision(None)
def evaluate_run(
    folder: Path,
    *,
    lengths: Sequence[LengthRange] | None = None,
    split: str = "test",
    count: int | None = None,
    seed: int | None = None,
    every: int | None = None,
    data: str | None = None,
    rounded: bool = False,
    discretize: bool = False,
    device: str = "cpu",
    memory: Mapping[str, Any] | None = None,
    looking: Callable[[str, float], None] = lambda what, share: None,
) -> dict[str, Any]:
    """Score the model of a run folder over length ranges.

    Args:
        folder: the run's folder; a finished run's model, or else its newest sound checkpoint.
        lengths: the ranges; None for those of the run's own report, where it names none for the
            task's.
        split: "train", "validation" or "test".
        count: sequences a range, or of streams for each n; None for the run's own, of which long
            ranges have no more than `evaluation.symbols` allows.
        seed: of the examples; None for the run's own.
        every: of streams, the step from one n to the next; None for the run's own.
        data: folder of a text's files; None for where they were in training.
        rounded: take the machine that rounding made.
        discretize: take every decision of the memory whole, as the likeliest action.
        device: where to compute.
        memory: options of its memory that change no parameter, for example {"slots": 256}.
        looking: told what is scored, nothing at the end, and the share of all that is done, in
            [0, 1]; again and again while it is scored.
    Returns:
        The report.
    Raises:
        CheckpointError: the folder is no run, or holds no model that can be used; its data has
            changed since training, and `data` does not name it.
        ConfigError: an option has no meaning for the run's task, or CUDA is not there.
    """
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise ConfigError(["device: cuda was asked for and torch finds no CUDA device"])
    config = load_config(folder)
    chosen = {"every": every, "count": count}
    given = {name: value for name, value in chosen.items() if value is not None}
    for name, value in given.items():
        setattr(config.evaluation, name, value)
    if data is not None:
        config.machine.data = data
    planned = plan(config, task_of_run(folder, config))
    data_facts = scored_data(folder, config, planned.task, data is not None)
    # What does not fit the run's task is named as in a config.
    found = scoring_faults(config, planned.scoring, given)
    if found:
        raise ConfigError(found)
    model, source = load_model(folder, rounded)
    if memory:
        model = with_memory(model, memory)
    if discretize:
        model = discretized(model)
    exam_device = torch.device(device)
    on_device(model, exam_device).eval()
    now = ("", 0.0)

    def look(what: str, share: float) -> None:
        nonlocal now
        now = what, share
        looking(what, share)

    exam = planned.exam(model, Place(exam_device, check=lambda: looking(*now)))
    sweep = own_sweep(config, look)
    sweep = replace(sweep, split=split, seed=config.seed if seed is None else seed)
    if lengths is not None:
        sweep = replace(sweep, lengths=lengths, multiples=())
    if count is not None:
        sweep = replace(sweep, symbols=None)
    if planned.task.has_lengths:
        found = count_faults("count", sweep.count, sweep.lengths or ())
    if found:
        raise ConfigError(found)
    warn_of_room(model, planned.task, sweep.lengths or ())
    return make_report(
        task=config.task,
        scoring=planned.task.scoring,
        split=split,
        seed=sweep.seed,
        model=model_name(config.model),
        weights=source,
        weights_batch=_batch(source),
        discretized=discretize,
        memory_options=dict(memory or {}),
        rows=planned.scoring.rows(exam, sweep),
        device=exam_device,
        **data_facts,
        **used_memory(planned, exam, sweep, lengths),
    )


def _batch(source: str) -> int | None:
    """The batch after which a checkpoint was written; None where the weights are a model's."""
    return batches_before(Path(source)) if source.startswith("checkpoints/") else None
