"""The presets of `unbounded train TASK`, as YAML files in this folder."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from unbounded.experiments.config import plain_yaml

#: The tasks by family. Each task occurs once.
FAMILIES: Final[dict[str, tuple[str, ...]]] = {
    "sources and targets (Grefenstette et al. 2015)": (
        "copy",
        "reversal",
        "bigram_flip",
        "svo_sov",
        "gender",
    ),
    "answers without feedback (Yang 2016; Yang & Rush 2017)": (
        "answer_copy",
        "answer_reverse",
        "answer_bigram_flip",
        "answer_odd_first",
        "answer_double",
        "answer_addition",
        "answer_repeat_copy",
        "answer_priority_sort",
    ),
    "programs (Zaremba & Sutskever 2014)": ("programs", "small_loops"),
    "streams (Joulin & Mikolov 2015)": (
        "anbn",
        "anbncn",
        "anbncndn",
        "anb2n",
        "anbmc_sum",
        "anbmc_product",
        "anbmcndm",
        "memorization",
        "binary_addition",
        "penn_treebank",
    ),
    "brackets (Deleu & Dureau 2016)": ("dyck_prefixes", "dyck"),
    "bits (Graves et al. 2014)": (
        "ntm_copy",
        "repeat_copy",
        "associative_recall",
        "vector_priority_sort",
        "dynamic_ngrams",
    ),
    "the Chomsky hierarchy (Delétang et al. 2023)": (
        "even_pairs",
        "modular_arithmetic",
        "parity_check",
        "cycle_navigation",
        "modular_arithmetic_brackets",
        "reverse_string",
        "solve_equation",
        "stack_manipulation",
        "duplicate_string",
        "missing_duplicate_string",
        "odds_first",
        "chomsky_binary_addition",
        "binary_multiplication",
        "compute_sqrt",
        "bucket_sort",
    ),
    "state tracking (Merrill et al. 2024; Beck et al. 2024)": (
        "word_problem",
        "next_parity",
        "next_cycle_navigation",
        "next_modular_arithmetic",
    ),
    "recognition (Butoi et al. 2025)": ("flare",),
    "language modelling (DuSell & Chiang 2020, 2023)": ("stack_language",),
    "associative recall (Arora et al. 2023)": ("mqar",),
    "your own data": ("pairs", "text"),
}

COUNTING: Final = ("streams.yaml", "counting.yaml")
_CHOMSKY: Final = FAMILIES["the Chomsky hierarchy (Delétang et al. 2023)"]
_STATE_TRACKING: Final = FAMILIES["state tracking (Merrill et al. 2024; Beck et al. 2024)"]
#: Preset files of each task; later files change earlier ones, and tasks may share files. A custom
#: task uses the general defaults.
PRESETS: Final[dict[str, str | tuple[str, ...]]] = {
    "copy": ("transduction.yaml", "copy.yaml"),
    "reversal": ("transduction.yaml", "reversal.yaml"),
    "bigram_flip": ("transduction.yaml", "bigram_flip.yaml"),
    "svo_sov": ("grammars.yaml", "svo_sov.yaml"),
    "gender": ("grammars.yaml", "gender.yaml"),
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
    "anbn": COUNTING,
    "anbncn": COUNTING,
    "anbncndn": COUNTING,
    "anb2n": COUNTING,
    "anbmc_sum": COUNTING,
    "anbmc_product": (*COUNTING, "counting_test_range.yaml"),
    "anbmcndm": (*COUNTING, "counting_test_range.yaml"),
    "memorization": ("streams.yaml", "memorization.yaml"),
    "binary_addition": ("streams.yaml", "binary_addition.yaml"),
    "dyck_prefixes": "dyck_prefixes.yaml",
    "dyck": "dyck.yaml",
    "ntm_copy": ("bits.yaml", "ntm_copy.yaml"),
    "repeat_copy": ("bits.yaml", "repeat_copy.yaml"),
    "associative_recall": ("bits.yaml", "associative_recall.yaml"),
    "vector_priority_sort": ("bits.yaml", "vector_priority_sort.yaml"),
    "dynamic_ngrams": ("questions.yaml", "dynamic_ngrams.yaml"),
    "penn_treebank": ("streams.yaml", "penn_treebank.yaml"),
    "text": ("streams.yaml", "text.yaml"),
    **dict.fromkeys(_CHOMSKY, "questions.yaml"),
    "flare": ("questions.yaml", "flare.yaml"),
    "mqar": ("questions.yaml", "mqar.yaml"),
    "stack_language": ("questions.yaml", "stack_language.yaml"),
    **dict.fromkeys(_STATE_TRACKING, ("questions.yaml", "state_tracking.yaml")),
}

#: Protocols. Each has a folder of files that change the presets of the same names.
PROTOCOLS: Final = ("paper",)


def preset_paths(task: str, protocol: str | None = None) -> list[Path]:
    """The files of a task's preset, then the files of the protocol; none for a custom task."""
    names = PRESETS.get(task, ())
    names = (names,) if isinstance(names, str) else names
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
