"""Whether a change of the kernels keeps every bit of outputs, states and gradients.

    python benchmarks/same_bits.py record FILE      # before the change
    python benchmarks/same_bits.py compare FILE     # after it

Runs layers, unrolls and streams of every memory on the kernels and stores a hash of each output,
final state and gradient. Only public names are used, so that the same file runs before and after.
Hashes belong to one build (UNBOUNDED_ISA selects another) and one processor.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import sys
from functools import partial
from pathlib import Path

import torch

import unbounded as ub
from unbounded.rnn import ElmanController
from unbounded.rnn.state import joined, parted
from unbounded.rnn.stream import open_stream

MEMORIES = {
    "stack": lambda: ub.NeuralStack(6),
    "wide_stack": lambda: ub.NeuralStack(45),
    "queue": lambda: ub.NeuralQueue(6),
    "wide_queue": lambda: ub.NeuralQueue(40),
    "deque": lambda: ub.NeuralDeque(6),
    "wide_deque": lambda: ub.NeuralDeque(33),
    "superposition_stack": lambda: ub.SuperpositionStack(3),
    "noop_stack": lambda: ub.SuperpositionStack(2, depth=4, noop=True),
    "full_stack": lambda: ub.SuperpositionStack(17, depth=3, capacity=5, overflow="drop_bottom"),
    "roomy_stack": lambda: ub.SuperpositionStack(4, capacity=200, overflow="drop_bottom"),
    "superposition_list": lambda: ub.SuperpositionList(3, noop=False),
    "noop_list": lambda: ub.SuperpositionList(2, depth=4),
    "full_list": lambda: ub.SuperpositionList(17, depth=3, capacity=4, overflow="drop_ends"),
    "roomy_list": lambda: ub.SuperpositionList(4, capacity=200, overflow="drop_ends"),
}
CONTROLLERS = {
    "lstm": "lstm",
    "gru": "gru",
    "elman": "elman",
    "sigmoid": partial(ElmanController, activation="sigmoid", recurrent=False, bias=False),
    "relu": partial(ElmanController, activation="relu", bias=False),
}
DTYPES = {"float32": torch.float32, "float64": torch.float64}


def tensors_of(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for field in value for tensor in tensors_of(field)]


def hash_of(tensors):
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(str(tuple(tensor.shape)).encode())
        digest.update(tensor.detach().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def layer_of(memory, controller, dtype, hidden, inputs, random, inverse_temperature=1.0):
    layer = ub.MemoryRNN(
        inputs, hidden, MEMORIES[memory](), CONTROLLERS[controller], backend="cpu", dtype=dtype
    )
    with torch.no_grad():
        for name, parameter in sorted(layer.named_parameters()):
            drawn = torch.randn(parameter.shape, generator=random, dtype=torch.float64)
            scale = inverse_temperature if ".heads." in f".{name}" else 1.0
            parameter.copy_(drawn * scale / parameter.shape[-1] ** 0.5)
    return layer


def differentiate(results, expected, random):
    """Hashes of results and of the gradients of a random weighting of all, or of the first."""
    hashes = {"results": hash_of(results)}
    for which, chosen in (("all", results), ("first", results[:1])):
        weights = [
            torch.randn(r.shape, generator=random, dtype=torch.float64).to(r.dtype) for r in chosen
        ]
        loss = sum((r * w).sum() for r, w in zip(chosen, weights, strict=True))
        grads = torch.autograd.grad(
            loss, expected, retain_graph=True, allow_unused=True, materialize_grads=True
        )
        hashes[f"gradients of {which}"] = hash_of(grads)
    return hashes


def run_layer(
    memory, controller, dtype, batch, steps, lengths, hidden, threads, inverse_temperature
):
    torch.set_num_threads(threads)
    random = torch.Generator().manual_seed(0)
    layer = layer_of(memory, controller, DTYPES[dtype], hidden, 4, random, inverse_temperature)

    def inputs(count):
        drawn = torch.randn(count, batch, 4, generator=random, dtype=torch.float64)
        return drawn.to(DTYPES[dtype])

    with torch.no_grad():
        state = layer(inputs(3))[1] if inverse_temperature == 1 else layer.initial_state(batch)
    state = of_one(layer, ub.detach_state(state))
    for tensor in tensors_of(state):
        tensor.requires_grad_()
    x = inputs(steps).requires_grad_()
    given = None if lengths is None else torch.tensor([(7 * b + 1) % (steps + 1) for b in lengths])
    output, final = layer(x, joined([state]), given)
    expected = [x, *layer.parameters(), *tensors_of(state)]
    hashes = differentiate([output, *tensors_of(of_one(layer, final))], expected, random)
    with torch.no_grad():
        output, final = layer(x, joined([state]), given)
    last = tensors_of(of_one(layer, final))
    return hashes | {"without gradients": hash_of([output, *last])}


def of_one(layer, state):
    """The state of a layer without the axis of layers, as it was when the first bits were kept."""
    (one,) = parted(state, 1, layer.layers[0].controller.state_size, layer.memory.State)
    return one


def run_unroll(memory, dtype, batch, steps, kind):
    random = torch.Generator().manual_seed(0)
    structure = MEMORIES[memory]()

    def drawn(*shape):
        return torch.rand(*shape, generator=random, dtype=torch.float64)

    fields = []
    for head in structure.heads:
        field = drawn(batch, steps, *head.shape)
        if kind == "eighths":
            field = (field * 9).floor() / 8
        if head.activation == "softmax":
            field = (10 * field).softmax(-1)
        fields.append(field.to(DTYPES[dtype]))
    with torch.no_grad():
        before = structure.Instruction(*(field[:, :3].flip(0) for field in fields))
        _, state = structure.unroll(before, backend="cpu")
    expected = [tensor.requires_grad_() for tensor in (*fields, *state)]
    read_vectors, final = structure.unroll(structure.Instruction(*fields), state, backend="cpu")
    return differentiate([read_vectors, *final], expected, random)


def run_stream(memory, controller, dtype, batch):
    random = torch.Generator().manual_seed(0)
    layer = layer_of(memory, controller, DTYPES[dtype], 24, 4, random)
    layer.batch_first = True
    x = torch.randn(batch, 700, 4, generator=random, dtype=torch.float64).to(DTYPES[dtype])
    stream = open_stream(layer, batch, x)
    outputs, begin = [], 0
    for size in (1, 1, 5, 300, 1, 392):
        lengths = torch.tensor([max(0, size - b) for b in range(batch)]) if size > 1 else None
        outputs.append(stream.run(x[:, begin : begin + size], lengths))
        begin += size
    return {"outputs": hash_of(outputs)}


def cases():
    rows = list(range(33))
    for memory, controller, dtype in itertools.product(MEMORIES, CONTROLLERS, DTYPES):
        for batch, lengths, threads in ((1, None, 1), (4, rows[:4], 1), (5, rows[:5], 2)):
            sizes = (memory, controller, dtype, batch, 7, lengths, 5, threads, 1.0)
            yield f"layer {sizes}", partial(run_layer, *sizes)
        for batch, threads, lengths in ((33, 2, rows), (10, 3, None)):
            sizes = (memory, controller, dtype, batch, 20, lengths, 70, threads, 1.0)
            yield f"layer {sizes}", partial(run_layer, *sizes)
        yield (
            f"stream {memory, controller, dtype}",
            partial(run_stream, memory, controller, dtype, 2),
        )
    for memory, dtype in itertools.product(MEMORIES, DTYPES):
        for inverse_temperature in (30.0, 1000.0):
            sizes = (memory, "lstm", dtype, 4, 9, rows[:4], 5, 1, inverse_temperature)
            yield f"layer {sizes}", partial(run_layer, *sizes)
        sizes = (memory, "lstm", dtype, 2, 300, rows[:2], 8, 2, 1.0)
        yield f"layer {sizes}", partial(run_layer, *sizes)
        for steps, kind in ((1, "soft"), (12, "soft"), (12, "eighths"), (150, "soft")):
            yield (
                f"unroll {memory, dtype, steps, kind}",
                partial(run_unroll, memory, dtype, 3, steps, kind),
            )


def main(mode, path):
    hashes = {name: run() for name, run in cases()}
    if mode == "record":
        path.write_text(json.dumps(hashes, indent=1))
        print(f"{len(hashes)} cases recorded")
        return 0
    before = json.loads(path.read_text())
    changed = [
        f"{name}: {what}"
        for name, parts in before.items()
        for what, value in parts.items()
        if hashes.get(name, {}).get(what) != value
    ]
    print(*changed[:40], sep="\n")
    values = sum(map(len, before.values()))
    print(f"{len(before)} cases, {values} hashes, {len(changed)} of them changed")
    return int(bool(changed))


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("record", "compare"):
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
