"""Instructions for the tests of every memory."""

from __future__ import annotations

import torch

import unbounded as ub

MEMORIES = {"stack": ub.NeuralStack, "queue": ub.NeuralQueue, "deque": ub.NeuralDeque}


def instructions(memory, batch, steps, *, kind="uniform", seed=0, dtype=torch.float64):
    """Draw instructions [B, T, ...]; kinds: uniform, eighths (many ties), binary, saturated."""
    generator = torch.Generator().manual_seed(seed)

    def strength():
        u = torch.rand(batch, steps, generator=generator, dtype=dtype)
        if kind == "eighths":
            return (u * 8).round() / 8
        if kind == "binary":
            return u.round()
        if kind == "saturated":
            return torch.sigmoid((u - 0.5) * 200)
        return u

    return memory.Instruction(
        *(
            strength()
            if head.shape == ()
            else torch.randn(batch, steps, *head.shape, generator=generator, dtype=dtype)
            for head in memory.heads
        )
    )


def requires_grad(fields):
    return type(fields)(*(field.clone().requires_grad_() for field in fields))
