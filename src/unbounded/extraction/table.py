"""A machine as a table of text and as a graph in DOT."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from unbounded.extraction.machine import Case, Machine, Step


def table_lines(machine: Machine) -> list[tuple[str, ...]]:
    """A line for each case, headings first: state, input, what is read; then what is done."""
    lines: list[tuple[str, ...]] = [("state", "input", "reads", "does", "says", "next", "seen")]
    for case, step in machine.table.items():
        state, symbol, _ = case
        lines.append(
            (
                f"q{state}",
                machine.inputs[symbol],
                read_text(machine, case),
                done_text(machine, step),
                said_text(machine, step),
                f"q{step.state}",
                str(step.seen),
            )
        )
    return lines


def read_text(machine: Machine, case: Case) -> str:
    """What is read in a case; "." where nothing is there."""
    return " ".join(
        "." if symbol is None else machine.symbols[machine.shape.slots[k]][symbol]
        for k, symbol in enumerate(case[2])
    )


def done_text(machine: Machine, step: Step) -> str:
    """What the structure is told, with the symbols that are written; "-" where it is left alone."""
    shape = machine.shape
    written = [
        "" if symbol is None else machine.symbols[shape.values[k]][symbol]
        for k, symbol in enumerate(step.writes)
    ]
    if shape.structure in ("Stacks", "Lists"):
        return " ".join(
            f"{action} {symbol}".strip()
            for action, symbol in zip(step.actions, written, strict=True)
        )
    if shape.is_addressed:
        return _moves_text(machine, step, written)
    values = iter(written)
    words = []
    for name, bit in zip(shape.actions, step.actions, strict=True):
        symbol = next(values) if name.endswith("push") else ""
        if bit:
            words.append(f"{name} {symbol}".strip())
    # A step pops before it pushes.
    return ", ".join(sorted(words, key=lambda word: "push" in word)) or "-"


def _moves_text(machine: Machine, step: Step, written: list[str]) -> str:
    """Where the heads go, and what is written there; "-" where they stay and write nothing."""
    shape, words = machine.shape, []
    values = ["" for _ in range(len(shape.actions) - len(written))] + written
    for name, action, symbol in zip(shape.actions, step.actions, values, strict=True):
        if shape.structure == "Tape":
            move = f"{action:+d}" if action else ""
        else:
            how, point = action
            move = f"{how} ({', '.join(f'{number:g}' for number in point)})"
            move = "" if action == shape.idle else move
        what = " ".join(part for part in (move, f"puts {symbol}" if symbol else "") if part)
        if what:
            words.append(f"{name} {what}")
    return ", ".join(words) or "-"


def said_text(machine: Machine, step: Step) -> str:
    """What is said; "-" where nothing was ever asked for."""
    return "-" if step.says is None else machine.outputs[step.says]


def edges(machine: Machine) -> dict[tuple[int, int], list[str]]:
    """From state to state: a line for each case that leads there."""
    arrows: dict[tuple[int, int], list[str]] = defaultdict(list)
    for case, step in machine.table.items():
        said = "" if step.says is None else f" : {said_text(machine, step)}"
        arrows[(case[0], step.state)].append(
            f"{machine.inputs[case[1]]}, {read_text(machine, case)} / "
            f"{done_text(machine, step)}{said}"
        )
    return dict(arrows)


def dot_of(machine: Machine, title: str) -> str:
    """The graph of the states, for programs that draw DOT."""
    lines = [
        "digraph machine {",
        f"  label={json.dumps(title)}; rankdir=LR; node [shape=circle];",
        "  begin [shape=point];",
        f"  begin -> q{machine.start};",
    ]
    for (state, after), cases in edges(machine).items():
        lines.append(f"  q{state} -> q{after} [label={json.dumps(chr(10).join(cases))}];")
    return "\n".join([*lines, "}", ""])


def machine_data(machine: Machine) -> dict[str, Any]:
    """The machine as plain data, for a report."""
    return {
        "structure": machine.shape.structure,
        "options": list(machine.shape.options),
        "states": machine.states,
        "start": machine.start,
        "inputs": list(machine.inputs),
        "outputs": list(machine.outputs),
        "symbols": [list(names) for names in machine.symbols],
        "table": [
            {
                "state": case[0],
                "input": case[1],
                "reads": list(case[2]),
                "next": step.state,
                "actions": list(step.actions),
                "writes": list(step.writes),
                "says": step.says,
                "seen": step.seen,
            }
            for case, step in machine.table.items()
        ],
    }
