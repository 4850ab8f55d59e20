"""Models without weights: all sizes, no memory, no draw, and torch's compiler is not loaded."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from unbounded.memories import MEMORIES
from unbounded.models import MemoryModel
from unbounded.models.saved_model import without_weights

MEMORY = {"turing_tape": {"slots": 5, "width": 3}, "lie_access": {"width": 3}}


def make(memory):
    part = {"name": memory, **MEMORY.get(memory, {})}
    return MemoryModel(inputs=7, outputs=4, memory=part, hidden_size=5, embedding_size=3)


@pytest.mark.parametrize("memory", [*MEMORIES, "none"])
def test_sizes_equal_those_of_the_model_and_no_weights_are_drawn(memory):
    before = torch.get_rng_state()
    with without_weights():
        bare = make(memory)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(weight.is_meta for weight in bare.parameters())
    real = make(memory)
    assert not any(weight.is_meta for weight in real.parameters())
    sizes = {name: weight.shape for name, weight in bare.named_parameters()}
    assert sizes == {name: weight.shape for name, weight in real.named_parameters()}


def test_the_compiler_of_torch_is_not_loaded():
    program = (
        "import sys\n"
        "from unbounded.models import MemoryModel\n"
        "from unbounded.models.saved_model import without_weights\n"
        "with without_weights():\n"
        "    MemoryModel(inputs=9, outputs=9, memory='stack', hidden_size=4, embedding_size=4)\n"
        "    MemoryModel(\n"
        "        inputs=9, outputs=9, memory='none', hidden_size=4, embedding_size=None,\n"
        "        initialization='sums', output_initialization='sums'\n"
        "    )\n"
        "print('torch._dynamo' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr
