"""The paper's baseline: stacked LSTM layers, each of which may also take the input."""

from __future__ import annotations

import functools
import math

import torch
from torch import Tensor, nn

from unbounded.checks import check_bool, check_place, check_positive
from unbounded.errors import ShapeError
from unbounded.kernels import ControllerWeights
from unbounded.layers.alone import run_alone, run_steps, why_not_alone
from unbounded.layers.cells import ControllerState, lstm_cell
from unbounded.layers.fused import why_called
from unbounded.layers.lstm_layer import LSTMLayer, lstm_weights, run_module, run_torch
from unbounded.layers.offloaded import as_called
from unbounded.layers.plain_layer import PlainLayer, is_transformed
from unbounded.memories.core import check_backend

DeepLSTMState = tuple[tuple[Tensor, Tensor], ...]


class DeepLSTM(PlainLayer[DeepLSTMState]):
    """A stack of LSTM layers with the interface of MemoryRNN and no memory.

    Args:
        input_size: I.
        hidden_size: H of every layer.
        num_layers: 1 or more.
        skip_input: whether layers after the first also take the input (as in Graves 2013). This
            interpretation fits the published parameter counts. Otherwise the layers are simply
            stacked.
        batch_first: whether inputs and outputs are [B, T, ...] instead of [T, B, ...].
        learn_initial_state: whether h_0 and c_0 are learned or zero.
        second_bias: whether each gate has two biases, as in torch.nn.LSTM and Yang 2016. With one,
            as in the counts of Grefenstette et al., the second is a constant zero.
        backend: "auto" takes the fused kernels where they are faster than torch's loop, which is
            with lengths; "reference" never; "cpu" takes them or raises; "cuda" always raises.
    Weights are drawn as in LSTMController; the bias of the forget gate is 1.
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
        check_place(device, dtype)
        check_positive("input_size", input_size)
        check_positive("hidden_size", hidden_size)
        check_positive("num_layers", num_layers)
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.skip_input, self.batch_first, self.backend = skip_input, batch_first, backend
        below = hidden_size + (input_size if skip_input else 0)
        layers = [
            LSTMLayer(below if k else input_size, hidden_size, device, dtype)
            for k in range(num_layers)
        ]
        for layer in layers:
            layer.reset_parameters()
            if not second_bias:
                layer.fix_second_bias()
        self.layers = nn.ModuleList(layers)
        self.initial = (
            nn.Parameter(torch.empty(num_layers, 2, hidden_size, device=device, dtype=dtype))
            if learn_initial_state
            else None
        )
        self._reset_initial_state()

    def reset_parameters(self) -> None:
        """Reinitialize all parameters, for tools that first create a module on the meta device."""
        for layer in self.layers:
            if isinstance(layer, nn.LSTM):
                layer.reset_parameters()
        self._reset_initial_state()

    def _reset_initial_state(self) -> None:
        if self.initial is not None:
            bound = 1 / math.sqrt(self.hidden_size)
            nn.init.uniform_(self.initial, -bound, bound)

    def weight(self) -> Tensor:
        """The input weights of the first layer."""
        return as_called(self.layers[0], lstm_weights(self.layers[0])[0])

    def inputs_seen(self) -> int:
        """I; within `run_symbols`, the width of the substituted weights."""
        return lstm_weights(self.layers[0])[0].shape[1]

    def unchecked_initial_state(self, batch_size: int) -> DeepLSTMState:
        """(h, c) of every layer, each [B, H]."""
        like = self.weight()
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
        """Run layer by layer, each over all steps."""
        hidden, final = x, []
        if x.shape[1] == 0:
            lengths = None  # torch does not pack an empty batch
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
        """Call the layer if that runs hooks, else use its weights only."""
        reason = why_called(layer, "layer")
        if reason is not None and _has_rules(x):
            self.takes_kernels(reason)
            return run_module(layer, x, state, lengths)
        return self._run_weights(ControllerWeights(*lstm_weights(layer)), x, state, lengths)

    def _run_weights(
        self,
        weights: ControllerWeights,
        x: Tensor,
        state: tuple[Tensor, Tensor],
        lengths: Tensor | None,
    ) -> tuple[Tensor, ControllerState]:
        """Use the kernels or torch's loop, or single steps where torch's loop has no rules."""
        # torch.export keeps torch's loop as it is; torch.compile's version of it may fail.
        in_graph = torch.compiler.is_compiling() and not torch.compiler.is_exporting()
        # Steps beyond a length cost the kernels nothing. torch's packed loop takes twice as long as
        # its plain one, which is as fast as the kernels.
        is_faster = lengths is not None or self.backend != "auto" or in_graph
        if is_faster and self.takes_kernels(why_not_alone("lstm", x, weights, state)):
            return run_alone("lstm", lstm_cell, x, weights, state, lengths)
        if _has_rules(x) and not in_graph:
            return run_torch(weights, x, state, lengths, self.training)
        return run_steps(functools.partial(_step, weights), x, state, lengths)


def _has_rules(x: Tensor) -> bool:
    """Whether torch's loop can run."""
    return not (is_transformed() or x.is_meta)


def _is_tuple(value: object, size: int) -> bool:
    return isinstance(value, tuple) and len(value) == size


def _sizes(state: object) -> str:
    if not isinstance(state, tuple):
        return ""
    sizes = [str(len(pair)) if isinstance(pair, tuple) else "1" for pair in state]
    return f" of {len(state)}, with {', '.join(sizes)} in each" if sizes else " of none"


def _step(weights: ControllerWeights, x: Tensor, state: ControllerState) -> ControllerState:
    return lstm_cell(x, state, weights)
