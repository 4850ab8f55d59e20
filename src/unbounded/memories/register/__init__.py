"""A register, the smallest memory, as an example of a memory and its kernel."""

from unbounded.memories.register.reference import Held, Register, Write

__all__ = ["Held", "Register", "Write"]
