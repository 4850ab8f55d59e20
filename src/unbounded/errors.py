"""The errors this library raises: one class a kind of fault, each also a standard exception."""

from __future__ import annotations

import difflib
import functools
import warnings
from collections.abc import Iterable

# How alike two names must be, from 0 to 1, for the one to be meant by the other.
_NEAR = 0.6
# So many letters can be the beginning of a name.
_BEGINNING = 3


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


def closest(given: object, names: Iterable[str]) -> list[str]:
    """The names that may have been meant, the nearest first; none where all of them are far.

    Near is a name with a typing error or two, one that begins so, and a dotted one whose last part
    is near.
    """
    typed = str(given).lstrip("-")

    def nearness(name: str) -> float:
        full = name.lstrip("-")
        forms = {full, full.rpartition(".")[2]}
        if len(typed) >= _BEGINNING:
            forms |= {form[: len(typed)] for form in forms}
        return max(difflib.SequenceMatcher(None, form, typed).ratio() for form in forms)

    found = [(nearness(name), name) for name in names]
    near = [pair for pair in found if pair[0] >= _NEAR]
    return [name for _, name in sorted(near, key=lambda pair: -pair[0])]


def did_you_mean(given: object, names: Iterable[str]) -> str:
    """The nearest name as a question behind a sentence; empty where none is near."""
    near = closest(given, names)
    return f" Did you mean {near[0]!r}?" if near else ""


class ChoiceError(UnboundedError, ValueError):
    """A choice by name is not among those there are.

    Args:
        kind, given: what was to be chosen, and what came.
        valid: the names there are.
        listed: what the message says of them where they are too many to list.
    """

    def __init__(
        self, kind: str, given: object, valid: Iterable[str], listed: str | None = None
    ) -> None:
        names = sorted(valid)
        text = listed or (f"Valid: {', '.join(names)}." if names else "There is none.")
        super().__init__(f"unknown {kind} {given!r}.{did_you_mean(given, names)} {text}")


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


class RoomWarning(UserWarning):
    """A memory has fewer places than what it is given may need; said once for each message.

    Given where a memory with a capacity drops cells (`Memory.dropped_beyond`) of sequences that are
    longer: by `MemoryRNN`, and so by `SequenceModel` and `MemoryModel`, in evaluation mode and
    without a state; by `generate(room=False)`; and by `unbounded evaluate` and `predict` of words
    that may be higher than a Turing tape has slots.

    Not given in training mode or where a trace is recorded; of a state that is carried from call to
    call, because only its values say how much of the capacity is free, and to look at them waits
    for the device; in a graph of torch.compile, torch.export or torch.jit.trace; nor in scores of
    streams, of texts and of `with_room`, whose capacity is enough or meant.
    """


@functools.cache
def say_once(message: str, category: type[Warning] = RuntimeWarning) -> None:
    """Warn the first time this message is given; `say_once.cache_clear()` forgets them all."""
    warnings.warn(message, category, stacklevel=3)


class CheckpointError(UnboundedError, RuntimeError):
    """A checkpoint is truncated, foreign or does not fit; the message names the file."""


class CheckpointWarning(UserWarning):
    """A newer checkpoint cannot be used, and an older one is taken; said once for each."""


class RunExistsError(UnboundedError, FileExistsError):
    """A run folder exists and overwriting it was not asked for."""


class RunBusyError(RunExistsError):
    """Another process is at work in the run folder."""


class NonFiniteError(UnboundedError, ArithmeticError):
    """A loss or tensor became NaN or infinite; the message names the step and the tensor."""


class StorageError(UnboundedError, OSError):
    """The disk refused: full, read-only, or a path that cannot be used; the message names it."""
