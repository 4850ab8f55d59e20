"""The errors this library raises: one class a kind of fault, each also a standard exception."""

from __future__ import annotations

import difflib
import functools
import warnings
from collections.abc import Iterable


class UnboundedError(Exception):
    """Base of every error that names a fault of the user's input or surroundings."""


class ShapeError(UnboundedError, ValueError):
    """A tensor has the wrong number of axes or an axis of the wrong size."""


class DTypeError(UnboundedError, TypeError):
    """A tensor has the wrong dtype."""


class DeviceError(UnboundedError, ValueError):
    """Tensors that must be together live on different devices."""


class MemoryOverflowError(UnboundedError, RuntimeError):
    """A memory of limited capacity would lose what it holds, and dropping was not asked for."""


class ChoiceError(UnboundedError, ValueError):
    """A choice by name is not among those there are."""

    def __init__(self, kind: str, given: object, valid: Iterable[str]) -> None:
        names = sorted(valid)
        close = difflib.get_close_matches(str(given), names, n=1, cutoff=0.4)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        super().__init__(f"unknown {kind} {given!r}.{hint} Valid: {', '.join(names)}.")


class ConfigError(UnboundedError, ValueError):
    """A configuration has faults; all of them are listed together."""

    def __init__(self, faults: Iterable[str]) -> None:
        self.faults = tuple(faults)
        lines = "".join(f"\n  - {fault}" for fault in self.faults)
        super().__init__(
            f"the configuration has {len(self.faults)} fault{'s' * (len(self.faults) > 1)}:{lines}"
        )


class BackendError(UnboundedError, RuntimeError):
    """A backend asked for by name cannot serve this call; the message says why."""


class BackendWarning(UserWarning):
    """The fused kernel does not apply and the reference is taken; said once for each reason."""


@functools.cache
def say_once(message: str, category: type[Warning] = RuntimeWarning) -> None:
    """Warn the first time this message is given; `say_once.cache_clear()` forgets them all."""
    warnings.warn(message, category, stacklevel=3)


class CheckpointError(UnboundedError, RuntimeError):
    """A checkpoint is truncated, foreign or does not fit; the message names the file."""


class RunExistsError(UnboundedError, FileExistsError):
    """A run folder exists and overwriting it was not asked for."""


class RunBusyError(RunExistsError):
    """Another process is at work in the run folder."""


class NonFiniteError(UnboundedError, ArithmeticError):
    """A loss or tensor became NaN or infinite; the message names the step and the tensor."""


class StorageError(UnboundedError, OSError):
    """The disk refused: full, read-only, or a path that cannot be used; the message names it."""
