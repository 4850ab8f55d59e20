"""The variants of a tape: choices in which two papers and their programs differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from unbounded.checks import check_choice
from unbounded.errors import ConfigError
from unbounded.memories.head import ACTIVATIONS


class TapeVariant(NamedTuple):
    """A set of choices.

    Fields:
        activations: by kind of head.
        bias: initial value of the heads' biases; None keeps the random draw of the layer.
        floor_digits: 10^-floor_digits is added to weights before sharpening.
    """

    activations: Mapping[str, str]
    bias: float | None
    floor_digits: int

    @property
    def floor(self) -> float:
        """The number added to weights before sharpening."""
        return float(f"1e-{self.floor_digits}")


#: By name. Graves et al. 2014 give the range of each field but no activation; these are the
#: activations of Collier & Beel 2018, and the floor is so small that it only replaces zero. Deleu &
#: Dureau 2016 give ReLU for key and add and a hard sigmoid for erase; the other activations, the
#: floor and the biases come from their program.
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
    """The activation of each kind of head: the variant's, or the chosen replacement.

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
