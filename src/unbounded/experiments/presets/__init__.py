"""The preset of each task for `unbounded train TASK`, as YAML files beside this one."""

from __future__ import annotations

from pathlib import Path
from typing import Final

PRESETS: Final[dict[str, str]] = {
    "copy": "copy.yaml",
    "reversal": "reversal.yaml",
    "bigram_flip": "bigram_flip.yaml",
    "svo_sov": "svo_sov.yaml",
    "gender": "gender.yaml",
}


def preset_path(task: str) -> Path:
    """The file of a task's preset."""
    return Path(__file__).parent / PRESETS[task]
