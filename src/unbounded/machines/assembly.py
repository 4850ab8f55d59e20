"""A network whose weights are written down: units that are on or off, and a memory they work.

Every unit of the controller is a question with a yes or a no: is this sum of what is read now, of
what the memory said and of what the units said before above a bound? The weights are so large that
the sigmoid of the answer is exactly 0 or 1, and so are the strengths and actions of the memory, in
float32 and in float64. So nothing drifts, however long the input is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from unbounded.errors import ConfigError
from unbounded.layers import MemoryRNN
from unbounded.models.memory_model import MemoryModel

#: Weights are multiples of this: half of it is enough for a sigmoid to be 0 or 1 in float64.
SCALE: Final = 2048.0
#: How far apart logits are.
LOGIT: Final = 20.0
#: The unit that is always on, and stands for a bias; as a signal it is 0 at the first step alone.
ONE: Final = "one"

#: A weighted sum: of signals in a unit, of units in a head or a logit.
Terms = Mapping[str, float]


class Unit(NamedTuple):
    """A unit that is on where a sum is above a bound.

    Signals are named "x:SYMBOL" (1 where that symbol is read), "r:NUMBER" (that number of the last
    reading) and NAME (whether that unit was on at the step before).

    Fields:
        terms: signal -> weight.
        above: the bound; sums must stay half of 1 away from it.
    """

    terms: Terms
    above: float = 0.5


def either(signals: Sequence[str]) -> dict[str, float]:
    """The sum of signals: above 0.5 where one of them is on."""
    return dict.fromkeys(signals, 1.0)


def is_on(unit: str) -> dict[str, float]:
    """What a strength's head adds up to be 1 where a unit is on, and 0 elsewhere."""
    return {unit: 2.0, ONE: -1.0}


def assemble(
    inputs: Sequence[str],
    memory: Mapping[str, Any],
    units: Mapping[str, Unit],
    heads: Mapping[str, Sequence[Terms]],
    logits: Sequence[Terms],
) -> MemoryModel:
    """A MemoryModel with an Elman controller of these units.

    Args:
        inputs: the symbols it reads, in the order of their numbers.
        memory: name and options.
        units: name -> unit, of the controller; ONE is added.
        heads: head of the memory -> one sum of units for each of its numbers.
        logits: one sum of units for each.
    Raises:
        ConfigError: something is named that is not there.
    """
    units = {**units, ONE: Unit({}, above=-1.0)}
    names = list(units)
    model = MemoryModel(
        inputs=len(inputs),
        outputs=len(logits),
        memory=memory,
        controller={"name": "elman", "activation": "sigmoid"},
        hidden_size=len(units),
        embedding_size=None,
        output_bias=False,
    ).requires_grad_(False)
    layer = model.sequence.layer
    assert isinstance(layer, MemoryRNN)
    columns = {f"x:{symbol}": place for place, symbol in enumerate(inputs)}
    columns |= {f"r:{k}": len(inputs) + k for k in range(layer.memory.reading_size)}
    width = len(columns)
    columns |= {name: width + place for place, name in enumerate(names)}
    rows = _matrix([unit.terms for unit in units.values()], columns)
    controller: Any = layer.controller
    controller.weight_ih.copy_(SCALE * rows[:, :width])
    controller.weight_hh.copy_(SCALE * rows[:, width:])
    controller.bias_ih.copy_(torch.tensor([-SCALE * unit.above for unit in units.values()]))
    places = {name: place for place, name in enumerate(names)}
    layer.heads.weight.zero_()
    if layer.heads.bias is not None:
        layer.heads.bias.zero_()
    for name, sums in heads.items():
        layer.heads.weight[layer.heads.rows(name)] = SCALE * _matrix(sums, places)
    model.sequence.output.weight.copy_(LOGIT * _matrix(logits, places))
    return model.eval()


def _matrix(sums: Sequence[Terms], columns: Mapping[str, int]) -> Tensor:
    """One row a sum."""
    made = torch.zeros(len(sums), len(columns))
    for row, terms in enumerate(sums):
        for name, weight in terms.items():
            if name not in columns:
                raise ConfigError([f"{name!r}: there is no such signal or unit in this machine"])
            made[row, columns[name]] = weight
    return made
