"""The baselines, and every parameter count of the paper's Table 2."""

from __future__ import annotations

import copy
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from torch.nn.utils import prune

import unbounded as ub
from tests.memories.common import MEMORIES
from tests.rnn.layers import check_chunks, check_padding, random
from tests.tolerances import assert_close
from unbounded.errors import BackendError, ConfigError
from unbounded.memories.core import state_tensors
from unbounded.models import MemoryModel
from unbounded.models.discrete import sequence_model
from unbounded.rnn import baselines
from unbounded.rnn.controllers import LSTMController
from unbounded.training.finite import first_bad_output

DOUBLE = torch.float64


def count(module):
    return sum(p.numel() for p in module.parameters() if p.requires_grad)


@pytest.mark.parametrize(
    ("layers", "hidden", "skip", "parameters"),
    [
        (1, 256, True, 328_704),
        (1, 512, True, 1_181_696),
        (2, 256, True, 919_552),
        (2, 512, True, 3_411_968),
        (4, 256, True, 2_101_248),
        (4, 512, True, 7_872_512),
        (8, 256, True, 4_464_640),
        (8, 512, True, 16_793_600),
        (2, 256, False, 854_016),
        (4, 256, False, 1_904_640),
        (8, 256, False, 4_005_888),
    ],
)
def test_deep_lstms_of_table_2(layers, hidden, skip, parameters):
    model = ub.DeepLSTM(64, hidden, layers, skip_input=skip, device="meta")
    assert count(model) == parameters


@pytest.mark.parametrize(
    ("memory", "hidden", "parameters"),
    [
        ("stack", 256, 673_602),
        ("queue", 256, 673_602),
        ("deque", 256, 1_002_052),
        ("stack", 512, 1_871_170),
        ("queue", 512, 1_871_170),
        ("deque", 512, 2_527_812),
    ],
)
def test_memory_rnns_of_table_2(memory, hidden, parameters):
    model = ub.MemoryRNN(64, hidden, MEMORIES[memory](256), output_size=64, device="meta")
    assert count(model) == parameters


@pytest.mark.parametrize("skip", [True, False])
def test_padded_equals_unpadded_and_a_state_is_resumed(skip):
    torch.manual_seed(0)
    options = {"skip_input": skip, "learn_initial_state": True, "batch_first": True}
    model, x = ub.DeepLSTM(3, 5, 2, dtype=DOUBLE, **options), random(4, 6, 3)
    check_padding(model, x, random(4, 2, 3, seed=2), torch.tensor([6, 2, 4, 0]))
    check_chunks(model, x, [2, 4])


def test_the_second_bias_is_a_constant_zero():
    model = ub.DeepLSTM(3, 5, 2)
    model(torch.randn(4, 2, 3))[0].sum().backward()
    fixed = [tensor for name, tensor in model.state_dict().items() if "bias_hh" in name]
    assert len(fixed) == 2
    assert all((tensor == 0).all() for tensor in fixed)
    assert not any("bias_hh" in name for name, _ in model.named_parameters())


def test_two_biases_equal_torch_and_are_trained():
    torch_lstm = torch.nn.LSTM(3, 5, 2)
    deep = ub.DeepLSTM(3, 5, 2, skip_input=False, second_bias=True)
    for k, layer in enumerate(deep.layers):
        assert (layer.bias_hh_l0[5:10] == 0).all()
        assert (layer.bias_ih_l0[5:10] == 1).all()
        own = {
            name: torch_lstm.state_dict()[name.replace("l0", f"l{k}")]
            for name in layer.state_dict()
        }
        layer.load_state_dict(own)
    x = torch.randn(4, 2, 3)
    assert_close(deep(x)[0], torch_lstm(x)[0], "output")
    assert all(parameter.requires_grad for parameter in deep.parameters())


def test_an_lstm_controller_with_two_biases():
    controller = LSTMController(3, 5, second_bias=True)
    assert sum(each.numel() for each in controller.parameters()) == 4 * 5 * (3 + 5) + 8 * 5
    assert (controller.bias_ih[5:10] + controller.bias_hh[5:10] == 1).all()
    with pytest.raises(ConfigError, match="second_bias: expected False without a bias, got True"):
        LSTMController(3, 5, bias=False, second_bias=True)


@pytest.mark.parametrize("lengths", [None, [5, 0, 2]])
def test_hooks_on_a_layer_run_and_change_nothing_else(lengths):
    torch.manual_seed(0)
    layer, x = ub.DeepLSTM(3, 4, 2), torch.randn(5, 3, 3)
    want, end = layer(x, lengths=lengths)
    called = []
    handle = layer.layers[0].register_forward_hook(lambda *_: called.append(1))
    got, last = layer(x, lengths=lengths)
    assert called == [1]
    assert_close(got, want, "output")
    for one, other in zip(state_tensors(last), state_tensors(end), strict=True):
        assert_close(one, other, "state")
    layer.backend = "cpu"
    with pytest.raises(BackendError, match="the layer has hooks, which only run inside"):
        layer(x, lengths=lengths)
    handle.remove()
    layer.backend = "auto"
    layer(x, lengths=lengths)
    assert called == [1]


@pytest.mark.filterwarnings("ignore:RNN module weights are not part of single contiguous chunk")
def test_a_pruned_layer_is_trained_as_one():
    torch.manual_seed(0)
    layer, x = ub.DeepLSTM(3, 4), torch.randn(5, 3, 3)
    prune.l1_unstructured(layer.layers[0], "weight_hh_l0", 0.5)
    optimizer = torch.optim.SGD([each for each in layer.parameters() if each.requires_grad], 0.1)
    for _ in range(3):
        optimizer.zero_grad()
        layer(x)[0].square().sum().backward()
        optimizer.step()
    layer(x)
    own = layer.layers[0]
    assert torch.equal(own.weight_hh_l0, own.weight_hh_l0_orig * own.weight_hh_l0_mask)


def test_hooks_run_where_symbols_are_row_sparse_and_not_under_torch_func():
    torch.manual_seed(0)
    parts = {"memory": "none", "controller": "lstm", "hidden_size": 4, "embedding_size": None}
    model, tokens = MemoryModel(inputs=60, outputs=60, **parts), torch.randint(60, (2, 5))
    layer = sequence_model(model).layer
    want, _ = model(tokens)
    called = []
    layer.layers[0].register_forward_hook(lambda *_: called.append(1))
    assert_close(model(tokens)[0], want, "logits")
    assert called == [1]
    assert first_bad_output(model, tokens) is None
    x = torch.randn(2, 5, 60)
    mapped = torch.func.vmap(lambda each: layer(each.unsqueeze(0))[0][0])(x)
    assert mapped.shape == (2, 5, 4)
    assert layer(x[:0], lengths=[])[0].shape == (0, 5, 4)
    assert layer.layers[0].input_size == 60


@pytest.mark.parametrize("second_bias", [False, True])
def test_a_second_bias_that_is_zero_stays_zero(second_bias):
    layer = ub.DeepLSTM(3, 4, 2, second_bias=second_bias, learn_initial_state=True)
    trained = count(layer)
    layer.requires_grad_(False).requires_grad_(True)
    assert count(layer) == trained
    reset = ub.DeepLSTM(
        3, 4, 2, second_bias=second_bias, learn_initial_state=True, device="meta"
    ).to_empty(device="cpu")
    with torch.no_grad():
        for tensor in reset.state_dict().values():
            tensor.fill_(7.0)
    for module in reset.modules():
        reset_parameters = getattr(module, "reset_parameters", None)
        if reset_parameters is not None:
            reset_parameters()
    assert reset.initial.abs().max() <= 0.5
    for each in reset.layers:
        first, second = each.bias_ih_l0, each.bias_hh_l0
        assert (first[4:8] == 1).all()
        assert (second[4:8] == 0).all()
        assert bool((second == 0).all()) is not second_bias
        assert each.weight_ih_l0.abs().max() < 1
    x = torch.randn(5, 2, 3)
    layer.load_state_dict(reset.state_dict())
    assert torch.equal(layer(x)[0], reset(x)[0])
    assert torch.equal(copy.deepcopy(reset)(x)[0], reset(x)[0])


def test_torch_runs_in_training_mode_where_a_gradient_is_expected(monkeypatch):
    """cuDNN has no backward pass in evaluation mode."""
    layer, x = ub.DeepLSTM(3, 4, 1, backend="reference").eval(), torch.randn(5, 2, 3)
    training_flags, lstm = [], torch.lstm

    def recorded(*arguments):
        training_flags.append(arguments[6])
        return lstm(*arguments)

    monkeypatch.setattr(torch, "lstm", recorded)
    layer(x)
    with torch.no_grad():
        layer(x)
    assert training_flags == [True, False]


def test_hooks_see_the_mode_of_the_layer(monkeypatch):
    layer, x = ub.DeepLSTM(3, 4, 1).eval(), torch.randn(5, 2, 3)
    seen = []
    layer.layers[0].register_forward_hook(
        lambda module, inputs, output: seen.append((module.training, cudnn.enabled))
    )
    cudnn = torch.backends.cudnn
    layer(x)
    # As on a GPU: there torch's loop has a backward pass in either mode.
    context = baselines._with_backward
    gpu = SimpleNamespace(is_cuda=True)
    monkeypatch.setattr(baselines, "_with_backward", lambda own, inputs: context(own, gpu))
    layer(x)
    with torch.no_grad():
        layer(x)
    layer.train()(x)
    assert seen == [(False, True), (False, False), (False, True), (True, True)]


def test_cudnns_advice_about_weights_is_suppressed():
    program = """
import warnings
import torch
import unbounded as ub

lstm = torch.lstm
def advised(*arguments):
    text = "RNN module weights are not part of single contiguous chunk of memory."
    warnings.warn(text, stacklevel=2)
    return lstm(*arguments)

torch.lstm = advised
ub.DeepLSTM(3, 4, 1, backend="reference")(torch.randn(5, 2, 3))
"""
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_layer_may_be_any_lstm_of_torch():
    layer, x = ub.DeepLSTM(3, 4, 2), torch.randn(5, 2, 3)
    want, _ = layer(x)
    for k, own in enumerate(layer.layers):
        other = torch.nn.LSTM(own.input_size, 4)
        other.load_state_dict(own.state_dict())
        layer.layers[k] = other
        assert torch.equal(layer(x)[0], want)


@pytest.mark.parametrize("layer", [ub.ControllerRNN, ub.SRCN])
def test_reset_parameters_redraws_other_plain_layers(layer):
    torch.manual_seed(0)
    want = layer(3, 4, learn_initial_state=True)
    reset = layer(3, 4, learn_initial_state=True, device="meta").to_empty(device="cpu")
    torch.manual_seed(0)
    reset.reset_parameters()
    for name, tensor in want.state_dict().items():
        assert torch.equal(reset.state_dict()[name], tensor)
