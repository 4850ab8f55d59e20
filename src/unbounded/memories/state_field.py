"""What a memory declares of each field of its state, as `Head` does of an instruction."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor
from torch.nn import functional as F

from unbounded.checks import check_like, check_shape, check_size
from unbounded.errors import ConfigError, ShapeError
from unbounded.memories.beginnings import Beginning, Constant, Device, DType, Learned, Shape

#: Stands in a shape for the axis that counts rows.
ROWS = "N"


class StateField(NamedTuple):
    """One field of a memory's state, or one array that a trace shows of it.

    Fields:
        name: the field of the memory's State.
        shape: its axes after the batch; "N" is the axis that grows, if there is one.
        growth: rows that a step adds before the first and after the last; (0, 0) without "N".
        rows: N at the beginning.
        most_rows: N beyond which no step adds rows; None for no limit.
        empty: what a row holds that a step adds and does not write.
        beginning: what all of the field holds before the first step.
    """

    name: str
    shape: tuple[int | str, ...]
    growth: tuple[int, int] = (0, 0)
    rows: int = 0
    most_rows: int | None = None
    empty: float = 0.0
    beginning: Beginning = Constant(0.0)

    @property
    def grows(self) -> bool:
        """Whether the field has an axis that counts rows."""
        return ROWS in self.shape

    @property
    def first_shape(self) -> Shape:
        """The axes after the batch, before the first step."""
        return tuple(self.rows if isinstance(axis, str) else axis for axis in self.shape)

    def rows_of(self, tensor: Tensor) -> int:
        """N of the field's tensor [B, ...]; 0 for a field without rows."""
        return tensor.shape[1 + self.shape.index(ROWS)] if self.grows else 0

    def rows_after(self, rows: int, steps: int) -> int:
        """N after `steps` more steps, from N = `rows`."""
        added = sum(self.growth)
        if self.most_rows is not None and added:
            steps = min(steps, max(0, self.most_rows - rows) // added)
        return rows + added * steps

    def padded(self, tensor: Tensor, steps: int) -> Tensor:
        """Give the field's tensor the empty rows that `steps` more steps would add."""
        return self.padded_to(tensor, self.rows_after(self.rows_of(tensor), steps))

    def padded_to(self, tensor: Tensor, rows: int) -> Tensor:
        """Give the field's tensor [B, ...] empty rows up to N = `rows`, where it has fewer."""
        missing = rows - self.rows_of(tensor)
        if not self.grows or missing <= 0:
            return tensor
        before = missing * self.growth[0] // sum(self.growth)
        behind = len(self.shape) - 1 - self.shape.index(ROWS)
        return F.pad(tensor, (*(0, 0) * behind, before, missing - before), value=self.empty)

    def begin(
        self,
        batch_size: int,
        dtype: DType = None,
        device: Device = None,
        learned: Tensor | None = None,
    ) -> Tensor:
        """Make the field's tensor before the first step.

        Args:
            batch_size: B.
            dtype, device: of the tensor; None takes torch's default.
            learned: the parameter of a `Learned` beginning, of `first_shape`; None draws one.
        Returns:
            [B, *first_shape].
        Raises:
            ShapeError: `batch_size` or `learned` disagrees. ConfigError: the declaration has
                faults, or `learned` is given for a field that is not learned.
        """
        check_size("batch_size", batch_size)
        faults = self._faults(learned)
        if faults:
            raise ConfigError([f"state field {self.name!r}: {fault}" for fault in faults])
        if learned is None or not isinstance(self.beginning, Learned):
            return self.beginning.tensor((batch_size, *self.first_shape), dtype, device)
        check_shape(f"learned {self.name}", learned, self.first_shape)
        return self.beginning.of(learned.to(dtype=dtype, device=device), batch_size)

    def _faults(self, learned: Tensor | None) -> list[str]:
        faults = []
        fixed = [axis for axis in self.shape if axis != ROWS]
        if len(self.shape) - len(fixed) > 1 or any(isinstance(axis, str) for axis in fixed):
            faults.append(f"shape: expected sizes and at most one {ROWS!r}, got {self.shape}")
        if min(self.rows, *self.growth) < 0:
            faults.append(f"rows, growth: expected 0 or more, got {self.rows}, {self.growth}")
        if self.grows and sum(self.growth) <= 0:
            faults.append(f"growth: expected rows for the axis {ROWS!r}, got {self.growth}")
        if not self.grows and (self.growth, self.rows, self.most_rows) != ((0, 0), 0, None):
            faults.append(f"growth, rows, most_rows: expected none without an axis {ROWS!r}")
        if self.most_rows is not None and self.most_rows < self.rows:
            faults.append(f"most_rows: expected at least rows = {self.rows}, got {self.most_rows}")
        if learned is not None and not isinstance(self.beginning, Learned):
            faults.append(f"learned: expected None for {self.beginning}, got a tensor")
        return faults


def check_fields(
    fields: tuple[StateField, ...],
    state: tuple[Tensor, ...],
    batch_size: int,
    like_name: str,
    like: Tensor,
    memory: object,
) -> None:
    """Check a state's tensors against what is declared of them.

    Args:
        fields, state: the declarations, and a tensor [B, ...] for each.
        like: whose dtype and device they must have; `like_name` is what the message calls it.
        memory: whose state it is, for the message.
    Raises:
        ShapeError: a shape, more rows than `most_rows`, or fields that grow alike and disagree in
            N. DTypeError, DeviceError: a field is not like `like`.
    """
    alike: dict[tuple[object, ...], dict[str, int]] = {}
    for field, tensor in zip(fields, state, strict=True):
        name = f"state.{field.name}"
        check_shape(name, tensor, (batch_size, *field.shape))
        check_like(name, tensor, like_name, like)
        rows = field.rows_of(tensor)
        if field.most_rows is not None and rows > field.most_rows:
            raise ShapeError(
                f"{name}: expected at most {field.most_rows} rows N, the capacity of {memory!r}, "
                f"got {rows}."
            )
        if field.grows:
            alike.setdefault((field.growth, field.rows, field.most_rows), {})[field.name] = rows
    for sizes in alike.values():
        # Not through a set: its hashes would fix N in a graph that is being captured.
        first, *others = sizes.values()
        if any(rows != first for rows in others):
            text = ", ".join(f"{name} has {rows}" for name, rows in sizes.items())
            raise ShapeError(f"state: its fields must agree in rows N, but {text}.")
