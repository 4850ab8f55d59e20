"""torch.compile of a layer with carried state: one graph for all numbers of rows."""

from __future__ import annotations

import pytest
import torch

import unbounded as ub
from tests.sweep import sweep
from tests.tolerances import assert_close
from unbounded import kernels
from unbounded.errors import BackendWarning, say_once

MEMORIES = {
    "stack": ub.NeuralStack,
    "queue": ub.NeuralQueue,
    "deque": ub.NeuralDeque,
    "lie_access": ub.LieAccessMemory,
}
CHUNKS = 10  # more than torch's limit of eight graphs per function
pytestmark = [
    pytest.mark.skipif(not kernels.available().ok, reason=kernels.available().reason),
    # Warnings of torch itself, while tracing.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


class Graphs:
    """A backend for torch.compile that counts its graphs and runs them unchanged.

    Fields:
        operators: of each graph, the names of this library's operators in it.
    """

    def __init__(self):
        self.operators = []

    def __call__(self, graph, example_inputs):
        parts = [part for part in graph.modules() if isinstance(part, torch.fx.GraphModule)]
        names = [str(node.target) for part in parts for node in part.graph.nodes]
        self.operators.append([name for name in names if name.startswith("unbounded.")])
        return graph


def chunks():
    generator = torch.Generator().manual_seed(1)
    return torch.randn(CHUNKS, 3, 2, 4, generator=generator, dtype=torch.float64)


def make(memory, **options):
    torch.compiler.reset()
    torch.manual_seed(0)
    return ub.MemoryRNN(4, 5, MEMORIES[memory](3), dtype=torch.float64, **options)


@pytest.mark.parametrize(
    ("memory", "trains", "num_layers"),
    [
        ("stack", True, 1),
        pytest.param("stack", False, 2, marks=pytest.mark.slow),
        *(
            pytest.param(memory, True, 1, marks=pytest.mark.slow)
            for memory in MEMORIES
            if memory != "stack"
        ),
    ],
)
def test_chunks_with_carried_state_compile_to_three_graphs_with_kernels(memory, trains, num_layers):
    layer = make(memory, num_layers=num_layers)
    graphs = Graphs()
    compiled = torch.compile(layer, backend=graphs)
    state = plain_state = None
    for x in chunks():
        with torch.set_grad_enabled(trains):
            output, state = compiled(x, state)
            expected, plain_state = layer(x, plain_state)
        assert_close(output, expected, "output")
        if trains:
            weights = list(layer.parameters())
            pairs = zip(
                torch.autograd.grad(output.square().sum(), weights),
                torch.autograd.grad(expected.square().sum(), weights),
                strict=True,
            )
            for gradient, of_plain in pairs:
                assert_close(gradient, of_plain, "gradient")
        state, plain_state = ub.detach_state(state), ub.detach_state(plain_state)
    # At the first chunk, after one chunk, and with the largest number of rows.
    assert len(graphs.operators) == 3
    assert all(graphs.operators)


@pytest.mark.parametrize(
    ("memory", "steps"),
    sweep(
        ["stack", "lie_access"], [2, 3], fast=lambda memory, steps: (memory, steps) == ("stack", 2)
    ),
)
def test_the_reference_compiles_to_three_graphs(memory, steps):
    layer = make(memory, backend="reference")
    graphs = Graphs()
    compiled = torch.compile(layer, backend=graphs)
    state = plain_state = None
    for x in chunks()[:, :steps]:
        with torch.no_grad():
            output, state = compiled(x, state)
            expected, plain_state = layer(x, plain_state)
        assert_close(output, expected, "output")
    assert graphs.operators == [[], [], []]


def test_the_reference_compiles_to_one_graph():
    layer = make("stack")
    layer.layers[0].controller.register_forward_hook(lambda *_: None)  # which rules out the kernels
    graphs, x = Graphs(), chunks()[0]
    output, _ = torch.compile(layer, backend=graphs, fullgraph=True)(x)
    assert graphs.operators == [[]]
    say_once.cache_clear()
    with pytest.warns(BackendWarning, match="hooks"):
        assert_close(output, layer(x)[0], "output")


# A warning of torch itself, where a graph breaks between two layers.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.parametrize(
    ("backend", "lengths"),
    sweep(
        ["auto", "reference"],
        [None, torch.tensor([3, 1])],
        fast=lambda backend, lengths: backend == "auto" and lengths is not None,
    ),
)
def test_a_deep_lstm_is_compiled_in_parts(backend, lengths):
    torch.compiler.reset()
    layer, x = ub.DeepLSTM(4, 5, 2, backend=backend), torch.randn(3, 2, 4)
    compiled = torch.compile(layer, backend="aot_eager")
    for each in (x, x.clone().requires_grad_()):
        output, _ = compiled(each, lengths=lengths)
        assert_close(output, layer(each, lengths=lengths)[0], "output")
        output.sum().backward()
