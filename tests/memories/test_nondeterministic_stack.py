"""The nondeterministic stack against runs of an automaton with stacks in plain Python."""

from __future__ import annotations

import math
from collections import defaultdict

import pytest
import torch

import unbounded as ub
from tests.sweep import diagonal
from tests.tolerances import assert_close
from unbounded.errors import ShapeError
from unbounded.memories import NondeterministicInstruction, NondeterministicStack
from unbounded.memories.nondeterministic_stack.reference import log_sum_exp

DOUBLE = torch.float64

#: A stack from the bottom up: (symbol, step of the push, vector); the bottom has step -1.
Element = tuple[int, int, tuple[float, ...]]


def oracle(
    states: int,
    symbols: int,
    weights: list,
    values: list[list[float]],
    bottom: list[float],
    window: int | None,
) -> list[tuple[list[list[float]], list[list[list[float]]]]]:
    """After each step the weights of all runs by (state, top), and the same times the top vector.

    Every run is enumerated: a state and a full stack. `weights[t][q][x]` has pushes, then
    replacements, by state and symbol, then pops by state.
    """
    runs: dict[tuple[int, tuple[Element, ...]], float] = {(0, ((0, -1, tuple(bottom)),)): 1.0}
    result = []
    for t, (table, value) in enumerate(zip(weights, values, strict=True)):
        after: dict[tuple[int, tuple[Element, ...]], float] = defaultdict(float)
        for (q, stack), weight in runs.items():
            symbol, pushed, vector = stack[-1]
            row = table[q][symbol]
            for r in range(states):
                for y in range(symbols):
                    push = row[r * symbols + y]
                    after[(r, (*stack, (y, t, tuple(value))))] += weight * push
                    replace = row[states * symbols + r * symbols + y]
                    after[(r, (*stack[:-1], (y, pushed, vector)))] += weight * replace
                if len(stack) > 1:
                    after[(r, stack[:-1])] += weight * row[2 * states * symbols + r]
        # The push of a top at step p joins time p - 1 with the present, time t.
        runs = {
            key: weight
            for key, weight in after.items()
            if window is None or t + 1 - key[1][-1][1] <= window
        }
        tops = [[0.0] * symbols for _ in range(states)]
        vectors = [[[0.0] * len(bottom) for _ in range(symbols)] for _ in range(states)]
        for (q, stack), weight in runs.items():
            symbol, _, vector = stack[-1]
            tops[q][symbol] += weight
            for m, number in enumerate(vector):
                vectors[q][symbol][m] += weight * number
        result.append((tops, vectors))
    return result


def drawn(memory: NondeterministicStack, batch: int, steps: int, seed: int = 5):
    generator = torch.Generator().manual_seed(seed)
    parts = [
        torch.randn(batch, steps, *head.shape, generator=generator, dtype=DOUBLE)
        for head in memory.heads
    ]
    return NondeterministicInstruction(*parts)


@pytest.mark.parametrize(
    ("states", "symbols", "steps"), [(1, 1, 6), (1, 2, 5), (2, 2, 4), (3, 1, 4)]
)
@pytest.mark.parametrize("width", [0, 2])
@pytest.mark.parametrize(("window", "normalized"), [(None, False), (2, False), (3, True)])
@pytest.mark.parametrize("backend", ["reference", "auto"])
def test_steps_equal_all_runs_written_out(
    states, symbols, steps, width, window, normalized, backend
):
    memory = NondeterministicStack(states, symbols, width, window=window, normalized=normalized)
    instructions = drawn(memory, 2, steps)
    state = memory.initial_state(2, DOUBLE)
    action = instructions.action.log_softmax(-1) if normalized else instructions.action
    read_vectors, final = memory.unroll(instructions, state, backend)
    for b in range(2):
        expected = oracle(
            states, symbols, action[b].exp().tolist(),
            instructions.value[b].sigmoid().tolist(), state.bottom[b].sigmoid().tolist(), window,
        )  # fmt: skip
        for t, (tops, vectors) in enumerate(expected):
            total = sum(map(sum, tops))
            read = torch.tensor(vectors if width else tops, dtype=DOUBLE) / total
            assert_close(read_vectors[b, t], read.flatten(), f"r at {t}")
        now = torch.tensor(expected[-1][0], dtype=DOUBLE)
        assert_close(final.weights[b, -1].exp(), now, "weights")
    rows = 2 + steps if window is None else window
    assert final.runs.shape[1:3] == (rows, rows)


@pytest.mark.parametrize(
    ("width", "window", "backend"), diagonal([0, 2], [None, 3], ["reference", "auto"], share=2)
)
def test_gradients_are_those_of_finite_differences(width, window, backend):
    memory = NondeterministicStack(2, 2, width, window=window)
    action, value = drawn(memory, 1, 4)
    bottom = torch.randn(1, width, dtype=DOUBLE)
    learned = {"bottom": bottom[0]} if width else None

    def unrolled(action, value, bottom):
        start = memory.initial_state(1, DOUBLE, learned={"bottom": bottom[0]} if learned else None)
        read_vectors, final = memory.unroll(
            NondeterministicInstruction(action, value), start, backend
        )
        return read_vectors, final.weights[:, -1]

    parts = [part.requires_grad_() for part in (action, value, bottom)]
    assert torch.autograd.gradcheck(unrolled, parts)


def test_the_sum_of_nothing_has_no_gradient():
    tensor = torch.full((2, 3), -math.inf, dtype=DOUBLE)
    tensor[1] = torch.tensor([0.0, 1.0, -math.inf])
    tensor.requires_grad_()
    total = log_sum_exp(tensor, 1)
    assert total.tolist() == [-math.inf, pytest.approx(math.log1p(math.e))]
    total[1].backward(retain_graph=True)
    assert tensor.grad[1].tolist() == pytest.approx([1 / (1 + math.e), math.e / (1 + math.e), 0])
    tensor.grad = None
    total.exp().sum().backward()
    assert not tensor.grad.isnan().any()
    assert tensor.grad[0].tolist() == [0, 0, 0]


@pytest.mark.parametrize("width", [0, 2])
def test_the_first_read_vector_is_that_of_the_initial_stack(width):
    memory = NondeterministicStack(2, 3, width)
    learned = {"bottom": torch.randn(width, dtype=DOUBLE)} if width else None
    state = memory.initial_state(2, DOUBLE, learned=learned)
    (first,) = memory.observe(state).values()
    read_vector = memory.initial_read_vector(2, DOUBLE, learned=learned)
    tops = read_vector.unflatten(1, (2, 3, -1))
    expected = learned["bottom"].sigmoid() if width else torch.ones(1, dtype=DOUBLE)
    assert_close(tops, first[..., None] * expected, "first reading")


def test_a_long_window_changes_nothing_and_a_short_one_bounds_the_state():
    instructions = drawn(NondeterministicStack(2, 2), 1, 9)
    for backend in ("reference", "auto"):
        full, _ = NondeterministicStack(2, 2).unroll(instructions, None, backend)
        wide, _ = NondeterministicStack(2, 2, window=10).unroll(instructions, None, backend)
        assert torch.equal(full, wide)
    _, final = NondeterministicStack(2, 2, window=4).unroll(instructions)
    assert final.runs.shape == (1, 4, 4, 2, 2, 2, 2, 1)


@pytest.mark.parametrize(
    ("window", "scale", "steps"),
    # Without a window the time grows with the square of the steps, so 500 are slow.
    [
        (None, 12.0, 150),
        (12, 1.0, 500),
        (12, 12.0, 500),
        pytest.param(None, 1.0, 500, marks=pytest.mark.slow),
        pytest.param(None, 12.0, 500, marks=pytest.mark.slow),
    ],
)
def test_single_precision_is_stable_over_many_steps(window, scale, steps):
    """Weights of e^-40 to e^40 a step: within 10 steps sums leave the range of any float."""
    # Without a window the tables of several states have 250 MB here.
    memory = NondeterministicStack(2 if window else 1, 2, 1, window=window)
    instructions = NondeterministicInstruction(*(scale * part for part in drawn(memory, 1, steps)))
    single = NondeterministicInstruction(*(part.float() for part in instructions))
    action = single.action.requires_grad_()
    start = memory.initial_state(1)
    read_vectors, _ = memory.unroll(NondeterministicInstruction(action, single.value), start)
    read_vectors.square().sum().backward()
    assert read_vectors.isfinite().all()
    assert action.grad.isfinite().all()
    exact = NondeterministicInstruction(*(part.detach().double() for part in single))
    start = memory.State(*(part.detach().double() for part in start))
    expected, _ = memory.unroll(exact, start)
    assert (read_vectors - expected).abs().max() < 1e-5


def test_the_kernel_keeps_weights_that_underflow_without_logs():
    """The certain transitions form a stack; only transitions of e^-300 lead to the result."""
    memory = NondeterministicStack(1, 3)
    moves = {"push 1": 1, "push 2": 2, "pop": 6}
    steps = ["push 1", "push 2", "pop", "pop"] * 10
    action = torch.full((1, len(steps), 1, 3, 7), -300.0, dtype=DOUBLE)
    for t, step in enumerate(steps):
        action[0, t, 0, :, moves[step]] = 0
    instructions = NondeterministicInstruction(action, action.new_zeros(1, len(steps), 0))
    by_logs, _ = memory.unroll(instructions, None, "reference")
    by_kernel, _ = memory.unroll(instructions)
    assert_close(by_kernel, by_logs, "read vectors")
    assert by_kernel[0].argmax(-1).tolist() == [1, 2, 1, 0] * 10
    assert by_kernel[0].amax(-1).min() > 1 - 1e-12


def test_a_layer_resumes_and_keeps_sequences_of_other_lengths():
    layer = ub.MemoryRNN(2, 4, NondeterministicStack(2, 2, 1), dtype=DOUBLE)
    x = torch.randn(6, 3, 2, dtype=DOUBLE)
    output, final = layer(x, None, [6, 2, 4])
    for b, length in enumerate([6, 2, 4]):
        alone, _ = layer(x[:length, b : b + 1])
        assert_close(output[:length, b], alone[:, 0], "output")
        longer, _ = layer(x[:3, b : b + 1], ub.index_state(final, [b]))
        full, _ = layer(torch.cat([x[:length, b : b + 1], x[:3, b : b + 1]]))
        assert_close(longer, full[length:], "resumed")
    output.sum().backward()
    (bottom,) = (w for n, w in layer.named_parameters() if n.endswith("bottom"))
    assert bottom.grad.abs().sum() > 0


@pytest.mark.parametrize("options", [{"states": 0}, {"symbols": 0}, {"width": -1}, {"window": 1}])
def test_sizes_out_of_range_are_named(options):
    (name,) = options
    with pytest.raises(ShapeError, match=name):
        NondeterministicStack(**options)
