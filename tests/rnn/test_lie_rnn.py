"""The Lie-access memory as a layer: published sizes, disabled writes, kernel and reference."""

from __future__ import annotations

import pytest
import torch

import unbounded as ub
from tests.memories.toy import random_instructions
from tests.sweep import diagonal
from tests.tolerances import assert_close


def count(module):
    return sum(parameter.numel() for parameter in module.parameters())


def test_the_layers_share_of_the_published_parameters():
    """The counts need a second bias in the LSTM, and 2 parameters for each learned initial value.

    The papers also have 127 890 and 4 047 632 for LSTMs, and 4 323 329, which match no formula.
    """
    vocabulary, embedding, hidden, width, published = 42, 100, 128, 128, 212_149
    memory = ub.LieAccessMemory(width, initial="learned")
    layer = ub.MemoryRNN(embedding, hidden, memory, learn_initial_state=True)
    assert count(layer.layers[0].heads) == (hidden + 1) * (4 * 2 + width + 5)
    assert count(layer.layers[0].initial_memory) == 2 * width + 2 + 1 + 4 * 2
    assert count(layer.layers[0].initial_controller) == 2 * hidden
    assert count(layer.layers[0].controller) == 4 * hidden * (embedding + width + hidden + 1)
    initial = count(layer.layers[0].initial_memory) + count(layer.layers[0].initial_controller)
    around = vocabulary * embedding + (hidden + 1) * vocabulary
    second_bias = 4 * hidden
    assert count(layer) + initial + second_bias + around == published


@pytest.mark.parametrize(
    ("group", "weighting", "variant", "heads"),
    diagonal(
        ["translation", "scaling_rotation", "rotation", "sphere", "rotation_4", "poincare_disk"],
        ["inverse_square", "softmax"],
        ["2016", "2017"],
        [(1, 1), (2, 1), (1, 2), (2, 3)],
        share=3,
    ),
)
def test_kernel_and_reference_agree(group, weighting, variant, heads):
    torch.manual_seed(0)
    step = "normalised" if group == "scaling_rotation" else None
    group, size = (group.removesuffix("_4"), 4) if group.endswith("_4") else (group, None)
    memory = ub.LieAccessMemory(
        *(4, group, weighting, step), key_size=size, variant=variant, initial="learned",
        capacity=6, drop=3, read_heads=heads[0], write_heads=heads[1],
    )  # fmt: skip
    layers = [ub.MemoryRNN(2, 6, memory, backend=b).double() for b in ("cpu", "reference")]
    layers[1].load_state_dict(layers[0].state_dict())
    x, lengths = torch.randn(12, 3, 2, dtype=torch.float64), torch.tensor([12, 5, 0])
    results = []
    for layer in layers:
        output, state = layer(x, lengths=lengths)
        loss = output.square().sum() + state.memory.values.square().sum()
        expected = list(layer.parameters())
        grads = torch.autograd.grad(loss, expected, allow_unused=True, materialize_grads=True)
        results.append([output, *state.memory, *grads])
    for got, expected in zip(*results, strict=True):
        if group == "poincare_disk":  # near the edge of the disk distances have fewer bits
            torch.testing.assert_close(got, expected, rtol=1e-7, atol=1e-10)
        else:
            assert_close(got, expected)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_disabled_writes_leave_no_row(backend):
    """As in the answer phase: strength times mask, and `trim` removes rows of strength 0."""
    memory = ub.LieAccessMemory(3)
    instructions = random_instructions(memory, 2, 10, 0)
    mask = torch.arange(10) < 6
    read_vectors, state = memory.unroll(
        instructions._replace(strength=instructions.strength * mask), None, backend
    )
    begun, after = (
        memory.Instruction(*(field[:, part] for field in instructions))
        for part in (slice(6), slice(6, 10))
    )
    _, written = memory.unroll(begun, None, backend)
    trimmed = memory.trim(state)
    for name in ("keys", "values", "strengths"):
        assert_close(getattr(trimmed, name), getattr(written, name), name)
    silent = after._replace(strength=torch.zeros_like(after.strength))
    assert_close(memory.unroll(silent, written, backend)[0], read_vectors[:, 6:], "read_vectors")


def test_a_trace_shows_the_positions_of_the_heads():
    layer = ub.MemoryRNN(2, 5, ub.LieAccessMemory(3, weighting="softmax"))
    _, state, trace = layer(torch.randn(6, 2, 2), return_trace=True)
    assert trace.arrays["read_key"].shape == trace.arrays["write_action"].shape == (2, 6, 2)
    assert trace.arrays["strengths"].shape == (2, 6, 6)
    assert trace.arrays["instruction.temperature"].shape == (2, 6)
    assert torch.equal(trace.arrays["write_key"][:, -1], state.memory.write_key)
    assert torch.equal(trace.arrays["write_key"], state.memory.keys)


def test_learns_to_read_back_the_first_write():
    """And fails to learn without the gradient of the heads."""

    def loss_after(trains_heads):
        torch.manual_seed(0)
        memory = ub.LieAccessMemory(4)
        layer = ub.MemoryRNN(3, 16, memory, output_size=2)
        layer.layers[0].heads.requires_grad_(trains_heads)
        if not trains_heads:
            torch.nn.init.zeros_(layer.layers[0].heads.weight)
        optimizer = torch.optim.Adam([p for p in layer.parameters() if p.requires_grad], 1e-2)
        for _ in range(250):
            bits = (torch.rand(6, 16, 2) < 0.5).float() * 2 - 1
            x = torch.cat([torch.cat([bits, torch.zeros(6, 16, 1)], -1), torch.ones(6, 16, 3)])
            output, _ = layer(x)
            loss = (output[6:] - bits * 0.8).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return float(loss.detach())

    assert loss_after(True) < 0.6 * loss_after(False)
