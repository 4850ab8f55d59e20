"""The tape of a Neural Turing Machine."""

from unbounded.memories.turing_tape.reference import TapeInstruction, TapeState, TuringTape

__all__ = ["TapeInstruction", "TapeState", "TuringTape"]
