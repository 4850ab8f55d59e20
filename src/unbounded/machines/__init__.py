"""Golden machines: networks with a memory whose weights are written down, exact at any length.

They are ordinary models, `unbounded.machines.copy()` and so on: they tell what a memory cannot
express from what was not learned, and are what tests and pictures can be checked against.
docs/machines.md explains one line by line.
"""

from collections.abc import Callable
from typing import Final

from unbounded.machines.addition import binary_addition
from unbounded.machines.assembly import Unit, assemble
from unbounded.machines.brackets import dyck
from unbounded.machines.counting import anb2n, anbmc_sum, anbmcndm, anbn, anbncn, anbncndn
from unbounded.machines.memorization import memorization
from unbounded.machines.places import (
    anbn_on_tape,
    copy_on_tape,
    reversal_by_keys,
    reversal_on_tape,
)
from unbounded.machines.product import anbmc_product
from unbounded.machines.transduction import bigram_flip, copy, reversal
from unbounded.models.memory_model import MemoryModel

#: By the name of the task that each solves.
MACHINES: Final[dict[str, Callable[..., MemoryModel]]] = {
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
}

__all__ = [
    "MACHINES",
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
    "bigram_flip",
    "binary_addition",
    "copy",
    "copy_on_tape",
    "dyck",
    "memorization",
    "reversal",
    "reversal_by_keys",
    "reversal_on_tape",
]
