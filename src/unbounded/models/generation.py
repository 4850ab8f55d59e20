"""Greedy generation: read the prompt, then feed back the likeliest symbol until the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from unbounded.checks import (
    FROM_LIST,
    check_bool,
    check_lengths,
    check_positive,
    check_shape,
    check_symbol,
    check_tensor,
)
from unbounded.errors import DeviceError, DTypeError, ShapeError
from unbounded.models.discrete import sequence_model
from unbounded.models.inputs import check_tokens
from unbounded.models.memory_room import with_room
from unbounded.models.sequence_model import SequenceModel
from unbounded.rnn.call import Lengths, as_lengths
from unbounded.rnn.fused import is_called
from unbounded.rnn.memory_rnn import MemoryRNN
from unbounded.rnn.room import warn_of_drops
from unbounded.rnn.stream import open_stream


@torch.no_grad()
def generate(
    model: nn.Module,
    prompt: Tensor,
    lengths: Lengths,
    output_to_input: Tensor,
    end_token: int,
    max_length: int,
    *,
    room: bool = True,
) -> Tensor:
    """Generate greedily for a whole batch at once.

    Args:
        model: a SequenceModel, or a model that holds one, such as a MemoryModel.
        prompt: input tokens up to and including the separator, int64 [B, T].
        lengths: B integers in 1..T, a tensor or a list: steps of each prompt; None for T.
        output_to_input: int64 [V] in 0..input_vocabulary-1, a tensor or a list: the input token for
            each output token that is fed back.
        end_token: the output token that ends a sequence, in 0..V-1.
        max_length: largest number of generated symbols, the end token included; at least 1.
        room: whether superposition memories get as many cells as there are steps (`with_room`).
            Otherwise a memory drops cells beyond its capacity, with a `RoomWarning`.
    Returns:
        output tokens, int64 [B, L] with L <= max_length; everything after a sequence's first
        `end_token` is `end_token` too.
    Raises:
        ShapeError, DTypeError: an argument is invalid. ConfigError: there is no SequenceModel.
        DeviceError: the prompt is on another device than the model, or has no values.
    Source: Grefenstette et al. 2015, arXiv:1506.02516, section 4.
    """
    check_positive("max_length", max_length)
    check_bool("room", room)
    sequence = sequence_model(model)
    prompt = check_tokens(prompt, sequence.input_vocabulary, "prompt")
    if prompt.shape[1] == 0:
        raise ShapeError(f"prompt: expected at least one step, got {list(prompt.shape)}.")
    _check_device(sequence, prompt)
    ends = as_lengths(lengths, prompt.device)
    if ends is None:
        ends = torch.full(prompt.shape[:1], prompt.shape[1], device=prompt.device)
    check_lengths(ends, *prompt.shape)
    if not bool(ends.all()):
        raise ShapeError("lengths: expected prompts of at least one step, got 0.")
    outputs = len(sequence.output.weight)
    next_input = _checked_feedback(output_to_input, outputs, sequence.input_vocabulary).to(
        prompt.device
    )
    end_token = check_symbol("end_token", end_token, outputs)
    steps = prompt.shape[1] + max_length - 1  # the last generated token is not fed back
    if room:
        sequence, _ = with_room(sequence, steps)
    else:
        for part in sequence.modules():
            if isinstance(part, MemoryRNN):
                warn_of_drops(part.memory, steps)
    run = _runner(sequence, prompt)
    rows = torch.arange(prompt.shape[0], device=prompt.device)
    last = run(prompt, ends)[rows, ends - 1]
    finished = torch.zeros(prompt.shape[0], dtype=torch.bool, device=prompt.device)
    tokens = []
    while True:
        token = torch.where(finished, end_token, last.argmax(dim=-1))
        tokens.append(token)
        finished = finished | (token == end_token)
        if len(tokens) == max_length or bool(finished.all()):
            return torch.stack(tokens, dim=1)
        last = run(next_input[token].unsqueeze(1), None)[:, 0]


def _check_device(model: SequenceModel, prompt: Tensor) -> None:
    """Raise DeviceError unless the prompt has values and is on the model's device."""
    if prompt.is_meta:
        raise DeviceError("prompt: expected a tensor with values, got one on the meta device.")
    device = model.output.weight.device
    if device == prompt.device or any(map(is_called, model.modules())):
        return  # hooks, for example from accelerate, may move tensors
    if device.type == "meta":
        raise DeviceError("model: expected weights with values, got those on the meta device.")
    raise DeviceError(
        f"prompt: expected device {device} as the model has, got {prompt.device}. Move it with "
        f".to({str(device)!r})."
    )


def _checked_feedback(output_to_input: object, outputs: int, inputs: int) -> Tensor:
    """Check and return the input token for each output token, int64 [V]."""
    if isinstance(output_to_input, list | tuple):
        output_to_input = as_lengths(output_to_input, torch.device("cpu"), "output_to_input")
    check_tensor("output_to_input", output_to_input, FROM_LIST)
    assert isinstance(output_to_input, Tensor)
    check_shape("output_to_input", output_to_input, (outputs,))
    next_input = output_to_input
    if next_input.is_floating_point() or next_input.is_complex() or next_input.dtype == torch.bool:
        raise DTypeError(f"output_to_input: expected integers, got {next_input.dtype}.")
    if next_input.is_meta:
        raise DeviceError(
            "output_to_input: expected a tensor with values, got one on the meta device."
        )
    if bool(((next_input < 0) | (next_input >= inputs)).any()):
        raise ShapeError(
            f"output_to_input: expected tokens in 0..{inputs - 1}, got {next_input.tolist()}."
        )
    return next_input.long()


def _runner(model: SequenceModel, prompt: Tensor) -> Callable[[Tensor, Tensor | None], Tensor]:
    """Return a function (tokens [B, T], lengths) -> logits [B, T, V] that carries its state."""
    if model.read_only_token is None and not model.uses_lengths and not is_called(model):
        stream = open_stream(model.layer, prompt.shape[0], model.embed(prompt[:, :1]))
        return lambda tokens, lengths: model.logits(stream.run(model.embed(tokens), lengths))
    state: Any = None

    def run(tokens: Tensor, lengths: Tensor | None) -> Tensor:
        nonlocal state
        logits: Tensor
        logits, state = model(tokens, state, lengths)
        return logits

    return run
