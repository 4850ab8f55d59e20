"""The tape that rolls under a fixed head, of Tape-RNN."""

from unbounded.memories.rolling_tape.reference import RollingTape, RollInstruction, RollState

__all__ = ["RollInstruction", "RollState", "RollingTape"]
