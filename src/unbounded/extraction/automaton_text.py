"""An automaton as a table of text and as a graph in DOT."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from unbounded.extraction.automaton import Automaton, Case, Step


def table_lines(automaton: Automaton) -> list[tuple[str, ...]]:
    """Headings and a line for each case: state, input, read symbols, and then the step."""
    lines: list[tuple[str, ...]] = [
        ("state", "input", "reads", "actions", "output", "next", "seen")
    ]
    for case, step in automaton.table.items():
        state, symbol, _ = case
        lines.append(
            (
                f"q{state}",
                automaton.inputs[symbol],
                read_text(automaton, case),
                actions_text(automaton, step),
                output_text(automaton, step),
                f"q{step.state}",
                str(step.seen),
            )
        )
    return lines


def read_text(automaton: Automaton, case: Case) -> str:
    """The symbols read in a case; "." for an empty slot."""
    return " ".join(
        "." if symbol is None else automaton.symbols[automaton.shape.slots[k]][symbol]
        for k, symbol in enumerate(case[2])
    )


def actions_text(automaton: Automaton, step: Step) -> str:
    """The structure's actions with the written symbols; "-" for none."""
    shape = automaton.shape
    written = [
        "" if symbol is None else automaton.symbols[shape.values[k]][symbol]
        for k, symbol in enumerate(step.writes)
    ]
    if shape.structure in ("Stacks", "Lists"):
        return " ".join(
            f"{action} {symbol}".strip()
            for action, symbol in zip(step.actions, written, strict=True)
        )
    if shape.is_addressed:
        return _moves_text(automaton, step, written)
    values = iter(written)
    parts = []
    for name, bit in zip(shape.actions, step.actions, strict=True):
        symbol = next(values) if name.endswith("push") else ""
        if bit:
            parts.append(f"{name} {symbol}".strip())
    # A step pops before it pushes.
    return ", ".join(sorted(parts, key=lambda part: "push" in part)) or "-"


def _moves_text(automaton: Automaton, step: Step, written: list[str]) -> str:
    """The heads' moves and the written symbols; "-" for none."""
    shape, parts = automaton.shape, []
    values = ["" for _ in range(len(shape.actions) - len(written))] + written
    for name, action, symbol in zip(shape.actions, step.actions, values, strict=True):
        if shape.structure == "Tape":
            move = f"{action:+d}" if action else ""
        else:
            how, point = action
            move = f"{how} ({', '.join(f'{number:g}' for number in point)})"
            move = "" if action == shape.idle else move
        text = " ".join(part for part in (move, f"puts {symbol}" if symbol else "") if part)
        if text:
            parts.append(f"{name} {text}")
    return ", ".join(parts) or "-"


def output_text(automaton: Automaton, step: Step) -> str:
    """The output; "-" if no output was ever scored."""
    return "-" if step.output is None else automaton.outputs[step.output]


def edges(automaton: Automaton) -> dict[tuple[int, int], list[str]]:
    """Return state and next state -> a line for each case of this transition."""
    arrows: dict[tuple[int, int], list[str]] = defaultdict(list)
    for case, step in automaton.table.items():
        output = "" if step.output is None else f" : {output_text(automaton, step)}"
        arrows[(case[0], step.state)].append(
            f"{automaton.inputs[case[1]]}, {read_text(automaton, case)} / "
            f"{actions_text(automaton, step)}{output}"
        )
    return dict(arrows)


def dot_of(automaton: Automaton, title: str) -> str:
    """The graph of the states, for programs that draw DOT."""
    lines = [
        "digraph automaton {",
        f"  label={json.dumps(title)}; rankdir=LR; node [shape=circle];",
        "  begin [shape=point];",
        f"  begin -> q{automaton.start};",
    ]
    for (state, after), cases in edges(automaton).items():
        lines.append(f"  q{state} -> q{after} [label={json.dumps(chr(10).join(cases))}];")
    return "\n".join([*lines, "}", ""])


def automaton_data(automaton: Automaton) -> dict[str, Any]:
    """The automaton as plain data, for a report."""
    return {
        "structure": automaton.shape.structure,
        "options": list(automaton.shape.options),
        "states": automaton.states,
        "start": automaton.start,
        "inputs": list(automaton.inputs),
        "outputs": list(automaton.outputs),
        "symbols": [list(names) for names in automaton.symbols],
        "table": [
            {
                "state": case[0],
                "input": case[1],
                "reads": list(case[2]),
                "next": step.state,
                "actions": list(step.actions),
                "writes": list(step.writes),
                "output": step.output,
                "seen": step.seen,
            }
            for case, step in automaton.table.items()
        ],
    }
