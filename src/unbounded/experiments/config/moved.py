"""Options that now have another name or section, for messages."""

from __future__ import annotations

from typing import Final

#: First parts of option names whose section has been renamed.
_SECTIONS: Final = {
    "machine": "hardware",
    "rounding": "hardening",
    "task_options": "task",
    "training.optimizer_options": "training.optimizer",
}
#: Parts of option names that have been renamed, in any section.
_MOVED: Final = {
    "hardening.decided": "hardening.saturated",
    "model.output_reading": "model.output_read_vector",
    "model.layers": "model.controller.num_layers",
    "model.memory_width": "model.memory.width",
    "evaluation.carry": "evaluation.carry_state",
    "training.average": "training.reduction",
    "training.deal": "training.length_bucketing",
    "training.piece_steps": "training.chunk_steps",
    "training.epsilon": "training.optimizer.eps",
    "training.cooldown_batches": "training.schedule.batches",
    "training.tail_batches": "training.schedule.batches",
    "training.validate_every": "training.stop.every",
    "training.validation_share": "training.stop.share",
    "training.converged_perplexity": "training.stop.perplexity",
    "training.converged_reports": "training.stop.reports",
    **{
        f"training.{old}_{name}": f"training.early_abort.{name}"
        for old in ("early_abort", "give_up")
        for name in ("after", "perplexity")
    },
    "training.random_sharpness": "training.temperature_noise.limit",
    **{
        f"training.{old}_{name}": f"training.temperature_noise.{name}"
        for old in ("temperature_noise", "random_sharpness")
        for name in ("units", "below")
    },
    **{
        f"training.curriculum_{name}": f"training.curriculum.{name}"
        for name in ("every", "below", "first")
    },
    **{
        f"training.plateau_{name}": f"training.plateau.{name}"
        for name in (
            *("every", "hold", "factor", "least", "patience", "window", "threshold", "restore"),
            "measure",
        )
    },
    **{f"model.{name}": f"model.memory.{name}" for name in ("pop_bias", "count", "depth", "noop")},
    **{f"model.{name}": f"model.controller.{name}" for name in ("skip_input", "recurrent")},
}


def moved_hint(name: str) -> str:
    """A sentence to append to a message, with an option's new name; empty if it did not move."""
    here = name
    for old, new in _SECTIONS.items():
        if name == old or name.startswith(f"{old}."):
            here = new + name.removeprefix(old)
    here = _MOVED.get(here, here)
    return "" if here == name else f" It is --{here} now."
