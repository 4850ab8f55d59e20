"""The presets of `unbounded train TASK`, as YAML files in this folder."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from unbounded.experiments.config import plain_yaml

#: Preset files of each task; later files change earlier ones, and tasks may share files. A custom
#: task has the general defaults.
PRESETS: Final[dict[str, str | tuple[str, ...]]] = {
    "copy": "copy.yaml",
    "reversal": "reversal.yaml",
    "bigram_flip": "bigram_flip.yaml",
    "svo_sov": "svo_sov.yaml",
    "gender": "gender.yaml",
    "pairs": "pairs.yaml",
    "answer_copy": ("answers.yaml", "answer_straight.yaml"),
    "answer_reverse": ("answers.yaml", "answer_reverse.yaml"),
    "answer_bigram_flip": ("answers.yaml", "answer_straight.yaml", "answer_bigram_flip.yaml"),
    "answer_odd_first": ("answers.yaml", "answer_2017.yaml"),
    "answer_double": ("answers.yaml", "answer_straight.yaml"),
    "answer_addition": ("answers.yaml", "answer_straight.yaml", "answer_addition.yaml"),
    "answer_repeat_copy": ("answers.yaml", "answer_2017.yaml"),
    "answer_priority_sort": ("answers.yaml", "answer_2017.yaml"),
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

#: Protocols; each has a folder of files that change the presets of the same name.
PROTOCOLS: Final = ("paper",)


def preset_paths(task: str, protocol: str | None = None) -> list[Path]:
    """The files of a task's preset, followed by the protocol's changes; none for a custom task."""
    names = PRESETS.get(task, ())
    names = (names,) if isinstance(names, str) else names
    here = Path(__file__).parent
    changes = [] if protocol is None else [here / protocol / name for name in names]
    return [*(here / name for name in names), *(path for path in changes if path.is_file())]


def summary(task: str) -> str:
    """The memory and budget of a task's preset in one line."""
    memory, batches = "queue", 0
    for path in preset_paths(task):
        data = plain_yaml.load(path.read_text(encoding="utf-8"))
        memory = data.get("model", {}).get("memory", {}).get("name", memory)
        batches = data.get("training", {}).get("batches", batches)
    return f"{memory} memory, at most {batches} batches"
