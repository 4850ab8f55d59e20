"""The read vector of a step in the output of the same step."""

from __future__ import annotations

import pytest
import torch

import unbounded as ub
from tests.memories.common import MEMORIES
from tests.tolerances import assert_close
from unbounded.errors import ConfigError
from unbounded.models import MemoryModel
from unbounded.rnn.parity import relative_error
from unbounded.rnn.read_only import run_phases, trace_phases
from unbounded.rnn.stream import open_stream
from unbounded.verification.network import Network

ALL = {**MEMORIES, "lie_access": ub.LieAccessMemory}


def make(memory="stack", **options):
    torch.manual_seed(0)
    return ub.MemoryRNN(3, 5, ALL[memory](4), dtype=torch.float64, **options)


def inputs(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("memory", ALL)
def test_the_output_is_h_and_the_read_vector(memory):
    plain, layer = make(memory), make(memory, output_read_vector=True)
    layer.load_state_dict(plain.state_dict())
    output, state = layer(inputs(6, 2, 3))
    hidden, expected = plain(inputs(6, 2, 3))
    _, _, trace = plain(inputs(6, 2, 3), return_trace=True)
    assert_close(output[..., :5], hidden, "h")
    assert_close(output[..., 5:], trace.arrays["read_vector"].transpose(0, 1), "r")
    assert_close(output[-1, :, 5:], state.read_vector, "the last read vector")
    assert_close(state.read_vector, expected.read_vector, "state")


@pytest.mark.parametrize("memory", ALL)
@pytest.mark.parametrize("size", [None, 7])
def test_kernel_and_reference_agree_with_gradients(memory, size):
    results = []
    for backend in ("cpu", "reference"):
        layer = make(memory, output_read_vector=True, output_size=size, backend=backend)
        x = inputs(9, 3, 3).requires_grad_()
        output, state = layer(x, lengths=[9, 0, 4])
        assert output.shape == (9, 3, 5 + layer.memory.read_vector_size if size is None else size)
        assert output[4:, 2].abs().sum() == output[:, 1].abs().sum() == 0
        loss = (output * inputs(*output.shape)).sum() + state.read_vector.square().sum()
        results.append([output, *torch.autograd.grad(loss, [x, *layer.parameters()])])
    for actual, target in zip(*results, strict=True):
        assert relative_error(actual, target) <= 1e-10


def test_gradients_equal_finite_differences():
    layer = make("lie_access", output_read_vector=True)

    def function(x):
        return layer(x)[0]

    assert torch.autograd.gradcheck(function, inputs(4, 2, 3).requires_grad_())


def test_only_the_last_layer_outputs_its_read_vector():
    layer = make(num_layers=2, bidirectional=True, output_read_vector=True, output_size=None)
    output, _ = layer(inputs(6, 2, 3))
    assert output.shape == (6, 2, 2 * (5 + 4))
    assert [each.output_read_vector for each in layer.layers] == [False, False, True, True]
    sizes = [
        each(inputs(6, 2, each.input_size), each.initial_state(2))[0].shape[-1]
        for each in layer.layers
    ]
    assert sizes == [5, 5, 9, 9]
    assert "output_read_vector" in repr(layer)
    assert "output_read_vector" not in repr(make())


@pytest.mark.parametrize("size", [None, 7])
def test_chunks_and_phases_equal_one_call(size):
    layer = make("lie_access", output_read_vector=True, output_size=size, batch_first=True)
    x = inputs(2, 8, 3)
    full, _ = layer(x)
    stream = open_stream(layer, 2, x)
    stepped = torch.cat([stream.run(chunk) for chunk in x.split([1, 3, 4], dim=1)], dim=1)
    assert_close(stepped, full, "stream")
    answers = torch.arange(8).expand(2, 8) >= 5
    phases, _ = run_phases(layer, x, answers)
    traced, _ = trace_phases(layer, x, answers)
    assert_close(phases, traced, "phases")
    assert_close(phases[:, :5], full[:, :5], "before the answer")


def test_half_precision():
    layer = make(output_read_vector=True)
    output, state = layer.half()(inputs(4, 2, 3).half())
    assert output.dtype == torch.float16
    assert output.shape == (4, 2, 9)
    torch.testing.assert_close(output[-1, :, 5:].float(), state.read_vector, atol=1e-3, rtol=0)


@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_under_autocast_the_output_has_its_dtype(backend):
    layer = make("lie_access", output_read_vector=True, backend=backend).float()
    x = inputs(4, 2, 3).float()
    expected = layer(x)[0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output, state = layer(x)
    assert output.dtype == torch.bfloat16
    assert state.read_vector.dtype == torch.float32
    torch.testing.assert_close(output.float(), expected, atol=2e-2, rtol=0)


def model_of(**options):
    torch.manual_seed(0)
    model = MemoryModel(
        inputs=6, outputs=4, memory={"name": "stack", "width": 3}, hidden_size=5,
        embedding_size=4, output_read_vector=True, **options,
    )  # fmt: skip
    return model.double()


@pytest.mark.parametrize("readout", [None, 6])
def test_the_logits_of_a_model_use_the_read_vector(readout, tmp_path):
    model = model_of(readout_size=readout)
    tokens = torch.randint(6, (2, 7), generator=torch.Generator().manual_seed(3))
    logits, _ = model(tokens)
    assert model.sequence.output.in_features == (5 + 3 if readout is None else readout)
    model.save_pretrained(tmp_path)
    again = MemoryModel.from_pretrained(tmp_path).double()
    assert torch.equal(again(tokens)[0], logits)
    steps, _ = Network(model).run(tokens)
    assert_close(steps.logits, logits.detach(), "the network that is verified")
    assert steps.hidden.shape == (2, 7, 5)


def test_output_read_vector_needs_a_memory():
    with pytest.raises(
        ConfigError, match="output_read_vector: a layer without a memory reads nothing"
    ):
        MemoryModel(inputs=6, outputs=4, memory="none", output_read_vector=True)
