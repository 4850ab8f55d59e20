"""The presets of `unbounded train TASK`, as YAML files in this folder."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from unbounded.experiments.config import plain_yaml

#: The tasks by family, each with its preset: files in this folder. A later file changes an earlier
#: one, and tasks may share files.
_TASKS: Final = {
    "sources and targets (Grefenstette et al. 2015)": {
        "copy": "transduction copy",
        "reversal": "transduction reversal",
        "bigram_flip": "transduction bigram_flip",
        "svo_sov": "grammars svo_sov",
        "gender": "grammars gender",
    },
    "answers without feedback (Yang 2016; Yang & Rush 2017)": {
        "answer_copy": "answers answer_straight",
        "answer_reverse": "answers answer_reverse",
        "answer_bigram_flip": "answers answer_straight answer_bigram_flip",
        "answer_odd_first": "answers answer_2017",
        "answer_double": "answers answer_straight",
        "answer_addition": "answers answer_straight answer_addition",
        "answer_repeat_copy": "answers answer_2017",
        "answer_priority_sort": "answers answer_2017",
    },
    "programs (Zaremba & Sutskever 2014)": {
        "programs": "programs",
        "small_loops": "programs",
    },
    "streams (Joulin & Mikolov 2015)": {
        "anbn": "streams counting",
        "anbncn": "streams counting",
        "anbncndn": "streams counting",
        "anb2n": "streams counting",
        "anbmc_sum": "streams counting",
        "anbmc_product": "streams counting counting_test_range",
        "anbmcndm": "streams counting counting_test_range",
        "memorization": "streams memorization",
        "binary_addition": "streams binary_addition",
        "penn_treebank": "streams penn_treebank",
    },
    "brackets (Deleu & Dureau 2016)": {
        "dyck_prefixes": "dyck_prefixes",
        "dyck": "dyck",
    },
    "bits (Graves et al. 2014)": {
        "ntm_copy": "bits ntm_copy",
        "repeat_copy": "bits repeat_copy",
        "associative_recall": "bits associative_recall",
        "vector_priority_sort": "bits vector_priority_sort",
        "dynamic_ngrams": "questions dynamic_ngrams",
    },
    "the Chomsky hierarchy (Delétang et al. 2023)": {
        "even_pairs": "questions",
        "modular_arithmetic": "questions",
        "parity_check": "questions",
        "cycle_navigation": "questions",
        "modular_arithmetic_brackets": "questions",
        "reverse_string": "questions",
        "solve_equation": "questions",
        "stack_manipulation": "questions",
        "duplicate_string": "questions",
        "missing_duplicate_string": "questions",
        "odds_first": "questions",
        "chomsky_binary_addition": "questions",
        "binary_multiplication": "questions",
        "compute_sqrt": "questions",
        "bucket_sort": "questions",
    },
    "state tracking (Merrill et al. 2024; Beck et al. 2024)": {
        "word_problem": "questions state_tracking",
        "next_parity": "questions state_tracking",
        "next_cycle_navigation": "questions state_tracking",
        "next_modular_arithmetic": "questions state_tracking",
    },
    "recognition (Butoi et al. 2025)": {
        "flare": "questions flare",
    },
    "language modelling (DuSell & Chiang 2020, 2023)": {
        "stack_language": "questions stack_language",
    },
    "associative recall (Arora et al. 2023)": {
        "mqar": "questions mqar",
    },
    "your own data": {
        "pairs": "pairs",
        "text": "streams text",
    },
}
FAMILIES: Final = {family: tuple(tasks) for family, tasks in _TASKS.items()}
#: Preset files of each task. A custom task uses the general defaults.
PRESETS: Final = {
    task: tuple(f"{name}.yaml" for name in files.split())
    for tasks in _TASKS.values()
    for task, files in tasks.items()
}

#: Protocols. Each has a folder of files that change the presets of the same names.
PROTOCOLS: Final = ("paper",)


def preset_paths(task: str, protocol: str | None = None) -> list[Path]:
    """The files of a task's preset, then the files of the protocol; none for a custom task."""
    names = PRESETS.get(task, ())
    here = Path(__file__).parent
    changes = [] if protocol is None else [here / protocol / name for name in names]
    return [*(here / name for name in names), *(path for path in changes if path.is_file())]


def summary(task: str) -> str:
    """One line with the memory and budget of a task's preset."""
    memory, batches = "queue", 0
    for path in preset_paths(task):
        data = plain_yaml.load(path.read_text(encoding="utf-8"))
        memory = data.get("model", {}).get("memory", {}).get("name", memory)
        batches = data.get("training", {}).get("batches", batches)
    return f"{memory} memory, at most {batches} batches"
