"""Outputs of constructed networks for input lines."""

from __future__ import annotations

import pytest
import torch

from tests.constructions import model_of
from unbounded import constructions
from unbounded.errors import ConfigError
from unbounded.evaluation.predictions import joined, predictions, read_inputs
from unbounded.models import MemoryModel
from unbounded.tasks import Task, make_task


def outputs_of(model: torch.nn.Module, task: Task, lines: list[str]) -> list[str]:
    results = predictions(model.eval(), task, read_inputs(task, lines))
    return [joined(task, each.symbols) for each in results]


def test_pairs_are_generated_in_the_order_of_the_lines() -> None:
    task = make_task("reversal", symbols=4)
    model = constructions.reversal(symbols=4)
    lines = ["s1", "s0 s1 s2 s3 s1", " s3  s3 s2 "]
    assert outputs_of(model, task, lines) == ["s1", "s1 s3 s2 s1 s0", "s2 s3 s3"]
    (first, *_) = predictions(model, task, read_inputs(task, lines), probabilities=True)
    assert first.is_ended
    assert len(first.probabilities) == 2
    assert all(0.5 < each <= 1 for each in first.probabilities)


def test_probabilities_equal_those_of_one_pass() -> None:
    torch.manual_seed(0)
    task = make_task("copy", symbols=3)
    model = model_of(task, memory={"name": "queue", "width": 4}, hidden_size=8).eval()
    lines = ["s0 s1", "s2", "s1 s1 s1 s0"]
    options = {"max_length": 5, "probabilities": True}
    together = predictions(model, task, read_inputs(task, lines), **options)
    for line, result in zip(lines, together, strict=True):
        (prompt,) = read_inputs(task, [line])
        tokens = [task.output_vocabulary.index(symbol) for symbol in result.symbols]
        outputs = [*tokens, *([0] if result.is_ended else [])]
        fed = task.output_to_input[torch.tensor(outputs, dtype=torch.int64)]
        with torch.no_grad():
            logits = model(torch.cat([prompt, fed]).unsqueeze(0))[0][0]
        chances = logits.softmax(-1)[len(prompt) - 1 :]
        expected = [float(chances[place, token]) for place, token in enumerate(outputs)]
        assert result.probabilities == pytest.approx(expected, rel=1e-4)
        assert len(result.symbols) + result.is_ended <= 5


def test_an_output_without_an_end_does_not_depend_on_its_neighbours() -> None:
    torch.manual_seed(0)
    task = make_task("copy", symbols=3)
    model = MemoryModel(inputs=8, outputs=4, memory={"name": "queue", "width": 4}, hidden_size=8)
    with torch.no_grad():
        model.sequence.output.bias[task.end_token] = -100.0
    alone = outputs_of(model, task, ["s0"])[0]
    assert len(alone.split()) == 4 * 3 + 40
    assert outputs_of(model, task, ["s1 " * 30, "s0"])[1] == alone


def test_streams_predict_the_next_symbol_after_each() -> None:
    task = make_task("anbn")
    first, second = outputs_of(constructions.anbn(), task, ["aaabbb", "aabbab"])
    # After the first b the rest is determined, up to the a of the next sequence.
    assert (first[3:], second[2:4], second[5]) == ("bba", "ba", "a")
    assert len(first) == 6


def test_labels_are_1_or_0_after_each_symbol() -> None:
    task = make_task("dyck")
    inputs = read_inputs(task, ["uudd", "ud", "ddu"])
    results = predictions(constructions.dyck().eval(), task, inputs)
    assert [joined(task, each.symbols) for each in results] == ["0 0 0 1", "0 1", "0 0 0"]
    assert all(
        (probability > 0.5) == (label == "1")
        for each in results
        for label, probability in zip(each.symbols, each.probabilities, strict=True)
    )


@pytest.mark.parametrize("name", ["answer_reverse", "programs", "answer_double"])
def test_answers_equal_those_of_one_pass(name: str) -> None:
    torch.manual_seed(1)
    task = make_task(name)
    model = model_of(task, memory={"name": "stack", "width": 4}, hidden_size=8).eval()
    line = {"answer_reverse": "s3 s1", "programs": "print((1+2))", "answer_double": "12"}[name]
    (prompt,) = read_inputs(task, [line])
    (result,) = predictions(model, task, [prompt], max_length=6, probabilities=True)
    fed = torch.full((5,), task.answer_token)
    with torch.no_grad():
        logits = model(torch.cat([prompt, fed]).unsqueeze(0))[0][0, len(prompt) - 1 :]
    outputs = [task.output_vocabulary[token] for token in logits.argmax(-1).tolist()]
    assert list(result.symbols) == outputs[: len(result.symbols)]
    assert result.is_ended == (len(result.symbols) < 6)


@pytest.mark.parametrize("computation", [0, 1])
def test_answers_of_a_known_length_equal_those_of_one_pass(computation: int) -> None:
    torch.manual_seed(1)
    task = make_task("stack_manipulation", computation=computation)
    model = model_of(task, memory={"name": "stack", "width": 4}, hidden_size=8).eval()
    inputs = read_inputs(task, ["0 1 pop", "1 0 push0 push1"])
    results = predictions(model, task, inputs, probabilities=True)
    assert [len(each.symbols) for each in results] == [2, 5]
    for prompt, result in zip(inputs, results, strict=True):
        assert result.is_ended
        with torch.no_grad():
            fed = torch.full((len(result.symbols) - 1,), task.answer_token)
            logits = model(torch.cat([prompt, fed]).unsqueeze(0))[0][0, len(prompt) - 1 :]
        expected = logits.softmax(-1).max(dim=-1)
        assert result.symbols == tuple(task.output_vocabulary[k] for k in expected.indices)
        assert result.probabilities == pytest.approx(expected.values.tolist())
    with pytest.raises(ConfigError, match="line 1: source of task stack_manipulation: expected a"):
        read_inputs(task, ["pop"])


def test_lines_that_cannot_be_read_are_named_all_together() -> None:
    task = make_task("copy", symbols=3)
    with pytest.raises(ConfigError) as error:
        read_inputs(task, ["s1", "", "s1 s7", *["x"] * 20], "FILE")
    errors = error.value.errors
    assert errors[0] == "FILE, line 2: source: expected at least one symbol, got none"
    assert errors[1].startswith("FILE, line 3: source: symbol 2 is 's7', which is not among the 3")
    assert errors[-1] == "FILE: 12 more lines cannot be read"
    with pytest.raises(ConfigError, match="line 1: expected at least one symbol"):
        read_inputs(make_task("anbn"), [" "])
    with pytest.raises(ConfigError, match="bit vectors"):
        read_inputs(make_task("ntm_copy"), ["1"])
