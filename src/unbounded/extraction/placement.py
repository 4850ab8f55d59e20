"""Where the heads of a tape or of rows with keys are, and whether they are at one place each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import Tensor

from unbounded.errors import ConfigError
from unbounded.memories import LieAccessMemory, Memory, TuringTape
from unbounded.memories.lie_weights import WEIGHTINGS, squared_distances

#: A head that has so much of its weight at one place is there.
WHOLE: Final = 0.999
#: What is added to a cell and is less than this is nothing.
_NOTHING: Final = 1e-3
#: Points and moves are told apart to so many decimals.
_DECIMALS: Final = 4


class Placement:
    """How sure it is where the heads of a memory are after each step."""

    def __init__(self) -> None:
        self._weights: list[Tensor] = []
        self._lookups: list[Tensor] = []

    def add(self, weights: Tensor, lookups: Tensor) -> None:
        """Look at some steps.

        Args:
            weights: of the likeliest place of each head, [B, H].
            lookups: whether it asked for a place by what is there, bool [B, H].
        """
        self._weights.append(weights)
        self._lookups.append(lookups)

    def check(self, goes_on: Sequence[bool]) -> None:
        """Check that each head was at one place, to which it moved.

        Args:
            goes_on: of each step whether another one follows: what is read after the last is not
                seen by anything.
        Raises:
            ConfigError: it was not; the message says how far.
        """
        used = torch.tensor(goes_on)
        weights, lookups = torch.cat(self._weights)[used], torch.cat(self._lookups)[used]
        if bool(lookups.any()):
            whole = lookups & (weights >= WHOLE)
            raise ConfigError(
                [
                    "model: its heads look a cell up by what it holds in "
                    f"{int(lookups.sum())} of {lookups.numel()} moves (gates of 1), and "
                    f"{int(whole.sum())} of these come to one cell with {WHOLE} of the weight. "
                    "What can be extracted: tapes whose heads move from where they are"
                ]
            )
        soft = weights < WHOLE
        if bool(soft.any()):
            raise ConfigError(
                [
                    f"model: its heads are at no one place: in {int(soft.sum())} of "
                    f"{soft.numel()} moves the likeliest has less than {WHOLE} of the weight, "
                    f"{float(weights.min()):.4f} at the least, so that what is read is a mixture"
                ]
            )


def check_addressed(memory: Memory[Any, Any]) -> None:
    """Check that a tape or rows with keys begin as a machine can.

    Raises:
        ConfigError: they do not.
    """
    fault = None
    if isinstance(memory, TuringTape) and (
        memory.initial_weights != "first" or memory.writes_first
    ):
        fault = "its heads begin at no one place, or write before the first step"
    if isinstance(memory, TuringTape) and memory.initial_cells == "random":
        fault = "its cells begin with what is drawn anew for each word"
    if isinstance(memory, LieAccessMemory):
        if memory.group.name != "translation":
            fault = f"its heads move by the group {memory.group.name}, and not by adding"
        elif memory.initial != "constant" or memory.capacity is not None:
            fault = "it begins with a row of its own, or lets rows go"
    if fault is not None:
        raise ConfigError([f"model: {memory!r} is no machine over symbols: {fault}"])


def placed(
    memory: Memory[Any, Any],
    instruction: tuple[Tensor, ...],
    before: Any,
    after: Any,
    placement: Placement,
) -> tuple[list[tuple[Any, ...]], list[Tensor], list[tuple[bool, ...]]]:
    """The moves of a step and what it writes.

    Args:
        memory: a tape or rows with keys.
        instruction: fields [B, ...].
        before, after: the memory's state; before is None at the first step.
        placement: told how sure it is where the heads are.
    Returns:
        for each of B the actions; for each value what it is, [B, M]; for each of B and each value
        whether it is written.
    """
    told = dict(zip((head.name for head in memory.heads), instruction, strict=True))
    if isinstance(memory, TuringTape):
        return _on_tape(memory, told, after, placement)
    assert isinstance(memory, LieAccessMemory)
    return _on_keys(memory, told, before, after, placement)


def _on_tape(
    memory: TuringTape, told: dict[str, Tensor], after: Any, placement: Placement
) -> tuple[list[tuple[Any, ...]], list[Tensor], list[tuple[bool, ...]]]:
    weights = torch.cat([after.read_weights, after.write_weights], dim=1)
    gates = torch.cat([told["read_gate"], told["write_gate"]], dim=1)
    placement.add(weights.amax(dim=-1), gates > 0.5)
    shifts = torch.cat([told["read_shift"], told["write_shift"]], dim=1).argmax(dim=-1)
    moves = [tuple(row) for row in (shifts - memory.shift_range).tolist()]
    places = after.write_weights.argmax(dim=-1)
    # What a cell holds after the step: a cell of which a part is erased is another symbol.
    values = [after.cells[torch.arange(len(places)), own] for own in places.unbind(dim=1)]
    changes = (told["erase"] > 0.5).any(dim=-1) | (told["add"].abs() > _NOTHING).any(dim=-1)
    return moves, values, [tuple(row) for row in changes.tolist()]


def _on_keys(
    memory: LieAccessMemory, told: dict[str, Tensor], before: Any, after: Any, placement: Placement
) -> tuple[list[tuple[Any, ...]], list[Tensor], list[tuple[bool, ...]]]:
    size, batch_size = memory.group.key_size, len(told["value"])
    likeliest = torch.ones(batch_size)
    if before is not None and before.keys.shape[1]:
        distances = squared_distances(after.read_key, before.keys)
        shares = WEIGHTINGS[memory.weighting](distances, before.strengths, told.get("temperature"))
        # Where there is no row nothing is read, and that is sure.
        likeliest = torch.where(shares.sum(dim=-1) > 0, shares.amax(dim=-1), 1.0)
    placement.add(likeliest.unsqueeze(1), torch.zeros(batch_size, 1, dtype=torch.bool))
    actions: list[list[tuple[str, tuple[float, ...]]]] = [[] for _ in range(batch_size)]
    for who in ("read", "write"):
        now = getattr(after, f"{who}_key")
        old = torch.zeros(batch_size, size) if before is None else getattr(before, f"{who}_key")
        gate = told.get(f"{who}_key_gate", torch.ones(batch_size)) > 0.5
        for row, jumps in enumerate(gate.tolist()):
            point = now[row] if jumps else now[row] - old[row]
            # -0.0 is 0.0.
            rounded = tuple(round(number, _DECIMALS) + 0.0 for number in point.tolist())
            actions[row].append(("to" if jumps else "by", rounded))
    written: list[tuple[bool, ...]] = [(flag,) for flag in (told["strength"] > 0.5).tolist()]
    return [tuple(row) for row in actions], [told["value"]], written
