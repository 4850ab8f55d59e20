"""How a field of a state, or the first reading, begins: constant, one-hot, drawn, learned, ..."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from unbounded.errors import ShapeError

#: Fills a tensor in place, as the functions of `torch.nn.init` do.
Rule = Callable[[Tensor], object]
Shape = tuple[int, ...]
DType = torch.dtype | None
Device = torch.device | str | None


class Beginning(ABC):
    """What a field holds before the first step; a value that never changes."""

    @abstractmethod
    def tensor(self, shape: Shape, dtype: DType = None, device: Device = None) -> Tensor:
        """Make the beginning of a batch of sequences, of the given shape [B, ...]."""


@dataclass(frozen=True)
class Constant(Beginning):
    """The same number everywhere."""

    value: float = 0.0

    def tensor(self, shape: Shape, dtype: DType = None, device: Device = None) -> Tensor:
        """As `Beginning.tensor`."""
        return torch.full(shape, float(self.value), dtype=dtype, device=device)


@dataclass(frozen=True)
class Fixed(Beginning):
    """The given numbers along the last axis: where a head of a group begins."""

    values: tuple[float, ...]

    def tensor(self, shape: Shape, dtype: DType = None, device: Device = None) -> Tensor:
        """As `Beginning.tensor`; ShapeError if the last axis is of another size."""
        if len(shape) < 2 or shape[-1] != len(self.values):
            raise ShapeError(
                f"Fixed: expected a last axis of {len(self.values)} places, got {shape}."
            )
        # Made there: to bring numbers over would make a device wait.
        places = [torch.full((1,), value, dtype=dtype, device=device) for value in self.values]
        return torch.cat(places).repeat(*shape[:-1], 1)


@dataclass(frozen=True)
class FirstOne(Beginning):
    """1 at the first place of the last axis and 0 behind it: a head that is at location 0."""

    def tensor(self, shape: Shape, dtype: DType = None, device: Device = None) -> Tensor:
        """As `Beginning.tensor`; ShapeError if there is no first place."""
        if len(shape) < 2 or shape[-1] == 0:
            raise ShapeError(f"FirstOne: expected a last axis with a place in it, got {shape}.")
        ones = torch.ones(*shape[:-1], 1, dtype=dtype, device=device)
        return F.pad(ones, (0, shape[-1] - 1))


@dataclass(frozen=True)
class Drawn(Beginning):
    """A draw of its own for each sequence, from torch's generator.

    Args:
        rule: fills one sequence's tensor in place.
    """

    rule: Rule

    def tensor(self, shape: Shape, dtype: DType = None, device: Device = None) -> Tensor:
        """As `Beginning.tensor`; what the rule does not fill is NaN."""
        drawn = torch.full(shape, torch.nan, dtype=dtype, device=device)
        with torch.no_grad():
            for sequence in drawn:
                self.rule(sequence)
        return drawn


@dataclass(frozen=True)
class Learned(Beginning):
    """A parameter that the layer owns, the same for all sequences of a batch.

    Args:
        rule: fills the parameter in place, with its first values.
        through: maps the parameter to what is held, such as torch.tanh; None changes nothing.
    """

    rule: Rule
    through: Callable[[Tensor], Tensor] | None = None

    def tensor(self, shape: Shape, dtype: DType = None, device: Device = None) -> Tensor:
        """As `Beginning.tensor`: what a fresh draw would begin with, where there is no layer."""
        return self.of(Drawn(self.rule).tensor((1, *shape[1:]), dtype, device)[0], shape[0])

    def of(self, parameter: Tensor, batch_size: int) -> Tensor:
        """Make the beginning [B, ...] of a parameter [...]."""
        held = parameter if self.through is None else self.through(parameter)
        return held.expand(batch_size, *parameter.shape)
