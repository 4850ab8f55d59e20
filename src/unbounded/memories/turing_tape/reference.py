"""The memory of a Neural Turing Machine: a tape of vectors, read and written by soft heads."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final, NamedTuple

import torch
from torch import Tensor, nn

from unbounded.checks import check_bool, check_choice, check_number, check_positive
from unbounded.errors import ConfigError, ShapeError
from unbounded.memories.core import (
    ACTIVATIONS,
    Constant,
    Drawn,
    FirstOne,
    Head,
    Initializer,
    Learned,
    Memory,
    StateField,
    portable,
)
from unbounded.memories.turing_tape.addressing import (
    LIMIT,
    content_weights,
    interpolated,
    read,
    sharpened,
    shifted,
    written,
)

SHIFTS: Final = ("circular", "zero")
READS: Final = ("after", "before")
#: Initial value of every cell.
SMALL: Final = 1e-6
#: The kinds of heads that are gates. A key or a sharpening is a quantity.
_GATES: Final = ("gate", "shift", "erase")
#: The fields of a head's instruction that address it, in the order of `TuringTape._address`.
_ADDRESSING: Final = ("key", "strength", "gate", "shift", "sharpening")


class TapeVariant(NamedTuple):
    """A set of choices that Graves et al. leave open.

    Fields:
        activations: by kind of head.
        bias: initial value of the heads' biases; None keeps the random draw of the layer.
        floor_digits: 10^-floor_digits is added to weights before sharpening.
    """

    activations: Mapping[str, str]
    bias: float | None
    floor_digits: int

    @property
    def floor(self) -> float:
        """The number added to weights before sharpening."""
        return float(f"1e-{self.floor_digits}")


#: By name. Graves et al. 2014 define the range of each field but no activation. These are the
#: activations of Collier & Beel 2018. The floor is so small that it only replaces zero. Deleu &
#: Dureau 2016 use ReLU for key and add, and a hard sigmoid for erase. The other activations, the
#: floor and the biases are from their program.
VARIANTS: Final[dict[str, TapeVariant]] = {
    "graves2014": TapeVariant(
        {
            "key": "tanh",
            "strength": "softplus",
            "gate": "sigmoid",
            "shift": "softmax",
            "sharpening": "one_plus_softplus",
            "erase": "sigmoid",
            "add": "tanh",
        },
        bias=None,
        floor_digits=15,
    ),
    "deleu2016": TapeVariant(
        {
            "key": "relu",
            "strength": "relu",
            "gate": "hard_sigmoid",
            "shift": "softmax",
            "sharpening": "one_plus_relu",
            "erase": "hard_sigmoid",
            "add": "relu",
        },
        bias=0.0,
        floor_digits=6,
    ),
}


@portable
class TapeInstruction(NamedTuple):
    """The instruction of R read heads and W write heads. The S shifts go from -s to s.

    Fields:
        read_key: k, [B, R, M]. read_strength: beta, [B, R], at least 0.
        read_gate: g, [B, R] in [0, 1]. read_shift: s, [B, R, S], which sum to 1.
        read_sharpening: gamma, [B, R], at least 1.
        write_key, write_strength, write_gate, write_shift, write_sharpening: likewise with W.
        erase: e, [B, W, M] in [0, 1]. add: a, [B, W, M].
    """

    read_key: Tensor
    read_strength: Tensor
    read_gate: Tensor
    read_shift: Tensor
    read_sharpening: Tensor
    write_key: Tensor
    write_strength: Tensor
    write_gate: Tensor
    write_shift: Tensor
    write_sharpening: Tensor
    erase: Tensor
    add: Tensor


@portable
class TapeState(NamedTuple):
    """The tape and the weights of its heads.

    Fields:
        cells: M_t, [B, N, M].
        read_weights: w^r_t, [B, R, N], which sum to 1. write_weights: w^w_t, [B, W, N].
    """

    cells: Tensor
    read_weights: Tensor
    write_weights: Tensor


def _draw_cells(cells: Tensor) -> Tensor:
    return nn.init.normal_(cells, std=0.5).tanh_()


_CELLS: Final[dict[str, Initializer]] = {
    "constant": Constant(SMALL),
    "learned": Learned(nn.init.xavier_uniform_, torch.tanh),
    "random": Drawn(_draw_cells),
}
_WEIGHTS: Final = ("first", "uniform", "learned")


class TuringTape(Memory[TapeState, TapeInstruction]):
    """N locations of M numbers with R read heads and W write heads, all of them soft.

    A step addresses every head by the previous cells, writes with all write heads, then reads.
    Write heads have no order, because erasures are multiplied and additions are summed.

    Args:
        slots: N, number of locations.
        width: M, numbers in a location.
        read_heads: R, number of read heads.
        write_heads: W, number of write heads.
        shift: "circular", with the last location next to the first (the paper), or "zero", a tape
            with two ends (Deleu & Dureau's program).
        shift_range: s, how far a head can move in a step, from 0 to N. A circular tape takes shifts
            modulo N: with 2 locations both shifts by 1 change location, and with 1 location, the
            single location of Deleu & Dureau, every shift stays. Weights are then always 1.
        variant: "graves2014" or "deleu2016": activations and initial biases of the heads, and the
            number added to weights before sharpening, as in the paper of that year.
        activations: replacements of the variant's, for any of "key", "strength", "gate", "shift",
            "sharpening", "erase", "add".
        shift_bias: difference between the initial bias of the largest shift to the right and of the
            other shifts, for every head. The others keep the variant's bias, or 0 where it draws
            them. With 2 the heads initially move with 0.79 of their weight; at 0 the variant's
            biases stay.
        reads: "after" writing, or "before".
        initial_cells: "constant" for 1e-6, "learned" for tanh of a parameter, "random" for tanh of
            a draw from N(0, 0.5^2) for each sequence.
        initial_weights: of every head: at the "first" location, "uniform", or "learned" for softmax
            of a parameter.
        writes_first: whether a layer writes and reads at the heads' initial locations before the
            first step, as the program of Deleu & Dureau does. Location 0 then differs from the
            others from the start.
    Raises:
        ShapeError: a size is not a positive integer, or the range is greater than `slots`.
        ChoiceError: an unknown choice. ConfigError: the bias is not a finite number, or is set
            while heads cannot shift. DTypeError: `writes_first` is not a bool.
    Source: Graves et al. 2014, arXiv:1410.5401, section 3; Deleu & Dureau 2016, arXiv:1612.00827;
        initial values of the cells: Collier & Beel 2018, arXiv:1807.08518.
    """

    Instruction, State = TapeInstruction, TapeState

    def __init__(
        self,
        slots: int = 128,
        width: int = 20,
        read_heads: int = 1,
        write_heads: int = 1,
        shift: str = "circular",
        *,
        shift_range: int = 1,
        variant: str = "graves2014",
        activations: Mapping[str, str] | None = None,
        shift_bias: float = 0.0,
        reads: str = "after",
        initial_cells: str = "constant",
        initial_weights: str = "first",
        writes_first: bool = False,
    ) -> None:
        check_positive("slots", slots)
        check_positive("width", width)
        check_positive("read_heads", read_heads)
        check_positive("write_heads", write_heads)
        _check_range(shift_range, slots)
        check_number("shift_bias", shift_bias)
        check_bool("writes_first", writes_first)
        if shift_bias and not shift_range:
            raise ConfigError(
                "shift_bias: has no effect with shift_range 0; leave it at 0, or let heads move"
            )
        for kind, name, valid in (
            ("shift", shift, SHIFTS),
            ("variant", variant, VARIANTS),
            ("reads", reads, READS),
            ("initial_cells", initial_cells, _CELLS),
            ("initial_weights", initial_weights, _WEIGHTS),
        ):
            check_choice(kind, name, valid)
        self.slots, self.width, self.shift, self.shift_range = slots, width, shift, shift_range
        self.read_heads, self.write_heads = read_heads, write_heads
        self.variant, self.reads = variant, reads
        self.initial_cells, self.initial_weights = initial_cells, initial_weights
        self.writes_first = writes_first
        self.activations = chosen_activations(variant, {} if activations is None else activations)
        self.shift_bias = shift_bias

    def __repr__(self) -> str:
        return (
            f"TuringTape(slots={self.slots}, width={self.width}, read_heads={self.read_heads}, "
            f"write_heads={self.write_heads}, shift={self.shift!r}, "
            f"shift_range={self.shift_range}, variant={self.variant!r}, reads={self.reads!r}"
            f"{f', shift_bias={self.shift_bias}' if self.shift_bias else ''}"
            f"{', writes_first=True' if self.writes_first else ''})"
        )

    @property
    def heads(self) -> tuple[Head, ...]:
        """Key, strength, gate, shift and sharpening of readers and writers; erase and add."""
        bias = VARIANTS[self.variant].bias
        shapes: dict[str, tuple[int, ...]] = {
            "key": (self.width,),
            "strength": (),
            "gate": (),
            "shift": (2 * self.shift_range + 1,),
            "sharpening": (),
        }
        kinds = [
            (f"{who}_{kind}", kind, (count, *shape))
            for who, count in (("read", self.read_heads), ("write", self.write_heads))
            for kind, shape in shapes.items()
        ]
        kinds += [(kind, kind, (self.write_heads, self.width)) for kind in ("erase", "add")]
        return tuple(
            Head(
                name,
                shape,
                self.activations[kind],
                self._shift_biases if kind == "shift" and self.shift_bias else bias,
                gate=kind in _GATES,
                choices=self._shifts if self.activations[kind] == "softmax" else (),
            )
            for name, kind, shape in kinds
        )

    @property
    def _shifts(self) -> tuple[str, ...]:
        return tuple(
            f"{shift:+d}" if shift else "0"
            for shift in range(-self.shift_range, self.shift_range + 1)
        )

    @property
    def _shift_biases(self) -> tuple[float, ...]:
        bias = VARIANTS[self.variant].bias or 0.0
        return *[bias] * (2 * self.shift_range), bias + self.shift_bias

    @property
    def read_vector_size(self) -> int:
        """R M."""
        return self.read_heads * self.width

    @property
    def read_vector_initializer(self) -> Constant:
        """The read vector is 1e-6 for constant cells, and zero for other initial cells."""
        return Constant(SMALL if self.initial_cells == "constant" else 0.0)

    @property
    def state_fields(self) -> tuple[StateField, ...]:
        """Cells [N, M], read weights [R, N] and write weights [W, N]."""
        cells, weights = _CELLS[self.initial_cells], self._weights_initializer
        return (
            StateField("cells", (self.slots, self.width), initializer=cells),
            StateField("read_weights", (self.read_heads, self.slots), initializer=weights),
            StateField("write_weights", (self.write_heads, self.slots), initializer=weights),
        )

    @property
    def _weights_initializer(self) -> Initializer:
        if self.initial_weights == "first":
            return FirstOne()
        if self.initial_weights == "uniform":
            return Constant(1 / self.slots)
        return Learned(nn.init.xavier_uniform_, partial(torch.softmax, dim=-1))

    def step(self, state: TapeState, instruction: TapeInstruction) -> tuple[Tensor, TapeState]:
        """Address all heads, write, then read (or read, then write).

        w_t = sharpened(shifted(interpolated(content(M_{t-1}), w_{t-1})))                  (5)-(9)
        M_t(i) = M_{t-1}(i) prod_w (1 - w^w_t(i) e^w_t) + sum_w w^w_t(i) a^w_t             (3), (4)
        r_t = sum_i w^r_t(i) M_t(i), of M_{t-1} with reads="before"                        (2)

        Args:
            state: cells [B, N, M]; read_weights [B, R, N]; write_weights [B, W, N].
            instruction: see TapeInstruction.
        Returns:
            read vector [B, R M], head by head, and the next state.
        Raises:
            ShapeError, DTypeError, DeviceError: a field disagrees; the message names it.
        Source: Graves et al. 2014, eq. 2-9; each head's equations are in addressing.py.
        """
        self.check_step(state, instruction)
        read_head = [getattr(instruction, f"read_{kind}") for kind in _ADDRESSING]
        write_head = [getattr(instruction, f"write_{kind}") for kind in _ADDRESSING]
        read_weights = self._address(state.cells, state.read_weights, *read_head)
        write_weights = self._address(state.cells, state.write_weights, *write_head)
        cells = written(state.cells, write_weights, instruction.erase, instruction.add)
        cells_to_read = cells if self.reads == "after" else state.cells
        after = TapeState(cells, read_weights, write_weights)
        return read(cells_to_read, read_weights), after

    def first_write(
        self, state: TapeState, instruction: TapeInstruction
    ) -> tuple[Tensor, TapeState]:
        """Write and read at the heads' locations, without moving the heads.

        M_0(i) = M(i) prod_w (1 - w^w_0(i) e^w) + sum_w w^w_0(i) a^w; r_0 = sum_i w^r_0(i) M_0(i)

        Args:
            state: before the first step. instruction: only erase and add are used.
        Returns:
            read vector [B, R M] and the state with the cells M_0; the heads stay.
        Source: the program of Deleu & Dureau 2016.
        """
        cells = written(state.cells, state.write_weights, instruction.erase, instruction.add)
        return read(cells, state.read_weights), state._replace(cells=cells)

    def _address(
        self,
        cells: Tensor,
        before: Tensor,
        keys: Tensor,
        strengths: Tensor,
        gates: Tensor,
        shifts: Tensor,
        sharpening: Tensor,
    ) -> Tensor:
        content = content_weights(keys.clamp(-LIMIT, LIMIT), strengths, cells)
        moved = shifted(
            interpolated(content, before, gates), shifts, circular=self.shift == "circular"
        )
        return sharpened(moved, sharpening, VARIANTS[self.variant].floor)


def _check_range(shift_range: int, slots: int) -> None:
    is_integer = isinstance(shift_range, int) and not isinstance(shift_range, bool)
    if not is_integer or not 0 <= shift_range <= slots:
        raise ShapeError(
            f"shift_range: expected an integer from 0 to {slots}, the number of slots, got "
            f"{shift_range!r}. Give a smaller range or more slots."
        )


def chosen_activations(variant: str, changes: Mapping[str, str]) -> dict[str, str]:
    """The activation of each kind of head, from the variant or from a chosen replacement.

    Raises:
        ChoiceError: no kind of head or no activation has such a name.
        ConfigError: it is no mapping.
    """
    if not isinstance(changes, Mapping):
        raise ConfigError(
            f"activations: expected a mapping such as {{'key': 'tanh'}}, got {changes!r}"
        )
    activations = dict(VARIANTS[variant].activations)
    for kind, name in changes.items():
        check_choice("part of activations", kind, activations)
        check_choice(f"activation of {kind}", name, ACTIVATIONS)
        activations[kind] = name
    return activations
