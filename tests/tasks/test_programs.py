"""Small programs against an evaluator of their grammar, and their distributions."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from scipy.stats import chisquare
from tests.tasks.program_evaluator import printed

from unbounded.errors import ChoiceError, ConfigError
from unbounded.tasks import LengthRange, ProgramTask, check_program, make_task
from unbounded.tasks.program_task import CHARACTERS, OPERATORS, split_of

#: The form of a program of one operator.
FORMS = {
    "pair": r"print\(\(\d+[+-]\d+\)\)",
    "small_multiplication": r"print\(\(\d+\*\d+\)\)",
    "identity": r"print\(\d+\)",
    "substitution": r"[a-j]=\d+;#print\(\([a-j][+-]\d+\)\)",
    "small_loop": r"[a-j]=\d+#for x in range\(\d+\):[a-j][+-]=\d+#print\([a-j]\)",
    "ternary": r"print\(\(\d+ if \d+[<>]\d+ else \d+\)\)",
}


@pytest.mark.parametrize("nesting", [1, 2, 3, 6, 10])
def test_thousands_of_programs_print_their_value(nesting):
    task = make_task("programs", nesting=nesting)
    for split, lengths in (("train", None), ("test", None), ("validation", LengthRange(1, 6))):
        for text, value, _ in task.programs(1, split, 0, 700, lengths):
            assert printed(text) == value, text
            assert set(text) <= set(CHARACTERS) - set("@.")
            check_program(text)


def test_the_evaluator_knows_the_grammar_alone():
    assert printed("a=3#for x in range(4):a+=(2*5)#print((a-1))") == 42
    assert printed("b=7;#print((b if 2<3 else 9))") == 7
    for text in ("print(1)#", "print(__import__)", "print(1+2)", "print(x)", "import os", "a=1#"):
        with pytest.raises((SyntaxError, KeyError, IndexError)):
            printed(text)


def test_a_batch_by_hand():
    task = make_task("programs")
    batch, drawn = task.batch(3, "train", 5, 20), task.programs(3, "train", 5, 20)
    examples = task.examples(3, "train", 5, 20)
    assert len(CHARACTERS) == len(set(CHARACTERS)) == 42
    assert task.input_vocabulary == task.output_vocabulary == CHARACTERS
    for inputs, targets, mask, steps, (text, value, _), example in zip(
        *batch, drawn, examples, strict=True
    ):
        answer = "".join(reversed(str(value)))
        fed = "".join(CHARACTERS[token] for token in inputs[:steps].tolist())
        assert fed == text + "@" * (len(answer) + 1)
        assert "".join(CHARACTERS[token] for token in targets[mask].tolist()) == f"{answer}."
        assert int(mask.nonzero()[0]) == len(text)
        assert not inputs[steps:].any()
        assert ("".join(example.source), "".join(example.target)) == (text, answer)
    assert CHARACTERS[task.answer_token] == "@"
    assert any(value < 0 for _, value, _ in task.programs(3, "train", 0, 200))


def test_kinds_of_programs_are_uniform():
    counts = Counter()
    for text, _, operators in make_task("programs").programs(1, "train", 0, 3000):
        [kind] = [kind for kind, form in FORMS.items() if re.fullmatch(form, text)]
        assert operators == (kind,)
        counts[kind] += 1
    assert chisquare([counts[kind] for kind in OPERATORS]).pvalue > 1e-3


def test_numbers_have_the_digits_of_the_range():
    for digits in (1, 2, 4):
        lengths = LengthRange(digits, digits)
        values, rounds = Counter(), Counter()
        for text, _, _ in make_task("small_loops").programs(1, "train", 0, 2000, lengths):
            first, times, second = (int(number) for number in re.findall(r"\d+", text))
            assert 1 <= min(first, second) <= max(first, second) <= 10**digits
            rounds[times] += 1
            values[10 * (first - 1) // 10**digits] += 1
        assert chisquare([rounds[k] for k in range(1, 4 * digits + 1)]).pvalue > 1e-3
        assert set(rounds) == set(range(1, 4 * digits + 1))
        assert chisquare([values[k] for k in range(10)]).pvalue > 1e-3


def test_operands_of_one_program_may_have_lengths_of_their_own():
    sizes = Counter()
    for text, _, _ in make_task("programs", train_lengths="1:4").programs(1, "train", 0, 2000):
        if re.fullmatch(FORMS["pair"], text):
            first, second = (len(number) for number in re.findall(r"\d+", text))
            sizes[first, second] += 1
    assert {(1, 4), (4, 1), (2, 3), (3, 2)} <= set(sizes)


def test_nesting_puts_results_into_operators():
    task = make_task("programs", nesting=3)
    counts = Counter()
    for text, _, _ in task.programs(1, "train", 0, 1000):
        lines = text.split("#")
        operators = text.count("(") - 1 - text.count("range(")
        counts[operators + sum("for" in line for line in lines)] += 1
    # Identities leave no trace, so only the presence of all depths is certain.
    assert {0, 1, 2, 3} <= set(counts)
    assert max(counts) <= 3


def test_no_program_is_in_two_splits():
    task = make_task("programs", train_lengths="1:2", test_lengths="1:2")
    splits = {
        split: {text for text, _, _ in task.programs(1, split, 0, 1500)}
        for split in ("train", "validation", "test")
    }
    assert all(split_of(text) == split for split, texts in splits.items() for text in texts)
    assert not splits["train"] & splits["test"]
    assert not splits["validation"] & (splits["test"] | splits["train"])


def test_small_loops_alone():
    task = make_task("small_loops")
    assert task.name == "small_loops"
    for text, value, _ in task.programs(1, "test", 0, 300):
        assert re.fullmatch(FORMS["small_loop"], text)
        assert printed(text) == value
    nested = make_task("small_loops", nesting=4).programs(1, "test", 0, 300)
    assert all(printed(text) == value for text, value, _ in nested)
    assert max(text.count("for") for text, _, _ in nested) == 4


def test_all_impossible_options_are_reported_together():
    with pytest.raises(ConfigError) as caught:
        ProgramTask("x", LengthRange(1, 16), LengthRange(2, 20), 11, ("pair", "loop"))
    assert caught.value.errors == (
        "operators: " + str(ChoiceError("operator", "loop", OPERATORS)),
        "nesting: expected an integer from 1 to 10, got 11",
        "train_lengths: length range: expected numbers of at most 15 digits, got 1:16",
        "test_lengths: length range: expected numbers of at most 15 digits, got 2:20",
    )
    with pytest.raises(ConfigError, match="operators: expected at least one of pair, "):
        ProgramTask("x", LengthRange(1, 2), LengthRange(1, 2), 1, ())
    with pytest.raises(ConfigError, match=r"lengths: programs: .* at most 15 digits, got 4:16"):
        make_task("programs").batch(1, "test", 0, 1, LengthRange(4, 16))
    with pytest.raises(ConfigError, match=r"train_lengths: .* 9:2 is reversed"):
        make_task("programs", train_lengths="9:2")


@pytest.mark.parametrize("text", ["print(7%2)", "print(y)", "print(1)@", "print(1.5)", "é"])
def test_a_program_with_an_unknown_symbol(text):
    with pytest.raises(ConfigError, match=r"program: character \d+ is .*, which is not allowed"):
        check_program(text)


def test_an_empty_program():
    with pytest.raises(ConfigError, match="program: expected at least one character"):
        check_program("")
