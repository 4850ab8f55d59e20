"""Convert symbols that a person typed into inputs of a model and targets at each step."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

import torch
from torch import Tensor

from unbounded.errors import ChoiceError, ConfigError
from unbounded.tasks import Task, TransductionTask
from unbounded.tasks.transduction import END, SEPARATOR, START

#: Target of a step without an output.
NOTHING: Final = -1
BLANK_SYMBOL: Final = " "
#: The text for a blank symbol, which must be used if blanks separate symbols.
BLANK: Final = "\N{OPEN BOX}"
_PARTS: Final = re.compile(r"[ \t\r\n]+")
#: A larger alphabet than this is not listed in a message.
_LISTED = 50
_LAID_OUT = f"{START} SOURCE {SEPARATOR} TARGET {END}"


class TypedSteps(NamedTuple):
    """Symbols as steps. Each step reads one symbol and may predict the next symbol.

    Fields:
        inputs: input tokens, int64 [T].
        targets: output tokens of the next symbols, int64 [T]; NOTHING where the task predicts
            nothing.
    """

    inputs: Tensor
    targets: Tensor


def read_symbols(task: Task, text: str) -> list[str]:
    """Split a text that a person typed into symbols.

    The task's start symbol is not part of the alphabet. It may stand at the start of the text, and
    is left out (`with_start`).

    Args:
        task: has the alphabet for `parted`.
        text: for example "aab bba" or "101+1=011.".
    Raises:
        ChoiceError, ConfigError: a symbol is not in the alphabet.
    """
    if task.start_symbol is not None:
        text = text.lstrip().removeprefix(task.start_symbol)
    symbols = parted(typed_alphabet(task), text)
    _check_known(task, symbols)
    return symbols


def typed_alphabet(task: Task) -> tuple[str, ...]:
    """The input symbols that a person types, without the start symbol."""
    return tuple(symbol for symbol in task.input_vocabulary if symbol != task.start_symbol)


def with_start(task: Task, symbols: Sequence[str]) -> list[str]:
    """Add the task's start symbol, if any, to typed symbols that do not begin with it."""
    start = task.start_symbol
    return [*symbols] if start is None or [*symbols[:1]] == [start] else [start, *symbols]


def parted(alphabet: tuple[str, ...], text: str) -> list[str]:
    """Split a text into symbols, without dropping any.

    If all symbols are single characters, the text is read character by character, and blanks are
    ignored unless white space is a symbol. Otherwise white space separates symbols. If a blank is a
    symbol and BLANK is not, BLANK is read as a blank. If BLANK is a symbol, it is read as itself.
    """
    kind = _kind_of(alphabet)
    if not kind.is_spelled:
        spaces = kind.spaces.difference(" \t\r\n")
        symbols = [part for part in _PARTS.split(text) if part] if spaces else text.split()
    else:
        symbols = list(text if kind.spaces else "".join(text.split()))
    if not kind.has_typed_blank:
        return symbols
    return [BLANK_SYMBOL if symbol == BLANK else symbol for symbol in symbols]


def as_typed(alphabet: tuple[str, ...], symbols: Sequence[str]) -> str:
    """The text that `parted` reads as given symbols.

    The alphabet must have no `unwritable` symbols.
    """
    kind = _kind_of(alphabet)
    if kind.is_spelled:
        return "".join(symbols)
    if kind.has_typed_blank:
        symbols = [BLANK if symbol == BLANK_SYMBOL else symbol for symbol in symbols]
    return " ".join(symbols)


def unwritable(alphabet: tuple[str, ...]) -> list[str]:
    """The symbols in an alphabet that a line of text cannot represent."""
    kind = _kind_of(alphabet)
    if kind.is_spelled:
        return [symbol for symbol in alphabet if symbol in "\r\n"]
    blank = BLANK_SYMBOL if kind.has_typed_blank else None
    return [
        symbol for symbol in alphabet if symbol != blank and (not symbol or _PARTS.search(symbol))
    ]


def keeps_blanks(alphabet: tuple[str, ...]) -> bool:
    """Whether `parted` reads white space as symbols."""
    kind = _kind_of(alphabet)
    return kind.is_spelled and bool(kind.spaces)


class _Kind(NamedTuple):
    """Properties of an alphabet that determine how its texts are read.

    Fields:
        is_spelled: whether all symbols are single characters.
        spaces: the white space in its symbols.
        has_typed_blank: whether BLANK is read as a blank.
    """

    is_spelled: bool
    spaces: frozenset[str]
    has_typed_blank: bool


@functools.lru_cache(maxsize=8)
def _kind_of(alphabet: tuple[str, ...]) -> _Kind:
    return _Kind(
        all(len(symbol) == 1 for symbol in alphabet),
        frozenset(filter(str.isspace, "".join(alphabet))),
        BLANK_SYMBOL in alphabet and BLANK not in alphabet,
    )


def typed_steps(task: Task, symbols: Sequence[str]) -> TypedSteps:
    """Return symbols as inputs, and the next symbols as targets.

    Pairs whose answer is fed back are given as <s> SOURCE ||| TARGET </s>, or a prefix of it. Up to
    ||| nothing is predicted; after it the symbols have the tokens of the target.

    Args:
        task: a stream, a text, or such pairs.
        symbols: at least two; the last one is only predicted.
    Raises:
        ConfigError: there are fewer than two, or input and output symbols differ; for pairs,
            symbols in the wrong place, all listed.
        ChoiceError: a symbol is not in the alphabet.
    """
    if len(symbols) < 2:
        raise ConfigError(f"symbols: expected at least two, got {len(symbols)}")
    if isinstance(task, TransductionTask) and task.layout == "pairs":
        _check_known(task, symbols)
        return _pair_steps(task, symbols)
    if task.input_vocabulary != task.output_vocabulary:
        raise ConfigError(
            f"task {task.name!r}: expected one that predicts what it reads (a stream, a text "
            f"or pairs), got the layout {task.layout}. `unbounded explore RUN` shows the "
            "memory of other tasks step by step"
        )
    _check_known(task, symbols)
    places = {symbol: place for place, symbol in enumerate(task.input_vocabulary)}
    tokens = torch.tensor([places[symbol] for symbol in symbols], dtype=torch.int64)
    return TypedSteps(tokens[:-1], tokens[1:])


def _pair_steps(task: TransductionTask, symbols: Sequence[str]) -> TypedSteps:
    bar = symbols.index(SEPARATOR) if SEPARATOR in symbols else len(symbols)
    source = {symbol: place for place, symbol in enumerate(task.source_vocabulary, start=2)}
    target = {symbol: place for place, symbol in enumerate(task.output_vocabulary)}
    errors: list[str] = []
    inputs, outputs = [], []
    for place, symbol in enumerate(symbols):
        if place > bar:
            is_fit = symbol in target and (symbol != END or place == len(symbols) - 1)
            token = target.get(symbol, 0)
            outputs.append(token)
            inputs.append(int(task.output_to_input[token]))
        else:
            marks = {bar: {SEPARATOR: 1}, 0: {START: 0}}
            allowed = marks.get(place, source)
            is_fit = symbol in allowed
            outputs.append(NOTHING)
            inputs.append(allowed.get(symbol, 0))
        if not is_fit:
            errors.append(
                f"symbols: expected {_LAID_OUT}, got {symbol!r} as symbol {place + 1}, where it "
                "cannot stand"
            )
    if errors:
        raise ConfigError(errors)
    tokens = torch.tensor([inputs, outputs], dtype=torch.int64)
    return TypedSteps(tokens[0, :-1], tokens[1, 1:])


def _check_known(task: Task, symbols: Sequence[str]) -> None:
    is_fed_back = isinstance(task, TransductionTask) and task.layout == "pairs"
    # A vocabulary may contain a name twice, once for each side of a transduction.
    alphabet = dict.fromkeys((*typed_alphabet(task), *((END,) if is_fed_back else ())))
    for number, symbol in enumerate(symbols, start=1):
        if symbol not in alphabet and len(alphabet) <= _LISTED:
            raise ChoiceError(f"symbol of task {task.name}", symbol, alphabet)
        if symbol not in alphabet:
            raise ConfigError(
                f"symbol {number}, {symbol!r}, is not among the {len(alphabet)} symbols of "
                f"{task.name}"
            )
