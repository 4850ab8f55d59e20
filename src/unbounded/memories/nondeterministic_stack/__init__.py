"""Nondeterministic stacks, which sum the weights of all runs of a pushdown automaton."""

from unbounded.memories.nondeterministic_stack.reference import (
    NondeterministicInstruction,
    NondeterministicStack,
    NondeterministicState,
)

__all__ = ["NondeterministicInstruction", "NondeterministicStack", "NondeterministicState"]
