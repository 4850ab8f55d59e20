"""Constructed networks, which have memories and weights set by hand, and are exact at any length.

Each network is an ordinary model, such as `unbounded.constructions.copy()`. The networks show
whether a memory can express a task that was not learned. The networks also serve as references for
tests and figures. docs/constructions.md explains one of them line by line.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from unbounded.constructions.addition import binary_addition
from unbounded.constructions.assembly import Unit, assemble
from unbounded.constructions.automata import (
    automaton,
    bucket_sort,
    cycle_navigation,
    duplicate_string,
    even_pairs,
    flare,
    modular_arithmetic,
    odds_first,
    parity_check,
    reverse_string,
    stack_manipulation,
    word_problem,
)
from unbounded.constructions.brackets import dyck
from unbounded.constructions.counting import anb2n, anbmc_sum, anbmcndm, anbn, anbncn, anbncndn
from unbounded.constructions.guessing import unmarked_reversal
from unbounded.constructions.language_models import stack_language
from unbounded.constructions.memorization import memorization
from unbounded.constructions.places import (
    anbn_on_tape,
    binary_addition_on_tape,
    copy_on_tape,
    duplicate_on_tapes,
    reversal_by_keys,
    reversal_on_tape,
)
from unbounded.constructions.product import anbmc_product
from unbounded.constructions.reflections import (
    parity_by_deltanet,
    word_problem_by_deltaproduct,
)
from unbounded.constructions.transduction import bigram_flip, copy, reversal
from unbounded.models.memory_model import MemoryModel

#: Functions that build the networks, by the name of the task.
CONSTRUCTIONS: Final[dict[str, Callable[..., MemoryModel]]] = {
    "copy": copy,
    "reversal": reversal,
    "bigram_flip": bigram_flip,
    "anbn": anbn,
    "anbncn": anbncn,
    "anbncndn": anbncndn,
    "anb2n": anb2n,
    "anbmc_sum": anbmc_sum,
    "anbmc_product": anbmc_product,
    "anbmcndm": anbmcndm,
    "memorization": memorization,
    "binary_addition": binary_addition,
    "dyck": dyck,
    "even_pairs": even_pairs,
    "modular_arithmetic": modular_arithmetic,
    "parity_check": parity_check,
    "cycle_navigation": cycle_navigation,
    "reverse_string": reverse_string,
    "stack_manipulation": stack_manipulation,
    "duplicate_string": duplicate_string,
    "bucket_sort": bucket_sort,
    "odds_first": odds_first,
    "chomsky_binary_addition": binary_addition_on_tape,
    "missing_duplicate_string": partial(parity_check, "missing_duplicate_string"),
    "next_parity": partial(parity_check, "next_parity"),
    "next_cycle_navigation": partial(cycle_navigation, "next_cycle_navigation"),
    "next_modular_arithmetic": partial(modular_arithmetic, "next_modular_arithmetic"),
    "word_problem": word_problem,
    "flare": flare,
    "stack_language": stack_language,
}

__all__ = [
    "CONSTRUCTIONS",
    "Unit",
    "anb2n",
    "anbmc_product",
    "anbmc_sum",
    "anbmcndm",
    "anbn",
    "anbn_on_tape",
    "anbncn",
    "anbncndn",
    "assemble",
    "automaton",
    "bigram_flip",
    "binary_addition",
    "binary_addition_on_tape",
    "bucket_sort",
    "copy",
    "copy_on_tape",
    "cycle_navigation",
    "duplicate_on_tapes",
    "duplicate_string",
    "dyck",
    "even_pairs",
    "flare",
    "memorization",
    "modular_arithmetic",
    "odds_first",
    "parity_by_deltanet",
    "parity_check",
    "reversal",
    "reversal_by_keys",
    "reversal_on_tape",
    "reverse_string",
    "stack_language",
    "stack_manipulation",
    "unmarked_reversal",
    "word_problem",
    "word_problem_by_deltaproduct",
]
