"""The memory of Tape-RNN, a tape that rolls under a fixed head."""

from unbounded.memories.rolling_tape.reference import RollingTape, RollInstruction, RollState

__all__ = ["RollInstruction", "RollState", "RollingTape"]
