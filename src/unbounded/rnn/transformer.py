"""The Transformer as a layer with the interface of MemoryRNN.

Its self-attention reads a sequence in chunks, with one of five encodings of positions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unbounded.checks import check_bool, check_choice, check_kind, check_positive
from unbounded.errors import ConfigError, ShapeError
from unbounded.memories import Memory
from unbounded.memories.core import portable
from unbounded.rnn.baselines import Shape, is_transformed
from unbounded.rnn.blocks import (
    Block,
    BlockNetwork,
    BlocksState,
    SequencePart,
    check_fields,
    check_sizes,
)
from unbounded.rnn.memory_attention import MemoryAttention, MemoryPart
from unbounded.rnn.memory_layer import check_memory

#: Encodings of positions: none; sines of the position, added to the input (Vaswani et al. 2017);
#: rotated queries and keys (Su et al. 2021); a score that falls linearly with the distance (Press
#: et al. 2022); learned weights of sines of the distance (Dai et al. 2019).
POSITIONS: Final = ("none", "sinusoidal", "rotary", "alibi", "relative")
#: Wavelengths of sines and rotations are up to 2 pi times this.
_BASE: Final = 10_000.0


@portable
class PositionState(NamedTuple):
    """State of `Sinusoids`.

    Fields:
        steps: steps of each sequence so far, int64 [B].
    """

    steps: Tensor


@portable
class AttentionState(NamedTuple):
    """Keys and values of earlier steps, with the oldest first.

    Fields:
        steps: steps of each sequence so far, int64 [B].
        keys, values: of the last P steps, [B, P, H]. A sequence with fewer steps fills the first
            places.
    """

    steps: Tensor
    keys: Tensor
    values: Tensor


class Sinusoids(SequencePart):
    """Adds sines and cosines of the position to a sequence.

    p_t[2 i] = sin(t / 10000^(2 i / H)),  p_t[2 i + 1] = cos(t / 10000^(2 i / H)),  t from 0

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.5.
    """

    def initial_state(self, batch_size: int, like: Tensor) -> PositionState:
        """No step."""
        return PositionState(torch.zeros(batch_size, dtype=torch.int64, device=like.device))

    def parts(self, name: str, state: Any) -> list[tuple[str, Tensor, Shape]]:
        """The count."""
        (steps,) = check_fields(name, state, PositionState._fields)
        return [(f"{name}.steps", steps, ())]

    def forward(
        self, x: Tensor, state: PositionState, lengths: Tensor | None
    ) -> tuple[Tensor, PositionState]:
        """Run over a chunk; see `SequencePart.forward`."""
        (steps,) = state
        places = steps.unsqueeze(1) + torch.arange(x.shape[1], device=x.device)
        encoded = sinusoids(places.to(x.dtype), x.shape[2])
        taken = x.shape[1] if lengths is None else lengths.clamp(0, x.shape[1])
        return x + encoded, PositionState(steps + taken)


def sinusoids(places: Tensor, size: int) -> Tensor:
    """Return sines and cosines of positions or distances, [..., size], from `places` [...]."""
    angles = places.unsqueeze(-1) * _frequencies((size + 1) // 2, places)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)[..., :size]


def _frequencies(count: int, like: Tensor) -> Tensor:
    """Return the frequencies _BASE^(-i / count) for i in 0 .. count - 1."""
    order = torch.arange(count, dtype=like.dtype, device=like.device)
    return torch.exp(order * (-math.log(_BASE) / count))


def rotated(vectors: Tensor, places: Tensor) -> Tensor:
    """Rotate the pairs of numbers (i, i + D/2) by the position times the frequency of i.

    Args:
        vectors: queries or keys, [B, heads, T, D] with an even D. places: positions, [B, T].
    """
    first, second = vectors.chunk(2, dim=-1)
    angles = places.unsqueeze(-1) * _frequencies(first.shape[-1], places)
    sine, cosine = (part.unsqueeze(1).to(vectors.dtype) for part in (angles.sin(), angles.cos()))
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)


def _attend(
    query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, dropout: float
) -> Tensor:
    """Average values with the softmax of scores plus `mask`.

    A mask of None is causal. All tensors are [B, heads, ..].
    """
    if not is_transformed():
        return F.scaled_dot_product_attention(
            query, keys, values, mask, dropout_p=dropout, is_causal=mask is None
        )
    # Torch's function has no rules for torch.func and forward mode.
    return F.dropout(_weights(query, keys, mask), dropout) @ values


def _weights(query: Tensor, keys: Tensor, mask: Tensor | None) -> Tensor:
    """The softmax of scores plus `mask`, [B, heads, T, P + T]; see `_attend`."""
    scores = query @ keys.transpose(-1, -2) / math.sqrt(query.shape[-1])
    if mask is None:
        mask = torch.full(scores.shape[-2:], -math.inf, device=query.device).triu(1)
    return (scores + mask).softmax(dim=-1)


#: The least number of steps in a part of a long sequence, if the attention has a window.
_SHORTEST_PART = 64


class SelfAttention(SequencePart):
    """Attention of each step to itself and all earlier steps, including steps of earlier chunks.

    Args:
        hidden_size: H. num_heads: of H / num_heads numbers each.
        positions: one of `POSITIONS`; "none" and "sinusoidal" are the same here.
        bidirectional: whether steps also attend to later ones; a sequence is then one chunk.
        window: number of steps that a step attends to, itself included; None for all.
        dropout: share of the attention weights that is dropped in training, in [0, 1).
        device, dtype: of the parameters.
    Sources: Vaswani et al. 2017, arXiv:1706.03762, section 3.2. "rotary": Su et al. 2021,
        arXiv:2104.09864, eq. 34. "alibi": Press et al. 2022, arXiv:2108.12409, section 3; the
        slopes are 2^(-8 k / heads) for any number of heads. If bidirectional, earlier steps count
        as nearer by a half. "relative": Dai et al. 2019,
        arXiv:1901.02860, section 3.3.
    """

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        positions: str,
        *,
        bidirectional: bool = False,
        window: int | None = None,
        dropout: float = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.hidden_size, self.num_heads, self.positions = hidden_size, num_heads, positions
        self.bidirectional, self.window, self.dropout = bidirectional, window, dropout
        #: Queries, keys and values, in this order, as in torch.nn.MultiheadAttention.
        self.projections = nn.Linear(hidden_size, 3 * hidden_size, device=device, dtype=dtype)
        self.output = nn.Linear(hidden_size, hidden_size, device=device, dtype=dtype)
        self.distances: nn.Linear | None = None
        if positions == "relative":
            place: dict[str, Any] = {"device": device, "dtype": dtype}
            self.distances = nn.Linear(hidden_size, hidden_size, bias=False, **place)
            #: u and v.
            self.content_bias = nn.Parameter(torch.empty(hidden_size, **place))
            self.distance_bias = nn.Parameter(torch.empty(hidden_size, **place))

    def reset_parameters(self) -> None:
        """Set u and v to 0."""
        if self.distances is not None:
            nn.init.zeros_(self.content_bias)
            nn.init.zeros_(self.distance_bias)

    def initial_state(self, batch_size: int, like: Tensor) -> AttentionState:
        """No step."""
        steps = torch.zeros(batch_size, dtype=torch.int64, device=like.device)
        keys, values = (like.new_zeros(batch_size, 0, self.hidden_size) for _ in range(2))
        return AttentionState(steps, keys, values)

    def parts(self, name: str, state: Any) -> list[tuple[str, Tensor, Shape]]:
        """The number of steps, keys and values."""
        steps, keys, values = check_fields(name, state, AttentionState._fields)
        rows = keys.shape[-2] if isinstance(keys, Tensor) and keys.dim() > 1 else "P"
        return [
            (f"{name}.steps", steps, ()),
            (f"{name}.keys", keys, ("P", self.hidden_size)),
            (f"{name}.values", values, (rows, self.hidden_size)),
        ]

    def forward(
        self, x: Tensor, state: AttentionState, lengths: Tensor | None
    ) -> tuple[Tensor, AttentionState]:
        """Run over a chunk; see `SequencePart.forward`.

        With a window, a long sequence is processed in parts, so that time and memory grow with T
        times the window and not with the square of T. A graph has no parts.
        """
        state = AttentionState(*state)
        size = x.shape[1] if self.window is None else max(self.window, _SHORTEST_PART)
        if self.bidirectional or torch.compiler.is_compiling() or x.shape[1] < 2 * size:
            return self._run(x, state, lengths)
        outputs = []
        for start in range(0, x.shape[1], size):
            part = x[:, start : start + size]
            left = None if lengths is None else (lengths - start).clamp(0, part.shape[1])
            output, state = self._run(part, state, left)
            outputs.append(output)
        return torch.cat(outputs, dim=1), state

    def instructions(
        self, x: Tensor, state: AttentionState, lengths: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """What each head reads at each step.

        Args:
            x, state, lengths: as for a call; the state has P earlier steps.
        Returns:
            weights [B, T, heads, P + T], without dropout, and the means of the values
            [B, T, heads, D].
        """
        query, keys, values, mask = self._projected(x, AttentionState(*state), lengths)
        weights = _weights(query, keys, mask)
        return weights.transpose(1, 2), (weights @ values).transpose(1, 2)

    def _run(
        self, x: Tensor, state: AttentionState, lengths: Tensor | None
    ) -> tuple[Tensor, AttentionState]:
        query, keys, values, mask = self._projected(x, state, lengths)
        mixed = _attend(query, keys, values, mask, self.dropout if self.training else 0.0)
        output: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return output, self._next_state(state, keys, values, lengths)

    def _projected(
        self, x: Tensor, state: AttentionState, lengths: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Queries, keys and values [B, heads, .., D], and the mask; see `_attend`."""
        query, key, value = (self._split(part) for part in self.projections(x).chunk(3, dim=-1))
        if self.positions == "rotary":
            places = (state.steps.unsqueeze(1) + torch.arange(x.shape[1], device=x.device)).to(
                self.output.weight.dtype
            )
            query, key = rotated(query, places), rotated(key, places)
        keys = torch.cat([self._split(state.keys).to(key.dtype), key], dim=2)
        values = torch.cat([self._split(state.values).to(value.dtype), value], dim=2)
        mask = None
        if not self._is_plain(state):
            distances, allowed = self._distances(x.shape[1], state, lengths)
            query, bias = self._with_bias(query, distances)
            mask = bias.masked_fill(~allowed.unsqueeze(1), -math.inf)
        return query, keys, values, mask

    def _is_plain(self, state: AttentionState) -> bool:
        """Whether torch's causal mask is the only mask that a chunk needs. Padding comes last."""
        return (
            not self.bidirectional
            and self.window is None
            and state.keys.shape[1] == 0
            and self.positions not in ("alibi", "relative")
        )

    def _split(self, x: Tensor) -> Tensor:
        """Reshape [B, T, H] to [B, heads, T, D]."""
        heads: Tensor = x.unflatten(-1, (self.num_heads, -1))
        return heads.transpose(1, 2)

    def _distances(
        self, steps: int, state: AttentionState, lengths: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Steps from each key to each query, and whether the key is used, [B or 1, T, P + T]."""
        earlier, device = state.keys.shape[1], state.keys.device
        now = torch.arange(steps, device=device)
        kept = state.steps.clamp(max=earlier).unsqueeze(1)
        cached = torch.arange(earlier, device=device)
        # Places relative to the first step of the chunk.
        before = (cached - kept) if earlier else now.new_zeros(1, 0)
        places = torch.cat([before, now.expand(len(before), -1)], dim=1)
        distances = now.unsqueeze(1) - places.unsqueeze(1)
        allowed = torch.ones_like(distances, dtype=torch.bool)
        if not self.bidirectional:
            exists = torch.cat([cached < kept, now.expand(len(kept), -1) >= 0], dim=1)
            allowed = exists.unsqueeze(1) & (distances >= 0)
        elif lengths is not None:
            # A padding step attends to itself, so that every step attends to some step.
            allowed = (now < lengths.unsqueeze(1)).unsqueeze(1) | (distances == 0)
        if self.window is not None:
            allowed = allowed & (distances.abs() < self.window)
        return distances, allowed

    def _with_bias(self, query: Tensor, distances: Tensor) -> tuple[Tensor, Tensor]:
        """The queries, and the terms to add to the scores, [B or 1, heads or 1, T, P + T]."""
        if self.positions == "alibi":
            order = torch.arange(1, self.num_heads + 1, device=query.device)
            slopes = torch.exp2(-8 * order.to(query.dtype) / self.num_heads)
            far = distances.abs().to(query.dtype)
            if self.bidirectional:  # left differs from right, as in Delétang et al. 2023's program
                far = far - 0.5 * (distances > 0).to(far.dtype)
            return query, -slopes.view(-1, 1, 1) * far.unsqueeze(1)
        if self.distances is None:
            return query, torch.zeros_like(distances, dtype=query.dtype).unsqueeze(1)
        steps, keys = distances.shape[1:]
        # The least and the greatest distance between a query and a key.
        lowest, highest = 1 - steps, keys - 1
        places = torch.arange(lowest, highest + 1, device=query.device).to(query.dtype)
        encoded = self._split(self.distances(sinusoids(places, self.hidden_size)).unsqueeze(0))
        by_distance = self._biased(query, self.distance_bias) @ encoded.transpose(-1, -2)
        place = (distances - lowest).clamp(0, len(places) - 1).unsqueeze(1)
        bias = by_distance.gather(-1, place.expand(*query.shape[:3], keys))
        return self._biased(query, self.content_bias), bias / math.sqrt(query.shape[-1])

    def _biased(self, query: Tensor, bias: nn.Parameter) -> Tensor:
        own: Tensor = bias.view(self.num_heads, 1, -1)
        return query + own

    def _next_state(
        self, state: AttentionState, keys: Tensor, values: Tensor, lengths: Tensor | None
    ) -> AttentionState:
        """Return the state after adding the keys and values of a chunk, [B, heads, P + T, D]."""
        earlier, steps = state.keys.shape[1], keys.shape[2] - state.keys.shape[1]
        taken = torch.full_like(state.steps, steps) if lengths is None else lengths.clamp(0, steps)
        rows = keys.shape[2] if self.window is None else min(keys.shape[2], self.window - 1)
        kept = state.steps.clamp(max=earlier)
        # Rows of a sequence, without the gap between earlier rows and the rows of the chunk.
        dropped = (kept + taken - rows).clamp(min=0)
        row = dropped.unsqueeze(1) + torch.arange(rows, device=keys.device)
        row = torch.where(row < kept.unsqueeze(1), row, row + (earlier - kept).unsqueeze(1))
        row = row.clamp(max=earlier + steps - 1).unsqueeze(-1).expand(-1, -1, self.hidden_size)
        keys, values = (part.transpose(1, 2).flatten(2).gather(1, row) for part in (keys, values))
        return AttentionState(state.steps + taken, keys, values)


class Transformer(BlockNetwork):
    """A Transformer whose steps attend to themselves and earlier steps, or optionally to all.

    x_t goes through a linear map and the blocks: x <- x + attention(norm(x)); x <- x + W_2
    relu(W_1 norm(x)). A norm ends it. The state holds the keys and values of earlier steps, so the
    cost of a step grows with their number. A sequence in chunks has the same results as the
    complete sequence.

    Args:
        input_size: I.
        hidden_size: H of every block, a multiple of num_heads.
        num_layers: blocks, 1 or more.
        num_heads: heads of the attention.
        feed_forward_size: units between the two maps of a block; None for 4 times hidden_size.
        positions: "none", "sinusoidal", "rotary", "alibi" or "relative".
        bidirectional: whether steps also attend to later ones. The whole sequence must then be
            given in one call, and no input may depend on the answer of the task.
        window: number of steps that a step attends to, itself included; None for all. It bounds
            the state on streams and texts.
        dropout: share that is dropped in training of attention weights, of the feed-forward units
            and of what a block adds, in [0, 1).
        norm_first: whether norms are taken before attention and feed-forward layer; otherwise norms
            are taken after each sum, as in Vaswani et al. 2017, and the network does not end with a
            norm.
        memory: a data structure that some blocks work on (`MemoryAttention`), each with a state of
            its own; on the command line its name, or a mapping of name and options.
        memory_layers: the numbers of these blocks, from 1; None for the middle one.
        beside_attention: whether these blocks add the outputs of attention and memory; otherwise
            the memory replaces the attention, as in DuSell & Chiang 2024.
        batch_first: whether inputs and outputs are [B, T, ...] instead of [T, B, ...].
        backend: of the memory, as for `MemoryAttention`. Without one "auto" or "reference"; others
            raise, since there is no kernel.
        device, dtype: of the parameters.
    Raises:
        ShapeError, ConfigError, ChoiceError, DTypeError: an option is invalid.
    Matrices are drawn from Glorot's distribution, biases are 0. Nothing of the initial state is
    learned.
    Source: Vaswani et al. 2017, arXiv:1706.03762; those of `positions` are in `SelfAttention`.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 2,
        num_heads: int = 4,
        feed_forward_size: int | None = None,
        positions: str = "sinusoidal",
        bidirectional: bool = False,
        window: int | None = None,
        dropout: float = 0.0,
        norm_first: bool = True,
        memory: Memory[Any, Any] | None = None,
        memory_layers: list[int] | None = None,
        beside_attention: bool = False,
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        check_sizes(
            batch_first=batch_first, backend=backend, dropout=dropout, num_heads=num_heads,
            device=device, dtype=dtype,
            input_size=input_size, hidden_size=hidden_size, num_layers=num_layers,
        )  # fmt: skip
        check_bool("bidirectional", bidirectional)
        check_bool("norm_first", norm_first)
        check_bool("beside_attention", beside_attention)
        errors = _memory_errors(memory, memory_layers, beside_attention, num_layers)
        if errors:
            raise ConfigError(errors)
        check_choice("positions", positions, POSITIONS)
        if feed_forward_size is not None:
            check_positive("feed_forward_size", feed_forward_size)
        if window is not None:
            check_positive("window", window)
        if positions == "rotary" and hidden_size // num_heads % 2:
            raise ConfigError(
                "positions: rotary needs heads of an even size, got hidden_size / num_heads = "
                f"{hidden_size // num_heads}"
            )
        self.num_layers, self.num_heads, self.positions = num_layers, num_heads, positions
        self.bidirectional, self.window, self.memory = bidirectional, window, memory
        place: dict[str, Any] = {"device": device, "dtype": dtype}

        with_memory = (num_layers // 2 + 1,) if memory_layers is None else tuple(memory_layers)

        def block(number: int) -> Block:
            mixers: list[SequencePart] = []
            if memory is None or number not in with_memory or beside_attention:
                mixers.append(attention())
            if memory is not None and number in with_memory:
                layer = MemoryAttention(hidden_size, memory, True, backend=backend, **place)
                mixers.append(MemoryPart(layer))
            between = 4 * hidden_size if feed_forward_size is None else feed_forward_size
            return Block(
                mixers, hidden_size, between, dropout=dropout, norm_first=norm_first, **place
            )

        def attention() -> SelfAttention:
            return SelfAttention(
                hidden_size,
                num_heads,
                positions,
                bidirectional=bidirectional,
                window=window,
                dropout=dropout,
                **place,
            )

        first: list[SequencePart] = [Sinusoids()] if positions == "sinusoidal" else []
        self._make_network(
            input_size,
            hidden_size,
            [*first, *(block(number) for number in range(1, num_layers + 1))],
            batch_first=batch_first,
            backend=backend,
            norm=norm_first,
            **place,
        )

    def no_kernel(self) -> str | None:
        """Why the kernels do not support the layer; None with a memory, which chooses itself."""
        return super().no_kernel() if self.memory is None else None

    def parts(self, state: BlocksState) -> list[tuple[str, Tensor, Shape]]:
        """The state parts of each block.

        Raises:
            ShapeError: the layer is bidirectional, and so goes on from no state.
        """
        if self.bidirectional:
            raise ShapeError(
                "state: expected None, because a bidirectional Transformer reads a whole sequence "
                "in one call. Give it the whole sequence, or make one with bidirectional=False."
            )
        return super().parts(state)

    def extra_repr(self) -> str:
        """Sizes, for print(module)."""
        others = ", bidirectional=True" if self.bidirectional else ""
        others += "" if self.window is None else f", window={self.window}"
        others += "" if self.memory is None else f", memory={self.memory!r}"
        return (
            f"{self.input_size}, {self.hidden_size}, num_layers={self.num_layers}, "
            f"num_heads={self.num_heads}, positions={self.positions!r}{others}, "
            f"batch_first={self.batch_first}, backend={self.backend!r}"
        )


def _memory_errors(
    memory: Memory[Any, Any] | None, layers: Sequence[int] | None, beside: bool, num_layers: int
) -> list[str]:
    """The errors of the options for a memory, one line each."""
    if layers is not None:
        check_kind("memory_layers", layers, list, "Give the numbers of blocks, such as [2].")
    if memory is None:
        given = (("memory_layers", layers is not None), ("beside_attention", beside))
        return [f"{name}: has no effect without a memory" for name, is_given in given if is_given]
    check_memory(memory)
    errors = [
        f"memory_layers: expected numbers of 1..{num_layers}, got {number!r}"
        for number in layers or ()
        if type(number) is not int or not 1 <= number <= num_layers
    ]
    if layers == []:
        errors.append("memory_layers: expected at least one block number, got none")
    if layers is not None and not errors and len(set(layers)) < len(layers):
        errors.append(f"memory_layers: expected each number once, got {layers}")
    if memory.uses_lengths:
        errors.append(f"memory: {type(memory).__name__} uses lengths, which blocks do not pass on")
    return errors
