"""Observations of a network on many strings, as a tree with one node for each shared prefix."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from unbounded.extraction.memories import Shape, saturated, shape_of
from unbounded.extraction.placement import Placement, placed
from unbounded.memories import index_state
from unbounded.models.memory_room import with_room
from unbounded.tasks import Batch
from unbounded.verification.network import Network


@dataclass
class Node:
    """A node of the tree, which is a prefix of strings.

    Fields:
        parent: number of the prefix without its last symbol; -1 for the empty one.
        symbol: number of the last symbol; -1 for the empty one.
        actions: the memory's actions at it.
        written: for each value of the instruction whether it was written.
        read: what the memory shows after it: for each slot the node and the value of its
            instruction that wrote the symbol, None for an empty slot.
        output: number of the likeliest output; None if nothing is judged.
        push_is_free: whether a push at this prefix has no observable effect. It has none if no
            longer prefix reads a row of a queue that was written here or later, or finds the queue
            empty.
    """

    parent: int
    symbol: int
    actions: tuple[Any, ...]
    written: tuple[bool, ...]
    read: tuple[tuple[int, int] | None, ...]
    output: int | None = None
    push_is_free: bool = False


@dataclass
class Observations:
    """The tree, and the vectors of its nodes.

    Fields:
        shape: of the memory.
        nodes: the empty prefix first; parents before children.
        control: the controller's state after each node, [N, C].
        values: for each value of an instruction, the value of each node, [N, M].
        certainty: of the least saturated gate.
    """

    shape: Shape
    nodes: list[Node]
    control: Tensor
    values: list[Tensor]
    certainty: float = 1.0
    children: list[list[int]] = field(default_factory=list)


def observe(
    model: nn.Module, batch: Batch, look: Callable[[float], None] = lambda share: None
) -> Observations:
    """Run a network over strings, each with a new memory, and read every prefix once.

    Args:
        model: with a memory that has a `shape_of`.
        batch: inputs, and the judged steps.
        look: called with the share of the steps that is done.
    Raises:
        ConfigError: a head of a tape or of a Lie-access memory is not at a single place.
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
    place = torch.zeros(len(batch.inputs), dtype=torch.int64)  # node of each string
    row_of: dict[int, int] = {}  # node of the step before -> its row in the state
    least, placement = 1.0, Placement()
    for step in range(batch.inputs.shape[1]):
        look(step / batch.inputs.shape[1])
        is_running = batch.lengths > step
        prefix_pairs = torch.stack([place, batch.inputs[:, step]], dim=1)[is_running]
        prefixes, child = torch.unique(prefix_pairs, dim=0, return_inverse=True)
        if state is not None:
            state = index_state(state, torch.tensor([row_of[int(node)] for node in prefixes[:, 0]]))
        before = None if state is None else state.memory
        steps, state = network.run(prefixes[:, 1:], state)
        assert steps.instruction is not None
        certainty = network.certainty(steps)
        least = least if certainty is None else min(least, float(certainty.min()))
        instruction = tuple(part[:, 0] for part in steps.instruction)
        if shape.is_addressed:
            actions, written_values, flagged = placed(
                memory, instruction, before, state.memory, placement
            )
        else:
            actions, written = saturated(memory, instruction)
            written_values = _values(shape, memory, instruction)
            flagged = [tuple(value is not None for value in row) for row in written]
        first = len(nodes)
        for row, (parent, symbol) in enumerate(prefixes.tolist()):
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
        place[is_running] = first + child
        row_of = {first + row: row for row in range(len(prefixes))}
        step_logits = steps.logits[:, 0]
        answers = (
            (step_logits[:, 0] > 0).long()
            if step_logits.shape[1] == 1
            else step_logits.argmax(dim=1)
        )
        judged = batch.mask[:, step]
        for node in place[judged].unique().tolist():
            nodes[node].output = int(answers[node - first])
        for node in {int(p) for p in prefix_pairs[:, 0].tolist()}:
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
    """Mark the nodes of a queue whose pushes have no observable effect."""
    # For each node: the earliest row that this node or a later node reads, as the depth of the node
    # that wrote it.
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
    """The values of the instructions, each [B, M], whether or not they are written."""
    fields_by_name = dict(zip((head.name for head in memory.heads), instruction, strict=True))
    if "top_value" in fields_by_name:
        return [fields_by_name["top_value"], fields_by_name["bottom_value"]]
    if shape.structure in ("Stacks", "Lists"):
        return list(fields_by_name["value"].unsqueeze(-1).unbind(1))
    return [fields_by_name["value"]]
