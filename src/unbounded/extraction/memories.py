"""The data structures of hardened memories, and their instructions as actions."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from unbounded.errors import ConfigError
from unbounded.extraction.addressed import KeyedRows, Tape
from unbounded.extraction.placement import check_addressed
from unbounded.extraction.structures import Deque, Lists, Queue, Stack, Stacks
from unbounded.memories import (
    LieAccessMemory,
    Memory,
    NeuralDeque,
    NeuralQueue,
    NeuralStack,
    SuperpositionList,
    SuperpositionStack,
    TuringTape,
)
from unbounded.memories.superposition import SuperpositionMemory


class Shape(NamedTuple):
    """A memory's instructions and read vectors in terms of symbols.

    Fields:
        structure: name of the class in `structures` or `addressed`.
        options: its arguments.
        values: for each value of an instruction, the number of its alphabet.
        slots: for each symbol that is read, the number of its alphabet.
        actions: names of the gates' actions.
    """

    structure: str
    options: tuple[int, ...]
    values: tuple[int, ...]
    slots: tuple[int, ...]
    actions: tuple[str, ...]

    @property
    def is_addressed(self) -> bool:
        """Whether it has heads that move between places."""
        return self.structure in ("Tape", "KeyedRows")

    @property
    def idle(self) -> Any:
        """The action that does nothing."""
        if self.structure == "KeyedRows":
            return ("by", (0.0,) * self.options[0])
        return "NO-OP" if self.structure in ("Stacks", "Lists") else 0

    def new(self) -> Any:
        """An empty structure."""
        return STRUCTURES[self.structure](*self.options)


#: The classes of `structures` and `addressed` by name.
STRUCTURES: Final[dict[str, Any]] = {
    structure.__name__: structure
    for structure in (Stack, Queue, Deque, Stacks, Lists, Tape, KeyedRows)
}
_WRITES: Final = ("PUSH", "INSERT")


def shape_of(memory: Memory[Any, Any] | None) -> Shape:
    """The data structure of a memory.

    Raises:
        ConfigError: there is none: the model has no memory, or one whose heads have another initial
            position or move otherwise.
    """
    if isinstance(memory, NeuralStack):
        return Shape("Stack", (), (0,), (0,), ("push", "pop"))
    if isinstance(memory, NeuralQueue):
        return Shape("Queue", (), (0,), (0,), ("push", "pop"))
    if isinstance(memory, NeuralDeque):
        ends = ("top push", "top pop", "bottom push", "bottom pop")
        return Shape("Deque", (), (0, 0), (0, 0), ends)
    if isinstance(memory, SuperpositionStack | SuperpositionList):
        name = "Stacks" if isinstance(memory, SuperpositionStack) else "Lists"
        count, depth = memory.count, memory.depth
        slots = tuple(s for s in range(count) for _ in range(depth))
        one = "stack" if name == "Stacks" else "list"
        actions = tuple(f"{one} {s + 1}" for s in range(count))
        return Shape(name, (count, depth), tuple(range(count)), slots, actions)
    if isinstance(memory, TuringTape):
        check_addressed(memory)
        readers, writers = memory.read_heads, memory.write_heads
        places = (*_numbered("read", readers), *_numbered("write", writers))
        is_circular, before = int(memory.shift == "circular"), int(memory.reads == "before")
        options = (memory.slots, is_circular, readers, writers, before)
        return Shape("Tape", options, (0,) * writers, (0,) * readers, places)
    if isinstance(memory, LieAccessMemory):
        check_addressed(memory)
        return Shape("KeyedRows", (memory.group.key_size,), (0,), (0,), ("read", "write"))
    what = "a model without a memory" if memory is None else repr(memory)
    raise ConfigError(
        [
            f"model: {what} is no automaton over symbols. What can be extracted: stacks, queues, "
            "deques, superposition stacks and lists, tapes and Lie-access memories"
        ]
    )


def _numbered(name: str, count: int) -> tuple[str, ...]:
    return (name,) if count == 1 else tuple(f"{name} {k + 1}" for k in range(count))


def saturated(
    memory: Memory[Any, Any], instruction: tuple[Tensor, ...]
) -> tuple[list[tuple[Any, ...]], list[list[Tensor | None]]]:
    """Instructions as actions, and the written values.

    Args:
        memory: a memory with a `shape_of`.
        instruction: fields [B, ...].
    Returns:
        for each of B the actions, and for each value the written vector, None for none.
    """
    fields_by_name = dict(zip((head.name for head in memory.heads), instruction, strict=True))
    if isinstance(memory, SuperpositionMemory):
        names = memory.actions
        chosen = fields_by_name["action"].argmax(dim=-1).tolist()
        actions = [tuple(names[action] for action in row) for row in chosen]
        values_of = [list(row.split(1)) for row in fields_by_name["value"]]
        written: list[list[Tensor | None]] = [
            [value if action in _WRITES else None for value, action in zip(*both, strict=True)]
            for both in zip(values_of, actions, strict=True)
        ]
        return actions, written
    ends = ("top_", "bottom_") if "top_value" in fields_by_name else ("",)
    fields = [fields_by_name[f"{end}{what}"] > 0.5 for end in ends for what in ("push", "pop")]
    bits = [tuple(int(bit) for bit in row) for row in torch.stack(fields, dim=1).tolist()]
    values = [
        [fields_by_name[f"{end}value"][b] if row[2 * k] else None for k, end in enumerate(ends)]
        for b, row in enumerate(bits)
    ]
    return bits, values
