"""Constructed networks agree with plain Python at any length, with strengths of 0 or 1."""

from __future__ import annotations

import random

import pytest
import torch

from unbounded import constructions, kernels
from unbounded.constructions import CONSTRUCTIONS, Unit, assemble
from unbounded.errors import ConfigError
from unbounded.evaluation import score, score_streams
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


def network(name, backend="auto", dtype=torch.float32, **options):
    model = CONSTRUCTIONS[name](**options).to(dtype)
    model.sequence.layer.backend = backend
    return model


def predicted(model, symbols, inputs, outputs):
    """The predictions of all steps, by name."""
    tokens = torch.tensor([[inputs.index(symbol) for symbol in symbols]])
    return [outputs[i] for i in model(tokens)[0].argmax(-1)[0].tolist()]


def draw_sequence(name, generator):
    """A sequence of a stream task and the length of its given part, drawn by plain Python."""
    n, m = generator.randint(1, 9), generator.randint(1, 9)
    if name == "memorization":
        word = [generator.choice("12") for _ in range(n)]
        return [*word, "=", *word[::-1]], n + 1
    if name == "binary_addition":
        a, b = (generator.randrange(2**k) for k in (n, m))
        source = f"{a:b}+{b:b}="
        return [*source, *f"{a + b:b}"[::-1], "."], len(source)
    sequences = {
        "anbn": ("a" * n + "b" * n, n + 1),
        "anbncn": ("a" * n + "b" * n + "c" * n, n + 1),
        "anbncndn": ("a" * n + "b" * n + "c" * n + "d" * n, n + 1),
        "anb2n": ("a" * n + "b" * (2 * n), n + 1),
        "anbmc_sum": ("a" * n + "b" * m + "c" * (n + m), n + m + 1),
        "anbmc_product": ("a" * n + "b" * m + "c" * (n * m), n + m + 1),
        "anbmcndm": ("a" * n + "b" * m + "c" * n + "d" * m, n + m + 1),
    }
    return list(sequences[name][0]), sequences[name][1]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", TRANSDUCTION)
def test_sources_and_targets(name, dtype, backend):
    generator, model = random.Random(1), network(name, backend, dtype, symbols=5)
    task = make_task(name, symbols=5)
    inputs, outputs = list(range(12)), task.output_vocabulary
    for length in (2, 4, 10, 36):
        source = [generator.randrange(5) for _ in range(length)]
        target = TRANSDUCTION[name](source)
        # <s>, the source, |||, the target that is fed back.
        read = [0, *(2 + s for s in source), 1, *(7 + s for s in target)]
        prediction = predicted(model, read, inputs, outputs)[length + 1 :]
        assert prediction == [*(f"s{s}" for s in target), "</s>"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", [*COUNTING, "memorization", "binary_addition"])
def test_streams(name, dtype, backend):
    generator, model = random.Random(2), network(name, backend, dtype)
    alphabet = make_task(name).input_vocabulary
    stream, scored = [alphabet[-1]], []
    for _ in range(12):
        sequence, source = draw_sequence(name, generator)
        # The symbol at a place is predicted at the previous step.
        scored += [len(stream) + place for place in range(source, len(sequence))]
        if name in COUNTING and len(stream) > 1:
            scored.append(len(stream))
        stream += sequence
    prediction = [None, *predicted(model, stream, alphabet, alphabet)]
    assert [(k, prediction[k]) for k in scored] == [(k, stream[k]) for k in scored]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kinds", [1, 3])
def test_dyck_words(kinds, backend):
    generator, model = random.Random(3), network("dyck", backend, kinds=kinds)
    for _ in range(60):
        word = [generator.randrange(2 * kinds) for _ in range(12)]
        open_, is_correct, labels = [], True, []
        for symbol in word:
            if symbol < kinds:
                open_.append(symbol)
            else:
                is_correct = is_correct and bool(open_) and open_.pop() == symbol - kinds
            labels.append(is_correct and not open_)
        prediction = model(torch.tensor([word]))[0][0, :, 0] > 0
        assert prediction.tolist() == labels


def test_dyck_labels_of_both_kinds():
    task = make_task("dyck", kinds=2)
    for n in (3, 100, 600):
        batch = task.batch(1, "test", 0, 16, LengthRange(n, n))
        assert 0 < int(batch.targets[:, -1].sum()) < 16
        prediction = network("dyck", kinds=2)(batch.inputs)[0][..., 0] > 0
        assert torch.equal(prediction[batch.mask], batch.targets[batch.mask].bool())


@pytest.mark.parametrize("name", [*COUNTING, *TRANSDUCTION, "memorization", "binary_addition"])
def test_at_a_hundred_times_the_length_of_training(name):
    task, model = make_task(name), network(name)
    if isinstance(task, StreamTask):
        # Strings of a^n b^m c^(nm) grow with the square of their length; these have 10 000 symbols.
        long = LengthRange(98, 100) if name == "anbmc_product" else LengthRange(1898, 1900)
        streams = make_task(name, sequences=3).judged(1, "test", 0, 2, long)
        result = score_streams(model, streams)
        assert (result.correct, result.count) == (4, 4)
        assert result.nats < 1e-6
    else:
        small = make_task(name, symbols=8)
        model = network(name, symbols=8)
        result = score(model, small, seed=1, split="test", lengths=LengthRange(6400, 6400), count=2)
        assert result.correct == 2


@pytest.mark.parametrize("name", CONSTRUCTIONS)
def test_every_gate_is_0_or_1(name):
    options = {"group": "S3"} if name == "word_problem" else {}
    task, model = make_task(name, **options), network(name, **options)
    batch = task.batch(1, "test", 0, 2, LengthRange(3, 6))
    layer = model.sequence.layer
    _, _, trace = layer(model.sequence.embed(batch.inputs), return_trace=True)
    gates = [head.name for head in layer.memory.heads if head.can_harden]
    assert gates
    for gate in gates:
        assert set(trace.arrays[f"instruction.{gate}"].unique().tolist()) <= {0.0, 1.0}


def test_constructed_networks_are_ordinary_models(tmp_path):
    model = constructions.copy(symbols=3)
    model.save_pretrained(tmp_path)
    again = MemoryModel.from_pretrained(tmp_path)
    tokens = torch.tensor([[0, 2, 3, 4, 1, 5, 6, 7]])
    assert torch.equal(again(tokens)[0], model(tokens)[0])


def test_bad_input():
    with pytest.raises(ConfigError, match="symbols"):
        constructions.reversal(symbols=0)
    with pytest.raises(ConfigError, match="kinds"):
        constructions.dyck(kinds=65)
    with pytest.raises(ConfigError, match="'r:7': there is no such signal or unit"):
        assemble("ab", {"name": "stack", "width": 2}, {"u": Unit({"r:7": 1.0})}, {}, [{}])
    with pytest.raises(ConfigError, match="'v': there is no such signal or unit"):
        assemble("ab", {"name": "stack", "width": 2}, {}, {"push": [{"v": 1.0}]}, [{}])
