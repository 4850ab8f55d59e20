"""The paper's baseline: several LSTM layers, each of which may also see the input."""

from __future__ import annotations

import functools
import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from unbounded.checks import check_bool, check_positive
from unbounded.errors import ShapeError
from unbounded.kernels import ControllerWeights
from unbounded.layers.alone import run_alone, run_steps, why_not_alone
from unbounded.layers.cells import ControllerState, lstm_cell
from unbounded.layers.controllers import initialize_cell
from unbounded.layers.fused import runs_hooks
from unbounded.layers.plain_layer import PlainLayer, is_transformed
from unbounded.memories.backend import check_backend

_WEIGHTS = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")

DeepLSTMState = tuple[tuple[Tensor, Tensor], ...]


class DeepLSTM(PlainLayer[DeepLSTMState]):
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
        backend: "auto" takes the fused kernels where they beat torch's own loop, which is
            with lengths; "reference" never, "cpu" always, or an error; "cuda" has none.
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
        backend: str = "auto",
    ) -> None:
        super().__init__()
        for name, choice in (
            ("batch_first", batch_first),
            ("skip_input", skip_input),
            ("learn_initial_state", learn_initial_state),
            ("second_bias", second_bias),
        ):
            check_bool(name, choice)
        check_backend(backend)
        check_positive("input_size", input_size)
        check_positive("hidden_size", hidden_size)
        check_positive("num_layers", num_layers)
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.skip_input, self.batch_first, self.backend = skip_input, batch_first, backend
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

    def weight(self) -> Tensor:
        """The first layer's, for its input."""
        return _weights(self.layers[0])[0]

    def inputs_seen(self) -> int:
        """I; of a Symbols layer's weights, what they take in its place."""
        return self.weight().shape[1]

    def begin(self, batch_size: int) -> DeepLSTMState:
        """(h, c) of every layer, each [B, H]."""
        like = next(self.parameters())
        if self.initial is None:
            shape = (batch_size, self.hidden_size)
            return tuple((like.new_zeros(shape), like.new_zeros(shape)) for _ in self.layers)
        return tuple(
            (pair[0].expand(batch_size, -1), pair[1].expand(batch_size, -1))
            for pair in self.initial
        )

    def parts(self, state: DeepLSTMState) -> list[tuple[str, Tensor, int]]:
        """The h and c of every layer."""
        if not _is_tuple(state, self.num_layers) or not all(_is_tuple(pair, 2) for pair in state):
            raise ShapeError(
                f"state: expected (h, c) of each of {self.num_layers} layer(s), got "
                f"{type(state).__name__}{_sizes(state)}."
            )
        return [
            (f"[{k}].{name}", tensor, self.hidden_size)
            for k, pair in enumerate(state)
            for name, tensor in zip("hc", pair, strict=True)
        ]

    def run(
        self, x: Tensor, state: DeepLSTMState, lengths: Tensor | None
    ) -> tuple[Tensor, DeepLSTMState]:
        """Layer by layer, over all steps each."""
        hidden, final = x, []
        if x.shape[1] == 0:
            lengths = None  # torch packs no batch of nothing
        for k, (layer, pair) in enumerate(zip(self.layers, state, strict=True)):
            if k and self.skip_input:
                hidden = torch.cat([x, hidden], dim=-1)
            hidden, last = self._run_layer(layer, hidden, pair, lengths)
            final.append(last)
        return hidden, tuple((h, c) for h, c in final)

    def extra_repr(self) -> str:
        """Sizes, for print(module)."""
        return (
            f"{self.input_size}, {self.hidden_size}, num_layers={self.num_layers}, "
            f"skip_input={self.skip_input}, batch_first={self.batch_first}, "
            f"backend={self.backend!r}"
        )

    def _run_layer(
        self, layer: nn.Module, x: Tensor, state: tuple[Tensor, Tensor], lengths: Tensor | None
    ) -> tuple[Tensor, ControllerState]:
        """On the kernels or in torch's own loop, and step by step where that has no rules."""
        has_rules = not (is_transformed() or x.is_meta)
        if has_rules and runs_hooks(layer):
            self.takes_kernels("hooks on a layer run when it is called")
            return _run_module(layer, x, state, lengths)
        own = ControllerWeights(*_weights(layer))
        # Steps beyond a length cost the kernels nothing; torch's packed loop takes twice the time
        # of its plain one, which is as fast as they are.
        is_faster = lengths is not None or self.backend != "auto"
        if is_faster and self.takes_kernels(why_not_alone("lstm", x, own, state)):
            return run_alone("lstm", lstm_cell, x, own, state, lengths)
        if has_rules:
            return _run_torch(own, x, state, lengths, self.training)
        return run_steps(functools.partial(_step, own), x, state, lengths)


def _is_tuple(value: object, size: int) -> bool:
    return isinstance(value, tuple) and len(value) == size


def _sizes(state: object) -> str:
    if not isinstance(state, tuple):
        return ""
    sizes = [str(len(pair)) if isinstance(pair, tuple) else "1" for pair in state]
    return f" of {len(state)}, with {', '.join(sizes)} in each" if sizes else " of none"


def _weights(layer: nn.Module) -> list[Tensor]:
    return [getattr(layer, name) for name in _WEIGHTS]


def _step(weights: ControllerWeights, x: Tensor, state: ControllerState) -> ControllerState:
    return lstm_cell(x, state, weights)


def _run_torch(
    weights: ControllerWeights,
    inputs: Tensor,
    state: tuple[Tensor, Tensor],
    lengths: Tensor | None,
    training: bool,
) -> tuple[Tensor, ControllerState]:
    """One layer by the function, and not the module: its input's width is the weights'."""
    flat = [each for each in weights if each is not None]
    options = (True, 1, 0.0, training, False)  # biases, layers, dropout, training, both ways
    h, c = (tensor.unsqueeze(0).contiguous() for tensor in state)
    if lengths is None:
        output, h, c = torch.lstm(inputs, (h, c), flat, *options, False)
        return output, (h.squeeze(0), c.squeeze(0))
    packed = _packed(inputs, lengths)
    order, back = packed.sorted_indices, packed.unsorted_indices
    begin = (h[:, order], c[:, order])
    data, h_end, c_end = torch.lstm(packed.data, packed.batch_sizes, begin, flat, *options)
    ends = (h_end[:, back], c_end[:, back])
    return _padded(packed._replace(data=data), ends, inputs, state, lengths)


def _run_module(
    layer: Any, inputs: Tensor, state: tuple[Tensor, Tensor], lengths: Tensor | None
) -> tuple[Tensor, ControllerState]:
    """One layer by calling it, so that its hooks run, such as those of torch.nn.utils.prune."""
    h, c = (tensor.unsqueeze(0).contiguous() for tensor in state)
    # Where symbols are looked up, weights of another width stand in the place of its own.
    own, layer.input_size = layer.input_size, inputs.shape[-1]
    try:
        if lengths is None:
            output, (h, c) = layer(inputs, (h, c))
            return output, (h.squeeze(0), c.squeeze(0))
        packed, ends = layer(_packed(inputs, lengths), (h, c))
    finally:
        layer.input_size = own
    return _padded(packed, ends, inputs, state, lengths)


def _packed(inputs: Tensor, lengths: Tensor) -> PackedSequence:
    """Inputs as torch packs them; a sequence of 0 steps, which it does not pack, has one."""
    return pack_padded_sequence(inputs, lengths.cpu().clamp(min=1), enforce_sorted=False)


def _padded(
    packed: PackedSequence,
    ends: tuple[Tensor, Tensor],
    inputs: Tensor,
    state: tuple[Tensor, Tensor],
    lengths: Tensor,
) -> tuple[Tensor, ControllerState]:
    """Outputs and last state; what the one step of a sequence of 0 steps did is put back."""
    output, _ = pad_packed_sequence(packed, total_length=inputs.shape[0])
    active = (lengths > 0).to(output.device).unsqueeze(-1)
    last = (torch.where(active, end[0], begin) for end, begin in zip(ends, state, strict=True))
    return torch.where(active, output, 0), tuple(last)
