"""All strings are listed once and walked as a tree; findings equal those of a plain run."""

from __future__ import annotations

import itertools
import sys

import pytest
import torch

from tests.constructions import model_of
from unbounded import constructions
from unbounded.errors import BackendError
from unbounded.extraction import extract
from unbounded.models import MemoryModel
from unbounded.models.gates import certainties
from unbounded.rnn import MemoryRNN
from unbounded.tasks import LengthRange, make_task
from unbounded.verification import VerifyOptions, findings_of, report_of, text_of
from unbounded.verification.findings import assess, shortened
from unbounded.verification.margins import margins_of
from unbounded.verification.network import Network
from unbounded.verification.words import walk

TARGETS = {
    "copy": lambda word: word,
    "reversal": lambda word: word[::-1],
    "bigram_flip": lambda word: [word[i ^ 1] for i in range(len(word))],
    "answer_double": lambda word: _digits(2 * _number(word), len(word) + 1),
    "answer_addition": lambda word: _digits(
        _number(word[::2]) + _number(word[1::2]), len(word) // 2 + 1
    ),
    "answer_odd_first": lambda word: [*word[::2], *word[1::2]],
}


def _number(lowest_first):
    return int("".join(map(str, lowest_first[::-1])))


def _digits(number, count):
    return [int(digit) for digit in f"{number:0{count}d}"[::-1]]


@pytest.mark.parametrize("name", TARGETS)
def test_every_source_with_its_target(name):
    task = make_task(name)
    unit = 2 if name in ("answer_addition", "answer_odd_first") else 1
    batch = task.every(2, 3)
    first = 2
    pairs = []
    for row in range(len(batch.inputs)):
        steps, is_judged = int(batch.lengths[row]), batch.mask[row]
        source = batch.inputs[row, 1 : steps - int(is_judged.sum())].tolist()
        target = batch.targets[row][is_judged].tolist()
        assert target[-1] == task.end_token
        pairs.append(([s - first for s in source], [t - 1 for t in target[:-1]]))
    words = [list(word) for word in itertools.product(range(3), repeat=2 * unit)]
    assert sorted(pairs) == sorted((word, TARGETS[name](word)) for word in words)
    assert task.count_of(2, 3) == len(words)


def test_a_memory_receives_the_source_length_at_the_first_step():
    task, model = make_task("duplicate_string", computation=1), constructions.duplicate_on_tapes()
    # 30 times 40 symbols are read in chunks.
    findings = list(findings_of(model, task, VerifyOptions(most=4, times=(1, 30), count=2)))
    assert [finding.count for finding in findings if finding.every] == [2, 4, 8, 16]
    assert findings[-1].length == 1200
    assert all(finding.correct == finding.count for finding in findings)
    assert {finding.displaced for finding in findings} == {0.0}


@pytest.mark.parametrize("name", ["copy", "anbn"])
def test_the_training_range_of_the_model_replaces_the_range_of_the_task(name):
    options = VerifyOptions(most=2, times=(4,), count=1)
    model, task = constructions.CONSTRUCTIONS[name](), make_task(name)
    findings = findings_of(model, task, options, train_lengths=LengthRange(2, 8))
    assert [each.length for each in findings if each.length > 2] == [4, 8, 32]


def test_the_empty_string_is_enumerated_where_the_task_has_it():
    model, task = constructions.CONSTRUCTIONS["flare"]("parity"), make_task("flare")
    assert task.every(0, 2).lengths.tolist() == [1]
    options = VerifyOptions(most=2, times=(2,), count=1)
    findings = list(findings_of(model, task, options, train_lengths=LengthRange(1, 4)))
    every = [(each.length, each.correct, each.count) for each in findings if each.every]
    assert every == [(0, 1, 1), (1, 2, 2), (2, 4, 4)]
    assert text_of(report_of(findings, 1, True)).startswith("length")
    none = VerifyOptions(most=0, times=(2,), count=1)
    assert not any(each.every for each in findings_of(model, task, none))


def test_a_bidirectional_network_reads_each_sequence_in_one_call():
    task = make_task("reverse_string")
    torch.manual_seed(1)
    model = MemoryModel(
        inputs=3, outputs=2, memory="none", hidden_size=16, embedding_size=None,
        controller={"name": "transformer", "bidirectional": True}, length_token=task.answer_token,
    ).eval()  # fmt: skip
    findings = list(findings_of(model, task, VerifyOptions(most=3, times=(30,), count=2)))
    for finding in findings[:3]:
        batch = task.every(finding.length, 2)
        is_correct = (model(batch.inputs)[0].argmax(-1) == batch.targets) | ~batch.mask
        assert (finding.correct, finding.count) == (int(is_correct.all(1).sum()), len(is_correct))
    assert findings[0].correct > 0
    assert findings[-1].length == 1200


def test_padding_does_not_change_what_a_bidirectional_network_reads():
    task = make_task("flare", language="marked_reversal")
    torch.manual_seed(2)
    model = MemoryModel(
        inputs=len(task.input_vocabulary), outputs=1, memory="none", hidden_size=16,
        embedding_size=None, controller={"name": "transformer", "bidirectional": True},
    ).eval()  # fmt: skip
    batch = task.batch(1, "test", 0, 64, LengthRange(10, 11))
    assert len(set(batch.lengths.tolist())) == 2
    alone = torch.cat(
        [
            model(row[None, :steps])[0][0, -1]
            for row, steps in zip(batch.inputs, batch.lengths, strict=True)
        ]
    )
    found = torch.cat([part.answers for part in margins_of(Network(model), batch, "binary")], 1)
    signs = 2 * batch.targets[batch.mask] - 1
    torch.testing.assert_close(found[batch.mask], alone * signs, atol=1e-4, rtol=1e-4)


def test_bigram_flip_has_even_lengths_alone():
    task = make_task("bigram_flip")
    assert [task.count_of(length, 2) for length in range(5)] == [0, 0, 4, 0, 16]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("dyck", {"kinds": 1}),
        ("dyck", {"kinds": 2}),
        ("dyck", {"labels": "word"}),
        ("dyck_prefixes", {}),
    ],
)
def test_every_word_of_brackets_with_its_label(name, options):
    task = make_task(name, **options)
    kinds = options.get("kinds", 1)
    seen = 0
    for length in (1, 2):
        batch = task.every(length, 2)
        assert len(batch.inputs) == task.count_of(length, 2)
        assert len({tuple(row) for row in batch.inputs.tolist()}) == len(batch.inputs)
        for word, labels, mask in zip(
            batch.inputs.tolist(), batch.targets.tolist(), batch.mask.tolist(), strict=True
        ):
            open_, sound = [], True
            for symbol, label, judged in zip(word, labels, mask, strict=True):
                if symbol < kinds:
                    open_.append(symbol)
                else:
                    sound = sound and bool(open_) and open_.pop() == symbol - kinds
                if judged:
                    seen += 1
                    assert label == (sound and not open_)
    assert seen > 0


@pytest.mark.parametrize("memory", ["queue", "superposition_stack", "turing_tape", "none"])
@pytest.mark.parametrize("name", ["copy", "answer_reverse"])
def test_the_tree_gives_the_margins_of_single_strings(name, memory):
    torch.manual_seed(1)
    task = make_task(name, symbols=3)
    token = task.answer_token if memory in ("queue",) else None
    model = model_of(
        task,
        memory={"name": memory, **({"width": 4} if memory == "queue" else {})},
        hidden_size=6,
        embedding_size=4,
        readout_size=None if memory == "none" else 5,
        read_only_token=token,
    )
    batch = task.every(3, 3)
    margins, certainty = walk(Network(model), batch, 4, task.objective)
    alone = assess(model, batch, task.objective)
    torch.testing.assert_close(margins, alone.margin)
    assert (certainty is None) == (memory == "none")
    if certainty is not None:
        torch.testing.assert_close(certainty, alone.certainty)
    logits, _ = model(batch.inputs)
    wrong = (logits.argmax(-1) != batch.targets) & batch.mask
    assert torch.equal(margins > 0, ~wrong.any(dim=1))


@pytest.mark.parametrize("name", ["copy", "reversal", "bigram_flip", "dyck"])
def test_a_constructed_network_is_correct_everywhere(name):
    options_of_task = {"kinds": 2} if name == "dyck" else {"symbols": 3}
    options = VerifyOptions(symbols_each=600, times=(2, 4), count=5)
    findings = list(
        findings_of(
            constructions.CONSTRUCTIONS[name](**options_of_task),
            make_task(name, **options_of_task),
            options,
        )
    )
    assert all(each.correct == each.count for each in findings)
    assert all(each.margin > 10 and each.certainty == 1 for each in findings)
    assert all(each.displaced == 0 for each in findings)
    assert {each.every for each in findings} == {True, False}


def test_a_network_of_another_task_is_wrong():
    options = VerifyOptions(symbols_each=100, times=(0.125,), count=5)
    model, task = constructions.copy(symbols=3), make_task("reversal", symbols=3)
    findings = list(findings_of(model, task, options))
    assert [each.correct for each in findings if each.every] == [2, 2, 4, 4]
    assert findings[1].wrong == "s0 s1 ||| s1 s0"


@pytest.mark.parametrize(
    ("name", "counts"), [("svo_sov", {3: 8, 4: 32, 5: 96}), ("gender", {5: 144, 6: 288})]
)
def test_every_short_sentence_of_a_grammar_is_checked(name, counts):
    torch.manual_seed(3)
    task = make_task(name)
    model = model_of(task, memory={"name": "queue", "width": 4}, hidden_size=6)
    options = VerifyOptions(most=max(counts), times=(0.1,), count=3)
    findings = list(findings_of(model, task, options))
    assert {each.length: each.count for each in findings if each.every} == counts
    assert all(each.correct == 0 and each.wrong for each in findings)
    # Lengths with too many sentences are drawn, as are lengths beyond.
    few = VerifyOptions(most=max(counts), symbols_each=200, times=(0.1,), count=3)
    assert len([each for each in findings_of(model, task, few) if each.every]) < len(counts)


def test_sentences_are_read_as_a_tree():
    """The margins equal those of single sentences."""
    torch.manual_seed(4)
    task = make_task("svo_sov")
    model = model_of(task, memory={"name": "queue", "width": 4}, hidden_size=6)
    batch = task.every(4, 2)
    margins, _ = walk(Network(model), batch, 5, task.objective)
    torch.testing.assert_close(margins, assess(model, batch, task.objective).margin)


@pytest.mark.parametrize("name", ["programs", "small_loops", "answer_reverse", "copy"])
def test_a_wrong_answer_is_shown_in_full(name):
    torch.manual_seed(5)
    task = make_task(name, train_lengths="1:2", test_lengths="3:3")
    model = model_of(task, memory={"name": "queue", "width": 4}, hidden_size=6)
    options = VerifyOptions(most=0, times=(1.5,), count=4)
    *_, drawn = findings_of(model, task, options)
    assert (drawn.length, drawn.correct) == (3, 0)
    source, target = task.example(options.seed, "test", 0, LengthRange(3, 3))
    assert drawn.wrong == f"{shortened(list(source))} ||| {shortened(list(target))}"


def test_a_model_of_a_gpu_is_verified_on_the_cpu(monkeypatch):
    """Strings are on the CPU, where its kernels are not available."""
    model, task = constructions.copy(symbols=3), make_task("copy", symbols=3)
    for part in model.modules():
        if isinstance(part, MemoryRNN):
            part.backend = "cuda"
    moved, to = [], torch.nn.Module.to
    monkeypatch.setattr(
        torch.nn.Module, "to", lambda part, device: moved.append(device) or to(part, device)
    )
    looked = []
    monkeypatch.setattr(
        sys.modules[extract.__module__],
        "certainties",
        lambda *arguments, **options: looked.append(options) or certainties(*arguments, **options),
    )
    options = VerifyOptions(symbols_each=100, times=(0.125,), count=5)
    assert all(each.correct == each.count for each in findings_of(model, task, options))
    assert set(moved) == {torch.device("cpu")}
    with pytest.raises(BackendError):  # gates are measured on the model's device
        extract(model, task, budget=300)
    assert looked[0]["device"] == next(model.parameters()).device


@pytest.mark.parametrize("controller", ["lstm", "transformer", "deltaproduct"])
def test_a_network_without_a_memory_is_walked_as_a_tree(controller):
    torch.manual_seed(3)
    task = make_task("answer_copy", symbols=2)
    model = model_of(task, memory="none",
        controller=controller, hidden_size=8,
    ).double().eval()  # fmt: skip
    batch = task.every(3, 2)
    margins, certainty = walk(Network(model), batch, 4, task.objective)
    assert certainty is None
    torch.testing.assert_close(margins, assess(model, batch, task.objective).margin)
