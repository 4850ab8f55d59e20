"""A state that is carried through 1000 chunks of 35 steps: the last ten chunks against the first.

The heads are set by hand: strengths are 0 or 1, actions are one-hot, and pushes and pops alternate,
with at most 40 rows alive.

    python benchmarks/carried_state.py --out benchmarks/carried_state.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import torch

import unbounded as ub
from unbounded.evaluation.provenance import provenance
from unbounded.memories import MEMORIES

STEPS, CHUNKS, MOST, BATCH, FAR = 35, 1000, 40, 4, 800.0
EDGE, ROUNDS = 10, 9
NAMES = ("stack", "queue", "deque", "superposition_stack", "superposition_list")


def saturated(name: str, backend: str) -> ub.MemoryRNN:
    """A layer that pushes where x_0 > 0 and pops elsewhere."""
    torch.manual_seed(0)
    layer = ub.MemoryRNN(8, 32, MEMORIES[name](16), "elman", backend=backend)
    controller, heads = layer.layers[0].controller, layer.layers[0].heads
    with torch.no_grad():
        controller.weight_ih[0], controller.weight_hh[0], controller.bias_ih[0] = 0, 0, 0
        controller.weight_ih[0, 0] = 40  # h_0 is the sign of x_0
        # h_1 is 1
        controller.weight_ih[1], controller.weight_hh[1], controller.bias_ih[1] = (
            0,
            0,
            40,
        )
        for head in layer.memory.heads:
            rows = heads.rows(head.name)
            if head.name == "value" or head.name.endswith("_value"):
                continue
            heads.weight[rows] = 0
            if head.name == "action":
                on = [1.0, -1.0] if name == "superposition_stack" else [-1.0, 1.0]
                signs = torch.tensor([*on, *[0.0] * (head.shape[-1] - 2)]).repeat(head.shape[0])
                heads.weight[rows, 0] = FAR * signs
                heads.weight[rows, 1] = -10 * FAR * (signs == 0)
            else:
                heads.weight[rows, 0] = FAR if "push" in head.name else -FAR
                heads.bias[rows] = 0
    return layer


def chunks() -> list[torch.Tensor]:
    """In turns more and fewer on the memory, never above MOST."""
    generator = torch.Generator().manual_seed(1)
    height, signs = 0, []
    for up in (torch.rand(STEPS * CHUNKS, generator=generator) < 0.5).tolist():
        sign = 1 if (up and height < MOST) or height == 0 else -1
        height += sign
        signs.append(sign)
    x = torch.randn(STEPS * CHUNKS, BATCH, 8, generator=generator)
    x[..., 0] = torch.tensor(signs, dtype=torch.float32).unsqueeze(1)
    return list(x.split(STEPS))


def run(layer: ub.MemoryRNN, x: torch.Tensor, state: object) -> tuple[float, object]:
    """Milliseconds of a chunk, forward and backward, and the state cut off."""
    begin = time.perf_counter()
    output, last = layer(x, state)
    output.sum().backward()
    last = ub.detach_state(last)
    return 1e3 * (time.perf_counter() - begin), last


def measure(name: str, backend: str, inputs: list[torch.Tensor]) -> dict[str, float]:
    """The first ten and the last ten chunks in turns, so that a busy machine slows both."""
    layer, state, rows = saturated(name, backend), None, 0
    for x in inputs[:-EDGE]:
        _, state = run(layer, x, state)
        fields = zip(layer.memory.state_fields, state.memory, strict=True)
        rows = max(rows, *(field.rows_of(tensor) for field, tensor in fields))
    rounds = []
    for _ in range(ROUNDS):
        first, last, early, late = 0.0, 0.0, None, state
        for k in range(EDGE):
            ms, early = run(layer, inputs[k], early)
            first += ms
            ms, late = run(layer, inputs[len(inputs) - EDGE + k], late)
            last += ms
        rounds.append((first / EDGE, last / EDGE, last / first))
    columns = zip(*rounds, strict=True)
    medians = [round(statistics.median(column), 3) for column in columns]
    names = ("first_ms", "last_ms", "last_over_first")
    return {**dict(zip(names, medians, strict=True)), "most_rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    inputs = chunks()
    results = {}
    for name in NAMES:
        for backend in ("cpu", "reference"):
            results[f"{name}, {backend}"] = measure(name, backend, inputs)
            print(f"{name}, {backend}:", results[f"{name}, {backend}"], flush=True)
    if given.out:
        text = json.dumps(
            {"chunks": CHUNKS, "steps": STEPS, "results": results, **provenance()}, indent=2
        )
        given.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
