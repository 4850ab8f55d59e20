"""Score a run for its report, or an existing run for `unbounded evaluate`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from unbounded.custom_components import NO_MEMORY
from unbounded.errors import ConfigError
from unbounded.evaluation import make_report
from unbounded.evaluation.following import following
from unbounded.evaluation.memory_use import memory_use
from unbounded.evaluation.metric_sets import EvaluationPlan, Evaluator, Place
from unbounded.experiments.config.check import (
    errors_of_range,
    evaluation_errors,
    evaluation_of,
    ranges,
)
from unbounded.experiments.config.check_training import grows
from unbounded.experiments.config.identity import model_name
from unbounded.experiments.config.schema import RunConfig
from unbounded.experiments.run.data_check import scored_data, task_of_run
from unbounded.experiments.run.numerics import denormals_are_zero, matmul_precision
from unbounded.experiments.run.plan import Plan, plan
from unbounded.experiments.run.ram_check import count_errors
from unbounded.experiments.run.run_folder import AnyPath, RunFolder, batches_before
from unbounded.models.discrete import discretized, sequence_model
from unbounded.models.memory_model import MemoryModel
from unbounded.models.memory_room import kept_capacity, warn_of_room
from unbounded.models.model_parts import changed_memory_errors
from unbounded.rnn.on_device import on_device
from unbounded.tasks import LengthRange


def own_evaluation_plan(
    config: RunConfig, looking: Callable[[str, float], None] = lambda what, share: None
) -> EvaluationPlan:
    """The evaluation plan for the report of a run, on the test split.

    Args:
        config: the run's config.
        looking: called with the name of what is scored next and the finished share of the rows.
    """
    evaluation, memory = evaluation_of(config), config.model.memory
    # A memory that keeps growing over sequences is emptied for each n.
    is_bounded = memory["name"] == NO_MEMORY or not grows(config)
    return EvaluationPlan(
        "test",
        config.seed,
        None if evaluation.lengths is None else ranges(evaluation.lengths),
        evaluation.count,
        evaluation.every,
        evaluation.streams,
        evaluation.carry_state and is_bounded,
        looking,
        evaluation.symbols,
        evaluation.multiples or (),
    )


def scored(planned: Plan, evaluator: Evaluator, evaluation_plan: EvaluationPlan) -> dict[str, Any]:
    """Return the report's rows, and its entries on validation and memory."""
    facts = planned.metric_set.facts(evaluator, evaluation_plan)
    sequence, lengths = sequence_model(evaluator.model), planned.validation_lengths
    follows = following(sequence, planned.task, planned.config.seed, lengths)
    if follows is not None:
        facts["read_head_follows_path"] = follows
    used = used_memory(planned, evaluator, evaluation_plan)
    evaluator = with_test_memory(evaluator, planned.config)
    warn_of_room(longer_model(evaluator), planned.task, evaluation_plan.lengths or ())
    return {"rows": planned.metric_set.rows(evaluator, evaluation_plan), **facts, **used}


def used_memory(
    planned: Plan,
    evaluator: Evaluator,
    evaluation_plan: EvaluationPlan,
    lengths: Iterable[LengthRange] | None = None,
) -> dict[str, Any]:
    """The report's entry on memory use; empty for a model without memory gates.

    Args:
        planned, evaluator, evaluation_plan: those of the report.
        lengths: the ranges; None for those of training and validation.
    """
    own = dict.fromkeys((planned.train_lengths, planned.validation_lengths))
    used = memory_use(
        evaluator.model,
        planned.task,
        evaluation_plan.seed,
        own if lengths is None else lengths,
        evaluator.place.device,
        evaluation_plan.count,
    )
    return {} if used is None else {"memory_use": used}


def with_memory(model: MemoryModel, options: Mapping[str, Any]) -> MemoryModel:
    """Return a model with the same weights and other memory options.

    For example a tape can have more slots than in training, because no weight depends on them.

    Args:
        model: the trained model; it is not changed.
        options: memory options by name.
    Returns:
        A model of the same dtype, device and mode.
    Raises:
        ConfigError: the model has no memory, an option is unknown or out of range, or it changes
            parameters; lists all errors.
    """
    config = model.config
    name = config["memory"]["name"]
    if name == NO_MEMORY:
        raise ConfigError("model.memory: the run has no memory, so no options can be changed")
    errors = changed_memory_errors(config, options, "model.memory")
    if errors:
        raise ConfigError(errors)
    with torch.random.fork_rng(devices=[]):  # the drawn weights will be replaced
        other = MemoryModel(**{**config, "memory": {**config["memory"], **options}})
    first = next(iter(model.parameters()))
    other.to(first.device, first.dtype).load_state_dict(model.state_dict())
    return other.train(model.training)


def with_test_memory(evaluator: Evaluator, config: RunConfig) -> Evaluator:
    """The evaluator of a run's test, with the memory options that `evaluation.memory` has."""
    if not (options := evaluation_of(config).memory):
        return evaluator

    def for_longer(model: nn.Module) -> nn.Module:
        return with_memory(cast(MemoryModel, model), options)

    return replace(evaluator, for_longer=for_longer, longer_options=options)


def longer_model(evaluator: Evaluator) -> nn.Module:
    """The model that scores sequences longer than in training."""
    model = evaluator.model
    return model if evaluator.for_longer is None else evaluator.for_longer(model)


@denormals_are_zero()
@matmul_precision(None)
def evaluate_run(
    folder: AnyPath,
    *,
    lengths: Sequence[LengthRange] | None = None,
    split: str = "test",
    count: int | None = None,
    seed: int | None = None,
    every: int | None = None,
    data: str | None = None,
    hardened: bool = False,
    discretize: bool = False,
    device: str = "cpu",
    memory: Mapping[str, Any] | None = None,
    looking: Callable[[str, float], None] = lambda what, share: None,
) -> dict[str, Any]:
    """Score the model of a run folder over length ranges.

    Args:
        folder: the run's folder. The model of a finished run is scored, else the newest readable
            checkpoint.
        lengths: the ranges; None for those of the run's report, or else the task's.
        split: "train", "validation" or "test".
        count: sequences per range, or per n on streams; None for the run's own count, where
            `evaluation.symbols` limits long ranges.
        seed: seed of the examples; None for the run's own.
        every: on streams, the step from one n to the next; None for the run's own.
        data: folder of a text's files; None for their path in training.
        hardened: score the hardened model.
        discretize: use only the most likely action of each memory gate, at full weight.
        device: where to compute.
        memory: memory options that change no parameter, for example {"slots": 256}. A capacity
            among them is not enlarged, even if sequences are longer.
        looking: called repeatedly with the name of what is scored (empty at the end) and the
            finished share, in [0, 1].
    Returns:
        The report.
    Raises:
        CheckpointError: the folder is not a run or has no usable model; or its data have changed
            since training, and `data` is None.
        ConfigError: an option does not apply to the run's task, or CUDA is missing.
    """
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise ConfigError("device: cuda was asked for and torch finds no CUDA device")
    folder = RunFolder(folder)
    config = folder.config(data)
    chosen = {"every": every, "count": count}
    given = {name: value for name, value in chosen.items() if value is not None}
    config.evaluation |= given
    planned = plan(config, task_of_run(folder, config))
    data_facts = scored_data(folder, config, planned.task, data is not None)
    # Options that do not fit the run's task raise the same messages as in a config.
    on_task = f"on task {config.task['name']!r}"
    errors = evaluation_errors(config.evaluation, planned.metric_set, on_task)
    if planned.task.has_lengths:
        for each in lengths or ():
            errors += errors_of_range(planned.task, "--lengths", each, split)
    if errors:
        raise ConfigError(errors)
    model, source = folder.load_model(hardened)
    if memory:
        model = with_memory(model, memory)
    if discretize:
        model = discretized(model)
    evaluator_device = torch.device(device)
    on_device(model, evaluator_device).eval()
    now = ("", 0.0)

    def look(what: str, share: float) -> None:
        nonlocal now
        now = what, share
        looking(what, share)

    evaluator = planned.evaluator(model, Place(evaluator_device, check=lambda: looking(*now)))
    if not memory:
        evaluator = with_test_memory(evaluator, config)
    evaluation_plan = own_evaluation_plan(config, look)
    evaluation_plan = replace(
        evaluation_plan, split=split, seed=config.seed if seed is None else seed
    )
    if lengths is not None:
        evaluation_plan = replace(evaluation_plan, lengths=lengths, multiples=())
    if count is not None:
        evaluation_plan = replace(evaluation_plan, symbols=None)
    if planned.task.has_lengths:
        errors = count_errors("count", evaluation_plan.count, evaluation_plan.lengths or ())
    if errors:
        raise ConfigError(errors)
    warn_of_room(longer_model(evaluator), planned.task, evaluation_plan.lengths or ())
    with kept_capacity(memory or {}):
        rows = planned.metric_set.rows(evaluator, evaluation_plan)
        used = used_memory(planned, evaluator, evaluation_plan, lengths)
    return make_report(
        task=config.task["name"],
        metric_set=planned.task.metric_set,
        split=split,
        seed=evaluation_plan.seed,
        model=model_name(config.model),
        weights=source,
        weights_batch=_batch(source),
        discretized=discretize,
        memory_options=dict(memory or {}),
        memory_options_of_longer=dict((not memory and evaluation_of(config).memory) or {}),
        rows=rows,
        device=evaluator_device,
        **data_facts,
        **used,
    )


def _batch(source: str) -> int | None:
    """The number of batches before a checkpoint was written; None for a finished model."""
    return batches_before(Path(source)) if source.startswith("checkpoints/") else None
