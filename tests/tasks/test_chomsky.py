"""The fifteen tasks of the Chomsky hierarchy against plain Python on their symbols."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from unbounded.errors import ChoiceError, ConfigError
from unbounded.tasks import LengthRange, QuestionTask, make_task
from unbounded.tasks.chomsky import CHOMSKY

VARIED = (
    "modular_arithmetic", "odds_first", "compute_sqrt", "solve_equation", "stack_manipulation",
    "missing_duplicate_string", "chomsky_binary_addition", "binary_multiplication",
)  # fmt: skip


def bits(text):
    """The number of a binary text whose lowest bit comes first."""
    return int(text[::-1], 2)


def written(number, length=1):
    return f"{number:0{length}b}"[::-1]


def end_stack(source):
    stack = []
    for symbol in source:
        if symbol != "pop":
            stack.append(symbol[-1])
        elif stack:
            stack.pop()
    return [*reversed(stack), "end"]


def missing(source):
    text = "".join(source).rstrip("#")
    first, second = text[: len(text) // 2], text[len(text) // 2 :]
    return second[first.index("_")] if "_" in first else first[second.index("_")]


def solved(source):
    left, right = "".join(source).split("=")
    fitting = [d for d in "01234" if value(left.replace("x", d)) == right]
    assert len(fitting) == 1
    return fitting


def value(text):
    return str(eval(text) % 5)  # only digits, operators and brackets


def operation(symbol):
    def rule(source):
        left, right = "".join(source).split(symbol)
        numbers = bits(left), bits(right)
        return [*written(sum(numbers) if symbol == "+" else math.prod(numbers)), "end"]

    return rule


RULES = {
    "even_pairs": lambda s: [str(sum(a != b for a, b in itertools.pairwise(s)) % 2)],
    "modular_arithmetic": lambda s: [value("".join(s))],
    "parity_check": lambda s: [str(s.count("1") % 2)],
    "cycle_navigation": lambda s: [str((s.count(">") - s.count("<")) % 5)],
    "modular_arithmetic_brackets": lambda s: [value("".join(s))],
    "reverse_string": lambda s: list(reversed(s)),
    "solve_equation": solved,
    "stack_manipulation": end_stack,
    "duplicate_string": lambda s: [*s, *s],
    "missing_duplicate_string": lambda s: [missing(s)],
    "odds_first": lambda s: [*s[0::2], *s[1::2]],
    "chomsky_binary_addition": operation("+"),
    "binary_multiplication": operation("*"),
    "compute_sqrt": lambda s: list(written(math.isqrt(bits("".join(s))), math.ceil(len(s) / 2))),
    "bucket_sort": sorted,
}
SHORTEST = {
    "solve_equation": 3,
    "missing_duplicate_string": 2,
    "chomsky_binary_addition": 3,
    "binary_multiplication": 3,
}
#: Input symbols without the answer token, and output symbols.
SIZES = {
    "modular_arithmetic": (8, 5),
    "cycle_navigation": (3, 5),
    "modular_arithmetic_brackets": (10, 5),
    "solve_equation": (11, 5),
    "stack_manipulation": (5, 3),
    "missing_duplicate_string": (4, 2),
    "chomsky_binary_addition": (3, 3),
    "binary_multiplication": (3, 3),
    "bucket_sort": (5, 5),
}


def answered(task, sources):
    """The answers to sources of one length, in symbols."""
    answers, counts = task.pairs.answers(np.array(sources, dtype=np.int64))
    return [
        [task.output_vocabulary[symbol] for symbol in row[:count]]
        for row, count in zip(answers.tolist(), counts.tolist(), strict=True)
    ]


@pytest.mark.parametrize("name", CHOMSKY)
def test_every_short_source_has_the_answer_of_the_rule(name):
    """All strings of up to 8 symbols (fewer of large alphabets) that are sources."""
    task = make_task(name)
    symbols = task.source_vocabulary
    most = min(8, int(math.log(170_000, len(symbols))))
    checked = 0
    for length in range(1, most + 1):
        sources = [
            source
            for source in itertools.product(range(len(symbols)), repeat=length)
            if not task.pairs.source_error(source)
        ]
        if not sources:
            continue
        answers = answered(task, sources)
        for source, answer in zip(sources, answers, strict=True):
            assert answer == RULES[name]([symbols[symbol] for symbol in source])
        checked += len(sources)
    assert checked >= 15


@pytest.mark.parametrize("name", CHOMSKY)
@pytest.mark.parametrize("lengths", ["3:8", "9:40", "100:100", "499:500"])
def test_every_drawn_answer_is_that_of_the_rule(name, lengths):
    task = make_task(name)
    chosen = LengthRange.parse(lengths)
    for source, target in task.examples(3, "test", 0, 200 if chosen.maximum < 50 else 10, chosen):
        assert list(target) == list(RULES[name](list(source)))
        longest = chosen.maximum + (name == "modular_arithmetic")
        assert chosen.minimum <= len(source) <= longest
        assert len(source) % 2 or name != "modular_arithmetic"
        tokens = [task.source_vocabulary.index(symbol) for symbol in source]
        assert task.pairs.source_error(tokens) == ""


@pytest.mark.parametrize("name", CHOMSKY)
def test_sizes_and_ranges_are_those_of_the_paper(name):
    task = make_task(name)
    inputs, outputs = SIZES.get(name, (2, 2))
    assert (len(task.input_vocabulary), len(task.output_vocabulary)) == (inputs + 1, outputs)
    assert str(task.train_lengths) == f"{SHORTEST.get(name, 1)}:40"
    assert str(task.test_lengths) == "41:500"
    assert task.pairs.shortest == SHORTEST.get(name, 1)
    # The paper's caption: 50 percent, and 20 percent for five tasks.
    assert task.chance == (0.2 if outputs == 5 else 0.5)
    for length in range(task.pairs.shortest, 41):
        assert len(task.example(0, "train", 0, LengthRange(length, length)).source) >= length


@pytest.mark.parametrize("name", CHOMSKY)
@pytest.mark.parametrize("computation", [0, 2])
def test_a_batch_is_source_computation_and_answer(name, computation):
    task = make_task(name, computation=computation)
    assert (task.layout, task.objective, task.metric_set) == (
        "answer",
        "cross_entropy",
        "by_length",
    )
    lengths = LengthRange(3, 12)
    batch = task.batch(5, "train", 7, 12, lengths)
    examples = task.examples(5, "train", 7, 12, lengths)
    for inputs, targets, mask, steps, (source, target) in zip(*batch, examples, strict=True):
        fed = [task.input_vocabulary[token] for token in inputs[:steps].tolist()]
        assert fed == [*source, *["."] * (computation * len(source)), *["?"] * len(target)]
        assert [task.output_vocabulary[token] for token in targets[mask].tolist()] == list(target)
        assert not mask[: (1 + computation) * len(source)].any()
        assert not inputs[steps:].any()
        prompt = task.asked(source)
        assert prompt.tolist() == inputs[: len(prompt)].tolist()
        assert task.answer_steps(prompt) == len(target)


def uniform(counts, size):
    """Whether counts of `size` equally likely outcomes pass chi-square."""
    assert len(counts) == size
    return chisquare(list(counts.values())).pvalue > 1e-3


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("parity_check", 16),
        ("cycle_navigation", 81),
        ("bucket_sort", 625),
        ("compute_sqrt", 15),
        ("missing_duplicate_string", 16),
    ],
)
def test_sources_of_one_length_are_uniform(name, size):
    examples = make_task(name).examples(1, "train", 0, 20 * size, LengthRange(4, 4))
    assert uniform(Counter(source for source, _ in examples), size)


def test_lengths_are_uniform():
    examples = make_task("parity_check").examples(1, "train", 0, 4000)
    assert uniform(Counter(len(source) for source, _ in examples), 40)


def test_sources_with_a_structure_have_the_distribution_of_the_paper():
    examples = make_task("stack_manipulation").examples(4, "train", 0, 3000, LengthRange(7, 7))
    heights = Counter(sum(len(symbol) == 1 for symbol in source) for source, _ in examples)
    assert uniform(heights, 6)
    examples = make_task("chomsky_binary_addition").examples(4, "train", 0, 3000, LengthRange(8, 8))
    places = Counter(source.index("+") for source, _ in examples)
    assert uniform(places, 6)
    assert uniform(Counter(source[:3] for source, _ in examples if source[3] == "+"), 7)
    examples = make_task("modular_arithmetic_brackets").examples(
        4, "train", 0, 4000, LengthRange(6, 6)
    )
    # (L op R) with operands of 1 and 2 symbols, either way round; -d is one of the two.
    assert uniform(Counter(source[1] == "-" for source, _ in examples), 2)
    assert uniform(Counter(source[1] for source, _ in examples if source[1] != "-"), 5)
    operators = Counter(source[2] for source, _ in examples if source[1] != "-")
    assert set(operators) == {"+", "-", "*"}
    assert uniform(operators, 3)
    examples = make_task("solve_equation").examples(4, "train", 0, 3000, LengthRange(7, 7))
    # In (a+b) the bracket moves to a, the operator to b, and the closing bracket to a.
    places = Counter(source.index("x") for source, _ in examples)
    assert chisquare([places[1], places[3]], [1800, 1200]).pvalue > 1e-3
    answers = Counter(target[0] for _, target in examples)
    assert uniform(answers, 5)


def test_variants_are_those_of_the_code():
    task = make_task("modular_arithmetic", variant="code")
    assert len(task.example(0, "train", 0, LengthRange(8, 8)).source) == 7
    assert (
        len(make_task("modular_arithmetic").example(0, "train", 0, LengthRange(8, 8)).source) == 9
    )
    for source, target in make_task("odds_first", variant="code").examples(0, "train", 0, 30):
        assert target == (*source[1::2], *source[0::2])
    for source, target in make_task("compute_sqrt", variant="code").examples(0, "test", 0, 30):
        size = math.ceil(len(source) / 2)
        assert "".join(target) == f"{math.isqrt(int(''.join(source), 2)):0{size}b}"
    for name in VARIED:
        with pytest.raises(ChoiceError, match=r"unknown variant 'papr'. Did you mean 'paper'\?"):
            make_task(name, variant="papr")


@pytest.mark.parametrize(
    ("name", "answers"),
    [
        ("solve_equation", {"0": "0", "00": "0"}),
        ("missing_duplicate_string", {"1": "1"}),
        ("chomsky_binary_addition", {"0": "0.", "00": "0.", "10": "1.", "01": "01."}),
        ("binary_multiplication", {"0": ".", "00": "0.", "10": "0.", "01": "0."}),
    ],
)
def test_the_code_has_shorter_sources(name, answers):
    task = make_task(name, variant="code", train_lengths="1:40")
    drawn = {
        "".join(source): "".join(target).replace("end", ".")
        for length in (1, 2)
        if (name, length) != ("missing_duplicate_string", 2)
        for source, target in task.examples(0, "train", 0, 60, LengthRange(length, length))
    }
    assert drawn == answers
    for source in answers:
        prompt = task.asked(tuple(source))
        assert task.answer_steps(prompt) == len(answers[source])
    with pytest.raises(ConfigError, match="the shortest source has"):
        make_task(name, train_lengths="1:40")
    with pytest.raises(ConfigError, match="expected"):
        make_task(name).asked(tuple(next(iter(answers))))


@pytest.mark.parametrize(
    ("name", "room"),
    [("stack_manipulation", 1), ("chomsky_binary_addition", 1), ("binary_multiplication", 0)],
)
def test_the_loss_of_the_code_counts_zeros_after_the_end(name, room):
    lengths = LengthRange(3, 9)
    paper = make_task(name).batch(0, "train", 0, 40, lengths)
    task = make_task(name, variant="code")
    batch = task.batch(0, "train", 0, 40, lengths)
    logits = torch.randn(*batch.inputs.shape, 3, dtype=torch.float64, requires_grad=True)
    log_probabilities = logits.log_softmax(-1)
    expected, counted = 0.0, torch.zeros_like(batch.mask)
    for row, (source, target) in enumerate(task.examples(0, "train", 0, 40, lengths)):
        begin = len(source)
        end = begin + len(source) + room
        assert batch.lengths[row] == end
        assert (batch.inputs[row, begin:end] == task.answer_token).all()
        assert batch.mask[row].nonzero()[:, 0].tolist() == [*range(begin, begin + len(target))]
        assert paper.targets[row][paper.mask[row]].equal(batch.targets[row][batch.mask[row]])
        counted[row, begin + len(target) : end] = True
        expected -= float(log_probabilities[row, begin + len(target) : end, 0].detach().sum())
    loss = task.further_loss(logits, batch)
    loss.backward()
    assert float(loss.detach()) == pytest.approx(expected, rel=1e-5)
    assert (logits.grad.abs().sum(-1) > 0).equal(counted)
    assert not make_task(name).has_further_loss


def test_all_sources_are_listed():
    task = make_task("parity_check")
    assert isinstance(task, QuestionTask)
    assert task.count_of(5, 2) == 32
    batch = task.every(5, 2)
    assert len({tuple(row) for row in batch.inputs[:, :5].tolist()}) == 32
    assert batch.targets[:, 5].sum() == 16
    assert make_task("solve_equation").count_of(5, 2) is None


@pytest.mark.parametrize("name", CHOMSKY)
def test_the_listed_sources_are_all_sources_that_can_be_drawn(name):
    task = make_task(name)
    if task.count_of(5, 2) is None:
        assert name in ("modular_arithmetic_brackets", "solve_equation")
        return
    for length in range(1, 6):
        count = task.count_of(length, 2)
        if not count:
            continue
        pairs = task.pairs.every(length, 2)
        listed = {tuple(row) for row in pairs.source.tolist()}
        assert len(listed) == len(pairs.source) == count
        assert not any(task.pairs.source_error(source) for source in listed)
        drawn = task.examples(
            1, "train", 0, 4000 if count < 700 else 50, LengthRange(length, length)
        )
        sources = {tuple(map(task.source_vocabulary.index, source)) for source, _ in drawn}
        assert sources <= listed
        assert count > 100 or sources == listed
    assert task.count_of(task.pairs.shortest - 1, 2) == 0


def test_bad_input_is_named():
    with pytest.raises(ConfigError, match="the shortest source has 3 symbols, got 1:40") as caught:
        make_task("solve_equation", train_lengths="1:40", computation=-1)
    assert len(caught.value.errors) == 2
    assert "computation: expected an integer from 0 to 100, got -1" in caught.value.errors[1]
    task = make_task("missing_duplicate_string")
    with pytest.raises(ConfigError, match="lengths: missing_duplicate_string: length range"):
        task.batch(0, "train", 0, 1, LengthRange(1, 5))
    with pytest.raises(ConfigError, match="'2', which is not among those of task"):
        make_task("parity_check").asked(("0", "2"))


@pytest.mark.parametrize(
    ("name", "source", "message"),
    [
        ("parity_check", "", "at least 1"),
        ("modular_arithmetic", "1 + +", "in turn, such as"),
        ("modular_arithmetic", "1 +", "in turn, such as"),
        ("modular_arithmetic_brackets", "( 1 + 2", "a bracket is not closed"),
        ("modular_arithmetic_brackets", "1 )", "a bracket is closed that was not opened"),
        ("modular_arithmetic_brackets", "1 + 2", "brackets around each operation"),
        ("modular_arithmetic_brackets", "( 1 + * )", "an operator has no operand"),
        ("solve_equation", "( 1 + 2 ) = 3", "one x"),
        ("solve_equation", "( x = 2 ) = 3", "is not allowed in an expression"),
        ("stack_manipulation", "pop 1", "expected a stack"),
        ("missing_duplicate_string", "0 1 1 _", "hidden by _"),
        ("binary_multiplication", "1 1 *", "two numbers with"),
    ],
)
def test_a_typed_source_without_an_answer_is_named(name, source, message):
    with pytest.raises(ConfigError, match=message):
        make_task(name).asked(tuple(source.split()))


@pytest.mark.parametrize("name", CHOMSKY)
def test_an_unknown_option_names_the_task(name: str) -> None:
    with pytest.raises(
        TypeError, match=rf"^{name}\(\) got an unexpected keyword argument 'nosuch'"
    ):
        CHOMSKY[name](nosuch=1)
