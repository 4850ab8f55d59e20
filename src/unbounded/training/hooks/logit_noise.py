"""Logit noise: a random offset on each gate's logit in each gradient step of hardening."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import torch
from torch import Tensor, nn

from unbounded.models.discrete import gate_biases
from unbounded.training.hook import Hook


class LogitNoise(Hook):
    """Adds a random offset to the biases of a model's gates during a gradient step.

    The sign of its logit determines whether a hardened gate is 0 or 1. After a pair of
    symbols that is rare in training, the sign is left to chance. No gradient corrects a wrong sign.
    With an offset, pairs whose logit is nearer to 0 than the offset cause an error. So every logit
    learns to keep at least that distance from 0.

    The offset of a gate is most (k - 1) or its negative, with equal probability, where k is the
    inverse temperature. Gates that are still soft have no offset, because a queue of half pushed
    vectors would fail with an offset. The offset depends only on seed, batch and chunk. The
    gradient is computed in the network with the offset, which is subtracted after the step.

    Args:
        model: has a memory with gates. Heads without biases, as of superposition stacks, have no
            noise.
        seed: seed of the offsets.
        most: size of the offset, in units of the logits before hardening; above 0.
        inverse_temperature: returns that of the gates now, at least 1.
    Source: added here. Noise on a logit makes a unit binary in Salakhutdinov & Hinton 2009,
        Semantic hashing, where it is drawn for each unit and example.
    """

    def __init__(
        self, model: nn.Module, seed: int, *, most: float, inverse_temperature: Callable[[], float]
    ) -> None:
        self._model, self._seed, self._most = model, seed, most
        self._inverse_temperature = inverse_temperature

    def around_step(self, batch: int, chunk: int) -> AbstractContextManager[None] | None:
        """The offsets of a gradient step; None while the gates' temperature is the original one."""
        size = self._most * (self._inverse_temperature() - 1)
        return self._shifted(size, batch, chunk) if size > 0 else None

    @contextmanager
    def _shifted(self, size: float, batch: int, chunk: int) -> Iterator[None]:
        generator = random.Random(f"logit noise {self._seed} {batch} {chunk}")

        def offsets(bias: Tensor) -> Tensor:
            return bias.new_tensor([generator.choice((-size, size)) for _ in bias])

        shifts = [(bias, offsets(bias)) for bias in gate_biases(self._model)]
        with torch.no_grad():
            for bias, shift in shifts:
                bias += shift
        try:
            yield
        finally:
            with torch.no_grad():
                for bias, shift in shifts:
                    bias -= shift
