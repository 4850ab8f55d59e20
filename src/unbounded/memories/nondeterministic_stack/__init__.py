"""Nondeterministic stacks: the weighted sum over all runs of a pushdown automaton."""

from unbounded.memories.nondeterministic_stack.reference import (
    NondeterministicInstruction,
    NondeterministicStack,
    NondeterministicState,
)

__all__ = ["NondeterministicInstruction", "NondeterministicStack", "NondeterministicState"]
