"""Tokens -> embedding -> layer -> logits, and greedy generation."""

from unbounded.models.generation import generate
from unbounded.models.sequence_model import SequenceModel

__all__ = ["SequenceModel", "generate"]
