"""Networks with hand-set weights, for tests and figures."""

from __future__ import annotations

from typing import Any

import torch

from unbounded.models import MemoryModel
from unbounded.tasks import Task

#: Columns: a, b, the two topmost cells of the stack. Rows: input a; input b with more than
#: one cell left; input b that pops the last cell. A full cell holds 0.5, an empty one -1.
UNITS = [[40.0, -40.0, 0.0, 0.0], [-40.0, 10.0, 0.0, 40.0], [-60.0, -10.0, 0.0, -40.0]]
#: PUSH by the first unit, POP by the others.
ACTIONS = [[9.0, 0.0, 0.0], [0.0, 9.0, 9.0]]
#: The logits of a and b.
OUTPUT = [[9.0, 0.0, 9.0], [0.0, 9.0, 0.0]]


def stream_model(vocabulary: int, **flat: Any) -> MemoryModel:
    """A network of Joulin & Mikolov: 40 units and 10 stacks, unless `flat` overrides them."""
    memory: dict[str, Any] = {"name": flat.pop("memory", "superposition_stack")}
    name = flat.pop("controller", "elman")
    controller: dict[str, Any] = {"name": name}
    names = ("count", "depth", "noop", "capacity", "overflow")
    options = {name: flat.pop(name) for name in names if name in flat}
    if memory["name"] != "none":
        memory |= {"count": 10, **options}
    if memory["name"] == "superposition_list":
        memory.setdefault("noop", False)
    if name == "lstm" and memory["name"] == "none":
        controller["skip_input"] = False
    for option, given in (("layers", "num_layers"), ("context_size", "context_size")):
        if option in flat:
            controller[given] = flat.pop(option)
    if name == "elman":
        controller |= {"activation": "sigmoid", "bias": False}
        recurrent = flat.pop("recurrent", False)
        if memory["name"] != "none":
            controller["recurrent"] = recurrent
    return MemoryModel(
        inputs=vocabulary,
        outputs=vocabulary,
        memory=memory,
        controller=controller,
        embedding_size=None,
        readout_size=None,
        output_bias=False,
        learn_initial_state=False,
        initialization="sums",
        output_initialization="sums",
        **{"hidden_size": 40, **flat},
    )


def model_of(task: Task, **options: Any) -> MemoryModel:
    """An untrained network for the symbols of a task."""
    sizes = {"inputs": len(task.input_vocabulary), "outputs": len(task.output_vocabulary)}
    return MemoryModel(**sizes, **options)


def counter(count: int = 1, place: int = 0, *, noop: bool = False) -> MemoryModel:
    """Predicts a^n b^n with one stack, for any n.

    Args:
        count: number of stacks; unneeded ones have random actions and values and are not read.
        place: index of the needed stack.
        noop: whether stacks have a third action, which this network never takes.
    """
    torch.manual_seed(0)
    model = stream_model(
        2, hidden_size=3, count=count, noop=noop, backend="reference"
    ).requires_grad_(False)
    layer = model.sequence.layer
    actions = len(layer.memory.actions)
    rows = slice(actions * place, actions * place + 2)
    into, heads = layer.layers[0].controller.weight_ih, layer.layers[0].heads
    into.zero_()
    into[:, :2] = torch.tensor(UNITS)[:, :2]
    into[:, 2 + 2 * place : 4 + 2 * place] = torch.tensor(UNITS)[:, 2:]
    heads.weight.normal_()
    heads.weight[rows] = torch.tensor(ACTIONS)
    if noop:
        heads.weight[rows.stop] = -20.0
    heads.weight[actions * count + place] = 0.0  # the value pushed is sigma(0)
    model.sequence.output.weight.copy_(torch.tensor(OUTPUT))
    return model.requires_grad_(True)
