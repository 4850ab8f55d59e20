"""Golden machines say what plain Python says, at any length, with strengths that are 0 or 1."""

from __future__ import annotations

import random

import pytest
import torch

from unbounded import kernels, machines
from unbounded.errors import ConfigError
from unbounded.evaluation import score, score_streams
from unbounded.machines import MACHINES, Unit, assemble
from unbounded.models import MemoryModel
from unbounded.tasks import LengthRange, StreamTask, make_task

COUNTING = ["anbn", "anbncn", "anbncndn", "anb2n", "anbmc_sum", "anbmc_product", "anbmcndm"]
TRANSDUCTION = {
    "copy": lambda source: source,
    "reversal": lambda source: source[::-1],
    "bigram_flip": lambda source: [source[i ^ 1] for i in range(len(source))],
}
BACKENDS = [
    "reference",
    pytest.param(
        "cpu",
        marks=pytest.mark.skipif(
            not kernels.available().ok, reason=kernels.available().reason or ""
        ),
    ),
]


def machine(name, backend="auto", dtype=torch.float32, **options):
    made = MACHINES[name](**options).to(dtype)
    made.sequence.layer.backend = backend
    return made


def predicted(model, symbols, inputs, outputs):
    """What is said at each step, by name."""
    tokens = torch.tensor([[inputs.index(symbol) for symbol in symbols]])
    return [outputs[i] for i in model(tokens)[0].argmax(-1)[0].tolist()]


def words(name, drawn):
    """A sequence of a stream task and what of it is given, drawn by plain Python."""
    n, m = drawn.randint(1, 9), drawn.randint(1, 9)
    if name == "memorization":
        word = [drawn.choice("12") for _ in range(n)]
        return [*word, "=", *word[::-1]], n + 1
    if name == "binary_addition":
        a, b = (drawn.randrange(2**k) for k in (n, m))
        given = f"{a:b}+{b:b}="
        return [*given, *f"{a + b:b}"[::-1], "."], len(given)
    made = {
        "anbn": ("a" * n + "b" * n, n + 1),
        "anbncn": ("a" * n + "b" * n + "c" * n, n + 1),
        "anbncndn": ("a" * n + "b" * n + "c" * n + "d" * n, n + 1),
        "anb2n": ("a" * n + "b" * (2 * n), n + 1),
        "anbmc_sum": ("a" * n + "b" * m + "c" * (n + m), n + m + 1),
        "anbmc_product": ("a" * n + "b" * m + "c" * (n * m), n + m + 1),
        "anbmcndm": ("a" * n + "b" * m + "c" * n + "d" * m, n + m + 1),
    }
    return list(made[name][0]), made[name][1]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", TRANSDUCTION)
def test_sources_and_targets(name, dtype, backend):
    drawn, model = random.Random(1), machine(name, backend, dtype, symbols=5)
    task = make_task(name, symbols=5)
    inputs, outputs = list(range(12)), task.output_vocabulary
    for length in (2, 4, 10, 36):
        source = [drawn.randrange(5) for _ in range(length)]
        target = TRANSDUCTION[name](source)
        # <s>, the source, |||, the target that is fed back.
        read = [0, *(2 + s for s in source), 1, *(7 + s for s in target)]
        said = predicted(model, read, inputs, outputs)[length + 1 :]
        assert said == [*(f"s{s}" for s in target), "</s>"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", [*COUNTING, "memorization", "binary_addition"])
def test_streams(name, dtype, backend):
    drawn, model = random.Random(2), machine(name, backend, dtype)
    alphabet = make_task(name).input_vocabulary
    stream, judged = [alphabet[-1]], []
    for _ in range(12):
        sequence, given = words(name, drawn)
        # The symbol at a place is said at the step before, which reads the one before it.
        judged += [len(stream) + place for place in range(given, len(sequence))]
        if name in COUNTING and len(stream) > 1:
            judged.append(len(stream))
        stream += sequence
    said = [None, *predicted(model, stream, alphabet, alphabet)]
    assert [(k, said[k]) for k in judged] == [(k, stream[k]) for k in judged]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kinds", [1, 3])
def test_dyck_words(kinds, backend):
    drawn, model = random.Random(3), machine("dyck", backend, kinds=kinds)
    for _ in range(60):
        word = [drawn.randrange(2 * kinds) for _ in range(12)]
        open_, is_right, labels = [], True, []
        for symbol in word:
            if symbol < kinds:
                open_.append(symbol)
            else:
                is_right = is_right and bool(open_) and open_.pop() == symbol - kinds
            labels.append(is_right and not open_)
        said = model(torch.tensor([word]))[0][0, :, 0] > 0
        assert said.tolist() == labels


def test_the_words_of_that_test_are_of_both_kinds():
    task = make_task("dyck", kinds=2)
    for n in (3, 100, 600):
        batch = task.batch(1, "test", 0, 16, LengthRange(n, n))
        assert 0 < int(batch.targets[:, -1].sum()) < 16
        said = machine("dyck", kinds=2)(batch.inputs)[0][..., 0] > 0
        assert torch.equal(said[batch.mask], batch.targets[batch.mask].bool())


@pytest.mark.parametrize("name", [name for name in MACHINES if name != "dyck"])
def test_at_a_hundred_times_the_length_of_training(name):
    task, model = make_task(name), machine(name)
    if isinstance(task, StreamTask):
        # Words of a^n b^m c^(nm) grow with the square of their length; these have 10 000 symbols.
        long = LengthRange(98, 100) if name == "anbmc_product" else LengthRange(1898, 1900)
        streams = make_task(name, sequences=3).judged(1, "test", 0, 2, long)
        found = score_streams(model, streams)
        assert (found.right, found.count) == (4, 4)
        assert found.nats < 1e-6
    else:
        small = make_task(name, symbols=8)
        model = machine(name, symbols=8)
        found = score(model, small, seed=1, split="test", lengths=LengthRange(6400, 6400), count=2)
        assert found.right == 2


@pytest.mark.parametrize("name", MACHINES)
def test_every_strength_and_action_is_0_or_1(name):
    task, model = make_task(name), machine(name)
    lengths = LengthRange(2, 6)
    batch = task.batch(1, "test", 0, 2, lengths)
    layer = model.sequence.layer
    _, _, trace = layer(model.sequence.embed(batch.inputs), return_trace=True)
    decided = [
        trace.arrays[f"instruction.{field}"]
        for field in ("push", "pop", "action")
        if f"instruction.{field}" in trace.arrays
    ]
    assert decided
    for values in decided:
        assert set(values.unique().tolist()) <= {0.0, 1.0}


def test_they_are_ordinary_models(tmp_path):
    model = machines.copy(symbols=3)
    model.save_pretrained(tmp_path)
    again = MemoryModel.from_pretrained(tmp_path)
    tokens = torch.tensor([[0, 2, 3, 4, 1, 5, 6, 7]])
    assert torch.equal(again(tokens)[0], model(tokens)[0])


def test_bad_input():
    with pytest.raises(ConfigError, match="symbols"):
        machines.reversal(symbols=0)
    with pytest.raises(ConfigError, match="kinds"):
        machines.dyck(kinds=65)
    with pytest.raises(ConfigError, match="'r:7': there is no such signal or unit"):
        assemble("ab", {"name": "stack", "width": 2}, {"u": Unit({"r:7": 1.0})}, {}, [{}])
    with pytest.raises(ConfigError, match="'v': there is no such signal or unit"):
        assemble("ab", {"name": "stack", "width": 2}, {}, {"push": [{"v": 1.0}]}, [{}])
