"""What a network does on many words, as a tree: each beginning that words share is one node."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from unbounded.extraction.memories import Shape, decided, shape_of
from unbounded.extraction.placement import Placement, placed
from unbounded.models.memory_room import with_room
from unbounded.tasks import Batch
from unbounded.verification.network import Network, pick


@dataclass
class Node:
    """A beginning of words.

    Fields:
        parent: number of the beginning that is one symbol shorter; -1 of the empty one.
        symbol: number of the symbol that was read last; -1 of the empty one.
        actions: what the memory was told at it.
        written: for each value of the instruction whether it was written.
        read: what the memory shows after it: for each slot the node and the value of its
            instruction that wrote it, None where nothing is there.
        says: number of the likeliest answer; None where nothing is judged.
        push_is_free: whether nothing would show a push at it, done or not: no beginning that goes
            on reads a row of a queue that was written here or later, or finds it empty.
    """

    parent: int
    symbol: int
    actions: tuple[Any, ...]
    written: tuple[bool, ...]
    read: tuple[tuple[int, int] | None, ...]
    says: int | None = None
    push_is_free: bool = False


@dataclass
class Observations:
    """The tree, and the vectors that go with its nodes.

    Fields:
        shape: of the memory.
        nodes: the empty beginning first; parents before children.
        control: the controller's state after each node, [N, C].
        values: for each value of an instruction, what each node would write, [N, M].
        certainty: of the least decided decision.
    """

    shape: Shape
    nodes: list[Node]
    control: Tensor
    values: list[Tensor]
    certainty: float = 1.0
    children: list[list[int]] = field(default_factory=list)


def observe(model: nn.Module, batch: Batch) -> Observations:
    """Run a network over words, each from a fresh memory, every beginning once.

    Args:
        model: with a memory that `shape_of` knows.
        batch: what is read, and where an answer is judged.
    Raises:
        ConfigError: a head of a tape or of rows with keys is at no one place.
    """
    roomy, _ = with_room(model, batch.inputs.shape[1])
    network = Network(roomy)
    memory = network.memory
    shape = shape_of(memory)
    assert memory is not None
    like = next(roomy.parameters())
    nodes = [Node(-1, -1, (), (False,) * len(shape.values), shape.new().read())]
    structures: list[Any] = [shape.new()]
    control: list[Tensor] = []
    values: list[list[Tensor]] = [[] for _ in shape.values]
    state: Any = None
    place = torch.zeros(len(batch.inputs), dtype=torch.int64)  # of each word: its node
    row_of: dict[int, int] = {}  # node of the step before -> its row in the state
    least, placement = 1.0, Placement()
    for step in range(batch.inputs.shape[1]):
        there = batch.lengths > step
        named = torch.stack([place, batch.inputs[:, step]], dim=1)[there]
        new, child = torch.unique(named, dim=0, return_inverse=True)
        if state is not None:
            state = pick(state, torch.tensor([row_of[int(node)] for node in new[:, 0]]))
        before = None if state is None else state.memory
        steps, state = network.run(new[:, 1:], state)
        assert steps.instruction is not None
        sure = network.certainty(steps)
        least = least if sure is None else min(least, float(sure.min()))
        instruction = tuple(part[:, 0] for part in steps.instruction)
        if shape.is_addressed:
            actions, written_values, flagged = placed(
                memory, instruction, before, state.memory, placement
            )
        else:
            actions, written = decided(memory, instruction)
            written_values = _values(shape, memory, instruction)
            flagged = [tuple(value is not None for value in row) for row in written]
        first = len(nodes)
        for row, (parent, symbol) in enumerate(new.tolist()):
            structure = copy.deepcopy(structures[parent])
            ids = tuple((first + row, k) if flag else None for k, flag in enumerate(flagged[row]))
            structure.step(actions[row], ids)
            structures.append(structure)
            nodes.append(Node(parent, symbol, actions[row], flagged[row], structure.read()))
        for k, parts in enumerate(written_values):
            values[k].append(parts)
        cells = state.cell if isinstance(state.cell, tuple) else (state.cell,)
        control.append(torch.cat([state.hidden[0], *(cell[0] for cell in cells)], dim=1))
        place = place.clone()
        place[there] = first + child
        row_of = {first + row: row for row in range(len(new))}
        said = steps.logits[:, 0]
        answers = (said[:, 0] > 0).long() if said.shape[1] == 1 else said.argmax(dim=1)
        judged = batch.mask[:, step]
        for node in place[judged].unique().tolist():
            nodes[node].says = int(answers[node - first])
        for node in {int(p) for p in named[:, 0].tolist()}:
            structures[node] = structures[node] if node == 0 else None
    root = torch.zeros(1, control[0].shape[1], dtype=like.dtype)
    seen = Observations(
        shape,
        nodes,
        torch.cat([root, *control]),
        [torch.cat([torch.zeros_like(parts[0][:1]), *parts]) for parts in values],
        least,
        [[] for _ in nodes],
    )
    for number, node in enumerate(nodes[1:], start=1):
        seen.children[node.parent].append(number)
    if shape.is_addressed:
        placement.check([bool(children) for children in seen.children[1:]])
    if shape.structure == "Queue":
        _free_pushes(seen)
    return seen


def _free_pushes(seen: Observations) -> None:
    """Mark the nodes of a queue at which a push shows nowhere."""
    # Of each node: the earliest row that it or a later one reads, as the depth of its writer.
    depth = [0] * len(seen.nodes)
    for number, node in enumerate(seen.nodes[1:], start=1):
        depth[number] = depth[node.parent] + 1
    latest = [-1.0] * len(seen.nodes)
    for number in range(len(seen.nodes) - 1, -1, -1):
        if seen.children[number]:
            row = seen.nodes[number].read[0]
            here = float("inf") if row is None else depth[row[0]]
            latest[number] = max(here, *(latest[child] for child in seen.children[number]))
    for number, node in enumerate(seen.nodes):
        node.push_is_free = latest[number] < depth[number]


def _values(shape: Shape, memory: Any, instruction: tuple[Tensor, ...]) -> list[Tensor]:
    """What each value of the instructions is, [B, M] each, written or not."""
    told = dict(zip((head.name for head in memory.heads), instruction, strict=True))
    if "top_value" in told:
        return [told["top_value"], told["bottom_value"]]
    if shape.structure in ("Stacks", "Lists"):
        return list(told["value"].unsqueeze(-1).unbind(1))
    return [told["value"]]
