"""Stop a training whose gradient has vanished."""

from __future__ import annotations

from typing import Any

from unbounded.options import Count, Positive
from unbounded.training.hook import Assess, Hook, Record
from unbounded.training.state import LoopState


class VanishedGradient(Hook):
    """Stop when the gradient's norm is below a bound at several reports in a row.

    Args:
        norm: bound on the norm before clipping.
        reports: number of reports in a row.
    """

    saved = ("low_in_a_row",)

    def __init__(self, *, norm: Positive = 1e-6, reports: Count = 3) -> None:
        self._norm, self._reports = norm, reports
        self.low_in_a_row = 0

    def on_report(self, state: LoopState, loss: float) -> dict[str, Any]:
        """Count the reports with a small gradient."""
        self.low_in_a_row = self.low_in_a_row + 1 if state.gradient_norm < self._norm else 0
        return {}

    def after_batch(self, state: LoopState, assess: Assess, record: Record) -> str | None:
        """Stop after enough of them."""
        if self.low_in_a_row < self._reports:
            return None
        return f"failed early: gradient norm below {self._norm:g} in {self._reports} reports"
