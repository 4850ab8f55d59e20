"""Standard output that survives a closed pipe or a full disk."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from typing import TYPE_CHECKING, Any, TextIO

from unbounded.errors import StorageError

if TYPE_CHECKING:
    from _typeshed import SupportsWrite


class _Output:
    """A stream that discards all output after the first failed write.

    Args:
        stream: the underlying stream.
        name: the stream's name, for the message.
        needed: whether a failed write ends the command; else it continues without output.
        tell: the stream for a notice of this; None for no notice.
    """

    def __init__(
        self, stream: TextIO, name: str, needed: bool, tell: SupportsWrite[str] | None
    ) -> None:
        self._stream = stream
        self._name = name
        self._needed = needed
        self._tell = tell

    def write(self, text: str) -> int:
        """Write, or discard the text after a failure.

        Raises:
            BrokenPipeError: the reader has gone and the stream is needed.
            StorageError: another error, and the stream is needed.
        """
        try:
            return self._stream.write(text)
        except UnicodeEncodeError:  # the terminal's encoding lacks a symbol: escape it
            encoding = self._stream.encoding
            self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
            return len(text)
        except OSError as error:
            self._failed(error)
            return len(text)

    def flush(self) -> None:
        """As `write`."""
        try:
            self._stream.flush()
        except OSError as error:
            self._failed(error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _failed(self, error: OSError) -> None:
        # Python flushes the buffer again at exit; redirect it to the null device.
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
        if self._needed and isinstance(error, BrokenPipeError):
            raise error
        if self._needed:
            raise StorageError(f"writing {self._name} failed: {error.strerror}") from error
        if self._tell is not None:
            print(
                f"unbounded: {self._name} cannot be written ({error.strerror}); continuing "
                "without it",
                file=self._tell,
            )


@contextmanager
def outliving(work: bool) -> Iterator[None]:
    """Replace the process's standard streams by streams that survive failed writes.

    Args:
        work: whether the command continues without standard output, as training does; else a
            failed write ends it.
    """
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        err = _Output(sys.stderr or nowhere, "standard error", needed=False, tell=None)
        out = _Output(sys.stdout or nowhere, "standard output", not work, tell=err)
        with redirect_stdout(out), redirect_stderr(err):
            try:
                yield
            finally:
                out.flush()
