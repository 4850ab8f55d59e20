"""What DeltaNets and Transformers keep, as memories, so that their traces are like any other.

A trace holds the instructions of a memory, which are replayed. These two memories replay the
matrices of a DeltaNet and the attention weights of a Transformer. No layer computes with them.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from unbounded.checks import check_bool, check_positive
from unbounded.memories.core import Head, Memory, StateField, portable


@portable
class DeltaInstruction(NamedTuple):
    """Of each layer L and head A: query [B, L, A, D], and the n steps of the delta rule.

    Fields:
        query: q. key, value: k and v of each step, [B, L, A, n, D]. strength: b, [B, L, A, n].
    """

    query: Tensor
    key: Tensor
    value: Tensor
    strength: Tensor


@portable
class DeltaMatricesState(NamedTuple):
    """The matrix H of each head, keys x values, [B, L, A, D, D]."""

    matrix: Tensor


class DeltaMatrices(Memory[DeltaMatricesState, DeltaInstruction]):
    """The matrices of a DeltaNet or DeltaProduct.

    H <- H + b k (v - H^T k)^T for each step of a token;  the read vector is H^T q of each head

    Args:
        layers: L. num_heads: A. head_size: D.
        steps: n, steps of a token.
        negative_eigenvalues: whether strengths are in (0, 2) instead of (0, 1).
    Source: Yang et al. 2024, arXiv:2406.06484; Siems et al. 2025, arXiv:2502.10297.
    """

    Instruction, State = DeltaInstruction, DeltaMatricesState

    def __init__(
        self, layers: int, num_heads: int, head_size: int, steps: int, negative_eigenvalues: bool
    ) -> None:
        sizes = {"layers": layers, "num_heads": num_heads, "head_size": head_size, "steps": steps}
        for name, size in sizes.items():
            check_positive(name, size)
        check_bool("negative_eigenvalues", negative_eigenvalues)
        self.layers, self.num_heads = layers, num_heads
        self.head_size, self.steps = head_size, steps
        self.negative_eigenvalues = negative_eigenvalues

    @property
    def heads(self) -> tuple[Head, ...]:
        """Query, keys, values and strengths."""
        each = (self.layers, self.num_heads)
        vectors = (*each, self.steps, self.head_size)
        return (
            Head("query", (*each, self.head_size), "identity"),
            Head("key", vectors, "identity"),
            Head("value", vectors, "identity"),
            Head("strength", (*each, self.steps), "sigmoid", gate=True),
        )

    @property
    def read_vector_size(self) -> int:
        """L A D."""
        return self.layers * self.num_heads * self.head_size

    @property
    def state_fields(self) -> tuple[StateField, ...]:
        """The matrices, which are initially 0."""
        size = self.head_size
        return (StateField("matrix", (self.layers, self.num_heads, size, size)),)

    def step(
        self, state: DeltaMatricesState, instruction: DeltaInstruction
    ) -> tuple[Tensor, DeltaMatricesState]:
        """Carry out the n steps of a token, and read."""
        self.check_step(state, instruction)
        (matrix,) = state
        query, keys, values, strengths = instruction
        for step in range(self.steps):
            key, strength = keys[..., step, :], strengths[..., step]
            held = (matrix * key.unsqueeze(-1)).sum(dim=-2)
            written = strength.unsqueeze(-1) * (values[..., step, :] - held)
            matrix = matrix + key.unsqueeze(-1) * written.unsqueeze(-2)
        read_vector = (matrix * query.unsqueeze(-1)).sum(dim=-2)
        return read_vector.flatten(1), DeltaMatricesState(matrix)


@portable
class AttentionInstruction(NamedTuple):
    """Of each layer L and head A: weights [B, L, A, P] of the P steps, and the mean of the values.

    Fields:
        weights: 0 for steps that are not seen, with sum 1. mean: [B, L, A, D].
    """

    weights: Tensor
    mean: Tensor


@portable
class AttentionWeightsState(NamedTuple):
    """The weights of the last step, [B, L, A, P]."""

    read_weights: Tensor


class AttentionWeights(Memory[AttentionWeightsState, AttentionInstruction]):
    """The attention of a Transformer: weights that are given, and not computed from keys.

    Args:
        layers: L. num_heads: A. head_size: D.
        positions: P, steps of the sequence.
    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.
    """

    Instruction, State = AttentionInstruction, AttentionWeightsState

    def __init__(self, layers: int, num_heads: int, head_size: int, positions: int) -> None:
        sizes = {"layers": layers, "num_heads": num_heads, "head_size": head_size}
        for name, size in (sizes | {"positions": positions}).items():
            check_positive(name, size)
        self.layers, self.num_heads = layers, num_heads
        self.head_size, self.positions = head_size, positions

    @property
    def heads(self) -> tuple[Head, ...]:
        """Weights and means."""
        each = (self.layers, self.num_heads)
        return (
            Head("weights", (*each, self.positions), "softmax"),
            Head("mean", (*each, self.head_size), "identity"),
        )

    @property
    def read_vector_size(self) -> int:
        """L A D."""
        return self.layers * self.num_heads * self.head_size

    @property
    def state_fields(self) -> tuple[StateField, ...]:
        """The weights, which are initially 0."""
        return (StateField("read_weights", (self.layers, self.num_heads, self.positions)),)

    def step(
        self, state: AttentionWeightsState, instruction: AttentionInstruction
    ) -> tuple[Tensor, AttentionWeightsState]:
        """Replace the weights; the read vector is the means of all heads."""
        self.check_step(state, instruction)
        return instruction.mean.flatten(1), AttentionWeightsState(instruction.weights)
