"""Training a Stack RNN on a stream: the kernels, the reference, and torch.nn.RNN.

    python benchmarks/stack_rnn.py > benchmarks/stack_rnn.json

One thread, 32 parallel streams, chunks of 50 steps with a state that is carried and detached:
forward, loss and backward, without the optimizer. 40 hidden units and 10 stacks, k = 2, without
NO-OP, R = 0, as on the paper's toy tasks. "capacity 200" carries full stacks; "from empty" starts
every chunk with empty stacks. The bars: at most twice the time of torch.nn.RNN, and at most a tenth
of the time of the reference.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unbounded.evaluation.provenance import provenance
from unbounded.experiments.bench.measuring import interleave, peak_gflops, ratio
from unbounded.kernels import available
from unbounded.memories import detach_state
from unbounded.models.memory_model import STACK_RNN, MemoryModel

STREAMS, STEPS, SYMBOLS, HIDDEN, STACKS, DEPTH = 32, 50, 2, 40, 10, 2
REPEATS = 60
LIMIT = {"capacity": 200, "overflow": "drop_bottom"}


class TorchRNN(nn.Module):
    """torch.nn.RNN with the same symbols and as many units, and no memory."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.RNN(SYMBOLS, HIDDEN, batch_first=True)
        self.output = nn.Linear(HIDDEN, SYMBOLS, bias=False)

    def forward(self, inputs: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        hidden, last = self.layer(F.one_hot(inputs, SYMBOLS).float(), state)
        return self.output(hidden), last


def trainer(model: nn.Module, carries: bool = True) -> Callable[[], None]:
    """One chunk after the other, forward and backward."""
    generator = torch.Generator().manual_seed(1)
    inputs, targets = (
        torch.randint(SYMBOLS, (STREAMS, STEPS), generator=generator) for _ in range(2)
    )
    state: Any = None

    def step() -> None:
        nonlocal state
        logits, after = model(inputs, state)
        F.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()
        model.zero_grad(set_to_none=True)
        if carries:
            state = after.detach() if isinstance(after, Tensor) else detach_state(after)

    return step


def stack_rnn(backend: str, **options: Any) -> nn.Module:
    torch.manual_seed(0)
    memory = {"name": "superposition_stack", "count": STACKS, "depth": DEPTH}
    network = {**STACK_RNN, "memory": memory, "hidden_size": HIDDEN, **options}
    return MemoryModel(inputs=SYMBOLS, outputs=SYMBOLS, backend=backend, **network)


def gflop() -> float:
    """Operations of the matrix products of a chunk, forward and backward."""
    products = HIDDEN * (SYMBOLS + STACKS * DEPTH) + 3 * STACKS * HIDDEN + SYMBOLS * HIDDEN
    return 3 * 2 * products * STREAMS * STEPS / 1e9


def main() -> None:
    torch.set_num_threads(1)
    passes = {
        "fused, capacity 200": trainer(stack_rnn("cpu", **LIMIT)),
        "fused, from empty": trainer(stack_rnn("cpu"), carries=False),
        "torch.nn.RNN": trainer(TorchRNN()),
    }
    references = {
        "reference, capacity 200": trainer(stack_rnn("reference", **LIMIT)),
        "reference, from empty": trainer(stack_rnn("reference"), carries=False),
    }
    for _ in range(6):  # fills the stacks that are carried
        passes["fused, capacity 200"]()
        references["reference, capacity 200"]()
    times = interleave(passes, REPEATS)
    capacity, empty = "capacity 200", "from empty"
    beside = interleave({**references, **passes}, 8, warm=True)
    times |= {name: beside[name] for name in references}
    median = {name: statistics.median(each) for name, each in times.items()}
    symbols = STREAMS * STEPS
    fused = median["fused, capacity 200"]
    peak = peak_gflops("float32", 1024)
    result = {
        "date": datetime.now(UTC).date().isoformat(),
        **provenance(),
        "instruction_set": available().instruction_set,
        "median_ms": median,
        "least_ms": {name: min(each) for name, each in times.items()},
        "symbols_per_second": {name: symbols / each * 1e3 for name, each in median.items()},
        "fused/torch": {
            how: ratio(times[f"fused, {how}"], times["torch.nn.RNN"]) for how in (capacity, empty)
        },
        "reference/fused": {
            how: ratio(beside[f"reference, {how}"], beside[f"fused, {how}"])
            for how in (capacity, empty)
        },
        "gflop": gflop(),
        "share_of_peak": gflop() / fused * 1e3 / peak,
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
