"""The data structures of hardened memories, and their instructions as actions."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from unbounded.errors import ConfigError
from unbounded.extraction.placement import check_addressed
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


class Stack:
    """A stack: last in, first out.

    The actions are push and pop. A step pops, pushes, then shows the top.
    """

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def step(self, actions: tuple[Any, ...], values: tuple[Any, ...]) -> None:
        """Carry out the actions, each 0 or 1. The only value is the one to push."""
        push, pop = actions
        if pop and self.rows:
            self.rows.pop()
        if push:
            self.rows.append(values[0])

    def read(self) -> tuple[Any, ...]:
        """The top; None if the structure is empty."""
        return (self.rows[-1] if self.rows else None,)


class Queue:
    """A queue: first in, first out.

    The actions are push and pop. A step pops, pushes, then shows the front.
    """

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def step(self, actions: tuple[Any, ...], values: tuple[Any, ...]) -> None:
        """Carry out the actions, each 0 or 1. The only value is the one to push."""
        push, pop = actions
        if pop and self.rows:
            del self.rows[0]
        if push:
            self.rows.append(values[0])

    def read(self) -> tuple[Any, ...]:
        """The front; None if the structure is empty."""
        return (self.rows[0] if self.rows else None,)


class Deque:
    """Two ends.

    The actions are push and pop at the top, and push and pop at the bottom. A step shows both ends.
    """

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def step(self, actions: tuple[Any, ...], values: tuple[Any, ...]) -> None:
        """Pop the top, pop the bottom, push both.

        The values are those for the top and the bottom.
        """
        top_push, top_pop, bottom_push, bottom_pop = actions
        if top_pop and self.rows:
            self.rows.pop()
        if bottom_pop and self.rows:
            del self.rows[0]
        if top_push:
            self.rows.append(values[0])
        if bottom_push:
            self.rows.insert(0, values[1])

    def read(self) -> tuple[Any, ...]:
        """Top and bottom; None for an end if the structure is empty."""
        return (self.rows[-1], self.rows[0]) if self.rows else (None, None)


class Stacks:
    """Parallel stacks, each of which shows its topmost cells.

    The action of each stack is PUSH, POP or NO-OP.
    """

    def __init__(self, count: int, depth: int) -> None:
        self.depth = depth
        self.rows: list[list[Any]] = [[] for _ in range(count)]

    def step(self, actions: tuple[Any, ...], values: tuple[Any, ...]) -> None:
        """Carry out one action for each stack, with one value for each."""
        for rows, action, value in zip(self.rows, actions, values, strict=True):
            if action == "PUSH":
                rows.append(value)
            elif action == "POP" and rows:
                rows.pop()

    def read(self) -> tuple[Any, ...]:
        """The topmost cells of each stack, from the top down; None for a missing cell."""
        return tuple(
            rows[-1 - k] if k < len(rows) else None for rows in self.rows for k in range(self.depth)
        )


class Lists:
    """Parallel lists, each of which shows the cell at HEAD and the cells left of it.

    The action of each list is RIGHT, LEFT, INSERT or NO-OP.
    """

    def __init__(self, count: int, depth: int) -> None:
        self.depth = depth
        # The cells from HEAD to the left, and the cells right of HEAD. The last item in each is the
        # nearest.
        self.left: list[list[Any]] = [[None] for _ in range(count)]
        self.right: list[list[Any]] = [[] for _ in range(count)]

    def step(self, actions: tuple[Any, ...], values: tuple[Any, ...]) -> None:
        """Carry out one action for each list, with one value for each."""
        for left, right, action, value in zip(self.left, self.right, actions, values, strict=True):
            if action == "RIGHT":
                left.append(right.pop() if right else None)
            elif action == "LEFT":
                right.append(left.pop() if left else None)
                if not left:
                    left.append(None)
            elif action == "INSERT":
                left.append(value)

    def read(self) -> tuple[Any, ...]:
        """HEAD and the cells left of it, for each list; None for a missing cell."""
        return tuple(
            left[-1 - k] if k < len(left) else None for left in self.left for k in range(self.depth)
        )


class Tape:
    """A tape: cells in a row, with heads that move.

    The actions are the moves of the heads, with the read heads first.

    A step moves all heads, then writes. A step shows the cells below the read heads, either after
    or before writing.
    """

    def __init__(self, slots: int, circular: int, readers: int, writers: int, before: int) -> None:
        self.slots, self.circular, self.readers, self.before = slots, circular, readers, before
        self.cells: dict[int, Any] = {}
        self.places = [0] * (readers + writers)
        self.shown = self.below()

    def below(self) -> tuple[Any, ...]:
        """The content below each read head; None if nothing was written."""
        return tuple(self.cells.get(place) for place in self.places[: self.readers])

    def step(self, actions: tuple[Any, ...], values: tuple[Any, ...]) -> None:
        """Move the heads by the actions.

        Each write head has a value; None means no write.
        """
        for head, move in enumerate(actions):
            self.places[head] += move
            if self.circular:
                self.places[head] %= self.slots
        shown = self.below()
        for place, value in zip(self.places[self.readers :], values, strict=True):
            if value is not None:
                self.cells[place] = value
        self.shown = shown if self.before else self.below()

    def read(self) -> tuple[Any, ...]:
        """The symbols that the last step showed; None for a place where nothing was written."""
        return self.shown


class KeyedRows:
    """Rows at keys, which are points between which two heads move.

    The read head and the write head each have an action.

    A move is ("by", a vector), relative to the head's place, or ("to", a point). A step moves both
    heads, shows the row that is nearest to the read head, then writes a row at the write head.
    """

    def __init__(self, size: int) -> None:
        self.heads = [(0.0,) * size, (0.0,) * size]
        self.rows: list[Any] = []
        self.shown: Any = None

    def step(self, actions: tuple[Any, ...], values: tuple[Any, ...]) -> None:
        """Carry out the actions. The only value is the one to write; None means no row."""
        for head, (how, point) in enumerate(actions):
            origin = self.heads[head] if how == "by" else (0.0,) * len(point)
            self.heads[head] = tuple(a + b for a, b in zip(origin, point, strict=True))
        reader, writer = self.heads
        nearest = min(self.rows, key=lambda row: self.distance(row[0], reader), default=None)
        self.shown = None if nearest is None else nearest[1]
        if values[0] is not None:
            self.rows.append((writer, values[0]))

    def distance(self, key: tuple[Any, ...], other: tuple[Any, ...]) -> float:
        """The square of the distance of two keys."""
        return float(sum((a - b) ** 2 for a, b in zip(key, other, strict=True)))

    def read(self) -> tuple[Any, ...]:
        """The value that the last step showed; None if there was no row."""
        return (self.shown,)


class Shape(NamedTuple):
    """The instructions and read vectors of a memory, expressed as symbols.

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
        """Whether the structure has heads that move between places."""
        return self.structure in ("Tape", "KeyedRows")

    @property
    def idle(self) -> Any:
        """The action that has no effect."""
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
        ConfigError: the model has no memory, or the heads of its memory have another initial
            position or move in another way.
    """
    if isinstance(memory, NeuralStack):
        return Shape("Stack", (), (0,), (0,), ("push", "pop"))
    if isinstance(memory, NeuralQueue):
        return Shape("Queue", (), (0,), (0,), ("push", "pop"))
    if isinstance(memory, NeuralDeque):
        ends = ("top push", "top pop", "bottom push", "bottom pop")
        return Shape("Deque", (), (0, 0), (0, 0), ends)
    if isinstance(memory, SuperpositionStack | SuperpositionList):
        if memory.width > 1:
            raise ConfigError(f"model: expected cells that are numbers (width=1), got {memory!r}")
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
        f"model: {what} is not an automaton over symbols. What can be extracted: stacks, "
        "queues, "
        "deques, superposition stacks and lists, tapes and Lie-access memories"
    )


def _numbered(name: str, count: int) -> tuple[str, ...]:
    return (name,) if count == 1 else tuple(f"{name} {k + 1}" for k in range(count))


def saturated(
    memory: Memory[Any, Any], instruction: tuple[Tensor, ...]
) -> tuple[list[tuple[Any, ...]], list[list[Tensor | None]]]:
    """Convert instructions to actions and written values.

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
