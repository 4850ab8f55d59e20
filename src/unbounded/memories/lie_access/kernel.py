"""The kernels' Lie-access memory (csrc/lie_access.h)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from torch import Tensor

from unbounded.errors import ShapeError
from unbounded.memories.core.structure import Buffer, CallSizes, Structure
from unbounded.memories.lie_access.groups import (
    KERNEL_GROUPS,
    Group,
    ScaledSpecialOrthogonal,
    SpecialOrthogonal,
)
from unbounded.memories.lie_access.reference import STEPS, LieAccessMemory
from unbounded.memories.lie_access.weightings import WEIGHTINGS
from unbounded.options import options_of

#: In the order of `LieGroup` and `LieStep` in csrc/lie_heads.h.
_GROUPS: Final = tuple(group.name for group in KERNEL_GROUPS)
_STEPS: Final = tuple(STEPS)
#: Greatest number of coordinates of a key that a kernel rotates (`SkewRotation` in
#: csrc/lie_rotation.h).
ROTATED: Final = 16


class LieAccessStructure(Structure[LieAccessMemory]):
    """A memory of rows with key, value and strength, read by their distances from a moving head.

    The options are listed in the header. Group and step are indices in GROUPS and STEPS, and a
    capacity of 0 represents no capacity.
    """

    name, memory_type = "lie_access", LieAccessMemory
    option_names = (
        "width", "key_size", "group", "is_softmax", "step", "has_key_gates", "has_action_gates",
        "capacity", "drop", "read_heads", "write_heads",
    )  # fmt: skip

    @property
    def options(self) -> tuple[int, ...]:
        """Return the options in the header's order."""
        memory = self.memory
        return (
            memory.width,
            memory.group.key_size,
            KERNEL_GROUPS.index(type(memory.group)),
            int(memory.weighting_name == "softmax"),
            _STEPS.index(memory.step_length),
            int(memory.key_gate),
            int(memory.action_gate),
            memory.capacity or 0,
            memory.drop,
            memory.read_heads,
            memory.write_heads,
        )

    @classmethod
    def memory_of(cls, options: Sequence[int]) -> LieAccessMemory:
        """Build a memory with these options."""
        width, key_size, group, is_softmax, step, key_gates, action_gates = options[:7]
        capacity, drop, read_heads, write_heads = options[7:]
        for name, place, choices in (("group", group, _GROUPS), ("step", step, _STEPS)):
            if not 0 <= place < len(choices):
                raise ShapeError(f"{name}: expected a place in {choices}, got {place}.")
        kind: Callable[..., Group] = KERNEL_GROUPS[group]
        made = kind(key_size) if "key_size" in options_of(kind) else kind()
        if (reason := _why_not_rotated(made)) is not None:
            raise ShapeError(f"key_size: {reason}, got {key_size}.")
        return LieAccessMemory(
            width,
            made,
            "softmax" if is_softmax else "inverse_square",
            _STEPS[step],
            key_size=key_size,
            key_gate=bool(key_gates),
            action_gate=bool(action_gates),
            capacity=capacity or None,
            drop=drop if capacity else None,
            read_heads=read_heads,
            write_heads=write_heads,
        )

    @classmethod
    def why_not(cls, memory: LieAccessMemory) -> str | None:
        """Custom groups and weightings have no kernel."""
        if type(memory.group) not in KERNEL_GROUPS:
            size = memory.group.key_size
            return f"no kernel supports the group {memory.group.name} on keys of size {size}"
        if (reason := _why_not_rotated(memory.group)) is not None:
            return reason
        if memory.weighting_name not in WEIGHTINGS:
            return f"no kernel supports the weighting {memory.weighting_name}"
        return None

    def saved(self, sizes: CallSizes) -> dict[str, Buffer]:
        """Saves the instruction and the head positions of each step, and every row."""
        memory, group = self.memory, self.memory.group
        leading, heads = (sizes.steps, sizes.batch), memory.read_heads + memory.write_heads
        rows = sizes.rows + memory.write_heads * sizes.steps
        padded = sizes.padded(rows)
        slots = (memory.capacity + 1) if memory.capacity else 0
        return {
            "instructions": Buffer((*leading, self.head_rows)),
            "places": Buffer((*leading, heads * (group.key_size + group.action_size))),
            "keys": Buffer((sizes.batch, group.key_size, padded)),
            "strengths": Buffer((sizes.batch, padded)),
            "values": Buffer((sizes.batch, rows * memory.width + sizes.lanes)),
            "firsts": Buffer((sizes.batch, sizes.steps if slots else 0), True, starts_zero=True),
            "slots": Buffer((sizes.batch, slots), True, starts_zero=True),
        }

    def can_fail(self, rows: int, steps: int) -> bool:
        """Whether keys can grow without bound."""
        del rows, steps
        return self.memory.can_grow

    def check_errors(self, errors: Tensor | None) -> None:
        """Raise NonFiniteError if a key exceeds the limit."""
        if errors is not None and bool(errors.any()):
            raise self.memory.growth_error("read_key" if bool((errors & 1).any()) else "write_key")


def _why_not_rotated(group: Group) -> str | None:
    """The reason why the kernels cannot rotate the keys of a group; None if there is no reason."""
    rotates = isinstance(group, SpecialOrthogonal | ScaledSpecialOrthogonal)
    if not rotates or group.key_size <= ROTATED:
        return None
    return f"the kernels rotate keys of at most {ROTATED} coordinates"
