"""Metrics for TensorBoard, on request."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from unbounded.errors import ConfigError
from unbounded.training.metrics_log import Listener

_NOT_VALUES = {"kind", "batch", "lengths", "count"}


def tensorboard_listener(folder: Path) -> Listener:
    """What writes each metrics record as scalars under `folder`, made with the first.

    Raises:
        ConfigError: TensorBoard is not installed.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ConfigError(
            ["--tensorboard: TensorBoard is missing; pip install 'unbounded[tensorboard]'"]
        ) from error
    make = functools.cache(SummaryWriter)

    def listen(record: dict[str, Any]) -> None:
        writer: Any = make(log_dir=str(folder))
        kind = record["kind"]
        where = f"{kind}/{record['lengths'].replace(':', '-')}" if "lengths" in record else kind
        for name, value in record.items():
            if name not in _NOT_VALUES:
                writer.add_scalar(f"{where}/{name}", value, record["batch"])
        writer.flush()

    return listen
