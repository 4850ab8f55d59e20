"""Symbols that a person typed: what a model reads of them, and what it should say at each step."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

import torch
from torch import Tensor

from unbounded.errors import ChoiceError, ConfigError
from unbounded.tasks import Task, TransductionTask
from unbounded.tasks.transduction import END, SEPARATOR, START

#: Where nothing is said at a step.
NOTHING: Final = -1
BLANK_SYMBOL: Final = " "
#: How a blank that is a symbol is typed where blanks part symbols.
BLANK: Final = "\N{OPEN BOX}"
_PARTS: Final = re.compile(r"[ \t\r\n]+")
#: A larger alphabet is not listed in a message.
_LISTED = 50
_LAID_OUT = f"{START} SOURCE {SEPARATOR} TARGET {END}"


class TypedSteps(NamedTuple):
    """Symbols as steps, each of which reads one of them and may say the next.

    Fields:
        inputs: input tokens, int64 [T].
        targets: output tokens of the symbols that come next, int64 [T]; NOTHING where the task has
            nothing said.
    """

    inputs: Tensor
    targets: Tensor


def read_symbols(task: Task, text: str) -> list[str]:
    """The symbols of a text as a person types it.

    Args:
        task: knows the alphabet. If all its symbols are single characters, the text is read
            character by character and blanks only make it easier to read; otherwise blanks part
            one symbol from the next. Where the blank is a symbol itself it is read as such, or
            typed as BLANK where blanks part symbols.
        text: for example "aab bba" or "101+1=011.".
    Raises:
        ChoiceError, ConfigError: a symbol is not in the alphabet.
    """
    is_spelled = all(len(symbol) == 1 for symbol in task.input_vocabulary)
    has_blank = BLANK_SYMBOL in task.input_vocabulary and BLANK not in task.input_vocabulary
    if not is_spelled:
        symbols = [part for part in _PARTS.split(text) if part]
        if has_blank:
            symbols = [BLANK_SYMBOL if symbol == BLANK else symbol for symbol in symbols]
    else:
        symbols = list(text) if has_blank else list("".join(text.split()))
    _check_known(task, symbols)
    return symbols


def typed_steps(task: Task, symbols: Sequence[str]) -> TypedSteps:
    """What is read at each step, and what should be said: the next symbol.

    Of pairs whose answer is fed back the symbols are <s> SOURCE ||| TARGET </s>, or the beginning
    of that: before ||| they are those of the source and nothing is said, behind it those of the
    target, which have tokens of their own.

    Args:
        task: a stream, a text, or such pairs.
        symbols: at least two; the last one is only said.
    Raises:
        ConfigError: there are fewer than two, or what is said has other symbols than what is read;
            of pairs, symbols stand where they cannot; all such together.
        ChoiceError: a symbol is not in the alphabet.
    """
    if len(symbols) < 2:
        raise ConfigError([f"symbols: expected at least two, got {len(symbols)}"])
    if isinstance(task, TransductionTask) and task.layout == "pairs":
        _check_known(task, symbols)
        return _pair_steps(task, symbols)
    if task.input_vocabulary != task.output_vocabulary:
        raise ConfigError(
            [
                f"task {task.name!r}: expected one that predicts what it reads, a stream, a text "
                f"or pairs, got the layout {task.layout}. Memories of the library at work, "
                "step by step: unbounded explore RUN"
            ]
        )
    _check_known(task, symbols)
    places = {symbol: place for place, symbol in enumerate(task.input_vocabulary)}
    tokens = torch.tensor([places[symbol] for symbol in symbols], dtype=torch.int64)
    return TypedSteps(tokens[:-1], tokens[1:])


def _pair_steps(task: TransductionTask, symbols: Sequence[str]) -> TypedSteps:
    bar = symbols.index(SEPARATOR) if SEPARATOR in symbols else len(symbols)
    source = {symbol: place for place, symbol in enumerate(task.source_vocabulary, start=2)}
    target = {symbol: place for place, symbol in enumerate(task.output_vocabulary)}
    faults: list[str] = []
    inputs, said = [], []
    for place, symbol in enumerate(symbols):
        if place > bar:
            is_fit = symbol in target and (symbol != END or place == len(symbols) - 1)
            token = target.get(symbol, 0)
            said.append(token)
            inputs.append(int(task.output_to_input[token]))
        else:
            marks = {bar: {SEPARATOR: 1}, 0: {START: 0}}
            own = marks.get(place, source)
            is_fit = symbol in own
            said.append(NOTHING)
            inputs.append(own.get(symbol, 0))
        if not is_fit:
            faults.append(
                f"symbols: expected {_LAID_OUT}, got {symbol!r} as symbol {place + 1}, where it "
                "cannot stand"
            )
    if faults:
        raise ConfigError(faults)
    tokens = torch.tensor([inputs, said], dtype=torch.int64)
    return TypedSteps(tokens[0, :-1], tokens[1, 1:])


def _check_known(task: Task, symbols: Sequence[str]) -> None:
    is_fed_back = isinstance(task, TransductionTask) and task.layout == "pairs"
    # A name may stand in a vocabulary once for each side of a transduction.
    alphabet = dict.fromkeys((*task.input_vocabulary, *((END,) if is_fed_back else ())))
    for number, symbol in enumerate(symbols, start=1):
        if symbol not in alphabet and len(alphabet) <= _LISTED:
            raise ChoiceError(f"symbol of task {task.name}", symbol, alphabet)
        if symbol not in alphabet:
            raise ConfigError(
                [f"symbol {number}, {symbol!r}, is not among the {len(alphabet)} of {task.name}"]
            )
