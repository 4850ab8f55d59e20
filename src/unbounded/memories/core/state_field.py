"""The declaration of a field of a memory's state, and its initial value.

A `StateField` declares a field of a state, as a `Head` declares a field of an instruction. The
initial value of a field is constant, one-hot, drawn or learned.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from unbounded.checks import check_like, check_shape, check_size
from unbounded.errors import ConfigError, ShapeError

#: Fills a tensor in place, like the functions of `torch.nn.init`.
Rule = Callable[[Tensor], object]
Shape = tuple[int, ...]
DType = torch.dtype | None
Device = torch.device | str | None


class Initializer(ABC):
    """An immutable rule for a field's value before the first step."""

    @abstractmethod
    def tensor(self, shape: Shape, dtype: DType = None, device: Device = None) -> Tensor:
        """Return the initial value for a batch of sequences, with shape [B, ...]."""


@dataclass(frozen=True)
class Constant(Initializer):
    """Initializes every element with the same number."""

    value: float = 0.0

    def tensor(self, shape: Shape, dtype: DType = None, device: Device = None) -> Tensor:
        """Return the number in every element; see `Initializer.tensor`."""
        return torch.full(shape, float(self.value), dtype=dtype, device=device)


@dataclass(frozen=True)
class Fixed(Initializer):
    """Initializes the last axis with fixed numbers, such as the initial position of a head."""

    values: tuple[float, ...]

    def tensor(self, shape: Shape, dtype: DType = None, device: Device = None) -> Tensor:
        """See `Initializer.tensor`. Raise ShapeError if the last axis has another size."""
        if len(shape) < 2 or shape[-1] != len(self.values):
            raise ShapeError(
                f"Fixed: expected a last axis of {len(self.values)} places, got {shape}."
            )
        # The tensor is created on the device, because a copy from the host would synchronize the
        # device.
        places = [torch.full((1,), value, dtype=dtype, device=device) for value in self.values]
        return torch.cat(places).repeat(*shape[:-1], 1)


@dataclass(frozen=True)
class FirstOne(Initializer):
    """Initializes index 0 of the last axis with 1, the rest with 0, for a head at location 0."""

    def tensor(self, shape: Shape, dtype: DType = None, device: Device = None) -> Tensor:
        """See `Initializer.tensor`. Raise ShapeError if the last axis is empty."""
        if len(shape) < 2 or shape[-1] == 0:
            raise ShapeError(f"FirstOne: expected a last axis with a place in it, got {shape}.")
        ones = torch.ones(*shape[:-1], 1, dtype=dtype, device=device)
        return F.pad(ones, (0, shape[-1] - 1))


@dataclass(frozen=True)
class Drawn(Initializer):
    """Draws initial values separately for each sequence, from torch's generator.

    Args:
        rule: fills one sequence's tensor in place.
    """

    rule: Rule

    def tensor(self, shape: Shape, dtype: DType = None, device: Device = None) -> Tensor:
        """See `Initializer.tensor`. Elements that the rule does not fill are NaN."""
        drawn = torch.full(shape, torch.nan, dtype=dtype, device=device)
        with torch.no_grad():
            for sequence in drawn:
                self.rule(sequence)
        return drawn


@dataclass(frozen=True)
class Learned(Initializer):
    """Uses a parameter of the layer, which all sequences of a batch share.

    Args:
        rule: fills the parameter in place with its initial value.
        through: maps the parameter to the field's value, such as torch.tanh; None for the identity.
    """

    rule: Rule
    through: Callable[[Tensor], Tensor] | None = None

    def tensor(self, shape: Shape, dtype: DType = None, device: Device = None) -> Tensor:
        """See `Initializer.tensor`. Without a layer, the value is drawn by the rule."""
        return self.of(Drawn(self.rule).tensor((1, *shape[1:]), dtype, device)[0], shape[0])

    def of(self, parameter: Tensor, batch_size: int) -> Tensor:
        """Return the initial value [B, ...] for a parameter [...]."""
        value = parameter if self.through is None else self.through(parameter)
        return value.expand(batch_size, *parameter.shape)


#: Marks the axis of rows in a shape.
ROWS = "N"


class StateField(NamedTuple):
    """One field of a memory's state, or one tensor of it that a trace shows.

    Fields:
        name: the field of the memory's State.
        shape: axes after the batch; "N" marks the axis that grows, if there is one. A field with it
            twice is square.
        growth: rows that a step adds before the first and after the last; (0, 0) without "N".
        rows: N before the first step.
        most_rows: largest N; no step adds rows beyond it. None for no limit.
        empty: value of a row that a step adds and does not write.
        initializer: initial value of the whole field.
    """

    name: str
    shape: tuple[int | str, ...]
    growth: tuple[int, int] = (0, 0)
    rows: int = 0
    most_rows: int | None = None
    empty: float = 0.0
    initializer: Initializer = Constant(0.0)

    @property
    def grows(self) -> bool:
        """Whether the field has an axis that counts rows."""
        return ROWS in self.shape

    @property
    def initial_shape(self) -> Shape:
        """The sizes of the axes after the batch, before the first step."""
        return self.with_rows(self.rows)

    @property
    def row_axis(self) -> int | None:
        """The index of the axis of rows, counting the batch axis; None without rows.

        In a field with two axes of rows, it is the first.
        """
        return 1 + self.shape.index(ROWS) if self.grows else None

    def with_rows(self, rows: int) -> Shape:
        """The sizes of the axes after the batch, for a number of rows."""
        return tuple(rows if isinstance(axis, str) else axis for axis in self.shape)

    def rows_of(self, tensor: Tensor) -> int:
        """The number of rows in the field's tensor [B, ...]; 0 for a field without rows."""
        return 0 if self.row_axis is None else tensor.shape[self.row_axis]

    def rows_after(self, rows: int, steps: int) -> int:
        """The number of rows after `steps` more steps, starting with `rows`."""
        added = sum(self.growth)
        if self.most_rows is not None and added:
            steps = min(steps, max(0, self.most_rows - rows) // added)
        return rows + added * steps

    def padded(self, tensor: Tensor, steps: int) -> Tensor:
        """Pad the field's tensor with the empty rows that `steps` more steps would add."""
        return self.padded_to(tensor, self.rows_after(self.rows_of(tensor), steps))

    def padded_to(self, tensor: Tensor, rows: int) -> Tensor:
        """Pad the field's tensor [B, ...] with empty rows to N = `rows`, if it has fewer."""
        missing = rows - self.rows_of(tensor)
        if not self.grows or missing <= 0:
            return tensor
        before = missing * self.growth[0] // sum(self.growth)
        pads = [(before, missing - before) if axis == ROWS else (0, 0) for axis in self.shape]
        # F.pad expects the last axis first.
        return F.pad(tensor, [size for pad in reversed(pads) for size in pad], value=self.empty)

    def initial_tensor(
        self,
        batch_size: int,
        dtype: DType = None,
        device: Device = None,
        learned: Tensor | None = None,
    ) -> Tensor:
        """Return the field's tensor before the first step.

        Args:
            batch_size: B.
            dtype, device: of the tensor; None takes torch's default.
            learned: the parameter of a `Learned` initializer, of `initial_shape`; None draws one.
        Returns:
            [B, *initial_shape].
        Raises:
            ShapeError: `batch_size` or `learned` disagrees. ConfigError: the declaration has
                errors, or `learned` is given for a field that is not learned.
        """
        check_size("batch_size", batch_size)
        errors = self._errors(learned)
        if errors:
            raise ConfigError([f"state field {self.name!r}: {error}" for error in errors])
        if learned is None or not isinstance(self.initializer, Learned):
            return self.initializer.tensor((batch_size, *self.initial_shape), dtype, device)
        check_shape(f"learned {self.name}", learned, self.initial_shape)
        return self.initializer.of(learned.to(dtype=dtype, device=device), batch_size)

    def _errors(self, learned: Tensor | None) -> list[str]:
        errors = []
        fixed = [axis for axis in self.shape if axis != ROWS]
        if len(self.shape) - len(fixed) > 2 or any(isinstance(axis, str) for axis in fixed):
            errors.append(f"shape: expected sizes and at most two {ROWS!r}, got {self.shape}")
        if min(self.rows, *self.growth) < 0:
            errors.append(f"rows, growth: expected 0 or more, got {self.rows}, {self.growth}")
        if self.grows and sum(self.growth) <= 0:
            errors.append(f"growth: expected rows for the axis {ROWS!r}, got {self.growth}")
        if not self.grows and (self.growth, self.rows, self.most_rows) != ((0, 0), 0, None):
            errors.append(f"growth, rows, most_rows: expected none without an axis {ROWS!r}")
        if self.most_rows is not None and self.most_rows < self.rows:
            errors.append(f"most_rows: expected at least rows = {self.rows}, got {self.most_rows}")
        if learned is not None and not isinstance(self.initializer, Learned):
            errors.append(f"learned: expected None for {self.initializer}, got a tensor")
        return errors


def check_fields(
    fields: tuple[StateField, ...],
    state: tuple[Tensor, ...],
    batch_size: int,
    like_name: str,
    like: Tensor,
    memory: object,
    name: str = "state",
) -> None:
    """Check a state's tensors against the declarations of its fields.

    Args:
        fields, state: the declarations, and a tensor [B, ...] for each.
        like: a tensor with the expected dtype and device; `like_name` is its name in the message.
        memory, name: the memory of the state, and the state's name, for the message.
    Raises:
        ShapeError: a shape disagrees, a field has more than `most_rows` rows, or fields of equal
            growth disagree in N. DTypeError, DeviceError: a field is not like `like`.
    """
    alike: dict[tuple[object, ...], dict[str, int]] = {}
    for field, tensor in zip(fields, state, strict=True):
        what = f"{name}.{field.name}"
        check_shape(what, tensor, (batch_size, *field.shape))
        check_like(what, tensor, like_name, like)
        rows = field.rows_of(tensor)
        if field.most_rows is not None and rows > field.most_rows:
            raise ShapeError(
                f"{what}: expected at most {field.most_rows} rows N, the capacity of {memory!r}, "
                f"got {rows}."
            )
        if field.grows:
            alike.setdefault((field.growth, field.rows, field.most_rows), {})[field.name] = rows
    for sizes in alike.values():
        # This is not a set, because hashes would fix N in a graph that is being captured.
        first, *others = sizes.values()
        if any(rows != first for rows in others):
            text = ", ".join(f"{field} has {rows}" for field, rows in sizes.items())
            raise ShapeError(f"{name}: its fields must agree in rows N, but {text}.")
