"""A run's metrics as JSON lines, which are truncated to the checkpoint if the run resumes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from unbounded.files import json_text, refuse_links, storage_errors

Listener = Callable[[dict[str, Any]], None]


class MetricsLog:
    """Appends records to a file of JSON lines and counts them.

    Args:
        path: the file; created when missing.
        listener: is called with each record too (TensorBoard, for one).
    """

    def __init__(self, path: Path, listener: Listener | None = None) -> None:
        self.path = path
        self._listener = listener

    def append(self, record: dict[str, Any]) -> None:
        """Write one record.

        Raises:
            StorageError: the disk is full or read-only.
        """
        refuse_links(self.path)
        with storage_errors(self.path, "writing"), self.path.open("a", encoding="utf-8") as stream:
            stream.write(json_text(record) + "\n")
        if self._listener is not None:
            self._listener(record)

    def cut(self, lines: int, report: Callable[[str], None] = lambda text: None) -> int:
        """Keep the first `lines` lines, because later lines belong to work that will be repeated.

        Args:
            report: is called with a warning where there are fewer.
        Returns:
            The number of lines that remain.
        Raises:
            StorageError: the disk refused.
        """
        with storage_errors(self.path, "cutting"):
            content = self.path.read_bytes() if self.path.exists() else b""
            position, kept = 0, 0
            while kept < lines and (end := content.find(b"\n", position)) >= 0:
                position, kept = end + 1, kept + 1
            if position != len(content):
                os.truncate(self.path, position)
        if kept < lines:
            report(
                f"warning: {self.path} has {kept} of the {lines} lines that the checkpoint counts; "
                "the figures will lack the others, the weights lack nothing"
            )
        return kept

    def sync(self) -> None:
        """Wait until every record is on the disk."""
        with storage_errors(self.path, "syncing"), self.path.open("ab") as stream:
            os.fsync(stream.fileno())
