"""The one table of tolerances: relative and absolute error by dtype."""

from __future__ import annotations

import torch
from torch import Tensor

RELATIVE = {torch.float32: 1e-5, torch.float64: 1e-10}
ABSOLUTE = {torch.float32: 1e-6, torch.float64: 1e-12}


def assert_close(got: Tensor, want: Tensor, what: str = "") -> None:
    torch.testing.assert_close(
        got,
        want,
        rtol=RELATIVE[want.dtype],
        atol=ABSOLUTE[want.dtype],
        msg=lambda message: f"{what}: {message}",
    )
