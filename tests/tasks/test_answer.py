"""The layout "answer": only the end symbol is fed while answering."""

from __future__ import annotations

import pytest
import torch

from unbounded.errors import ChoiceError
from unbounded.tasks import LengthRange, RandomSymbols, TransductionTask, make_task


def test_the_answer_is_not_fed_to_the_model():
    fed_back = make_task("copy", symbols=5).batch(3, "train", 0, 6, LengthRange(2, 4))
    task = make_task("answer_copy", symbols=5)
    answered = task.batch(3, "train", 0, 6, LengthRange(2, 4))
    for name in ("targets", "mask", "lengths"):
        assert torch.equal(getattr(fed_back, name), getattr(answered, name)), name
    separator = task.input_vocabulary.index("|||")
    assert (answered.inputs[answered.mask] == separator).all()
    before = ~answered.mask
    assert torch.equal(answered.inputs[before], fed_back.inputs[before])
    assert task.input_vocabulary == ("<s>", "|||", *(f"s{k}" for k in range(5)))


def test_generation_feeds_the_end_symbol_too():
    task = make_task("answer_copy", symbols=3)
    # After </s> nothing is fed.
    assert task.output_to_input.tolist() == [0, 1, 1, 1]


def test_an_unknown_layout():
    with pytest.raises(ChoiceError, match="unknown layout 'stream'"):
        TransductionTask(
            "x", RandomSymbols("copy", 3), LengthRange(1, 2), LengthRange(3, 4), "stream"
        )
