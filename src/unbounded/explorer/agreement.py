"""Which weights stand in a page: the smallest with which test words are answered as before."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import torch

from unbounded.errors import ChoiceError
from unbounded.explorer.model_data import model_tensors
from unbounded.explorer.weights import as_in_page, packed
from unbounded.layers.memory_drops import drops_are_meant
from unbounded.models.memory_model import MemoryModel
from unbounded.tasks import LengthRange, Task
from unbounded.training.objective import OBJECTIVES

#: Test words that are answered with the weights as they are and with those of the page.
WORDS: Final = 32
#: What may be asked for, and what is then tried in turn; the last of them is not checked.
CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "int8": ("int8", "float16", "float32"),
    "half": ("float16", "float32"),
    "float32": ("float32",),
    "float64": ("float64",),
}
_WORDS: Final = {
    "int8": "8 bits", "float16": "half precision", "float32": "float32", "float64": "float64",
}  # fmt: skip


class Agreement(NamedTuple):
    """Whether a model with the weights of a page says what the model says.

    Fields:
        precision: of the page's weights.
        words: how many test words were answered both ways.
        differing: how many of them were answered otherwise.
    """

    precision: str
    words: int
    differing: int

    @property
    def fault(self) -> str:
        """What is wrong with these weights."""
        return (
            f"in {_WORDS[self.precision]} {self.differing} of {self.words} test words are "
            "answered otherwise"
        )


def agreement(
    model: MemoryModel,
    task: Task,
    seed: int,
    lengths: LengthRange,
    precision: str = "float16",
    words: int = WORDS,
) -> Agreement:
    """Answer test words with the weights as they are and with those that a page would have.

    A word counts as answered alike if the same is said at each of its steps that count; where none
    does, as of a model without a task, at each of its steps.
    """
    rounded = as_in_page(model, precision)
    batch = task.batch(seed, "test", 0, words, lengths)
    predict = OBJECTIVES[task.objective].predict
    with torch.no_grad(), drops_are_meant():
        said, said_rounded = (predict(each(batch.inputs)[0]) for each in (model, rounded))
    steps = torch.arange(batch.inputs.shape[1]) < batch.lengths[:, None]
    counts = batch.mask if bool(batch.mask.any()) else steps
    differing = ((said != said_rounded) & counts).any(dim=1)
    return Agreement(precision, words, int(differing.sum()))


def weights_data(
    model: MemoryModel, task: Task, seed: int, lengths: LengthRange, choice: str
) -> tuple[dict[str, Any], str]:
    """The weights of a page as plain data, and a sentence about them for its reader.

    Args:
        model: on the CPU. task, seed, lengths: of the test words.
        choice: "int8", "half", "float32" or "float64". The first two are only taken where they
            change no answer, and else the next larger.
    Raises:
        ChoiceError: there is no such choice.
    """
    if choice not in CHOICES:
        raise ChoiceError("weights", choice, CHOICES)
    *tried, last = CHOICES[choice]
    chosen = last
    reasons: list[str] = []
    for precision in tried:
        answers = agreement(model, task, seed, lengths, precision)
        if answers.differing == 0:
            same = f"{WORDS} of {WORDS} test words are answered as with the weights of the run"
            chosen, reasons = precision, [same, *reasons]
            break
        reasons.append(answers.fault)
    note = f"Weights in {_WORDS[chosen]}{': ' if reasons else ''}{'; '.join(reasons)}."
    return packed(model_tensors(model), chosen), note
