"""The preset of each task for `unbounded train TASK`, as YAML files beside this one."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from unbounded.experiments.config import plain_yaml

#: Each task with its preset, which tasks may share. A task of your own has the general defaults.
PRESETS: Final[dict[str, str]] = {
    "copy": "copy.yaml",
    "reversal": "reversal.yaml",
    "bigram_flip": "bigram_flip.yaml",
    "svo_sov": "svo_sov.yaml",
    "gender": "gender.yaml",
    "pairs": "pairs.yaml",
    "answer_copy": "answers.yaml",
    "answer_reverse": "answers.yaml",
    "answer_bigram_flip": "answers.yaml",
    "answer_odd_first": "answers.yaml",
    "answer_double": "answers.yaml",
    "answer_addition": "answers.yaml",
    "answer_repeat_copy": "answers.yaml",
    "answer_priority_sort": "answers.yaml",
    "programs": "programs.yaml",
    "small_loops": "programs.yaml",
    "anbn": "anbn.yaml",
    "anbncn": "anbncn.yaml",
    "anbncndn": "anbncndn.yaml",
    "anb2n": "anb2n.yaml",
    "anbmc_sum": "anbmc_sum.yaml",
    "anbmc_product": "anbmc_product.yaml",
    "anbmcndm": "anbmcndm.yaml",
    "memorization": "memorization.yaml",
    "binary_addition": "binary_addition.yaml",
    "dyck_prefixes": "dyck_prefixes.yaml",
    "dyck": "dyck.yaml",
    "ntm_copy": "ntm_copy.yaml",
    "repeat_copy": "repeat_copy.yaml",
    "associative_recall": "associative_recall.yaml",
    "penn_treebank": "penn_treebank.yaml",
    "text": "text.yaml",
}

#: What a protocol changes in the presets: a file of the same name in the folder of that name.
PROTOCOLS: Final = ("paper",)


def protocol_path(protocol: str, task: str) -> Path | None:
    """The file with what a protocol changes in a task's preset; None where it changes nothing."""
    path = Path(__file__).parent / protocol / PRESETS.get(task, "none")
    return path if path.is_file() else None


def preset_path(task: str) -> Path | None:
    """The file of a task's preset; None for a task of your own."""
    return Path(__file__).parent / PRESETS[task] if task in PRESETS else None


def summary(task: str) -> str:
    """The model and budget of a task's preset in one line."""
    path = preset_path(task)
    data = plain_yaml.load(path.read_text(encoding="utf-8")) if path else {}
    memory = data.get("model", {}).get("memory", {"name": "queue"})["name"]
    return f"{memory} memory, at most {data['training']['batches']} batches"
