"""One LSTM layer, and torch's loop for it."""

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

# cuDNN warns where substituted weights replace a layer's, as in `run_symbols`, and recommends
# flatten_parameters, which would not help.
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

    _is_constructed = False

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__(input_size, hidden_size, device=device, dtype=dtype)
        self._is_constructed = True

    def fix_second_bias(self) -> None:
        """Replace the second bias by a constant zero: a buffer, which is not trained."""
        name = _WEIGHTS[-1]
        zero = torch.zeros_like(self.get_parameter(name).detach())
        delattr(self, name)
        self.register_buffer(name, zero)
        setattr(self, name, zero)  # also in torch's list of weights

    def reset_parameters(self) -> None:
        """Reinitialize the weights; the forget gate's bias is 1 and its second, if any, 0."""
        if not self._is_constructed:  # torch's constructor calls this method
            super().reset_parameters()
            return
        initialize_cell(self, self.hidden_size)
        forget = slice(self.hidden_size, 2 * self.hidden_size)
        is_fixed = _WEIGHTS[-1] in self._buffers
        *_, first, second = (weight.detach() for weight in lstm_weights(self))
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
    """Run one layer by torch's function, whose input width is that of the weights."""
    flat = [weight for weight in weights if weight is not None]
    # cuDNN has no backward pass in evaluation mode; nothing else depends on the mode here.
    training = training or torch.is_grad_enabled()
    options = (True, 1, 0.0, training, False)  # biases, layers, dropout, training, bidirectional
    h, c = (tensor.unsqueeze(0).contiguous() for tensor in state)
    if lengths is None:
        output, h, c = torch.lstm(inputs, (h, c), flat, *options, False)
        return output, (h.squeeze(0), c.squeeze(0))
    packed = pack_inputs(inputs, lengths)
    order, back = packed.sorted_indices, packed.unsorted_indices
    start = (h[:, order], c[:, order])
    data, h_end, c_end = torch.lstm(packed.data, packed.batch_sizes, start, flat, *options)
    ends = (h_end[:, back], c_end[:, back])
    return pad_outputs(packed._replace(data=data), ends, inputs, state, lengths)


def _with_backward(layer: nn.Module, inputs: Tensor) -> AbstractContextManager[None]:
    """Use torch's loop instead of cuDNN for gradients of a layer in evaluation mode."""
    if layer.training or not (inputs.is_cuda and torch.is_grad_enabled()):
        return nullcontext()
    context: AbstractContextManager[None] = torch.backends.cudnn.flags(enabled=False)
    return context


def run_module(
    layer: Any, inputs: Tensor, state: tuple[Tensor, Tensor], lengths: Tensor | None
) -> tuple[Tensor, ControllerState]:
    """Run one layer by a call, so that its hooks run, such as those of torch.nn.utils.prune."""
    h, c = (tensor.unsqueeze(0).contiguous() for tensor in state)
    # In `run_symbols`, substituted weights of another width replace the layer's.
    input_size, layer.input_size = layer.input_size, inputs.shape[-1]
    try:
        with _with_backward(layer, inputs):
            if lengths is None:
                output, (h, c) = layer(inputs, (h, c))
                return output, (h.squeeze(0), c.squeeze(0))
            packed, ends = layer(pack_inputs(inputs, lengths), (h, c))
    finally:
        layer.input_size = input_size
    return pad_outputs(packed, ends, inputs, state, lengths)


def pack_inputs(inputs: Tensor, lengths: Tensor) -> PackedSequence:
    """Pack inputs; a sequence of 0 steps, which torch cannot pack, gets one step."""
    return pack_padded_sequence(inputs, lengths.cpu().clamp(min=1), enforce_sorted=False)


def pad_outputs(
    packed: PackedSequence,
    ends: ControllerState,
    inputs: Tensor,
    state: ControllerState,
    lengths: Tensor,
) -> tuple[Tensor, ControllerState]:
    """Outputs [T, B, H] and last state; the extra step of a sequence of 0 steps is undone.

    Args:
        packed: outputs. ends: the last state, [1, B, H] each.
        inputs, lengths: as in `pack_inputs`. state: the initial state, [B, H] each.
    """
    output, _ = pad_packed_sequence(packed, total_length=inputs.shape[0])
    active = (lengths > 0).to(output.device).unsqueeze(-1)
    last = (torch.where(active, end[0], start) for end, start in zip(ends, state, strict=True))
    return torch.where(active, output, 0), tuple(last)
