"""Removal of stacks or lists that a network uses but does not need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unbounded.extraction.classes import Classes
from unbounded.extraction.merging import merge_states
from unbounded.extraction.observation import Node, Observations
from unbounded.extraction.refinement import refine


def with_fewest(observations: Observations, classes: Classes) -> tuple[Observations, Classes]:
    """Remove stacks or lists one by one, and then the cells that are read, from the last.

    The rest must close with no more states and symbols than before.

    Args:
        seen: the observations of a network.
        classes: their classes; if they do not close, nothing is removed.
    """
    if not classes.closed or observations.shape.structure not in ("Stacks", "Lists"):
        return observations, classes
    number = 0
    while number < observations.shape.options[0] and observations.shape.options[0] > 1:
        kept = [s for s in range(observations.shape.options[0]) if s != number]
        smaller = _tried(part_of(observations, kept, observations.shape.options[1]), classes)
        if smaller is None:
            number += 1
        else:
            observations, classes = smaller
    while observations.shape.options[1] > 1:
        count, depth = observations.shape.options
        smaller = _tried(part_of(observations, range(count), depth - 1), classes)
        if smaller is None:
            break
        observations, classes = smaller
    return observations, classes


def part_of(observations: Observations, kept: Sequence[int], depth: int) -> Observations:
    """The same observations with only some of the stacks, and fewer cells read."""
    shape, place = observations.shape, {old: new for new, old in enumerate(kept)}
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
    values = [observations.values[s] for s in kept]
    return replace(
        observations, shape=new, nodes=[part(node) for node in observations.nodes], values=values
    )


def _tried(observations: Observations, before: Classes) -> tuple[Observations, Classes] | None:
    smaller = merge_states(observations, refine(observations, before.count + 1))
    return (observations, smaller) if smaller.closed and smaller.count <= before.count else None
