"""Assemble a network with hand-set weights from units that are on or off, and a memory.

A unit of the controller is on if a sum exceeds a bound. The sum is over the current input, the read
vector and the units of the previous step. The weights are so large that the unit's sigmoid is
exactly 0 or 1, in float32 and in float64. The memory's strengths and actions are exactly 0 or 1,
too. So values do not drift, even for long inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from unbounded.errors import ConfigError
from unbounded.models.memory_model import MemoryModel
from unbounded.rnn import MemoryRNN

#: Weights are multiples of this number. Half of it saturates a sigmoid in float64.
SCALE: Final = 2048.0
#: Difference between logits.
LOGIT: Final = 20.0
#: The unit that is always on, as a bias. As a signal, it is 0 only at the first step.
ONE: Final = "one"

#: A weighted sum of signals in a unit, or of units in a head or a logit.
Terms = Mapping[str, float]


class Unit(NamedTuple):
    """A unit that is on if a sum exceeds a bound.

    Signals are named "x:SYMBOL" (1 if this symbol is the input), "r:NUMBER" (a number in the last
    read vector) and NAME (whether the unit NAME was on at the previous step).

    Fields:
        terms: signal -> weight.
        above: the bound; sums must differ from it by at least 0.5.
    """

    terms: Terms
    above: float = 0.5


def either(signals: Sequence[str]) -> dict[str, float]:
    """The sum of signals, which is above 0.5 if one of them is on."""
    return dict.fromkeys(signals, 1.0)


def is_on(unit: str) -> dict[str, float]:
    """The sum for the head of a strength, which is 1 if a unit is on, and -1 otherwise."""
    return {unit: 2.0, ONE: -1.0}


def assemble(
    inputs: Sequence[str],
    memory: Mapping[str, Any],
    units: Mapping[str, Unit],
    heads: Mapping[str, Sequence[Terms]],
    logits: Sequence[Terms],
    length_token: int | None = None,
    *,
    output_read_vector: bool = False,
) -> MemoryModel:
    """Build a MemoryModel with an Elman controller of these units.

    Args:
        inputs: the input symbols, in the order of their numbers.
        memory: name and options.
        units: name -> unit, of the controller; ONE is added.
        heads: head of the memory -> a sum of units for each of its numbers.
        logits: a sum of units for each logit.
        length_token: the input at which a source ends, for a memory that uses lengths.
        output_read_vector: whether logits may have the numbers "r:NUMBER" of the same step.
    Raises:
        ConfigError: a sum has an unknown name.
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
        output_read_vector=output_read_vector,
        length_token=length_token,
    ).requires_grad_(False)
    layer = model.sequence.layer
    assert isinstance(layer, MemoryRNN)
    columns = {f"x:{symbol}": place for place, symbol in enumerate(inputs)}
    columns |= {f"r:{k}": len(inputs) + k for k in range(layer.memory.read_vector_size)}
    width = len(columns)
    columns |= {name: width + place for place, name in enumerate(names)}
    rows = _matrix([unit.terms for unit in units.values()], columns)
    part = layer.only_layer()
    controller: Any = part.controller
    controller.weight_ih.copy_(SCALE * rows[:, :width])
    controller.weight_hh.copy_(SCALE * rows[:, width:])
    controller.bias_ih.copy_(torch.tensor([-SCALE * unit.above for unit in units.values()]))
    places = {name: place for place, name in enumerate(names)}
    part.heads.weight.zero_()
    if part.heads.bias is not None:
        part.heads.bias.zero_()
    for name, sums in heads.items():
        part.heads.weight[part.heads.rows(name)] = SCALE * _matrix(sums, places)
    if output_read_vector:
        places |= {f"r:{k}": len(names) + k for k in range(layer.memory.read_vector_size)}
    model.sequence.output.weight.copy_(LOGIT * _matrix(logits, places))
    return model.eval()


def _matrix(sums: Sequence[Terms], columns: Mapping[str, int]) -> Tensor:
    """A matrix with one row for each weighted sum of the network."""
    matrix = torch.zeros(len(sums), len(columns))
    for row, terms in enumerate(sums):
        for name, weight in terms.items():
            if name not in columns:
                raise ConfigError(f"{name!r}: there is no such signal or unit in this network")
            matrix[row, columns[name]] = weight
    return matrix
