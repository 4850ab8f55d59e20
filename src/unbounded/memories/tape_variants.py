"""What a tape's variants are: the choices that two papers and their programs make differently."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from unbounded.checks import check_choice
from unbounded.errors import ConfigError
from unbounded.memories.head import ACTIVATIONS


class TapeVariant(NamedTuple):
    """A set of choices.

    Fields:
        activations: of each kind of head.
        bias: initial value of the heads' biases; None for the ordinary random draw.
        floor_digits: what is added to weights before they are sharpened is 10^-floor_digits.
    """

    activations: Mapping[str, str]
    bias: float | None
    floor_digits: int

    @property
    def floor(self) -> float:
        """What is added to weights before they are sharpened."""
        return float(f"1e-{self.floor_digits}")


#: By name. Graves et al. 2014 say the range of each field and no activation: those here are of
#: Collier & Beel 2018; the floor is so small that it only stands in for zero. Deleu & Dureau 2016
#: say ReLU for key and add and a hard sigmoid for erase; the others, the floor and the biases are
#: their program's.
VARIANTS: Final[dict[str, TapeVariant]] = {
    "graves2014": TapeVariant(
        {
            "key": "tanh",
            "strength": "softplus",
            "gate": "sigmoid",
            "shift": "softmax",
            "sharpening": "one_plus_softplus",
            "erase": "sigmoid",
            "add": "tanh",
        },
        bias=None,
        floor_digits=15,
    ),
    "deleu2016": TapeVariant(
        {
            "key": "relu",
            "strength": "relu",
            "gate": "hard_sigmoid",
            "shift": "softmax",
            "sharpening": "one_plus_relu",
            "erase": "hard_sigmoid",
            "add": "relu",
        },
        bias=0.0,
        floor_digits=6,
    ),
}


def chosen_activations(variant: str, changes: Mapping[str, str]) -> dict[str, str]:
    """The activation of each kind of head: the variant's, and what is chosen instead.

    Raises:
        ChoiceError: no kind of head or no activation has such a name.
        ConfigError: it is no mapping.
    """
    if not isinstance(changes, Mapping):
        raise ConfigError(
            [f"activations: expected a mapping such as {{'key': 'tanh'}}, got {changes!r}"]
        )
    activations = dict(VARIANTS[variant].activations)
    for kind, name in changes.items():
        check_choice("part of activations", kind, activations)
        check_choice(f"activation of {kind}", name, ACTIVATIONS)
        activations[kind] = name
    return activations
