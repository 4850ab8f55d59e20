"""The errors of this library. Each class is also a standard exception."""

from __future__ import annotations

import difflib
import functools
import warnings
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

# Least similarity of two names, from 0 to 1, for a suggestion.
_NEAR = 0.6
# The same for the start of a longer name, which is similar by chance more often.
_NEAR_START = 0.75
# Least number of letters to match as a prefix of a name.
_BEGINNING = 3


class UnboundedError(Exception):
    """Base class of errors in the user's input or environment."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep the message between processes, whatever the arguments of the class."""
        args = super().__reduce__()[1]  # with the file name of an OSError
        return _restored, (type(self), args, self.__dict__)


def _restored(
    kind: type[UnboundedError], args: tuple[Any, ...], fields: dict[str, Any]
) -> UnboundedError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(fields)
    return error


class ShapeError(UnboundedError, ValueError):
    """A tensor has the wrong number of axes or an axis of the wrong size."""


class DTypeError(UnboundedError, TypeError):
    """A tensor has the wrong dtype."""


class DeviceError(UnboundedError, ValueError):
    """Tensors that must be on the same device are on different devices."""


class MemoryOverflowError(UnboundedError, RuntimeError):
    """A memory of limited capacity would lose contents, and dropping is not enabled."""


class LabError(UnboundedError, ImportError):
    """A package of the extra `lab` is not installed."""


def closest(given: object, names: Iterable[str]) -> list[str]:
    """The names similar to a given name, the nearest first; empty if none is similar.

    Names are similar if they differ by one or two typing errors, if they start with the given name,
    or if the last part of a dotted name is similar. Upper and lower case are equal here.
    """
    typed = str(given).lstrip("-").lower()

    def nearness(name: str) -> tuple[float, bool]:
        full = name.lstrip("-").lower()
        forms = {full, full.rpartition(".")[2]}
        whole = max(map(similarity, forms))
        if len(typed) < _BEGINNING:
            return whole, True
        start = max(similarity(form[: len(typed)]) for form in forms)
        start = start if start >= _NEAR_START else 0.0
        # Among equally near names, a match of the full name comes before a match of a prefix.
        return max(whole, start), whole >= start

    def similarity(form: str) -> float:
        return difflib.SequenceMatcher(None, form, typed).ratio()

    rated = [(nearness(name), name) for name in names]
    near = [pair for pair in rated if pair[0][0] >= _NEAR]
    return [name for _, name in sorted(near, key=lambda pair: pair[0], reverse=True)]


def did_you_mean(given: object, names: Iterable[str]) -> str:
    """The nearest name as a question to append to a message; empty if none is similar."""
    near = closest(given, names)
    return f" Did you mean {near[0]!r}?" if near else ""


def unknown(what: str, given: object, names: Iterable[str], kind: str = "Valid") -> str:
    """The message on an unknown name, with the nearest name and all valid names in their order.

    Args:
        what: text before the name, such as "budget: unknown".
        given: the unknown name.
        names: the valid names.
        kind: heading of the valid names.
    """
    known = list(names)
    hint = did_you_mean(given, known)
    return f"{what} {given!r}.{hint} {kind}: {', '.join(known) or 'none'}."


class ChoiceError(UnboundedError, ValueError):
    """An unknown name for a choice.

    Args:
        kind: the kind of choice, such as "memory".
        given: the unknown name.
        valid: the valid names.
        listed: text about the valid names, if they are too many to list.
    """

    def __init__(
        self, kind: str, given: object, valid: Iterable[str], listed: str | None = None
    ) -> None:
        names = sorted(valid)
        text = listed or (f"Valid: {', '.join(names)}." if names else "There is none.")
        super().__init__(f"unknown {kind} {given!r}.{did_you_mean(given, names)} {text}")


class ConfigError(UnboundedError, ValueError):
    """A config has errors. The message lists all of them.

    Args:
        errors: one error, or all of them.
    """

    def __init__(self, errors: str | Iterable[str]) -> None:
        self.errors = (errors,) if isinstance(errors, str) else tuple(errors)
        lines = "".join(f"\n  - {error}" for error in self.errors)
        super().__init__(
            f"the configuration has {len(self.errors)} error{'s' * (len(self.errors) > 1)}:{lines}"
        )


@contextmanager
def collected(errors: list[str], name: str = "") -> Iterator[None]:
    """Add the ConfigError or ChoiceError of a block to a list, so that all are raised together.

    Args:
        errors: the errors so far, a line each.
        name: the option that the block checks, which precedes each line; empty for none.
    """
    prefix = f"{name}: " if name else ""
    try:
        yield
    except ConfigError as error:
        errors += [prefix + line for line in error.errors]
    except ChoiceError as error:
        errors.append(f"{prefix}{error}")


def placed(lines: Iterable[str], place: str, options: Collection[str]) -> list[str]:
    """Precede each error of a component with the component's place in a config.

    Args:
        lines: errors, a line each. A line "OPTION: text" describes an error of that option.
        place: such as "model.memory".
        options: the component's options.
    """
    return [f"{place}{'.' if line.partition(':')[0] in options else ': '}{line}" for line in lines]


class BackendError(UnboundedError, RuntimeError):
    """A backend that was requested by name does not support this call. The message states why."""


class BackendWarning(UserWarning):
    """The fused kernel does not support a call, so the reference runs. Given once per reason."""


class RoomWarning(UserWarning):
    """A memory has fewer places than its inputs may need. Given once per message.

    This warning is given if a memory with a capacity drops cells (`Memory.dropped_beyond`) of
    longer sequences:

    - by `MemoryRNN`, `SequenceModel` and `MemoryModel` in evaluation mode without a state;
    - by `generate(room=False)`;
    - by `unbounded evaluate` and `predict`, for strings that may exceed the slots of a Turing tape.

    Not given

    - in training mode, or while a trace is recorded;
    - for a carried state, because reading its free capacity would wait for the device;
    - in a graph of torch.compile, torch.export or torch.jit.trace;
    - in scores of streams and texts, or with `with_room`: the capacity suffices or is intended.
    """


@functools.cache
def say_once(message: str, category: type[Warning] = RuntimeWarning) -> None:
    """Warn once per message. `say_once.cache_clear()` resets this."""
    warnings.warn(message, category, stacklevel=3)


class CheckpointError(UnboundedError, RuntimeError):
    """A checkpoint is truncated, foreign or does not fit. The message names the file."""


class CheckpointWarning(UserWarning):
    """A newer checkpoint cannot be used, so an older one is loaded. Given once per checkpoint."""


class RunExistsError(UnboundedError, FileExistsError):
    """A run folder exists, and `overwrite` is not set."""


class RunBusyError(RunExistsError):
    """Another process uses the run folder."""


class NonFiniteError(UnboundedError, ArithmeticError):
    """A loss or tensor became NaN or infinite. The message names the step and the tensor.

    Attributes:
        batch: finished batches of the training that it ended; None elsewhere.
    """

    batch: int | None = None


class StorageError(UnboundedError, OSError):
    """A file cannot be read or written. The message names the file."""
