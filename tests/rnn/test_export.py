"""Each line of docs/export.md."""

from __future__ import annotations

import copy
import importlib
import io
from pathlib import Path

import accelerate
import pytest
import torch

import unbounded as ub
from tests.sweep import sweep
from tests.tolerances import assert_close
from unbounded import kernels
from unbounded.errors import BackendError, BackendWarning, DeviceError, say_once
from unbounded.memories import MEMORIES
from unbounded.models import MemoryModel

needs_kernels = pytest.mark.skipif(not kernels.available().ok, reason=kernels.available().reason)
SEVEN = [
    "stack", "queue", "deque", "superposition_stack", "superposition_list", "turing_tape",
    "lie_access",
]  # fmt: skip
every_memory = pytest.mark.parametrize("memory", SEVEN)
#: Memories that stand for the others, which are slow.
two_memories = pytest.mark.parametrize(
    "memory", sweep(SEVEN, fast=lambda name: name in ("stack", "superposition_list"))
)
# Warnings of torch itself, and of the reference implementation.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf"),
]


def make(memory="stack", **options):
    torch.compiler.reset()
    torch.manual_seed(0)
    say_once.cache_clear()
    return ub.MemoryRNN(3, 5, MEMORIES[memory](4), batch_first=True, **options)


def inputs(steps=7):
    return torch.randn(2, steps, 3, generator=torch.Generator().manual_seed(steps))


@needs_kernels
@pytest.mark.parametrize(
    ("memory", "dynamic"),
    sweep(SEVEN, [None, True], fast=lambda name, dynamic: (name, dynamic) == ("stack", None)),
)
def test_compiled_graphs_with_gradients_serve_all_steps(memory, dynamic):
    layer = make(memory)
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(layer, dynamic=dynamic, backend="aot_eager")
    for steps in (7, 9, 12, 30, 64, 65, 66, 100, 129, 200, 77):
        x = inputs(steps)
        (output, _), (expected, _) = compiled(x), layer(x)
        assert_close(output, expected, "output")
        weights = list(layer.parameters())
        pairs = zip(
            torch.autograd.grad(output.sum(), weights),
            torch.autograd.grad(expected.sum(), weights),
            strict=True,
        )
        for gradient, of_plain in pairs:
            torch.testing.assert_close(gradient, of_plain, rtol=1e-4, atol=1e-5)
    has_checkpoints = memory in ("superposition_stack", "superposition_list", "turing_tape")
    most = (3 if has_checkpoints else 1) + (dynamic is None)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] <= most


@needs_kernels
def test_the_symbolic_number_of_checkpoints_is_that_of_integers():
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    from unbounded.kernels._sizes import Sizes, new_sizes

    tape = kernels.structure_of("turing_tape", (5, 3, 1, 1, 1, 1, 0, 15))
    for steps in (1, 2, 63, 64, 65, 128, 129, 4096, 4097, 5000, 99999):
        symbol = ShapeEnv().create_unbacked_symint()
        symbolic = Sizes(tape, None, symbol, 1, 0, 0, 0, 16)
        block = symbolic.block.node.expr.subs({symbol.node.expr: steps})
        assert int(block) == new_sizes(tape, None, steps, 1, 0, 0, 0, 16).block


@needs_kernels
@pytest.mark.parametrize("memory", [*SEVEN, "rolling_tape"])
@pytest.mark.parametrize("training", [True, False])
def test_exported_programs_take_any_number_of_steps(memory, training):
    layer = make(memory).train(training)
    steps = torch.export.Dim("steps", min=2, max=1000)
    program = torch.export.export(layer, (inputs(),), dynamic_shapes=({1: steps},))
    assert any("recurrence" in str(node.target) for node in program.graph.nodes)
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file).module()
    for count in (2, 11, 70, 200):
        assert_close(loaded(inputs(count))[0], layer(inputs(count))[0], "output")
    assert not loaded(inputs())[0].requires_grad


@needs_kernels
@pytest.mark.parametrize("memory", ["stack", "rolling_tape"])
def test_exported_programs_take_lengths_with_any_number_of_steps(memory):
    layer = make(memory).eval()
    steps = torch.export.Dim("steps", min=2, max=1000)
    shapes = ({1: steps}, None, {})
    program = torch.export.export(
        layer, (inputs(), None, torch.tensor([7, 2])), dynamic_shapes=shapes
    ).module()
    for count in (2, 11, 70):
        lengths = torch.tensor([1, count])
        output, expected = (each(inputs(count), None, lengths)[0] for each in (program, layer))
        assert_close(output, expected, "output")


@needs_kernels
@pytest.mark.parametrize("training", [True, False])
def test_exported_programs_without_a_memory_rnn_take_any_number_of_steps(training):
    torch.manual_seed(0)
    steps = torch.export.Dim("steps", min=2, max=1000)
    for layer in (
        ub.Transformer(3, 8, batch_first=True),
        ub.MemoryAttention(3, ub.NeuralStack(4), batch_first=True),
        ub.ControllerRNN(3, 5, "gru", batch_first=True),
    ):
        layer.train(training)
        program = torch.export.export(layer, (inputs(),), dynamic_shapes=({1: steps},)).module()
        for count in (2, 11, 70):
            assert_close(program(inputs(count))[0], layer(inputs(count))[0], "output")


@needs_kernels
def test_an_attention_with_lengths_names_why_it_is_not_exported():
    layer = ub.MemoryAttention(3, ub.NeuralStack(4), batch_first=True).eval()
    with pytest.raises(BackendError, match="lengths: a MemoryAttention with lengths cannot be"):
        torch.export.export(layer, (inputs(), None, torch.tensor([7, 2])))


@two_memories
def test_exported_programs_of_the_reference_have_gradients(memory):
    layer = make(memory, backend="reference")
    program = torch.export.export(layer, (inputs(),)).module()
    output, _ = program(inputs())
    assert_close(output, layer(inputs())[0], "output")
    output.sum().backward()
    assert all(each.grad is not None for each in program.parameters() if each.requires_grad)


@needs_kernels
@two_memories
def test_jit_trace(memory):
    layer = make(memory)
    with pytest.warns(BackendWarning, match=r"torch\.jit\.trace keeps no names"):
        traced = torch.jit.trace(layer, (inputs(),), strict=False)
    assert_close(traced(inputs())[0], layer(inputs())[0], "output")
    with pytest.raises(RuntimeError):
        traced(inputs(9))
    layer.backend = "cpu"
    with pytest.raises(BackendError, match=r"torch\.jit\.trace keeps no names .*torch\.export"):
        torch.jit.trace(layer, (inputs(),), strict=False)


@two_memories
def test_add_graph_of_tensorboard(memory, tmp_path):
    tensorboard = importlib.import_module("torch.utils.tensorboard")
    with tensorboard.SummaryWriter(tmp_path) as writer:
        writer.add_graph(make(memory), (inputs(),))
        model = MemoryModel(inputs=9, outputs=9, hidden_size=6, memory=memory)
        writer.add_graph(model, (torch.zeros(2, 5, dtype=torch.int64),), use_strict_trace=False)
    (events,) = Path(tmp_path).iterdir()
    assert events.stat().st_size > 10_000


@needs_kernels
def test_onnx_exports_the_reference_and_refuses_kernels(monkeypatch):
    layer = make()
    importlib.import_module("torch.onnx")
    monkeypatch.setattr(torch.onnx, "is_in_onnx_export", lambda: True)
    with pytest.warns(BackendWarning, match="ONNX has no operator for them"):
        program = torch.export.export(layer, (inputs(),))
    assert not any("unbounded" in str(node.target) for node in program.graph.nodes)
    layer.backend = "cpu"
    with pytest.raises(
        BackendError, match="ONNX has no operator for them; the reference implementation can"
    ):
        torch.export.export(layer, (inputs(),))


LAYERS = {
    **{name: lambda name=name: make(name, learn_initial_state=True) for name in SEVEN},
    "written first": lambda: ub.MemoryRNN(3, 5, ub.TuringTape(5, 3, writes_first=True)),
    "deep": lambda: make(num_layers=2, bidirectional=True, output_size=4),
    "elman": lambda: ub.ControllerRNN(3, 5, learn_initial_state=True),
    "lstm": lambda: ub.ControllerRNN(3, 5, "lstm"),
    "deep lstm": lambda: ub.DeepLSTM(3, 5, 2, learn_initial_state=True),
    "srcn": lambda: ub.SRCN(3, 5, bias=True, learn_initial_state=True),
    "nn.LSTM": lambda: torch.nn.LSTM(3, 5),
    "transformer": lambda: ub.Transformer(3, 8, positions="relative"),
    "transformer with a stack": lambda: ub.Transformer(3, 8, memory=ub.NeuralStack(3)),
    "deltaproduct": lambda: ub.DeltaProduct(3, 8),
    "memory attention": lambda: ub.MemoryAttention(3, ub.TuringTape(4, 3)),
}


@pytest.mark.parametrize(
    "name", sweep(list(LAYERS)[-4:], fast=lambda name: name == "memory attention")
)
def test_networks_of_blocks_are_exported_and_compiled(name):
    layer = LAYERS[name]().eval()
    program = torch.export.export(layer, (inputs(),)).module()
    assert_close(program(inputs())[0], layer(inputs())[0], "exported")
    torch.compiler.reset()
    compiled = torch.compile(layer, backend="aot_eager")
    output, state = compiled(inputs())
    assert_close(output, layer(inputs())[0], "compiled")
    state = ub.detach_state(state)
    assert_close(compiled(inputs(), state)[0], layer(inputs(), state)[0], "with a state")
    torch.compiler.reset()


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("classes", [None, ["MemoryRNN", "ControllerRNN", "DeepLSTM"]])
def test_cpu_offload(name, classes):
    layer, x = LAYERS[name]().double(), inputs().double()
    expected = layer(x)[0]
    offloaded = copy.deepcopy(layer)
    accelerate.cpu_offload(offloaded, preload_module_classes=classes)
    assert all(each.is_meta for each in offloaded.parameters())
    assert_close(offloaded(x)[0], expected, "output")


@needs_kernels
def test_cpu_offload_of_a_complete_layer_keeps_the_kernels(recwarn):
    layer = make()
    accelerate.cpu_offload(layer, preload_module_classes=["MemoryRNN"])
    layer(inputs())
    assert not [each for each in recwarn if each.category is BackendWarning]


@pytest.mark.parametrize("options", [{}, {"embedding_size": None}])
def test_cpu_offload_of_a_model(options):
    model = MemoryModel(inputs=9, outputs=9, hidden_size=6, memory="stack", **options)
    tokens = torch.arange(8).reshape(2, 4)
    expected = model(tokens)[0]
    accelerate.cpu_offload(model)
    assert_close(model(tokens)[0], expected, "logits")


def test_cpu_offload_of_tied_embeddings_has_advice():
    model = MemoryModel(
        inputs=9, outputs=9, hidden_size=6, memory="stack", tied_embeddings=True, embedding_size=6
    )
    tokens, other = torch.arange(8).reshape(2, 4), copy.deepcopy(model)
    expected = model(tokens)[0]
    accelerate.cpu_offload(model)
    with pytest.raises(DeviceError, match=r"embedding: expected weights on cpu.*SequenceModel"):
        model(tokens)
    accelerate.cpu_offload(other, preload_module_classes=["SequenceModel"])
    assert_close(other(tokens)[0], expected, "logits")


def test_the_page_names_every_tested_export():
    page = (Path(__file__).parents[2] / "docs" / "export.md").read_text(encoding="utf-8")
    for name in (
        "torch.compile", "torch.export.export", "torch.jit.trace", "add_graph", "torch.onnx.export",
        "cpu_offload", "preload_module_classes", "add_hook_to_module",
    ):  # fmt: skip
        assert name in page
