"""Finished runs of constructed networks, without training."""

from __future__ import annotations

import math
from pathlib import Path

from unbounded.constructions import CONSTRUCTIONS
from unbounded.constructions.assembly import SCALE
from unbounded.evaluation import make_report
from unbounded.experiments.config.check import build_task
from unbounded.experiments.config.identity import config_hash
from unbounded.experiments.config.schema import ModelConfig, RunConfig, to_dict
from unbounded.experiments.run.run_folder import RunFolder
from unbounded.files import json_text, write_text
from unbounded.models import MemoryModel


def softened(model: MemoryModel, certainty: float, *heads: str) -> MemoryModel:
    """The network with gates of that certainty: sigmoids or softmaxes of 2 choices."""
    layer = model.sequence.layer
    factor = math.log(certainty / (1 - certainty))
    for head in layer.memory.heads:
        if head.name in heads:
            rows = layer.layers[0].heads.rows(head.name)
            extra = math.log(head.shape[-1] - 1) if head.activation == "softmax" else 0.0
            layer.layers[0].heads.weight[rows] *= (factor + extra) / SCALE
    return model


def constructed_run(
    folder: Path,
    name: str,
    task_options: dict | None = None,
    model: MemoryModel | None = None,
    **options,
) -> Path:
    """A run of a task with its constructed network, or another model."""
    config = RunConfig(task={"name": name, **(task_options or {})}, seed=1, model=ModelConfig())
    built = CONSTRUCTIONS[name](**options) if model is None else model
    memory = built.config["memory"]
    config.model.memory = dict(memory)
    run = folder / f"{name}-constructed-{config_hash(config)[:8]}-seed1"
    run.mkdir(parents=True)
    RunFolder(run).write_config(to_dict(config), {})
    RunFolder(run).save_model(built)
    report = make_report(
        task=name,
        metric_set=build_task(config).metric_set,
        split="test",
        seed=1,
        rows=[],
        model="constructed",
        batches=1,
        minutes=0.0,
        stopped="it was not trained",
        config=to_dict(config),
    )
    write_text(run / "report.json", json_text(report))
    return run
