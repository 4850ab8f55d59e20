"""The backend that a layer takes, its warnings, and agreement of both backends."""

from __future__ import annotations

import functools
import warnings

import pytest
import torch
from torch.nn.modules.module import register_module_forward_hook

import unbounded as ub
from tests.memories.common import MEMORIES, instructions
from tests.tolerances import assert_close
from unbounded import kernels
from unbounded.errors import BackendError, BackendWarning, ChoiceError, say_once
from unbounded.memories.core import ACTIVATIONS, state_tensors
from unbounded.models import MemoryModel
from unbounded.models.discrete import sequence_model
from unbounded.rnn.static_buffers import static_buffer_layer

DOUBLE = torch.float64
needs_kernels = pytest.mark.skipif(not kernels.available().ok, reason=kernels.available().reason)


def make(memory="stack", controller="lstm", backend="auto", **options):
    torch.manual_seed(0)
    return ub.MemoryRNN(
        3, 5, MEMORIES[memory](4), controller, backend=backend, dtype=DOUBLE, **options
    )


def inputs():
    return torch.randn(6, 3, 3, generator=torch.Generator().manual_seed(1), dtype=DOUBLE)


@pytest.fixture
def fused_calls(monkeypatch):
    calls = []
    original = kernels.recurrence

    def recorded(*args, **kwargs):
        structure, _, controller, *_ = args
        calls.append((structure.name, controller))
        return original(*args, **kwargs)

    monkeypatch.setattr(kernels, "recurrence", recorded)
    say_once.cache_clear()
    return calls


@needs_kernels
def test_auto_takes_the_kernel(fused_calls):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make()(inputs())
    assert fused_calls == [("stack", "lstm")]


@needs_kernels
def test_reference_does_not_take_the_kernel(fused_calls):
    make(backend="reference")(inputs())
    assert fused_calls == []


def custom_controller(input_size, hidden_size, device=None, dtype=None):
    class CustomController(ub.rnn.Controller):
        def __init__(self):
            super().__init__()
            self.hidden_size = hidden_size
            self.map = torch.nn.Linear(input_size, hidden_size, device=device, dtype=dtype)

        def forward(self, inputs, state):
            return (torch.tanh(self.map(inputs)),)

    return CustomController()


def hooked(where):
    def build(backend):
        layer = make(backend=backend)
        getattr(layer.only_layer(), where).register_forward_hook(lambda *_: None)
        return layer

    return build


@needs_kernels
@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (
            lambda backend: make(controller=custom_controller, backend=backend),
            "no kernel supports the controller CustomController",
        ),
        (hooked("controller"), "the controller has hooks"),
        (hooked("heads"), "the heads has hooks"),
    ],
)
def test_unsupported_layers_run_on_the_reference_with_one_warning(build, reason, fused_calls):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            build("auto")(inputs())
    assert [warning.category for warning in caught] == [BackendWarning]
    assert reason in str(caught[0].message)
    assert fused_calls == []
    with pytest.raises(BackendError, match=rf"backend 'cpu' cannot serve this call: {reason}"):
        build("cpu")(inputs())


@needs_kernels
def test_a_hook_on_all_modules_runs_for_controller_and_heads(fused_calls):
    seen = []
    layer = make()
    handle = register_module_forward_hook(lambda module, *_: seen.append(module))
    try:
        with pytest.warns(BackendWarning, match="a hook on all modules is registered"):
            layer(inputs())
    finally:
        handle.remove()
    assert layer.layers[0].controller in seen
    assert layer.layers[0].heads in seen
    assert fused_calls == []
    layer(inputs())
    assert len(fused_calls) == 1


@needs_kernels
def test_traces_run_on_the_reference(fused_calls):
    for backend in ("auto", "reference", "cpu"):
        make(backend=backend)(inputs(), return_trace=True)
    assert fused_calls == []


@needs_kernels
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
def test_forward_mode_runs_on_the_reference(fused_calls):
    layer = make()
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(inputs(), torch.ones(6, 3, 3, dtype=DOUBLE))
        with pytest.warns(BackendWarning, match="forward-mode"):
            output, _ = layer(dual)
        tangent = torch.autograd.forward_ad.unpack_dual(output).tangent
    assert tangent is not None
    assert fused_calls == []


@needs_kernels
@pytest.mark.parametrize("memory", MEMORIES)
def test_gradients_of_gradients_come_from_the_reference(memory):
    seconds = []
    for backend in ("auto", "reference"):
        layer = make(memory, backend=backend)
        x = inputs().requires_grad_()
        output, _ = layer(x)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            (first,) = torch.autograd.grad(output.sin().sum(), x, create_graph=True)
        seconds.append(torch.autograd.grad(first.square().sum(), list(layer.parameters())))
    for fused, reference in zip(*seconds, strict=True):
        assert_close(fused, reference, "second derivative")


class DoubledStack(ub.NeuralStack):
    """Reads twice the read vector, which the kernel for stacks does not compute."""

    def step(self, state, instruction):
        read_vector, state = super().step(state, instruction)
        return 2 * read_vector, state


@needs_kernels
def test_a_subclass_does_not_run_on_the_kernel_of_its_base(fused_calls):
    layer = ub.MemoryRNN(3, 5, DoubledStack(4), dtype=DOUBLE)
    with pytest.warns(BackendWarning, match="no kernel supports the memory DoubledStack"):
        layer(inputs())
    with pytest.warns(
        BackendWarning, match="DoubledStack runs on the reference implementation path"
    ):
        read_vectors, _ = DoubledStack(4).unroll(instructions(DoubledStack(4), 2, 3))
    assert fused_calls == []
    single, _ = ub.NeuralStack(4).unroll(instructions(DoubledStack(4), 2, 3))
    assert_close(read_vectors, 2 * single, "the subclass's read vector")


@needs_kernels
def test_backward_inside_autocast_computes_in_float32():
    torch.manual_seed(0)
    layer = ub.MemoryRNN(3, 8, ub.NeuralStack(4), output_size=2, backend="cpu")
    x = torch.randn(5, 2, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        layer(x)[0].float().sum().backward()
    inside = [p.grad.clone() for p in layer.parameters()]
    layer.zero_grad()
    layer(x)[0].sum().backward()
    for got, want in zip(inside, (p.grad for p in layer.parameters()), strict=True):
        assert got.dtype == torch.float32
        assert torch.allclose(got, want, atol=0.05, rtol=0.05)


@needs_kernels
@pytest.mark.parametrize("memory", [make(2) for make in MEMORIES.values()])
def test_unroll_under_autocast_is_the_same_on_both_paths(memory):
    fields = instructions(memory, 2, 100, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        fused, reference = (memory.unroll(fields, backend=name) for name in ("cpu", "reference"))
    assert {tensor.dtype for tensor in (reference[0], *reference[1])} == {torch.float32}
    for one, other in zip((fused[0], *fused[1]), (reference[0], *reference[1]), strict=True):
        assert torch.allclose(one, other, atol=1e-5)


@needs_kernels
def test_a_strength_flushed_to_zero_counts_as_zero():
    memory = ub.NeuralStack(2)
    push = torch.tensor([[1.5e-38, 0.5]]).requires_grad_()
    fields = memory.Instruction(torch.ones(1, 2, 2), push, torch.tensor([[0.0, 1.2e-38]]))
    torch.set_flush_denormal(True)
    try:
        read_vectors, _ = memory.unroll(fields, backend="cpu")
        read_vectors.sum().backward()
    finally:
        torch.set_flush_denormal(False)
    assert push.grad is not None
    assert torch.isfinite(push.grad).all()


@pytest.mark.parametrize("memory", ["stack", "queue", "deque"])
def test_a_negative_strength_in_a_state_runs_on_the_reference(memory, fused_calls):
    layer, x = make(memory, backend="auto"), inputs()
    _, state = layer(x)
    fields = state.memory._replace(strengths=state.memory.strengths - 0.5)
    fused_calls.clear()
    say_once.cache_clear()
    with pytest.warns(ub.errors.BackendWarning, match="strengths of at least 0"):
        output, _ = layer(x, state._replace(memory=fields))
    assert fused_calls == []
    expected, _ = make(memory, backend="reference")(x, state._replace(memory=fields))
    assert torch.equal(output, expected)


def test_an_unknown_activation_runs_on_the_reference(fused_calls, monkeypatch):
    monkeypatch.setitem(ACTIVATIONS, "elu", torch.nn.functional.elu)
    monkeypatch.setattr(
        ub.NeuralStack,
        "heads",
        property(
            lambda self: (
                ub.memories.Head("value", (self.width,), "elu"),
                ub.memories.Head("push", (), "sigmoid"),
                ub.memories.Head("pop", (), "sigmoid"),
            )
        ),
    )
    with pytest.warns(ub.errors.BackendWarning, match="activation elu of value"):
        make()(inputs())
    assert fused_calls == []


PLAIN = {
    "deep_lstm": functools.partial(ub.DeepLSTM, 3, 5, 2, dtype=DOUBLE),
    "gru": functools.partial(ub.ControllerRNN, 3, 5, "gru", dtype=DOUBLE),
    "elman": functools.partial(ub.ControllerRNN, 3, 5, "elman", dtype=DOUBLE),
}


@needs_kernels
@pytest.mark.parametrize("plain", PLAIN)
@pytest.mark.parametrize("lengths", [None, [6, 0, 2]])
def test_a_layer_without_a_memory_takes_the_given_backend(plain, lengths, fused_calls):
    results = []
    for backend in ("cpu", "reference"):
        torch.manual_seed(0)
        layer, x = PLAIN[plain](backend=backend), inputs().requires_grad_()
        output, state = layer(x, lengths=lengths)
        tensors = [output, *state_tensors(state)]
        loss = sum((t * torch.linspace(-1, 1, t.numel()).view_as(t)).sum() for t in tensors)
        learned = [each for each in layer.parameters() if each.requires_grad]
        results.append([*tensors, *torch.autograd.grad(loss, [x, *learned])])
        assert len(fused_calls) == (2 if plain == "deep_lstm" else 1)
    for position, (fused, reference) in enumerate(zip(*results, strict=True)):
        assert_close(fused, reference, f"tensor {position}")


def test_the_error_of_a_layer_without_a_memory_has_the_reason():
    with pytest.raises(BackendError, match="SRCN: backend 'cpu' cannot serve this call: no kernel"):
        ub.SRCN(3, 5, backend="cpu")(torch.randn(6, 3, 3))
    layer = ub.ControllerRNN(3, 5, custom_controller, backend="cpu")
    with pytest.raises(BackendError, match="no kernel supports the controller CustomController"):
        layer(torch.randn(6, 3, 3))
    for make_layer in (ub.SRCN, ub.DeepLSTM, ub.ControllerRNN):
        with pytest.raises(ChoiceError, match="backend"):
            make_layer(3, 5, backend="gpu")


@needs_kernels
@pytest.mark.parametrize("controller", ["lstm", "gru", "elman"])
def test_a_model_without_a_memory_takes_the_given_backend(controller, fused_calls):
    parts = {"memory": "none", "controller": controller}
    model = MemoryModel(inputs=5, outputs=5, **parts, backend="reference")
    model(torch.zeros(1, 4, dtype=torch.int64), lengths=torch.tensor([4]))
    assert fused_calls == []
    assert static_buffer_layer(sequence_model(model).layer, 1) is None
