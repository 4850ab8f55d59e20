"""What a trained model puts out for inputs that a person gives, a line each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from unbounded.errors import ConfigError, UnboundedError
from unbounded.evaluation.typed_symbols import (
    as_typed,
    keeps_blanks,
    parted,
    read_symbols,
    unwritable,
)
from unbounded.models.generation import generate
from unbounded.models.memory_room import with_room
from unbounded.tasks import ProgramTask, StreamTask, Task, TransductionTask
from unbounded.training.objective import OBJECTIVES

#: Layouts whose output is generated after the whole input; of the others each step has an output.
_GENERATED = ("pairs", "answer")
#: Faulty lines that are named in one message.
_NAMED = 10


class Prediction(NamedTuple):
    """The output for one input.

    Fields:
        symbols: output symbols without the end symbol. Of labels the label after each symbol, "1"
            or "0"; of streams and texts the likeliest next symbol after each.
        probabilities: of each symbol in turn, in [0, 1], and of the end symbol where it came; of
            labels that the label is 1.
        is_ended: whether the end symbol came; True where a task has none.
    """

    symbols: tuple[str, ...]
    probabilities: tuple[float, ...]
    is_ended: bool


def read_inputs(task: Task, lines: Sequence[str], name: str = "input") -> list[Tensor]:
    """Input tokens of each line, int64 [T], up to where the output begins.

    Symbols stand between blanks, or, where all symbols are single characters, side by side, as
    `parted` reads them. A program is taken character by character.

    Args:
        task: says the symbols.
        lines: without their ends.
        name: of the lines, for the messages.
    Raises:
        ConfigError: lines that cannot be read, by number; or the task reads no symbols.
    """
    if task.objective == "bits":
        raise ConfigError(
            [f"task {task.name!r}: its inputs are bit vectors, which no line of text can give"]
        )
    tokens: list[Tensor] = []
    faults: list[str] = []
    for number, line in enumerate(lines, start=1):
        try:
            tokens.append(_tokens(task, line))
        except UnboundedError as error:
            reason = "; ".join(getattr(error, "faults", None) or [str(error)])
            faults.append(f"{name}, line {number}: {reason}")
    if len(faults) > _NAMED:
        more = len(faults) - _NAMED
        faults = [*faults[:_NAMED], f"{name}: {more} more lines cannot be read"]
    if faults:
        raise ConfigError(faults)
    return tokens


def predictions(
    model: nn.Module,
    task: Task,
    inputs: Sequence[Tensor],
    *,
    max_length: int | None = None,
    probabilities: bool = False,
) -> list[Prediction]:
    """The outputs for a batch of inputs, with room in the memory (`with_room`).

    Args:
        model: is or holds a SequenceModel, in eval mode.
        task: of the inputs.
        inputs: as `read_inputs` gives them, at least one.
        max_length: most symbols of an output, the end symbol included; None for four times its
            input and 40.
        probabilities: whether they are computed too; one more pass where outputs are generated.
    """
    steps = torch.tensor([len(each) for each in inputs])
    padded = torch.nn.utils.rnn.pad_sequence(list(inputs), batch_first=True)
    if task.layout in _GENERATED:
        return _generated(model, task, padded, steps, max_length, probabilities)
    model, _ = with_room(model, padded.shape[1])
    device = next(model.parameters()).device
    with torch.no_grad():
        logits = model(padded.to(device))[0].cpu()
    chances = _chances(task, logits)
    predicted = OBJECTIVES[task.objective].predict(logits)
    first = int(isinstance(task, StreamTask))  # the step before the first symbol of a stream
    found = []
    for row, own, count in zip(predicted, chances, steps.tolist(), strict=True):
        tokens, shares = row[first:count].tolist(), own[first:count]
        if task.objective == "binary":
            symbols = tuple(str(token) for token in tokens)
            values = shares[:, 0].tolist()
        else:
            symbols = tuple(task.output_vocabulary[token] for token in tokens)
            values = shares.max(dim=-1).values.tolist()
        found.append(Prediction(symbols, tuple(values), True))
    return found


def joined(task: Task, symbols: Sequence[str]) -> str:
    """Output symbols as a line: side by side where all are single characters, else with blanks.

    A blank that is a symbol among longer ones is written as BLANK then.
    """
    if task.layout == "labels":
        return " ".join(symbols)
    return as_typed(_said(task), symbols)


def written_faults(task: Task) -> list[str]:
    """Why the outputs of a task cannot be lines that say which symbols they are; a line or none."""
    found = [] if task.layout == "labels" else unwritable(_said(task))
    if not found:
        return []
    return [
        f"task {task.name!r}: a line cannot hold its symbols {', '.join(map(repr, found[:3]))}; "
        "unbounded.evaluation.predictions gives outputs as tuples"
    ]


def with_blanks(task: Task) -> bool:
    """Whether white space alone can be an input."""
    return not isinstance(task, ProgramTask) and keeps_blanks(_read_alphabet(task))


def _said(task: Task) -> tuple[str, ...]:
    """The output symbols, without the end where outputs stop at it."""
    end = task.end_token if task.layout in _GENERATED else None
    return tuple(each for token, each in enumerate(task.output_vocabulary) if token != end)


def _read_alphabet(task: Task) -> tuple[str, ...]:
    return task.source_vocabulary if isinstance(task, TransductionTask) else task.input_vocabulary


def _tokens(task: Task, line: str) -> Tensor:
    if isinstance(task, ProgramTask):
        return task.asked(line)
    if isinstance(task, TransductionTask):
        return task.prompt_of(parted(_read_alphabet(task), line))
    symbols = read_symbols(task, line)
    if not symbols:
        raise ConfigError(["expected at least one symbol, got none"])
    if isinstance(task, StreamTask):
        return task.encode([task.before, *symbols])
    places = {symbol: place for place, symbol in enumerate(task.input_vocabulary)}
    return torch.tensor([places[symbol] for symbol in symbols])


def _generated(
    model: nn.Module,
    task: Task,
    prompts: Tensor,
    steps: Tensor,
    max_length: int | None,
    probabilities: bool,
) -> list[Prediction]:
    limits = 4 * steps + 40 if max_length is None else torch.full_like(steps, max_length)
    most = int(limits.max())
    if isinstance(task, TransductionTask):
        fed, end = task.output_to_input, task.end_token
    elif task.end_token is not None and task.answer_token is not None:
        fed = torch.full((len(task.output_vocabulary),), task.answer_token)
        end = task.end_token
    else:
        raise ConfigError([f"task {task.name!r}: nothing ends its outputs, none can be generated"])
    model, _ = with_room(model, prompts.shape[1] + most)
    device = next(model.parameters()).device
    outputs = generate(model, prompts.to(device), steps, fed, end, most).cpu()
    ends = outputs == end
    ended = ends.any(dim=1)
    counts = torch.where(ended, ends.int().argmax(dim=1), outputs.shape[1])  # without the end
    # A line's output does not depend on the lines that are computed with it.
    ended &= counts < limits
    counts = torch.minimum(counts, limits)
    chances = torch.zeros(outputs.shape)
    if probabilities:
        whole = torch.zeros(len(prompts), prompts.shape[1] + outputs.shape[1], dtype=torch.int64)
        whole[:, : prompts.shape[1]] = prompts
        places = steps.unsqueeze(1) + torch.arange(outputs.shape[1])
        whole.scatter_(1, places, fed[outputs])
        with torch.no_grad():
            logits = model(whole.to(device))[0].cpu()
        shares = _chances(task, logits).gather(
            1, (places - 1).unsqueeze(-1).expand(-1, -1, logits.shape[-1])
        )
        chances = shares.gather(2, outputs.unsqueeze(-1)).squeeze(-1)
    return [
        Prediction(
            tuple(task.output_vocabulary[token] for token in row[:count].tolist()),
            tuple(own[: count + int(is_ended)].tolist()),
            bool(is_ended),
        )
        for row, own, count, is_ended in zip(outputs, chances, counts.tolist(), ended, strict=True)
    ]


def _chances(task: Task, logits: Tensor) -> Tensor:
    return logits.sigmoid() if task.objective == "binary" else logits.softmax(dim=-1)
