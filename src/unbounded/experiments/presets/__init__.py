"""The preset of each task for `unbounded train TASK`, as YAML files beside this one."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from unbounded.experiments import plain_yaml

PRESETS: Final[dict[str, str]] = {
    "copy": "copy.yaml",
    "reversal": "reversal.yaml",
    "bigram_flip": "bigram_flip.yaml",
    "svo_sov": "svo_sov.yaml",
    "gender": "gender.yaml",
    "anbn": "anbn.yaml",
    "anbncn": "anbncn.yaml",
    "anbncndn": "anbncndn.yaml",
    "anb2n": "anb2n.yaml",
    "anbmc_sum": "anbmc_sum.yaml",
    "anbmc_product": "anbmc_product.yaml",
    "anbmcndm": "anbmcndm.yaml",
    "memorization": "memorization.yaml",
    "binary_addition": "binary_addition.yaml",
    "penn_treebank": "penn_treebank.yaml",
}


#: What a protocol changes in the presets: a file of the same name in the folder of that name.
PROTOCOLS: Final = ("paper",)


def protocol_path(protocol: str, task: str) -> Path:
    """The file with what a protocol changes in a task's preset."""
    return Path(__file__).parent / protocol / PRESETS[task]


def preset_path(task: str) -> Path:
    """The file of a task's preset."""
    return Path(__file__).parent / PRESETS[task]


def summary(task: str) -> str:
    """The model and budget of a task's preset in one line."""
    data = plain_yaml.load(preset_path(task).read_text(encoding="utf-8"))
    budget = data["training"]["batches"]
    return f"{data['model']['memory']} memory, at most {budget} batches"
