"""One LSTM layer, and torch's own loop for it."""

from __future__ import annotations

import re
import warnings
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from unbounded.kernels import ControllerWeights
from unbounded.layers.cells import ControllerState
from unbounded.layers.controllers import initialize_cell
from unbounded.replaced import remember_methods

# Of cuDNN, where other weights stand in the place of a layer's own, as for symbols looked up: to
# call flatten_parameters, which would not help.
warnings.filterwarnings(
    "ignore", "RNN module weights are not part of single contiguous", module=re.escape(__name__)
)

_WEIGHTS = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")


class LSTMLayer(nn.LSTM):
    """One layer of a DeepLSTM: a torch.nn.LSTM whose weights are drawn as in LSTMController.

    Args:
        input_size: I. hidden_size: H.
        device, dtype: of the parameters.
    """

    _is_made = False

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__(input_size, hidden_size, device=device, dtype=dtype)
        self._is_made = True

    def fix_second_bias(self) -> None:
        """Make the bias beside the first a constant zero: a buffer, which nothing trains."""
        name = _WEIGHTS[-1]
        zero = torch.zeros_like(self.get_parameter(name).detach())
        delattr(self, name)
        self.register_buffer(name, zero)
        setattr(self, name, zero)  # in torch's list of weights too

    def reset_parameters(self) -> None:
        """Draw them anew, the forget gate's bias 1 and its second, if any, 0."""
        if not self._is_made:  # torch's constructor asks for torch's draw
            super().reset_parameters()
            return
        initialize_cell(self, self.hidden_size)
        forget = slice(self.hidden_size, 2 * self.hidden_size)
        is_fixed = _WEIGHTS[-1] in self._buffers
        *_, first, second = (each.detach() for each in lstm_weights(self))
        first[forget] = 1.0
        second[slice(None) if is_fixed else forget] = 0.0


remember_methods(LSTMLayer)


def lstm_weights(layer: nn.Module) -> list[Tensor]:
    """The weights of a torch.nn.LSTM of one layer, in the order of ControllerWeights."""
    return [getattr(layer, name) for name in _WEIGHTS]


def run_torch(
    weights: ControllerWeights,
    inputs: Tensor,
    state: tuple[Tensor, Tensor],
    lengths: Tensor | None,
    training: bool,
) -> tuple[Tensor, ControllerState]:
    """One layer by the function, and not the module: its input's width is the weights'."""
    flat = [each for each in weights if each is not None]
    # cuDNN has no backward pass in evaluation mode; nothing else depends on the mode here.
    training = training or torch.is_grad_enabled()
    options = (True, 1, 0.0, training, False)  # biases, layers, dropout, training, both ways
    h, c = (tensor.unsqueeze(0).contiguous() for tensor in state)
    if lengths is None:
        output, h, c = torch.lstm(inputs, (h, c), flat, *options, False)
        return output, (h.squeeze(0), c.squeeze(0))
    packed = pack_inputs(inputs, lengths)
    order, back = packed.sorted_indices, packed.unsorted_indices
    begin = (h[:, order], c[:, order])
    data, h_end, c_end = torch.lstm(packed.data, packed.batch_sizes, begin, flat, *options)
    ends = (h_end[:, back], c_end[:, back])
    return pad_outputs(packed._replace(data=data), ends, inputs, state, lengths)


def _with_backward(layer: nn.Module, inputs: Tensor) -> AbstractContextManager[None]:
    """Torch's own loop where a gradient of a layer in evaluation mode is wanted of cuDNN."""
    if layer.training or not (inputs.is_cuda and torch.is_grad_enabled()):
        return nullcontext()
    context: AbstractContextManager[None] = torch.backends.cudnn.flags(enabled=False)
    return context


def run_module(
    layer: Any, inputs: Tensor, state: tuple[Tensor, Tensor], lengths: Tensor | None
) -> tuple[Tensor, ControllerState]:
    """One layer by calling it, so that its hooks run, such as those of torch.nn.utils.prune."""
    h, c = (tensor.unsqueeze(0).contiguous() for tensor in state)
    # Where symbols are looked up, weights of another width stand in the place of its own.
    own, layer.input_size = layer.input_size, inputs.shape[-1]
    try:
        with _with_backward(layer, inputs):
            if lengths is None:
                output, (h, c) = layer(inputs, (h, c))
                return output, (h.squeeze(0), c.squeeze(0))
            packed, ends = layer(pack_inputs(inputs, lengths), (h, c))
    finally:
        layer.input_size = own
    return pad_outputs(packed, ends, inputs, state, lengths)


def pack_inputs(inputs: Tensor, lengths: Tensor) -> PackedSequence:
    """Inputs as torch packs them; a sequence of 0 steps, which it does not pack, has one."""
    return pack_padded_sequence(inputs, lengths.cpu().clamp(min=1), enforce_sorted=False)


def pad_outputs(
    packed: PackedSequence,
    ends: ControllerState,
    inputs: Tensor,
    state: ControllerState,
    lengths: Tensor,
) -> tuple[Tensor, ControllerState]:
    """Outputs [T, B, H] and last state; the one step of a sequence of 0 steps is undone.

    Args:
        packed: of outputs. ends: the last state, [1, B, H] each.
        inputs, lengths: as for `pack_inputs`. state: the first state, [B, H] each.
    """
    output, _ = pad_packed_sequence(packed, total_length=inputs.shape[0])
    active = (lengths > 0).to(output.device).unsqueeze(-1)
    last = (torch.where(active, end[0], begin) for end, begin in zip(ends, state, strict=True))
    return torch.where(active, output, 0), tuple(last)
