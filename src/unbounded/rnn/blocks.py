"""Networks of residual blocks over complete sequences, with the interface of MemoryRNN.

A `SequencePart` maps sequences to sequences and carries a state. A `Block` has one or more parallel
parts, followed by a feed-forward layer. `BlockNetwork` is the base class of Transformer and others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unbounded.checks import check_bool, check_place, check_positive
from unbounded.errors import ConfigError, ShapeError
from unbounded.memories.core import check_backend
from unbounded.rnn.baselines import PlainLayer, Shape
from unbounded.rnn.call import as_called

#: The states of a network's parts, in their order.
BlocksState = tuple[Any, ...]


class SequencePart(nn.Module, ABC):
    """A map from sequences [B, T, H] to [B, T, H], called for chunk after chunk with its state."""

    @abstractmethod
    def initial_state(self, batch_size: int, like: Tensor) -> tuple[Any, ...]:
        """The state before the first step, where every tensor is [B, ...].

        Args:
            batch_size: B. like: a tensor with dtype and device of the state.
        """

    @abstractmethod
    def parts(self, name: str, state: Any) -> list[tuple[str, Tensor, Shape]]:
        """The parts of a state from the caller; see `PlainLayer.parts`.

        Args:
            name: of the state, for messages.
        Raises:
            ShapeError: it is no state of this part.
        """

    @abstractmethod
    def forward(self, x: Tensor, state: Any, lengths: Tensor | None) -> tuple[Tensor, Any]:
        """Run over a chunk.

        Args:
            x: [B, T, H], checked. state: checked.
            lengths: int64 [B]; beyond it a sequence's state stays, and its output is arbitrary but
                finite. None for T.
        Returns:
            [B, T, H] and the state after the chunk.
        """

    def reset_parameters(self) -> None:
        """Reinitialize the parameters that are in no module of this part; by default none."""


def check_fields(name: str, state: object, fields: Sequence[str]) -> tuple[Any, ...]:
    """A part's state as a tuple.

    Raises:
        ShapeError: it has another number of fields.
    """
    if isinstance(state, tuple) and len(state) == len(fields):
        return state
    got = f" of {len(state)}" if isinstance(state, tuple) else ""
    raise ShapeError(
        f"{name}: expected {', '.join(fields) or 'no field'}, got {type(state).__name__}{got}."
    )


class Block(SequencePart):
    """Parallel mixers, then a feed-forward layer. The output of each is added to its input.

    x <- x + sum_k mixer_k(norm(x));  x <- x + W_2 relu(W_1 norm(x) + b_1) + b_2

    Args:
        mixers: their outputs are added.
        hidden_size: H. feed_forward_size: rows of W_1.
        dropout: share of each summand that is dropped in training, in [0, 1).
        norm_first: whether the norm is taken of a summand's input, as written, or of each sum.
        device, dtype: of the parameters.
    """

    def __init__(
        self,
        mixers: Iterable[SequencePart],
        hidden_size: int,
        feed_forward_size: int,
        *,
        dropout: float = 0.0,
        norm_first: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.mixers = nn.ModuleList(mixers)
        self.linear1 = nn.Linear(hidden_size, feed_forward_size, device=device, dtype=dtype)
        self.linear2 = nn.Linear(feed_forward_size, hidden_size, device=device, dtype=dtype)
        self.norm1 = nn.LayerNorm(hidden_size, device=device, dtype=dtype)
        self.norm2 = nn.LayerNorm(hidden_size, device=device, dtype=dtype)
        self.dropout, self.norm_first = dropout, norm_first

    def initial_state(self, batch_size: int, like: Tensor) -> BlocksState:
        """The states of the mixers."""
        return initial_states(self.mixers, batch_size, like)

    def parts(self, name: str, state: Any) -> list[tuple[str, Tensor, Shape]]:
        """The state parts of the mixers."""
        return parts_of(self.mixers, name, state)

    def forward(
        self, x: Tensor, state: BlocksState, lengths: Tensor | None
    ) -> tuple[Tensor, BlocksState]:
        """Run over a chunk; see `SequencePart.forward`."""
        if self.norm_first:
            mixed, state = self._mix(self.norm1(x), state, lengths)
            x = x + mixed
            return x + self._feed_forward(self.norm2(x)), state
        mixed, state = self._mix(x, state, lengths)
        x = self.norm1(x + mixed)
        return self.norm2(x + self._feed_forward(x)), state

    def _mix(
        self, x: Tensor, state: BlocksState, lengths: Tensor | None
    ) -> tuple[Tensor, BlocksState]:
        results = [mixer(x, own, lengths) for mixer, own in zip(self.mixers, state, strict=True)]
        mixed = results[0][0]
        for output, _ in results[1:]:
            mixed = mixed + output
        return self._drop(mixed), tuple(own for _, own in results)

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self._drop(self.linear2(self._drop(F.relu(self.linear1(x)))))

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training)


def initial_states(modules: nn.ModuleList, batch_size: int, like: Tensor) -> BlocksState:
    """The initial states of parts, in their order."""
    return tuple(part.initial_state(batch_size, like) for part in _typed(modules))


def parts_of(modules: nn.ModuleList, name: str, state: Any) -> list[tuple[str, Tensor, Shape]]:
    """The state parts of several sequence parts, for checks."""
    states = check_fields(name, state, [f"[{k}]" for k in range(len(modules))])
    return [
        each
        for k, (part, own) in enumerate(zip(_typed(modules), states, strict=True))
        for each in part.parts(f"{name}[{k}]", own)
    ]


def _typed(modules: nn.ModuleList) -> list[SequencePart]:
    return [part for part in modules if isinstance(part, SequencePart)]


class BlockNetwork(PlainLayer[BlocksState], ABC):
    """A linear map of the inputs, then a series of parts, then a norm.

    The state has one entry for each part.
    """

    input_size: int
    hidden_size: int
    inputs: nn.Linear
    blocks: nn.ModuleList
    norm: nn.LayerNorm | None

    def _make_network(
        self,
        input_size: int,
        hidden_size: int,
        blocks: Iterable[SequencePart],
        *,
        batch_first: bool,
        backend: str,
        norm: bool = True,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        """Set the fields, and draw the weights."""
        self.input_size, self.hidden_size = input_size, hidden_size
        self.batch_first, self.backend = batch_first, backend
        self.inputs = nn.Linear(input_size, hidden_size, device=device, dtype=dtype)
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.LayerNorm(hidden_size, device=device, dtype=dtype) if norm else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw matrices from Glorot's uniform distribution, and set biases to 0."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.LayerNorm | SequencePart):
                module.reset_parameters()

    def weight(self) -> Tensor:
        """The input weights."""
        return as_called(self.inputs, self.inputs.weight)

    def inputs_seen(self) -> int:
        """The input size I, or the width of the substituted weights within `run_symbols`."""
        return self.inputs.weight.shape[1]

    def unchecked_initial_state(self, batch_size: int) -> BlocksState:
        """The state of each part."""
        return initial_states(self.blocks, batch_size, self.weight())

    def parts(self, state: BlocksState) -> list[tuple[str, Tensor, Shape]]:
        """The state parts of each sequence part."""
        named = parts_of(self.blocks, "state", state)
        return [(name.removeprefix("state"), tensor, shape) for name, tensor, shape in named]

    def no_kernel(self) -> str | None:
        """Why the kernels do not support the layer; None if its parts choose themselves."""
        return "no kernel is built for it"

    def run(
        self, x: Tensor, state: BlocksState, lengths: Tensor | None
    ) -> tuple[Tensor, BlocksState]:
        """Run the parts in order, each over all steps."""
        if (reason := self.no_kernel()) is not None:
            self.takes_kernels(reason)
        hidden, states = self.inputs(x.transpose(0, 1)), []
        for part, own in zip(self.blocks, state, strict=True):
            hidden, last = part(hidden, own, lengths)
            states.append(last)
        output = (hidden if self.norm is None else self.norm(hidden)).transpose(0, 1)
        if lengths is not None:
            steps = torch.arange(x.shape[0], device=x.device).unsqueeze(1)
            output = torch.where((steps < lengths).unsqueeze(-1), output, 0)
        return output, tuple(states)


def check_sizes(
    *, batch_first: bool, backend: str, dropout: float, num_heads: int, device: Any, dtype: Any,
    **sizes: int,
) -> None:  # fmt: skip
    """Check the options that all networks of blocks have.

    Args:
        sizes: integers of at least 1, by name; among them hidden_size.
    Raises:
        ShapeError, ConfigError, DTypeError, ChoiceError: an option is invalid.
    """
    check_bool("batch_first", batch_first)
    check_backend(backend)
    check_place(device, dtype)
    for name, size in {**sizes, "num_heads": num_heads}.items():
        check_positive(name, size)
    if sizes["hidden_size"] % num_heads:
        raise ShapeError(
            f"num_heads: expected a divisor of hidden_size {sizes['hidden_size']}, got {num_heads}."
        )
    if not isinstance(dropout, int | float) or isinstance(dropout, bool) or not 0 <= dropout < 1:
        raise ConfigError(f"dropout: expected a number in [0, 1), got {dropout!r}")
