"""Initial values of a state field or the initial read vector: constant, one-hot, drawn, learned."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from unbounded.errors import ShapeError

#: Fills a tensor in place, like the functions of `torch.nn.init`.
Rule = Callable[[Tensor], object]
Shape = tuple[int, ...]
DType = torch.dtype | None
Device = torch.device | str | None


class Initializer(ABC):
    """The immutable rule for a field's value before the first step."""

    @abstractmethod
    def tensor(self, shape: Shape, dtype: DType = None, device: Device = None) -> Tensor:
        """Return the initial value of a batch of sequences, of the given shape [B, ...]."""


@dataclass(frozen=True)
class Constant(Initializer):
    """The same number in every element."""

    value: float = 0.0

    def tensor(self, shape: Shape, dtype: DType = None, device: Device = None) -> Tensor:
        """Return the number in the shape; see `Initializer.tensor`."""
        return torch.full(shape, float(self.value), dtype=dtype, device=device)


@dataclass(frozen=True)
class Fixed(Initializer):
    """Fixed numbers along the last axis, such as the initial position of a head in a group."""

    values: tuple[float, ...]

    def tensor(self, shape: Shape, dtype: DType = None, device: Device = None) -> Tensor:
        """See `Initializer.tensor`; ShapeError if the last axis has another size."""
        if len(shape) < 2 or shape[-1] != len(self.values):
            raise ShapeError(
                f"Fixed: expected a last axis of {len(self.values)} places, got {shape}."
            )
        # Created on the device: a copy from the host would synchronize it.
        places = [torch.full((1,), value, dtype=dtype, device=device) for value in self.values]
        return torch.cat(places).repeat(*shape[:-1], 1)


@dataclass(frozen=True)
class FirstOne(Initializer):
    """1 at index 0 of the last axis and 0 elsewhere: a head at location 0."""

    def tensor(self, shape: Shape, dtype: DType = None, device: Device = None) -> Tensor:
        """See `Initializer.tensor`; ShapeError if the last axis is empty."""
        if len(shape) < 2 or shape[-1] == 0:
            raise ShapeError(f"FirstOne: expected a last axis with a place in it, got {shape}.")
        ones = torch.ones(*shape[:-1], 1, dtype=dtype, device=device)
        return F.pad(ones, (0, shape[-1] - 1))


@dataclass(frozen=True)
class Drawn(Initializer):
    """A separate draw for each sequence, from torch's generator.

    Args:
        rule: fills one sequence's tensor in place.
    """

    rule: Rule

    def tensor(self, shape: Shape, dtype: DType = None, device: Device = None) -> Tensor:
        """See `Initializer.tensor`; elements that the rule does not fill are NaN."""
        drawn = torch.full(shape, torch.nan, dtype=dtype, device=device)
        with torch.no_grad():
            for sequence in drawn:
                self.rule(sequence)
        return drawn


@dataclass(frozen=True)
class Learned(Initializer):
    """A parameter of the layer, shared by all sequences of a batch.

    Args:
        rule: fills the parameter in place with its initial value.
        through: maps the parameter to the field's value, such as torch.tanh; None for the identity.
    """

    rule: Rule
    through: Callable[[Tensor], Tensor] | None = None

    def tensor(self, shape: Shape, dtype: DType = None, device: Device = None) -> Tensor:
        """See `Initializer.tensor`: without a layer, the value of a fresh draw by the rule."""
        return self.of(Drawn(self.rule).tensor((1, *shape[1:]), dtype, device)[0], shape[0])

    def of(self, parameter: Tensor, batch_size: int) -> Tensor:
        """Return the initial value [B, ...] for a parameter [...]."""
        value = parameter if self.through is None else self.through(parameter)
        return value.expand(batch_size, *parameter.shape)
