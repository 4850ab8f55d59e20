"""Constructed networks with tapes (copy, reversal, a^n b^n, duplicate, addition) and keyed rows.

No head uses content addressing. Every head moves relative to its position. The tasks are from
Grefenstette et al. 2015, Joulin & Mikolov 2015 and Delétang et al. 2023. The networks are not from
these papers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from unbounded.constructions.assembly import ONE, Terms, Unit, assemble, either, is_on
from unbounded.constructions.transduction import ANSWERS, input_names, reads, transduction_task
from unbounded.errors import ConfigError
from unbounded.models.memory_model import MemoryModel
from unbounded.tasks import make_task
from unbounded.tasks.questions import ANSWER, COMPUTE

_NEVER: Terms = {ONE: -1.0}
_ALWAYS: Terms = {ONE: 1.0}


def copy_on_tape(symbols: int = 128, slots: int = 128) -> MemoryModel:
    """Repeat the source: the read head waits at the first symbol until the answer starts.

    Args:
        symbols: number of symbols in the task, at least 1.
        slots: of the tape, one more than the symbols of the longest sequence.
    Raises:
        ConfigError: `symbols` or `slots` is out of range.
    """
    forward = ["x:<s>", *ANSWERS]
    return _on_tape("copy", symbols, slots, forward=forward, back=[])


def reversal_on_tape(symbols: int = 128, slots: int = 128) -> MemoryModel:
    """Reverse the source: the read head follows the write head, and then moves back.

    Args and errors are as for `copy_on_tape`.
    """
    task = transduction_task("reversal", symbols)
    return _on_tape("reversal", symbols, slots, forward=reads(task), back=list(ANSWERS))


def anbn_on_tape(slots: int = 128) -> MemoryModel:
    """Predict a^n b^n: both heads move forward on a and back on b; the first a is marked.

    Args:
        slots: of the tape, one more than the largest n.
    Raises:
        ConfigError: `slots` is out of range.
    """
    plain, marked = "r:0", "r:1"
    units = {
        "a": Unit({"x:a": 1.0}),
        "b": Unit({"x:b": 1.0}),
        # The cell below the head is empty, so this a is the first.
        "marking": Unit({"x:a": 1.0, plain: -1.0, marked: -1.0}),
        "counting": Unit({"x:a": 1.0, plain: 1.0, marked: 1.0}, above=1.5),
        # The first a is reached, so no b is left.
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
    """Reverse the source with a Lie-access memory whose heads move by steps of length 1.

    A row is not read at the step that writes it. The read head is one row behind, and the last
    symbol waits in the controller. At <s> an empty row is written at the heads' initial position.
    This row ends the answer.

    Args:
        symbols: number of symbols in the task, at least 1.
    Raises:
        ConfigError: `symbols` is out of range.
    """
    task = transduction_task("reversal", symbols)
    units = {
        "answering": Unit(ANSWERS),
        "read_vector": Unit(either(reads(task))),
        # The read head is one row behind, and stays there at |||.
        "following": Unit({**either(reads(task)), "read_vector": 1.0}, above=1.5),
        "back": Unit({"answering": 1.0}),
        "putting": Unit({"x:<s>": 1.0, **either(reads(task))}),
    }
    for i, symbol in enumerate(reads(task)):
        units[f"put{i}"] = Unit({symbol: 1.0})
        # At |||, output the last written symbol regardless of the read vector; later, output the
        # read vector.
        last, shown = {"x:|||": 1.0, f"put{i}": 2.0}, {"answering": 2.0, f"r:{i}": 1.0}
        units[f"say{i}"] = Unit({**last, **shown}, above=2.5)
    nowhere: Terms = {}
    heads: dict[str, Sequence[Terms]] = {
        **{f"{who}_key_gate": [_NEVER] for who in ("read", "write")},
        **{f"{who}_action_gate": [_ALWAYS] for who in ("read", "write")},
        "read_action": [{"following": 1.0, "back": -1.0}, nowhere],
        "write_action": [{"read_vector": 1.0}, nowhere],
        "value": [{f"put{i}": 1.0} for i in range(symbols)],
        "strength": [is_on("putting")],
    }
    memory = {"name": "lie_access", "width": symbols, "write_gate_bias": None}
    return assemble(input_names(task), memory, units, heads, _end_or_symbol(symbols))


def duplicate_on_tapes(slots: int = 128) -> MemoryModel:
    """Duplicate a string of bits with two rolling tapes, if each bit has a computation token.

    Both tapes hold the string. At the first computation token both jump back to its beginning. The
    first tape gives the first copy, and its next cell is blank, so the second gives the other.

    Args:
        slots: of each tape, at least twice the longest source; `evaluation` makes tapes longer.
    Raises:
        ShapeError: `slots` is not a positive integer.
    """
    task = make_task("duplicate_string", computation=1)
    bits, compute = ("0", "1"), f"x:{COMPUTE}"
    asked, digits = f"x:{ANSWER}", either([f"x:{bit}" for bit in bits])
    blank = {"r:0": -1.0, "r:1": -1.0}
    units = {
        "jump": Unit({compute: 1.0, **blank}),
        "first": Unit({asked: 1.0, **digits}),
        "second": Unit({asked: 1.0, **digits, **blank}),
    }
    for k, bit in enumerate(bits):
        units[f"put{k}"] = Unit(either([f"x:{bit}", f"r:{k}"]))
        units[f"again{k}"] = Unit(either([f"x:{bit}", f"r:{2 + k}"]))
        units[f"say{k}"] = Unit({f"r:{k}": 2.0, f"r:{1 - k}": -2.0, f"r:{2 + k}": 1.0})
    nowhere: Terms = {}
    heads: dict[str, Sequence[Terms]] = {
        "action": [
            terms
            for tape in ("first", "second")
            for terms in ({ONE: 0.5}, {tape: 1.0}, nowhere, nowhere, {"jump": 1.0})
        ],
        "value": [{f"{unit}{k}": 1.0} for unit in ("put", "again") for k in range(len(bits))],
    }
    memory = {
        "name": "rolling_tape", "slots": slots, "width": 2, "tapes": 2, "activation": "tanh"
    }  # fmt: skip
    logits: list[Terms] = [{"say0": 1.0}, {"say1": 1.0}]
    inputs = task.input_vocabulary
    return assemble(inputs, memory, units, heads, logits, task.source_end_token)


def binary_addition_on_tape(slots: int = 128) -> MemoryModel:
    """Add two numbers of any lengths on one tape, lowest digit first, with four read heads.

    The write head writes both numbers. Two read heads wait at their first digits, and move forward
    with the answer until their number ends. Two others count the digits 1 that are left in each
    number by their distance from the first cell, which is marked. The answer ends when no 1 and no
    carry is left. Sources without +, which only the variant "code" has, are answered wrongly.

    Args:
        slots: of the tape, one more than the symbols of the longest source.
    Raises:
        ConfigError: `slots` is out of range.
    """
    task = make_task("chomsky_binary_addition")
    asked, digits = f"x:{ANSWER}", either(["x:0", "x:1"])
    first, second, ones, other_ones = (
        [f"r:{3 * head + number}" for number in range(3)] for head in range(4)
    )
    total = {asked: 4.0, first[1]: 1.0, second[1]: 1.0, "carry": 1.0}
    units = {
        # ONE is 0 at the first symbol, which is in the cell where all heads start.
        "mark": Unit({**digits, ONE: -1.0}),
        "put": Unit({**digits, "x:+": 1.0}),
        "put0": Unit({"x:0": 1.0}),
        "put1": Unit({"x:1": 1.0}),
        "forward": Unit({**digits, "x:+": 1.0, ONE: 1.0}, above=1.5),
        "plus": Unit({"x:+": 1.0}),
        "in second": Unit({"x:+": 1.0, "in second": 1.0}),
        # Heads stop at an empty cell, and so does +.
        "first": Unit({asked: 1.0, **either(first[:2])}, above=1.5),
        # This head also moves with the write head, to the first digit after +.
        "second": Unit(
            {**digits, "x:+": 1.0, ONE: 1.0, "in second": -2.0, "plus": 2.0}
            | {asked: 2.0, **either(second[:2])},
            above=1.5,
        ),
        "count first": Unit({"x:1": 1.0, "in second": -1.0}),
        "count second": Unit({"x:1": 1.0, "in second": 1.0}, above=1.5),
        "less first": Unit({asked: 1.0, first[1]: 1.0}, above=1.5),
        "less second": Unit({asked: 1.0, second[1]: 1.0}, above=1.5),
        "carry": Unit(total, above=5.5),
        "1 to 3": Unit(total, above=4.5),
        "3": Unit(total, above=6.5),
        "end": Unit({asked: 1.0, ones[2]: 1.0, other_ones[2]: 1.0, "carry": -1.0}, above=2.5),
    }
    nowhere: Terms = {}
    heads: dict[str, Sequence[Terms]] = {
        "read_shift": [
            *_moves({"first": 1.0}, nowhere),
            *_moves({"second": 1.0}, nowhere),
            *_moves({"count first": 1.0}, {"less first": 1.0}),
            *_moves({"count second": 1.0}, {"less second": 1.0}),
        ],
        "write_shift": _moves({"forward": 1.0}, nowhere),
        "erase": [is_on("put")] * 3,
        "add": [{"put0": 1.0}, {"put1": 1.0}, {"mark": 1.0}],
    }
    logits: list[Terms] = [
        {ONE: 1.0},
        {"1 to 3": 2.0, "carry": -2.0, "3": 2.0},
        {"end": 3.0},
    ]
    return _with_tape(task.input_vocabulary, 3, slots, units, heads, logits, read_heads=4)


def _on_tape(
    name: str, symbols: int, slots: int, *, forward: Sequence[str], back: Sequence[str]
) -> MemoryModel:
    """Make a network that writes each symbol one cell further; signals move the read head."""
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
    read_heads: int = 1,
) -> MemoryModel:
    """Assemble a network with read heads and a write head without content addressing."""
    if not isinstance(slots, int) or slots < 3:
        raise ConfigError(f"slots: expected an integer of at least 3, got {slots!r}")
    memory = {"name": "turing_tape", "slots": slots, "width": width, "read_heads": read_heads}
    gates = {"read_gate": [_NEVER] * read_heads, "write_gate": [_NEVER]}
    return assemble(inputs, memory, units, {**gates, **heads}, logits)


def _moves(forward: Terms, back: Terms) -> list[Terms]:
    """The sums of a shift: back, stay (if no signal is on), and forward."""
    stays = {ONE: 0.5}
    return [back, stays, forward]


def _end_or_symbol(symbols: int) -> list[Terms]:
    """Logits of the symbols. Without an active symbol, the end token has the largest logit."""
    return [{ONE: 1.0}, *({f"say{i}": 2.0} for i in range(symbols))]
