"""Stacks or lists that a network works and does not need: the machine without them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unbounded.extraction.classes import Classes
from unbounded.extraction.merging import merge_states
from unbounded.extraction.observation import Node, Observations
from unbounded.extraction.refinement import refine


def with_fewest(seen: Observations, classes: Classes) -> tuple[Observations, Classes]:
    """Leave out stacks or lists, one after the other, and cells that are read, from the last.

    What is left must close with no more states and symbols than before.

    Args:
        seen: what a network did.
        classes: of it; where they do not close, everything stays.
    """
    if not classes.closed or seen.shape.structure not in ("Stacks", "Lists"):
        return seen, classes
    number = 0
    while number < seen.shape.options[0] and seen.shape.options[0] > 1:
        kept = [s for s in range(seen.shape.options[0]) if s != number]
        smaller = _tried(part_of(seen, kept, seen.shape.options[1]), classes)
        if smaller is None:
            number += 1
        else:
            seen, classes = smaller
    while seen.shape.options[1] > 1:
        count, depth = seen.shape.options
        smaller = _tried(part_of(seen, range(count), depth - 1), classes)
        if smaller is None:
            break
        seen, classes = smaller
    return seen, classes


def part_of(seen: Observations, kept: Sequence[int], depth: int) -> Observations:
    """The same observations as if there were some of the stacks alone, and fewer cells read."""
    shape, place = seen.shape, {old: new for new, old in enumerate(kept)}
    slots = [s * shape.options[1] + k for s in kept for k in range(depth)]

    def part(node: Node) -> Node:
        read = (node.read[slot] for slot in slots)
        return replace(
            node,
            actions=tuple(node.actions[s] for s in kept) if node.actions else (),
            written=tuple(node.written[s] for s in kept),
            read=tuple(None if cell is None else (cell[0], place[cell[1]]) for cell in read),
        )

    new = shape._replace(
        options=(len(kept), depth),
        values=tuple(range(len(kept))),
        slots=tuple(s for s in range(len(kept)) for _ in range(depth)),
        actions=tuple(shape.actions[s] for s in kept),
    )
    values = [seen.values[s] for s in kept]
    return replace(seen, shape=new, nodes=[part(node) for node in seen.nodes], values=values)


def _tried(seen: Observations, before: Classes) -> tuple[Observations, Classes] | None:
    smaller = merge_states(seen, refine(seen, before.count + 1))
    return (seen, smaller) if smaller.closed and smaller.count <= before.count else None
