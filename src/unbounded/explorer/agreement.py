"""Choose the smallest weight precision of a page that keeps all outputs on test strings."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import torch

from unbounded.errors import ChoiceError
from unbounded.explorer.model_data import model_tensors
from unbounded.explorer.weights import as_in_page, packed
from unbounded.layers.memory_rnn import drops_are_meant
from unbounded.models.memory_model import MemoryModel
from unbounded.tasks import LengthRange, Task
from unbounded.training.objective import OBJECTIVES

#: Number of test strings on which the outputs are compared.
WORDS: Final = 32
#: Choices, and the precisions to try for each; the last one is not checked.
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
    """Agreement of a model's outputs with those under the page's weights.

    Fields:
        precision: precision of the page's weights.
        words: number of test strings.
        differing: number of strings with different outputs.
    """

    precision: str
    words: int
    differing: int

    @property
    def error(self) -> str:
        """A sentence on the differing outputs."""
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
    """Compare outputs on test strings under the model's weights and the page's weights.

    Two outputs agree if they are equal at each scored step, or at each step if none is scored, as
    for a model without a task.
    """
    rounded = as_in_page(model, precision)
    batch = task.batch(seed, "test", 0, words, lengths)
    predict = OBJECTIVES[task.objective].predict
    with torch.no_grad(), drops_are_meant():
        outputs, rounded_outputs = (predict(net(batch.inputs)[0]) for net in (model, rounded))
    steps = torch.arange(batch.inputs.shape[1]) < batch.lengths[:, None]
    counts = batch.mask if bool(batch.mask.any()) else steps
    differing = ((outputs != rounded_outputs) & counts).any(dim=1)
    return Agreement(precision, words, int(differing.sum()))


def weights_data(
    model: MemoryModel, task: Task, seed: int, lengths: LengthRange, choice: str
) -> tuple[dict[str, Any], str]:
    """The weights of a page as plain data, and a sentence about them for its reader.

    Args:
        model: a model on the CPU.
        task, seed, lengths: those of the test strings.
        choice: "int8", "half", "float32" or "float64". If one of the first two changes an output,
            the next larger precision is used.
    Raises:
        ChoiceError: unknown choice.
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
        reasons.append(answers.error)
    note = f"Weights in {_WORDS[chosen]}{': ' if reasons else ''}{'; '.join(reasons)}."
    return packed(model_tensors(model), chosen), note
