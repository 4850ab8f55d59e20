"""Greedy generation: read the prompt, then feed the likeliest symbol back until the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from unbounded.checks import check_lengths, check_positive
from unbounded.errors import ShapeError
from unbounded.layers.call import Lengths, as_lengths
from unbounded.layers.stream import open_stream
from unbounded.models.discrete import sequence_model
from unbounded.models.inputs import check_tokens
from unbounded.models.sequence_model import SequenceModel


@torch.no_grad()
def generate(
    model: nn.Module,
    prompt: Tensor,
    lengths: Lengths,
    output_to_input: Tensor,
    end_token: int,
    max_length: int,
) -> Tensor:
    """Generate greedily for a whole batch at once.

    Args:
        model: a SequenceModel, or what holds one, as a MemoryModel does.
        prompt: input tokens up to and including the separator, int64 [B, T].
        lengths: B integers in 1..T, a tensor or a list: steps of each prompt; None for T.
        output_to_input: int64 [V]: the input token that feeds an output token back.
        end_token: the output token that ends a sequence.
        max_length: most symbols to generate, the end token included.
    Returns:
        output tokens, int64 [B, L] with L <= max_length; everything after a sequence's first
        `end_token` is `end_token` too.
    Raises:
        ShapeError, DTypeError: an argument is none of these. ConfigError: the model holds none.
    Source: Grefenstette et al. 2015, arXiv:1506.02516, section 4.
    """
    check_positive("max_length", max_length)
    sequence = sequence_model(model)
    prompt = check_tokens(prompt, sequence.input_vocabulary)
    ends = as_lengths(lengths, prompt.device)
    if ends is None:
        ends = torch.full(prompt.shape[:1], prompt.shape[1], device=prompt.device)
    check_lengths(ends, *prompt.shape)
    if not bool(ends.all()):
        raise ShapeError("lengths: expected prompts of at least one step, got 0.")
    run = _runner(sequence, prompt)
    output_to_input = output_to_input.to(prompt.device)
    rows = torch.arange(prompt.shape[0], device=prompt.device)
    last = sequence.output(run(prompt, ends)[rows, ends - 1])
    finished = torch.zeros(prompt.shape[0], dtype=torch.bool, device=prompt.device)
    tokens = []
    while True:
        token = torch.where(finished, end_token, last.argmax(dim=-1))
        tokens.append(token)
        finished = finished | (token == end_token)
        if len(tokens) == max_length or bool(finished.all()):
            return torch.stack(tokens, dim=1)
        last = sequence.output(run(output_to_input[token].unsqueeze(1), None)[:, 0])


def _runner(model: SequenceModel, prompt: Tensor) -> Callable[[Tensor, Tensor | None], Tensor]:
    """Takes tokens [B, T] and lengths one call after the other, and gives the layer's output."""
    if model.read_only_token is None:
        stream = open_stream(model.layer, prompt.shape[0], model.embed(prompt[:, :1]))
        return lambda tokens, lengths: stream.run(model.embed(tokens), lengths)
    state: Any = None

    def run(tokens: Tensor, lengths: Tensor | None) -> Tensor:
        nonlocal state
        hidden, state = model.hidden(tokens, state, lengths)
        return hidden

    return run
