"""The paper's baseline: several LSTM layers, each of which may also see the input."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from unbounded.checks import check_lengths, check_positive, check_shape, check_tensor
from unbounded.kernels import ControllerWeights
from unbounded.layers.alone import run_alone, why_not_alone
from unbounded.layers.call import check_inputs, without_padding
from unbounded.layers.controllers import initialize_cell, lstm_cell

_WEIGHTS = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")

DeepLSTMState = tuple[tuple[Tensor, Tensor], ...]


class DeepLSTM(nn.Module):
    """A stack of LSTM layers with the interface of MemoryRNN and no memory.

    Args:
        input_size: I.
        hidden_size: H of every layer.
        num_layers: 1 or more.
        skip_input: whether layers beyond the first see the input beside the layer below (as in
            Graves 2013). This is the reading that fits the published parameter counts; without it
            the layers are plainly stacked.
        batch_first: whether inputs and outputs are [B, T, ...] instead of [T, B, ...].
        learn_initial_state: whether h_0 and c_0 are learned or zero.
        second_bias: whether each gate has two biases, as torch.nn.LSTM and Yang 2016 have. With
            one, as the counts of Grefenstette et al. need, the second is a constant zero.
    Weights are drawn as in LSTMController, the forget gate's bias is 1.
    Source: Grefenstette et al. 2015, arXiv:1506.02516, section 4.3 and Table 2.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        skip_input: bool = True,
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        learn_initial_state: bool = False,
        second_bias: bool = False,
    ) -> None:
        super().__init__()
        check_positive("input_size", input_size)
        check_positive("hidden_size", hidden_size)
        check_positive("num_layers", num_layers)
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.skip_input, self.batch_first = skip_input, batch_first
        below = hidden_size + (input_size if skip_input else 0)
        self.layers = nn.ModuleList(
            nn.LSTM(below if k else input_size, hidden_size, device=device, dtype=dtype)
            for k in range(num_layers)
        )
        for layer in self.layers:
            initialize_cell(layer, hidden_size)
            with torch.no_grad():
                layer.get_parameter("bias_ih_l0")[hidden_size : 2 * hidden_size] = 1.0
            beside = layer.get_parameter("bias_hh_l0")
            if second_bias:
                with torch.no_grad():
                    beside[hidden_size : 2 * hidden_size] = 0.0
            else:
                nn.init.zeros_(beside)
                beside.requires_grad_(False)
        self.initial = (
            nn.Parameter(torch.empty(num_layers, 2, hidden_size, device=device, dtype=dtype))
            if learn_initial_state
            else None
        )
        if self.initial is not None:
            nn.init.uniform_(self.initial, -1 / math.sqrt(hidden_size), 1 / math.sqrt(hidden_size))

    def initial_state(self, batch_size: int) -> DeepLSTMState:
        """Return (h, c) of every layer, each [B, H]."""
        check_positive("batch_size", batch_size)
        like = next(self.parameters())
        if self.initial is None:
            zero = like.new_zeros(batch_size, self.hidden_size)
            return ((zero, zero),) * self.num_layers
        return tuple(
            (pair[0].expand(batch_size, -1), pair[1].expand(batch_size, -1))
            for pair in self.initial
        )

    def forward(
        self,
        x: Tensor,
        state: DeepLSTMState | None = None,
        lengths: Tensor | None = None,
    ) -> tuple[Tensor, DeepLSTMState]:
        """Run over a sequence.

        Args:
            x: [T, B, I], or [B, T, I] with `batch_first`.
            state: (h, c) of every layer, each [B, H]; None begins anew.
            lengths: int64 [B] in 0..T; beyond its length a sequence's state stays, its output is 0.
        Returns:
            output of the last layer, [T, B, H] (or batch first), and the state.
        """
        check_tensor("x", x)
        axes = ("B", "T") if self.batch_first else ("T", "B")
        check_shape("x", x, (*axes, _weights(self.layers[0])[0].shape[1]))
        inputs = x.transpose(0, 1) if self.batch_first else x
        batch_size = inputs.shape[1]
        check_inputs(inputs, next(self.parameters()))
        check_lengths(lengths, inputs.shape[1], inputs.shape[0])
        inputs = without_padding(inputs, lengths)
        if state is None:
            state = self.initial_state(batch_size)
        hidden, final = inputs, []
        for k, (layer, (h, c)) in enumerate(zip(self.layers, state, strict=True)):
            if k and self.skip_input:
                hidden = torch.cat([inputs, hidden], dim=-1)
            hidden, pair = _run_layer(layer, hidden, (h, c), lengths)
            final.append(pair)
        output = hidden.transpose(0, 1) if self.batch_first else hidden
        return output, tuple(final)


def _weights(layer: nn.Module) -> list[Tensor]:
    return [getattr(layer, name) for name in _WEIGHTS]


def _run_layer(
    layer: nn.Module, inputs: Tensor, state: tuple[Tensor, Tensor], lengths: Tensor | None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    # The function and not the module: it takes the input's width from the weights.
    weights = _weights(layer)
    options = (True, 1, 0.0, layer.training, False)  # biases, layers, dropout, training, both ways
    h, c = (tensor.unsqueeze(0).contiguous() for tensor in state)
    if lengths is not None:
        own = ControllerWeights(*weights)
        if why_not_alone("lstm", inputs, own, state) is None:
            # Steps beyond a length cost nothing there; torch's packed loop takes twice the time
            # of its plain one.
            output, (h, c) = run_alone("lstm", lstm_cell, inputs, own, state, lengths)
            return output, (h, c)
    if lengths is None:
        output, h, c = torch.lstm(inputs, (h, c), weights, *options, False)
        return output, (h.squeeze(0), c.squeeze(0))
    # torch packs no sequence of 0 steps: it takes one, and what that did is put back.
    packed = pack_padded_sequence(inputs, lengths.cpu().clamp(min=1), enforce_sorted=False)
    order, back = packed.sorted_indices, packed.unsorted_indices
    begin = (h[:, order], c[:, order])
    data, h_end, c_end = torch.lstm(packed.data, packed.batch_sizes, begin, weights, *options)
    output, _ = pad_packed_sequence(packed._replace(data=data), total_length=inputs.shape[0])
    active = (lengths > 0).to(h.device).unsqueeze(-1)
    output = torch.where(active, output, 0)
    h, c = torch.where(active, h_end[:, back], h), torch.where(active, c_end[:, back], c)
    return output, (h.squeeze(0), c.squeeze(0))
