"""Constructed DeltaNet and DeltaProduct, in which a step of the delta rule swaps two points.

A step of strength 2 is a reflection, so one step can compute parity (Grazzi et al. 2025,
arXiv:2411.12537), and a product of steps can permute (Siems et al. 2025, arXiv:2502.10297). The
networks are not from these papers.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any, Final

from unbounded.checks import check_choice
from unbounded.constructions.assembly import LOGIT, SCALE
from unbounded.models.memory_model import MemoryModel
from unbounded.tasks import WordProblem, make_task

#: The groups of permutations.
_GROUPS: Final = ("S3", "S5", "A5")
#: Beside its square, the numbers added under the roots of norms are lost, even in float64.
_LARGE: Final = 2.0**30
#: What the memory adds to a pair of constant numbers, as a share of them.
_ADDED: Final = 1 / 8

#: The images of the points 0, 1, ...
Permutation = Sequence[int]


def parity_by_deltanet() -> MemoryModel:
    """Decide whether the number of ones is odd, with a DeltaNet: each 1 swaps two points."""
    same, swapped = (0, 1), (1, 0)
    symbols = make_task("parity_check").input_vocabulary
    return _permuting([swapped if symbol == "1" else same for symbol in symbols], [same, swapped])


def word_problem_by_deltaproduct(group: str = "S3") -> MemoryModel:
    """Output the product of permutations, with a DeltaProduct: its steps swap neighbouring points.

    Args:
        group: S3, S5 or A5.
    Raises:
        ChoiceError: the group is another.
    """
    check_choice("group", group, _GROUPS)
    task = make_task("word_problem", group=group)
    assert isinstance(task, WordProblem)
    elements = [[int(image) - 1 for image in name] for name in task.input_vocabulary]
    return _permuting(elements, elements)


def _permuting(inputs: Sequence[Permutation], outputs: Sequence[Permutation]) -> MemoryModel:
    """Build a network that composes permutations of n points.

    Point i has two rows 2i and 2i + 1 of the matrices. A step with the key k = 1/2 in the rows of
    i and i + 1 swaps the two points, and changes their signs: I - 2 k k^T maps the sums of their
    rows (a, b) to (-b, -a). A key with negative rows would not have norm 1 exactly, because silu
    has no large negative values. So a symbol has n (n - 1) / 2 steps that may swap neighbours. Any
    permutation is a product of some of them.

    A permutation R acts on G = H - S by H <- R H + (S - R S), where S has a number for each point
    in its first row. So H = 0, with which the memory starts, represents the identity. In float32
    keys and values are exact, and nothing is rounded. Head j reads which point came to j.

    Args:
        inputs: of each input symbol. outputs: of each logit.
    """
    points = len(inputs[0])
    order = [i for last in range(points - 1) for i in range(last, -1, -1)]
    steps, heads = len(order), points - 1
    size = 2
    while size < 2 * points + 2 or heads * size < 2 * (steps + heads * points + 1):
        size *= 2
    width = heads * size
    model = MemoryModel(
        inputs=len(inputs),
        outputs=len(outputs),
        memory="none",
        controller={
            "name": "deltanet" if steps == 1 else "deltaproduct",
            **({} if steps == 1 else {"householder_steps": steps}),
            "num_layers": 1,
            "num_heads": heads,
            "conv_size": 0,
            "feed_forward_size": 1,
            "negative_eigenvalues": True,
        },
        hidden_size=width,
        embedding_size=None,
    ).requires_grad_(False)
    layer: Any = model.sequence.layer
    part, output = layer.blocks[0].mixers[0], model.sequence.output
    bias: Any = output.bias
    for module in (layer.inputs, part.projections, part.strengths, part.output, output):
        module.weight.zero_()
    for own in (layer.blocks[0].linear2.weight, layer.blocks[0].linear2.bias, bias):
        own.zero_()
    # The input is pairs (c, -c), whose norms are (1, -1). The first pairs have the sign of a step.
    layer.inputs.weight[::2] = _LARGE
    for symbol, permutation in enumerate(inputs):
        for step, swaps in enumerate(_swaps(permutation, order)):
            layer.inputs.weight[2 * step, symbol] *= 1 if swaps else -1
    layer.inputs.weight[1::2] = -layer.inputs.weight[::2]
    constant = width - 2
    rows = part.projections.weight[:, constant].view(1 + 2 * steps, heads, size)
    for step, i in enumerate(order):
        rows[1 + step, :, 2 * i : 2 * i + 4] = _LARGE
        rows[1 + steps + step, :, i : i + 2] = SCALE
        part.strengths.weight[step * heads : (step + 1) * heads, 2 * step] = SCALE
    # A head reads e_j - s e_i if i != j came to j, with a sign s, and 0 if j is where it was. Its
    # query is 1/2 in the rows of j and in two empty rows, so it is not rounded either.
    share = _ADDED * _LARGE / sqrt(size / 2)
    for j in range(heads):
        rows[0, j, [2 * j, 2 * j + 1, size - 2, size - 1]] = _LARGE
        for i in range(points):
            pair = 2 * (steps + j * points + i)
            part.output.weight[pair : pair + 2, j * size + i] = share
            part.output.weight[constant:, j * size + i] = -share  # the mean stays 0
    for number, permutation in enumerate(outputs):
        for j in range(heads):
            i = list(permutation).index(j)
            pair = 2 * (steps + j * points + i)
            sign = 1.0 if i == j or (j - i) % 2 == 0 else -1.0
            output.weight[number, pair : pair + 2] = -sign * LOGIT / (2 * _ADDED)
            bias[number] += LOGIT * (i == j)
    return model.eval()


def _swaps(permutation: Permutation, order: Sequence[int]) -> list[bool]:
    """The steps that swap i and i + 1, so that their product, first step first, permutes."""
    places = [list(permutation).index(point) for point in range(len(permutation))]
    swaps = []
    for i in reversed(order):
        swaps.append(places[i] > places[i + 1])
        if swaps[-1]:
            places[i], places[i + 1] = places[i + 1], places[i]
    return swaps[::-1]
