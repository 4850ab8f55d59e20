"""Standard output that may go away under a command: a pipe is closed, a disk is full."""

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
    """A stream that falls silent with the first write that fails.

    Args:
        stream: where the text goes.
        name: of the stream, for the message.
        needed: whether a command ends with the stream; else it goes on in silence.
        tell: where to say that it does.
    """

    def __init__(
        self, stream: TextIO, name: str, needed: bool, tell: SupportsWrite[str] | None
    ) -> None:
        self._stream = stream
        self._name = name
        self._needed = needed
        self._tell = tell

    def write(self, text: str) -> int:
        """Write, or say nothing more.

        Raises:
            BrokenPipeError: the reader has gone and this stream is needed.
            StorageError: it cannot be written for another reason and is needed.
        """
        try:
            return self._stream.write(text)
        except UnicodeEncodeError:  # a terminal of another language: symbols are escaped
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
        # What is buffered is flushed once more at exit: give it somewhere to go.
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
                f"unbounded: {self._name} cannot be written ({error.strerror}); going on in "
                "silence",
                file=self._tell,
            )


@contextmanager
def outliving(work: bool) -> Iterator[None]:
    """Put streams that are sure to fall silent in the place of the process's own.

    Args:
        work: whether what the command does matters without what it prints, as training does: it
            goes on when standard output is gone. Else the error ends the command.
    """
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        err = _Output(sys.stderr or nowhere, "standard error", needed=False, tell=None)
        out = _Output(sys.stdout or nowhere, "standard output", not work, tell=err)
        with redirect_stdout(out), redirect_stderr(err):
            try:
                yield
            finally:
                out.flush()
