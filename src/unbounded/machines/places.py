"""Machines for copy, reversal and a^n b^n on a tape, and for reversal with rows that have keys.

Here nothing is looked up by what it is like: every head moves from where it is. The tasks are those
of Grefenstette et al. 2015 and Joulin & Mikolov 2015; the machines are ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from unbounded.errors import ConfigError
from unbounded.machines.assembly import ONE, Terms, Unit, assemble, either, is_on
from unbounded.machines.transduction import ANSWERS, input_names, reads, transduction_task
from unbounded.models.memory_model import MemoryModel

_NEVER: Terms = {ONE: -1.0}
_ALWAYS: Terms = {ONE: 1.0}


def copy_on_tape(symbols: int = 128, slots: int = 128) -> MemoryModel:
    """Say the source again: the read head waits at the first symbol until it is time to answer.

    Args:
        symbols: of the task, at least 1.
        slots: of the tape, one more than the longest word has symbols.
    Raises:
        ConfigError: `symbols` or `slots` is out of range.
    """
    begins = ["x:<s>", *ANSWERS]
    return _on_tape("copy", symbols, slots, forward=begins, back=[])


def reversal_on_tape(symbols: int = 128, slots: int = 128) -> MemoryModel:
    """Say the source backwards: the read head goes with the write head, and then back.

    Args and errors as for `copy_on_tape`.
    """
    task = transduction_task("reversal", symbols)
    return _on_tape("reversal", symbols, slots, forward=reads(task), back=list(ANSWERS))


def anbn_on_tape(slots: int = 128) -> MemoryModel:
    """Say how a^n b^n goes on: both heads go forward on a, back on b; the first a is marked.

    Args:
        slots: of the tape, one more than the greatest n.
    Raises:
        ConfigError: `slots` is out of range.
    """
    plain, marked = "r:0", "r:1"
    units = {
        "a": Unit({"x:a": 1.0}),
        "b": Unit({"x:b": 1.0}),
        # Nothing is below the head: this a is the first.
        "marking": Unit({"x:a": 1.0, plain: -1.0, marked: -1.0}),
        "counting": Unit({"x:a": 1.0, plain: 1.0, marked: 1.0}, above=1.5),
        # The first a is counted off: no b is left.
        "last": Unit({"x:b": 1.0, marked: 1.0}, above=1.5),
    }
    moves = _moves({"a": 1.0}, {"b": 1.0})
    heads: dict[str, Sequence[Terms]] = {
        "read_shift": moves,
        "write_shift": moves,
        "erase": [is_on("a")] * 2,
        "add": [{"counting": 1.0}, {"marking": 1.0}],
    }
    logits: list[Terms] = [{"a": 1.0, "last": 2.0}, {"b": 1.0}]
    return _with_tape(["a", "b"], 2, slots, units, heads, logits)


def reversal_by_keys(symbols: int = 128) -> MemoryModel:
    """Say the source backwards with a Lie-access memory whose heads move by a step of length 1.

    What is put at a step is not read at it: the read head is one row behind, and the last symbol
    waits in the controller. At <s> a row of nothing is put where the heads begin, which ends the
    answer.

    Args:
        symbols: of the task, at least 1.
    Raises:
        ConfigError: `symbols` is out of range.
    """
    task = transduction_task("reversal", symbols)
    units = {
        "answering": Unit(ANSWERS),
        "reading": Unit(either(reads(task))),
        # The read head is one row behind, and stays there at |||.
        "following": Unit({**either(reads(task)), "reading": 1.0}, above=1.5),
        "back": Unit({"answering": 1.0}),
        "putting": Unit({"x:<s>": 1.0, **either(reads(task))}),
    }
    for i, symbol in enumerate(reads(task)):
        units[f"put{i}"] = Unit({symbol: 1.0})
        # At ||| what was put last, whatever is read; later what is read.
        last, shown = {"x:|||": 1.0, f"put{i}": 2.0}, {"answering": 2.0, f"r:{i}": 1.0}
        units[f"say{i}"] = Unit({**last, **shown}, above=2.5)
    nowhere: Terms = {}
    heads: dict[str, Sequence[Terms]] = {
        **{f"{who}_key_gate": [_NEVER] for who in ("read", "write")},
        **{f"{who}_action_gate": [_ALWAYS] for who in ("read", "write")},
        "read_action": [{"following": 1.0, "back": -1.0}, nowhere],
        "write_action": [{"reading": 1.0}, nowhere],
        "value": [{f"put{i}": 1.0} for i in range(symbols)],
        "strength": [is_on("putting")],
    }
    memory = {"name": "lie_access", "width": symbols, "write_gate_bias": None}
    return assemble(input_names(task), memory, units, heads, _end_or_symbol(symbols))


def _on_tape(
    name: str, symbols: int, slots: int, *, forward: Sequence[str], back: Sequence[str]
) -> MemoryModel:
    """Each symbol is put one cell farther; the read head moves where some signals are on."""
    task = transduction_task(name, symbols)
    units = {
        "answering": Unit(ANSWERS),
        "putting": Unit(either(reads(task))),
        "forward": Unit(either(forward)),
        "back": Unit(either(back)),
    }
    for i, symbol in enumerate(reads(task)):
        units[f"put{i}"] = Unit({symbol: 1.0})
        units[f"say{i}"] = Unit({f"r:{i}": 1.0, **ANSWERS}, above=1.5)
    heads: dict[str, Sequence[Terms]] = {
        "read_shift": _moves({"forward": 1.0}, {"back": 1.0}),
        "write_shift": _moves({"putting": 1.0}, {}),
        "erase": [is_on("putting")] * symbols,
        "add": [{f"put{i}": 1.0} for i in range(symbols)],
    }
    return _with_tape(input_names(task), symbols, slots, units, heads, _end_or_symbol(symbols))


def _with_tape(
    inputs: Sequence[str],
    width: int,
    slots: int,
    units: Mapping[str, Unit],
    heads: Mapping[str, Sequence[Terms]],
    logits: Sequence[Terms],
) -> MemoryModel:
    """The machine whose two heads look nothing up."""
    if not isinstance(slots, int) or slots < 3:
        raise ConfigError([f"slots: expected an integer of at least 3, got {slots!r}"])
    memory = {"name": "turing_tape", "slots": slots, "width": width}
    gates = {f"{who}_gate": [_NEVER] for who in ("read", "write")}
    return assemble(inputs, memory, units, {**gates, **heads}, logits)


def _moves(forward: Terms, back: Terms) -> list[Terms]:
    """The sums of a shift: back, where neither is on to stay, and forward."""
    stays = {ONE: 0.5}
    return [back, stays, forward]


def _end_or_symbol(symbols: int) -> list[Terms]:
    """Where nothing else is said, the target is over."""
    return [{ONE: 1.0}, *({f"say{i}": 2.0} for i in range(symbols))]
