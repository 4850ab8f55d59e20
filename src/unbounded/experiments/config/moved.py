"""Options that have another name or place now, for messages."""

from __future__ import annotations

from typing import Final

_MOVED: Final = {
    "task_options": "task",
    "training.optimizer_options": "training.optimizer",
    "training.epsilon": "training.optimizer.eps",
    "training.cooldown_batches": "training.schedule.batches",
    "training.validate_every": "training.stop.every",
    "training.validation_share": "training.stop.share",
    "training.converged_perplexity": "training.stop.perplexity",
    "training.converged_reports": "training.stop.reports",
    "training.early_abort_after": "training.early_abort.after, after early_abort perplexity",
    "training.early_abort_perplexity": "training.early_abort.perplexity",
    "training.temperature_noise_units": "training.temperature_noise.units",
    "training.temperature_noise_below": "training.temperature_noise.below",
    "training.curriculum_every": "training.curriculum.every",
    "training.curriculum_below": "training.curriculum.below",
    "training.curriculum_first": "training.curriculum.first",
    **{
        f"training.plateau_{name}": f"training.plateau.{name}, after plateau halve"
        for name in (
            *("every", "hold", "factor", "least", "patience", "window", "threshold", "restore"),
            "measure",
        )
    },
}


def moved_hint(name: str) -> str:
    """Where an option is now, as a sentence to append to a message; empty if it did not move."""
    return f" It is {_MOVED[name]} now." if name in _MOVED else ""
