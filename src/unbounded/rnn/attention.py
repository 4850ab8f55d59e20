"""Self-attention over a sequence in chunks, with five encodings of positions."""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unbounded.memories.core import portable
from unbounded.rnn.baselines import Shape, is_transformed
from unbounded.rnn.blocks import SequencePart, check_fields

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
        keys, values: of the last P steps, [B, P, H]; those of a sequence with fewer come first.
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
    scores = query @ keys.transpose(-1, -2) / math.sqrt(query.shape[-1])
    if mask is None:
        mask = torch.full(scores.shape[-2:], -math.inf, device=query.device).triu(1)
    return F.dropout((scores + mask).softmax(dim=-1), dropout) @ values


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
        """Run over a chunk; see `SequencePart.forward`."""
        state = AttentionState(*state)
        query, key, value = (self._split(part) for part in self.projections(x).chunk(3, dim=-1))
        if self.positions == "rotary":
            places = (state.steps.unsqueeze(1) + torch.arange(x.shape[1], device=x.device)).to(
                self.output.weight.dtype
            )
            query, key = rotated(query, places), rotated(key, places)
        keys = torch.cat([self._split(state.keys).to(key.dtype), key], dim=2)
        values = torch.cat([self._split(state.values).to(value.dtype), value], dim=2)
        dropout = self.dropout if self.training else 0.0
        mask = None
        if not self._is_plain(state):
            distances, allowed = self._distances(x.shape[1], state, lengths)
            query, bias = self._with_bias(query, distances)
            mask = bias.masked_fill(~allowed.unsqueeze(1), -math.inf)
        mixed = _attend(query, keys, values, mask, dropout)
        output: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return output, self._next_state(state, keys, values, lengths)

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
                far = far - 0.5 * (distances > 0)
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
