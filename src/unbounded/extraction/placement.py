"""Places of the heads of a tape or a Lie-access memory. Each head must be at a single place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import Tensor

from unbounded.errors import ConfigError
from unbounded.memories import LieAccessMemory, Memory, TuringTape

#: Least weight at which a head counts as being at a single place.
SINGLE_PLACE: Final = 0.999
#: Smaller additions to a cell than this are ignored.
_NEGLIGIBLE: Final = 1e-3
#: Number of decimals by which points and moves are distinguished.
_DECIMALS: Final = 4


class Placement:
    """The certainty of the heads' places after each step."""

    def __init__(self) -> None:
        self._weights: list[Tensor] = []
        self._lookups: list[Tensor] = []

    def add(self, weights: Tensor, lookups: Tensor) -> None:
        """Add some steps.

        Args:
            weights: of the likeliest place of each head, [B, H].
            lookups: whether a head is addressed by content, bool [B, H].
        """
        self._weights.append(weights)
        self._lookups.append(lookups)

    def check(self, has_next: Sequence[bool]) -> None:
        """Check that each head was at a single place, to which it moved.

        Args:
            goes_on: for each step whether another step follows. Last steps do not count, because
                nothing depends on their read vectors.
        Raises:
            ConfigError: it was not; the message has the extent.
        """
        used = torch.tensor(has_next)
        weights, lookups = torch.cat(self._weights)[used], torch.cat(self._lookups)[used]
        if bool(lookups.any()):
            at_one_place = lookups & (weights >= SINGLE_PLACE)
            raise ConfigError(
                "model: its heads address a cell by content in "
                f"{int(lookups.sum())} of {lookups.numel()} moves (gates of 1), and "
                f"{int(at_one_place.sum())} of these reach a single cell with {SINGLE_PLACE} "
                "of the weight. A tape can be extracted if its heads move from their last "
                "place only"
            )
        soft = weights < SINGLE_PLACE
        if bool(soft.any()):
            raise ConfigError(
                f"model: its heads are not at single places: in {int(soft.sum())} of "
                f"{soft.numel()} moves the likeliest cell has less than {SINGLE_PLACE} of the "
                f"weight, {float(weights.min()):.4f} at the least, so the read vector is a "
                "mixture"
            )


def check_addressed(memory: Memory[Any, Any]) -> None:
    """Check the initial state and the moves of a tape or a Lie-access memory.

    Raises:
        ConfigError: an automaton cannot have them.
    """
    error = None
    if isinstance(memory, TuringTape) and (
        memory.initial_weights != "first" or memory.writes_first
    ):
        error = "its heads have no single initial place, or write before the first step"
    if isinstance(memory, TuringTape) and memory.initial_cells == "random":
        error = "its initial cells are drawn for each string"
    if isinstance(memory, LieAccessMemory):
        if memory.read_heads > 1 or memory.write_heads > 1:
            error = "it has several read heads or write heads"
        elif memory.group.name != "translation":
            error = f"its heads move by the group {memory.group.name}, not by addition"
        elif memory.initial != "constant" or memory.capacity is not None:
            error = "it has an initial row, or drops rows"
    if error is not None:
        raise ConfigError(f"model: {memory!r} is not an automaton over symbols: {error}")


def placed(
    memory: Memory[Any, Any],
    instruction: tuple[Tensor, ...],
    before: Any,
    after: Any,
    placement: Placement,
) -> tuple[list[tuple[Any, ...]], list[Tensor], list[tuple[bool, ...]]]:
    """The moves of a step, and the values that it writes.

    Args:
        memory: a tape or a Lie-access memory.
        instruction: fields [B, ...].
        before, after: the memory's state; before is None at the first step.
        placement: receives the certainty of the heads' places.
    Returns:
        for each of B the actions; for each value its vectors, [B, M]; for each of B and each value
        whether it is written.
    """
    fields = dict(zip((head.name for head in memory.heads), instruction, strict=True))
    if isinstance(memory, TuringTape):
        return _on_tape(memory, fields, after, placement)
    assert isinstance(memory, LieAccessMemory)
    return _on_keys(memory, fields, before, after, placement)


def _on_tape(
    memory: TuringTape, fields: dict[str, Tensor], after: Any, placement: Placement
) -> tuple[list[tuple[Any, ...]], list[Tensor], list[tuple[bool, ...]]]:
    weights = torch.cat([after.read_weights, after.write_weights], dim=1)
    gates = torch.cat([fields["read_gate"], fields["write_gate"]], dim=1)
    placement.add(weights.amax(dim=-1), gates > 0.5)
    shifts = torch.cat([fields["read_shift"], fields["write_shift"]], dim=1).argmax(dim=-1)
    moves = [tuple(row) for row in (shifts - memory.shift_range).tolist()]
    places = after.write_weights.argmax(dim=-1)
    # The content of a cell after the step. A partly erased cell is another symbol.
    values = [after.cells[torch.arange(len(places)), column] for column in places.unbind(dim=1)]
    changes = (fields["erase"] > 0.5).any(dim=-1) | (fields["add"].abs() > _NEGLIGIBLE).any(dim=-1)
    return moves, values, [tuple(row) for row in changes.tolist()]


def _on_keys(
    memory: LieAccessMemory,
    fields: dict[str, Tensor],
    before: Any,
    after: Any,
    placement: Placement,
) -> tuple[list[tuple[Any, ...]], list[Tensor], list[tuple[bool, ...]]]:
    size, batch_size = memory.group.key_size, len(fields["value"])
    likeliest = torch.ones(batch_size)
    if before is not None and before.keys.shape[1]:
        shares = memory.read_weights(after.read_key, before, fields.get("temperature"))
        # Without a row, nothing is read, so the certainty is 1.
        likeliest = torch.where(shares.sum(dim=-1) > 0, shares.amax(dim=-1), 1.0)
    placement.add(likeliest.unsqueeze(1), torch.zeros(batch_size, 1, dtype=torch.bool))
    actions: list[list[tuple[str, tuple[float, ...]]]] = [[] for _ in range(batch_size)]
    for who in ("read", "write"):
        now = getattr(after, f"{who}_key")
        old = torch.zeros(batch_size, size) if before is None else getattr(before, f"{who}_key")
        gate = fields.get(f"{who}_key_gate", torch.ones(batch_size)) > 0.5
        for row, jumps in enumerate(gate.tolist()):
            point = now[row] if jumps else now[row] - old[row]
            # -0.0 is 0.0.
            rounded = tuple(round(number, _DECIMALS) + 0.0 for number in point.tolist())
            actions[row].append(("to" if jumps else "by", rounded))
    written: list[tuple[bool, ...]] = [(flag,) for flag in (fields["strength"] > 0.5).tolist()]
    return [tuple(row) for row in actions], [fields["value"]], written
