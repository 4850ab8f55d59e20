"""Rows that are found by the inner product of a key, as in RAM and RAM/tape.

Axes: B batch, N rows, n coordinates of a key, M width. A row of strength 0 counts as absent.

Source: Yang & Rush 2017, arXiv:1611.02854, section 4 and appendix A; what the paper leaves open is
taken from the authors' program, github.com/harvardnlp/lie-access-memory, models/ram.lua.
"""

from __future__ import annotations

from collections import namedtuple
from functools import partial
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn

from unbounded.checks import check_bool, check_choice, check_number, check_positive
from unbounded.memories.core import (
    Constant,
    Head,
    Initializer,
    Learned,
    Memory,
    StateField,
    live_rows,
    portable,
    read_rows,
)
from unbounded.memories.lie_access.reference import INITIAL, first_strength
from unbounded.memories.lie_access.weightings import shares

#: The keys that a link mixes: the given one, and the mean keys of the next and the previous rows.
LINKS: Final = ("given", "next", "previous")
_DRAWN: Final = partial(nn.init.uniform_, a=-1.0, b=1.0)


@portable
class RandomAccessState(NamedTuple):
    """Rows, the oldest first.

    Fields:
        keys: k, [B, N, n]. values: v, [B, N, M]. strengths: s, [B, N] in [0, 1].
    """

    keys: Tensor
    values: Tensor
    strengths: Tensor


@portable
class TapedState(NamedTuple):
    """Rows, the oldest first, and the keys after and before what was read.

    Fields:
        keys, values, strengths: see RandomAccessState.
        forward_key, backward_key: mean keys of the next and of the previous rows, [B, n].
    """

    keys: Tensor
    values: Tensor
    strengths: Tensor
    forward_key: Tensor
    backward_key: Tensor


def _instruction(name: str, *further: str) -> Any:
    """read_key and write_key [B, n], value [B, M], strength [B] in [0, 1], and further fields.

    sharpening [B], at least 1; link [B, 3], which sums to 1: the weights of read_key, of the key
    after what was read, and of the key before it.
    """
    make: Any = namedtuple
    fields = ["read_key", "write_key", "value", "strength", *further]
    return portable(make(name, fields, module=__name__))


RandomAccessInstruction: Final = _instruction("RandomAccessInstruction")
SharpenedInstruction: Final = _instruction("SharpenedInstruction", "sharpening")
TapedInstruction: Final = _instruction("TapedInstruction", "link")
SharpenedTapedInstruction: Final = _instruction("SharpenedTapedInstruction", "sharpening", "link")

#: Instruction types by (has sharpening, has a tape).
INSTRUCTIONS: Final[dict[tuple[bool, bool], type[Any]]] = {
    (False, False): RandomAccessInstruction,
    (True, False): SharpenedInstruction,
    (False, True): TapedInstruction,
    (True, True): SharpenedTapedInstruction,
}


def neighbours(keys: Tensor, strengths: Tensor) -> tuple[Tensor, Tensor]:
    """The keys of the next and of the previous row of each row, [B, N, n]; 0 where there is none.

    Rows of strength 0 are skipped.

    Args:
        keys: [B, N, n]. strengths: [B, N].
    """
    batch, count, size = keys.shape
    is_row = ~(strengths <= 0)
    places = torch.arange(count, device=keys.device).expand(batch, count)
    after = torch.where(is_row, places, count).flip(1).cummin(dim=1).values.flip(1)
    before = torch.where(is_row, places, -1).cummax(dim=1).values
    # Place N is a row of zeros.
    padded = torch.cat([keys, keys.new_zeros(batch, 1, size)], dim=1)
    none = places.new_full((batch, 1), count)
    following = torch.cat([after, none], dim=1)[:, 1:]
    leading = torch.cat([none, torch.where(before < 0, count, before)], dim=1)[:, :count]
    following, leading = (
        padded.gather(1, index.unsqueeze(-1).expand(-1, -1, size)) for index in (following, leading)
    )
    return following, leading


class RandomAccessMemory(Memory[Any, Any]):
    """Rows with key, value and strength, read by the inner product of keys. No head moves.

    A step reads the previous rows, then appends a row.

    Args:
        width: M, size of the stored values.
        key_size: n, the number of coordinates of a key; 2 or 20 in the paper.
        tape: whether the read key is a mixture of the candidate key with the keys after and before
            what the last step read (RAM/tape).
        sharpening: whether each step gives a factor on the inner products.
        initial: "constant" starts without rows; "learned" starts with one row, two with a tape, as
            in the authors' program. Rows and read vector, and the tape's keys, are then parameters.
        strength_bias: initial bias of the strengths (not in the paper).
    Raises:
        ShapeError: a size is not a positive integer. DTypeError: an option is not a bool.
            ChoiceError: an unknown `initial`. ConfigError: the bias is not a number.
    Source: Yang & Rush 2017, arXiv:1611.02854. The program adds 1e-9 to each weight, which is left
        out.
    """

    write_strengths = ("strength",)

    def __init__(
        self,
        width: int = 20,
        key_size: int = 20,
        tape: bool = False,
        sharpening: bool = False,
        *,
        initial: str = "constant",
        strength_bias: float | None = None,
    ) -> None:
        check_positive("width", width)
        check_positive("key_size", key_size)
        check_bool("tape", tape)
        check_bool("sharpening", sharpening)
        check_choice("initial", initial, INITIAL)
        if strength_bias is not None:
            check_number("strength_bias", strength_bias)
        self.width, self.key_size, self.tape, self.sharpening = width, key_size, tape, sharpening
        self.initial, self.strength_bias = initial, strength_bias
        self.Instruction = INSTRUCTIONS[sharpening, tape]
        self.State = TapedState if tape else RandomAccessState

    def __repr__(self) -> str:
        return (
            f"RandomAccessMemory(width={self.width}, key_size={self.key_size}, tape={self.tape}, "
            f"sharpening={self.sharpening}, initial={self.initial!r})"
        )

    @property
    def heads(self) -> tuple[Head, ...]:
        """Read and write key, value, strength; the factor and the links."""
        heads = (
            Head("read_key", (self.key_size,), "identity"),
            Head("write_key", (self.key_size,), "identity"),
            Head("value", (self.width,), "tanh"),
            Head("strength", (), "sigmoid", self.strength_bias, gate=True),
            Head("sharpening", (), "one_plus_softplus"),
            Head("link", (len(LINKS),), "softmax", gate=True, choices=LINKS),
        )
        return tuple(head for head in heads if head.name in self.Instruction._fields)

    @property
    def read_vector_size(self) -> int:
        """M."""
        return self.width

    @property
    def read_vector_initializer(self) -> Initializer:
        """Zeros, or tanh of a parameter."""
        return Learned(_DRAWN, torch.tanh) if self.initial == "learned" else Constant(0.0)

    @property
    def state_fields(self) -> tuple[StateField, ...]:
        """Keys, values, strengths (each step adds a row); the keys after and before."""
        learned = self.initial == "learned"
        rows = (1 + self.tape) if learned else 0
        keys: Initializer = Learned(_DRAWN) if learned else Constant(0.0)
        values: Initializer = Learned(_DRAWN, torch.tanh) if learned else Constant(0.0)
        strengths: Initializer = Learned(_DRAWN, first_strength) if learned else Constant(0.0)
        fields = (
            StateField("keys", ("N", self.key_size), (0, 1), rows, initializer=keys),
            StateField("values", ("N", self.width), (0, 1), rows, initializer=values),
            StateField("strengths", ("N",), (0, 1), rows, initializer=strengths),
        )
        if not self.tape:
            return fields
        return (
            *fields,
            StateField("forward_key", (self.key_size,), initializer=keys),
            StateField("backward_key", (self.key_size,), initializer=keys),
        )

    def trim(self, state: Any) -> Any:
        """Remove rows of strength 0; see `Memory.trim`."""
        strengths, keys, values = live_rows(state.strengths, state.keys, state.values)
        return state._replace(keys=keys, values=values, strengths=strengths)

    def step(self, state: Any, instruction: Any) -> tuple[Tensor, Any]:
        """Read the previous rows, then append a row.

        q_t = c_1 q~ + c_2 f_{t-1} + c_3 b_{t-1} with a tape, else the candidate q~
        w_i = s_i exp(beta <q_t, k_i>) / sum_j s_j exp(beta <q_t, k_j>);  r_t = sum_i w_i v_i
        f_t = sum_i w_i k_{i+1};  b_t = sum_i w_i k_{i-1},  of the rows before t that are not absent

        Args:
            state: keys [B, N, n], values [B, N, M], strengths [B, N]; with a tape f, b [B, n].
            instruction: read_key and write_key [B, n], value [B, M], strength [B]; the factor
                sharpening, beta, [B] and link, c, [B, 3], if the memory has them.
        Returns:
            read vector [B, M], 0 without rows, and the next state, one row longer.
        Raises:
            ShapeError, DTypeError, DeviceError: a field disagrees; the message names it.
        """
        self.check_step(state, instruction)
        key = instruction.read_key
        if self.tape:
            links = torch.stack([key, state.forward_key, state.backward_key], dim=1)
            key = read_rows(instruction.link, links)
        scores = torch.matmul(state.keys, key.unsqueeze(-1)).squeeze(-1)
        if self.sharpening:
            scores = scores * instruction.sharpening.unsqueeze(-1)
        weights = _weights(scores, state.strengths)
        new = (instruction.write_key, instruction.value, instruction.strength)
        keys, values, strengths = (
            torch.cat([before, row.unsqueeze(1)], dim=1)
            for before, row in zip(state[:3], new, strict=True)
        )
        read_vector = read_rows(weights, state.values)
        if not self.tape:
            return read_vector, RandomAccessState(keys, values, strengths)
        forward_key, backward_key = (
            read_rows(weights, rows) for rows in neighbours(state.keys, state.strengths)
        )
        return read_vector, TapedState(keys, values, strengths, forward_key, backward_key)


def _weights(scores: Tensor, strengths: Tensor) -> Tensor:
    """Softmax of the scores [B, N] of the rows, weighted by their strengths."""
    if scores.shape[1] == 0:
        return scores
    is_row = ~(strengths <= 0)
    # A common factor changes no weight. Relative to the highest score, the largest power is 1.
    highest = torch.where(is_row, scores, -torch.inf).amax(-1, keepdim=True).detach()
    highest = torch.where(highest == -torch.inf, 0, highest)
    return shares(torch.exp(torch.where(is_row, scores, highest) - highest), strengths)
