"""The memory of a Lie-access neural Turing machine (csrc/lie_access.h)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from torch import Tensor

from unbounded.errors import NonFiniteError, ShapeError
from unbounded.kernels.structures.structure import (
    ROWS,
    Buffer,
    CallSizes,
    Field,
    Shape,
    Structure,
)

#: In the order of `LieGroup` in csrc/lie_heads.h.
GROUPS: Final = ("translation", "scaling_rotation", "rotation", "sphere")
#: In the order of `LieStep` in csrc/lie_heads.h.
STEPS: Final = ("free", "normalised", "bounded", "normalised_candidate")
#: Steps with which an action may be longer than 1.
LONG_STEPS: Final = ("free", "normalised_candidate")
#: Largest coordinate; the square of a larger one overflows 32 bits.
MOST: Final = 1e18
# Sizes of keys and actions; 0 for a translation, whose size is free.
_SIZES: Final = ((0, 0), (2, 2), (2, 2), (3, 5))


@dataclass(frozen=True)
class LieAccess(Structure):
    """Rows of a key, a value and a strength, read by their distances from a moving head.

    Args:
        width: M. key_size: n.
        group: an index of GROUPS. step: an index of STEPS.
        is_softmax: whether distances are weighted by a softmax instead of their inverse.
        has_key_gates, has_action_gates: whether the heads have these gates.
        capacity: of the memory; 0 for none. drop: number of oldest rows dropped at once.
    """

    width: int
    key_size: int
    group: int
    is_softmax: bool
    step: int
    has_key_gates: bool
    has_action_gates: bool
    capacity: int
    drop: int
    name = "lie_access"
    growth = (0, 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.expect_at_least(1, "width", "key_size", "drop")
        for name, value, choices in (("group", self.group, GROUPS), ("step", self.step, STEPS)):
            if value >= len(choices):
                raise ShapeError(f"{name}: expected a place in {choices}, got {value}.")
        expected = _SIZES[self.group][0] or self.key_size
        if self.key_size != expected:
            raise ShapeError(
                f"key_size: expected {expected} of the group {GROUPS[self.group]}, got "
                f"{self.key_size}."
            )
        if self.capacity and self.drop > self.capacity:
            raise ShapeError(f"drop: expected at most capacity {self.capacity}, got {self.drop}.")

    @property
    def action_size(self) -> int:
        """A."""
        return _SIZES[self.group][1] or self.key_size

    @property
    def heads(self) -> Mapping[str, Shape]:
        """Key, action and their gates of reader and writer; value, strength; temperature."""
        heads: dict[str, Shape] = {}
        for who in ("read", "write"):
            heads[f"{who}_key"] = (self.key_size,)
            if self.has_key_gates:
                heads[f"{who}_key_gate"] = ()
            heads[f"{who}_action"] = (self.action_size,)
            if self.has_action_gates:
                heads[f"{who}_action_gate"] = ()
        heads |= {"value": (self.width,), "strength": ()}
        return heads | {"temperature": ()} if self.is_softmax else heads

    @property
    def read_vector(self) -> int:
        """M."""
        return self.width

    @property
    def most_rows(self) -> int | None:
        """The capacity."""
        return self.capacity or None

    @property
    def fields(self) -> tuple[Field, ...]:
        """Keys [N, n], values [N, M], strengths [N]; key and action of reader and writer."""
        key, action = (self.key_size,), (self.action_size,)
        return (
            Field("keys", (ROWS, *key)),
            Field("values", (ROWS, self.width)),
            Field("strengths", (ROWS,)),
            Field("read_key", key),
            Field("read_action", action),
            Field("write_key", key),
            Field("write_action", action),
        )

    def saved(self, sizes: CallSizes) -> dict[str, Buffer]:
        """The instruction and the head positions of each step, and every row."""
        leading, rows = (sizes.steps, sizes.batch), sizes.rows + sizes.steps
        padded = -(-rows // sizes.lanes) * sizes.lanes
        capped = 1 if self.capacity else 0
        return {
            "instructions": Buffer((*leading, self.head_rows)),
            "places": Buffer((*leading, 2 * (self.key_size + self.action_size))),
            "keys": Buffer((sizes.batch, self.key_size, padded)),
            "strengths": Buffer((sizes.batch, padded)),
            "values": Buffer((sizes.batch, rows * self.width + sizes.lanes)),
            "firsts": Buffer((sizes.batch, capped * sizes.steps), True, starts_zero=True),
            "slots": Buffer((sizes.batch, capped * (self.capacity + 1)), True, starts_zero=True),
        }

    def can_fail(self, rows: int, steps: int) -> bool:
        """Whether keys can grow without bound."""
        return GROUPS[self.group] == "scaling_rotation" and STEPS[self.step] in LONG_STEPS

    def check_errors(self, errors: Tensor | None) -> None:
        """Raise NonFiniteError if a key exceeds the limit."""
        if errors is None or not bool(errors.any()):
            return
        name = "read_key" if bool((errors & 1).any()) else "write_key"
        raise NonFiniteError(growth_message(name, GROUPS[self.group], STEPS[self.step]))


def growth_message(name: str, group: str, step: str) -> str:
    """The error message for a key that exceeds the limit."""
    return (
        f"{name}: expected coordinates up to {MOST:g}, got larger ones: with group={group!r} and "
        f"step={step!r} a head multiplies its key by the scale of its action in each step, without "
        "bound. Give step='normalised' or 'bounded', or group='translation'."
    )
