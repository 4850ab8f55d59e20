"""The outputs of a trained model for input lines that a person typed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unbounded.errors import (
    ConfigError,
    MemoryOverflowError,
    NonFiniteError,
    UnboundedError,
)
from unbounded.evaluation.score import logits_of
from unbounded.evaluation.typed_symbols import (
    as_typed,
    keeps_blanks,
    parted,
    read_symbols,
    typed_alphabet,
    unwritable,
    with_start,
)
from unbounded.models.generation import generate
from unbounded.models.memory_room import with_room
from unbounded.tasks import ProgramTask, QuestionTask, StreamTask, Task, TransductionTask
from unbounded.training.objective import OBJECTIVES

#: Layouts in which outputs are generated after the complete input. Other layouts have an output at
#: each step.
_GENERATED = ("pairs", "answer")
#: Greatest number of erroneous lines that a message names.
_NAMED = 10


class Prediction(NamedTuple):
    """The output for one input.

    Fields:
        symbols: output symbols without the end symbol. For labels the label after each symbol, "1"
            or "0"; for streams and texts the likeliest next symbol after each.
        probabilities: of each symbol, in [0, 1], and of the end symbol if it was generated; for
            labels, of the label 1.
        is_ended: whether the end symbol was generated; True for a task without one.
    """

    symbols: tuple[str, ...]
    probabilities: tuple[float, ...]
    is_ended: bool


def read_inputs(task: Task, lines: Sequence[str], name: str = "input") -> list[Tensor]:
    """Input tokens of each line, int64 [T], up to the start of the output.

    Symbols are separated by blanks, or adjacent if all symbols are single characters (`parted`). A
    program is read character by character.

    Args:
        task: has the symbols.
        lines: without line ends.
        name: name of the lines in messages.
    Raises:
        ConfigError: lines that cannot be read, by number; or the task's inputs are bit vectors.
    """
    if task.objective == "bits":
        raise ConfigError(
            f"task {task.name!r}: its inputs are bit vectors, which cannot be typed as text"
        )
    tokens: list[Tensor] = []
    errors: list[str] = []
    for number, line in enumerate(lines, start=1):
        try:
            tokens.append(_tokens(task, line))
        except UnboundedError as error:
            reason = "; ".join(getattr(error, "errors", None) or [str(error)])
            errors.append(f"{name}, line {number}: {reason}")
    if len(errors) > _NAMED:
        more = len(errors) - _NAMED
        errors = [*errors[:_NAMED], f"{name}: {more} more lines cannot be read"]
    if errors:
        raise ConfigError(errors)
    return tokens


def predictions(
    model: nn.Module,
    task: Task,
    inputs: Sequence[Tensor],
    *,
    max_length: int | None = None,
    probabilities: bool = False,
) -> list[Prediction]:
    """The outputs for a batch of inputs, with an enlarged memory (`with_room`).

    Args:
        model: is or holds a SequenceModel, in eval mode.
        task: of the inputs.
        inputs: from `read_inputs`, at least one.
        max_length: longest output, with the end symbol; None for four times its input and 40.
        probabilities: whether to compute probabilities; for generated outputs this takes one more
            pass.
    """
    steps = torch.tensor([len(each) for each in inputs])
    padded = torch.nn.utils.rnn.pad_sequence(list(inputs), batch_first=True)
    if task.layout in _GENERATED:
        return _generated(model, task, padded, steps, max_length, probabilities)
    model, _ = with_room(model, padded.shape[1])
    device = next(model.parameters()).device
    with torch.no_grad():
        logits = logits_of(model, padded.to(device), steps).cpu()
    output_probabilities = _probabilities(task, logits)
    predicted = OBJECTIVES[task.objective].predict(logits)
    # The step before the first symbol is skipped, except for the empty string.
    first = int(isinstance(task, StreamTask) or task.start_symbol is not None)
    results = []
    for row, row_probabilities, count in zip(
        predicted, output_probabilities, steps.tolist(), strict=True
    ):
        counted = slice(min(first, count - 1), count)
        tokens, shares = row[counted].tolist(), row_probabilities[counted]
        if task.objective == "binary":
            symbols = tuple(str(token) for token in tokens)
            values = shares[:, 0].tolist()
        else:
            symbols = tuple(task.output_vocabulary[token] for token in tokens)
            values = shares.max(dim=-1).values.tolist()
        results.append(Prediction(symbols, tuple(values), True))
    return results


def predictions_or_none(
    model: nn.Module, task: Task, inputs: Sequence[Tensor], **options: Any
) -> list[Prediction | None]:
    """The outputs as in `predictions`; None for an input on which the memory overflows alone."""
    try:
        return [*predictions(model, task, inputs, **options)]
    except (MemoryOverflowError, NonFiniteError):
        if len(inputs) == 1:
            return [None]
        half = len(inputs) // 2
        return [
            output
            for part in (inputs[:half], inputs[half:])
            for output in predictions_or_none(model, task, part, **options)
        ]


def joined(task: Task, symbols: Sequence[str]) -> str:
    """Output symbols as a line: adjacent if all are single characters, otherwise with blanks.

    If some symbols are longer, a blank symbol is written as BLANK.
    """
    if task.layout == "labels":
        return " ".join(symbols)
    return as_typed(_output_symbols(task), symbols)


def written_errors(task: Task) -> list[str]:
    """The reason why the outputs of a task cannot be written as lines; at most one line."""
    blocked = [] if task.layout == "labels" else unwritable(_output_symbols(task))
    if not blocked:
        return []
    return [
        f"task {task.name!r}: a line cannot hold its symbols {', '.join(map(repr, blocked[:3]))}; "
        "unbounded.evaluation.predictions gives outputs as tuples"
    ]


def with_blanks(task: Task) -> bool:
    """Whether an input may consist of only white space."""
    return not isinstance(task, ProgramTask) and keeps_blanks(_input_symbols(task))


def _output_symbols(task: Task) -> tuple[str, ...]:
    """The output symbols, without an end symbol that marks only their end."""
    end = task.end_token if task.layout in _GENERATED else None
    return tuple(symbol for token, symbol in enumerate(task.output_vocabulary) if token != end)


def _input_symbols(task: Task) -> tuple[str, ...]:
    if isinstance(task, TransductionTask | QuestionTask):
        return task.source_vocabulary
    return typed_alphabet(task)


def _tokens(task: Task, line: str) -> Tensor:
    if isinstance(task, ProgramTask):
        return task.asked(line)
    if isinstance(task, TransductionTask):
        return task.prompt_of(parted(_input_symbols(task), line))
    if isinstance(task, QuestionTask):
        return task.asked(parted(_input_symbols(task), line))
    symbols = read_symbols(task, line)
    if not symbols and not task.has_empty:
        raise ConfigError("expected at least one symbol, got none")
    if isinstance(task, StreamTask):
        return task.encode([task.before, *symbols])
    places = {symbol: place for place, symbol in enumerate(task.input_vocabulary)}
    return torch.tensor([places[symbol] for symbol in with_start(task, symbols)])


def _generated(
    model: nn.Module,
    task: Task,
    prompts: Tensor,
    steps: Tensor,
    max_length: int | None,
    probabilities: bool,
) -> list[Prediction]:
    if isinstance(task, QuestionTask):
        return _answered(model, task, prompts, steps)
    limits = 4 * steps + 40 if max_length is None else torch.full_like(steps, max_length)
    most = int(limits.max())
    if isinstance(task, TransductionTask):
        fed, end = task.output_to_input, task.end_token
    elif task.end_token is not None and task.answer_token is not None:
        fed = torch.full((len(task.output_vocabulary),), task.answer_token)
        end = task.end_token
    else:
        raise ConfigError(f"task {task.name!r}: without an end token no outputs are generated")
    model, _ = with_room(model, prompts.shape[1] + most)
    device = next(model.parameters()).device
    outputs = generate(model, prompts.to(device), steps, fed, end, most).cpu()
    ends = outputs == end
    ended = ends.any(dim=1)
    counts = torch.where(ended, ends.int().argmax(dim=1), outputs.shape[1])  # no end symbol
    # A line's output must not depend on the other lines of its batch.
    ended &= counts < limits
    counts = torch.minimum(counts, limits)
    output_probabilities = torch.zeros(outputs.shape)
    if probabilities:
        whole = torch.zeros(len(prompts), prompts.shape[1] + outputs.shape[1], dtype=torch.int64)
        whole[:, : prompts.shape[1]] = prompts
        places = steps.unsqueeze(1) + torch.arange(outputs.shape[1])
        whole.scatter_(1, places, fed[outputs])
        with torch.no_grad():
            logits = model(whole.to(device))[0].cpu()
        shares = _probabilities(task, logits).gather(
            1, (places - 1).unsqueeze(-1).expand(-1, -1, logits.shape[-1])
        )
        output_probabilities = shares.gather(2, outputs.unsqueeze(-1)).squeeze(-1)
    return [
        Prediction(
            tuple(task.output_vocabulary[token] for token in row[:count].tolist()),
            tuple(row_probabilities[: count + int(is_ended)].tolist()),
            bool(is_ended),
        )
        for row, row_probabilities, count, is_ended in zip(
            outputs, output_probabilities, counts.tolist(), ended, strict=True
        )
    ]


def _answered(
    model: nn.Module, task: QuestionTask, prompts: Tensor, steps: Tensor
) -> list[Prediction]:
    """Answer in one pass, for a task whose answers have known lengths."""
    counts = [
        task.answer_steps(prompt[:count])
        for prompt, count in zip(prompts, steps.tolist(), strict=True)
    ]
    inputs = F.pad(prompts, (0, max(counts)))
    place, first = torch.arange(inputs.shape[1]), steps.unsqueeze(1)
    is_fed = (place >= first) & (place < first - 1 + torch.tensor(counts).unsqueeze(1))
    inputs = torch.where(is_fed, task.answer_token, inputs)
    model, _ = with_room(model, inputs.shape[1])
    device = next(model.parameters()).device
    with torch.no_grad():
        shares = _probabilities(task, model(inputs.to(device))[0].cpu())
    results = []
    for row, first, count in zip(shares, (steps - 1).tolist(), counts, strict=True):
        values, tokens = row[first : first + count].max(dim=-1)
        symbols = tuple(task.output_vocabulary[token] for token in tokens.tolist())
        results.append(Prediction(symbols, tuple(values.tolist()), True))
    return results


def _probabilities(task: Task, logits: Tensor) -> Tensor:
    return logits.sigmoid() if task.objective == "binary" else logits.softmax(dim=-1)
