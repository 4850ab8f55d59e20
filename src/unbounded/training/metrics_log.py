"""The run's metrics as JSON lines, cut back to a checkpoint when a run goes on."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from unbounded.files import json_text, refuse_links, storage_faults

Listener = Callable[[dict[str, Any]], None]


class MetricsLog:
    """Appends records to a file of JSON lines and counts them.

    Args:
        path: the file; made when missing.
        listener: also told each record (TensorBoard, for one).
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
        with storage_faults(self.path, "writing"), self.path.open("a", encoding="utf-8") as stream:
            stream.write(json_text(record) + "\n")
        if self._listener is not None:
            self._listener(record)

    def cut(self, lines: int, tell: Callable[[str], None] = lambda text: None) -> int:
        """Keep the first `lines` lines: later ones belong to work that is done again.

        Args:
            tell: given a warning where there are fewer.
        Returns:
            How many there are now: fewer than `lines` where the file had fewer.
        Raises:
            StorageError: the disk refused.
        """
        with storage_faults(self.path, "cutting"):
            content = self.path.read_bytes() if self.path.exists() else b""
            position, kept = 0, 0
            while kept < lines and (end := content.find(b"\n", position)) >= 0:
                position, kept = end + 1, kept + 1
            if position != len(content):
                os.truncate(self.path, position)
        if kept < lines:
            tell(
                f"warning: {self.path} has {kept} of the {lines} lines that the checkpoint counts; "
                "the figures will lack the others, the weights lack nothing"
            )
        return kept

    def begin_with(self, lines: Sequence[str]) -> None:
        """Write lines of another run as the first ones; the listener is told them too.

        Raises:
            StorageError: the disk refused.
        """
        refuse_links(self.path)
        with storage_faults(self.path, "writing"):
            self.path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        if self._listener is not None:
            for line in lines:
                self._listener(json.loads(line))

    def sync(self) -> None:
        """Wait until every record is on the disk."""
        with storage_faults(self.path, "syncing"), self.path.open("ab") as stream:
            os.fsync(stream.fileno())


def first_lines(path: Path, count: int) -> list[str]:
    """The first `count` lines of a metrics file, each of them a record.

    Raises:
        OSError: it cannot be read. ValueError: there are fewer, or one is no record.
    """
    lines = path.read_text(encoding="utf-8").split("\n")[:-1][:count]
    if len(lines) < count:
        raise ValueError(f"{path} has {len(lines)} of the {count} lines that it counts")
    for line in lines:
        json.loads(line)
    return lines
