"""Tiers: which trials reproduce a paper's table, as data, and the config of each trial."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

from unbounded.errors import ChoiceError, ConfigError
from unbounded.experiments.config import (
    MachineConfig,
    ModelConfig,
    RunConfig,
    TrainingConfig,
    run_name,
)
from unbounded.experiments.published import MODEL_TITLES, read_data

_LISTS = ("hidden_sizes", "learning_rates", "seeds")
_NUMBERS = ("memory_width", "batches")


@dataclass(frozen=True)
class Trial:
    """One run of a tier.

    Fields:
        task, model: names as in the published table.
        config: what is trained; its hash and seed name the run folder.
    """

    task: str
    model: str
    config: RunConfig

    @property
    def cell(self) -> str:
        """The cell of the table this trial belongs to, "task/model"."""
        return f"{self.task}/{self.model}"

    @property
    def name(self) -> str:
        """The name of its run folder."""
        return run_name(self.config)


@dataclass(frozen=True)
class Tier:
    """A part of a paper's experiments that one machine can do.

    Fields:
        paper, name: which tier this is.
        about: what it leaves out, in a line.
        trials: every run of it.
    """

    paper: str
    name: str
    about: str
    trials: tuple[Trial, ...]

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells of its table, in order."""
        return tuple(dict.fromkeys(trial.cell for trial in self.trials))


def load_tier(paper: str, name: str) -> Tier:
    """Read a tier and lay out its trials.

    Raises:
        ChoiceError: no such paper or no such tier of it.
    """
    tiers = read_data("tiers", paper)
    if name not in tiers:
        raise ChoiceError("tier", name, tiers)
    return make_tier(paper, name, tiers[name])


def make_tier(paper: str, name: str, data: dict[str, Any]) -> Tier:
    """Lay out the trials that a tier's data describes: tasks x models x sizes x rates x seeds.

    Args:
        paper, name: of the tier.
        data: about, tasks, models, hidden_sizes, memory_width, learning_rates, seeds, batches;
            optionally training (fields of TrainingConfig), evaluation_lengths, task_options and
            cells ("task/model" -> the same fields again, for that cell alone).
    Raises:
        ConfigError: a cell is not of the tier, or a field is missing; all faults together.
    """
    cells = {f"{task}/{model}" for task, model in product(data["tasks"], data["models"])}
    faults = [
        f"tier {name!r}: {cell!r} under cells is not one of its tasks and models"
        for cell in sorted(set(data.get("cells", {})) - cells)
    ]
    faults += [
        f"tier {name!r}: {field} is missing" for field in (*_LISTS, *_NUMBERS) if field not in data
    ]
    faults += [
        f"tier {name!r}: unknown model {model!r}"
        for model in data["models"]
        if model not in MODEL_TITLES
    ]
    if faults:
        raise ConfigError(faults)
    trials: list[Trial] = []
    for task, model in product(data["tasks"], data["models"]):
        settings = {**data, **data.get("cells", {}).get(f"{task}/{model}", {})}
        for hidden, rate, seed in product(*(settings[field] for field in _LISTS)):
            trials.append(Trial(task, model, _config(task, model, hidden, rate, seed, settings)))
    return Tier(paper, name, data["about"], tuple(trials))


def select(tier: Tier, only: str | None) -> tuple[Trial, ...]:
    """The trials of one task ("copy"), one model ("queue") or one cell ("copy/queue").

    Raises:
        ChoiceError: the tier has none of that name.
    """
    if only is None:
        return tier.trials
    trials = tuple(trial for trial in tier.trials if only in (trial.cell, trial.task, trial.model))
    if not trials:
        tasks = {trial.task for trial in tier.trials}
        models = {trial.model for trial in tier.trials}
        raise ChoiceError(f"part of tier {tier.name}", only, {*tasks, *models, *tier.cells})
    return trials


def _config(
    task: str, model: str, hidden: int, rate: float, seed: int, settings: dict[str, Any]
) -> RunConfig:
    if model.startswith("lstm-"):
        layers = int(model.removeprefix("lstm-"))
        model_config = ModelConfig(memory="none", hidden_size=hidden, layers=layers)
    else:
        width = settings["memory_width"]
        model_config = ModelConfig(memory=model, hidden_size=hidden, memory_width=width)
        if model == "deque-quiet":
            model_config.memory, model_config.pop_bias = "quiet_deque", -2.0
    config = RunConfig(
        task=task,
        task_options=dict(settings.get("task_options", {})),
        seed=seed,
        model=model_config,
        training=TrainingConfig(
            **{
                "learning_rate": rate,
                "batches": settings["batches"],
                # Training perplexity alone ends a run before its budget does.
                "stop": "converged",
                **settings.get("training", {}),
            }
        ),
        # One thread a trial: trials side by side use a machine better than threads in one trial.
        machine=MachineConfig(threads=1),
    )
    if "evaluation" in settings:
        for field, value in settings["evaluation"].items():
            setattr(config.evaluation, field, value)
    return config
