"""Constructed automata and answering stacks: exact by the task's rule, verified to length 5000."""

from __future__ import annotations

import pytest
import torch

from unbounded.constructions import CONSTRUCTIONS
from unbounded.errors import ChoiceError, ConfigError
from unbounded.evaluation import score
from unbounded.evaluation.metric_sets.answer_scores import answer_scores
from unbounded.tasks import LengthRange, make_task
from unbounded.tasks.languages import LANGUAGES
from unbounded.verification import VerifyOptions, findings_of

QUESTIONS = [
    "even_pairs",
    "modular_arithmetic",
    "parity_check",
    "cycle_navigation",
    "reverse_string",
    "stack_manipulation",
    "duplicate_string",
    "bucket_sort",
    "odds_first",
    "missing_duplicate_string",
    "next_parity",
    "next_cycle_navigation",
    "next_modular_arithmetic",
]


def judge(predicted, targets, mask):
    return answer_scores(predicted, targets, mask)[:2]


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("lengths", [None, LengthRange(480, 500)])
def test_answers_are_exact(name, lengths):
    model, task = CONSTRUCTIONS[name](), make_task(name)
    lengths = lengths or task.train_lengths
    found = score(model, task, seed=1, split="test", lengths=lengths, count=60, judge=judge)
    assert found.correct == 60


def test_both_variants_of_odds_first_answer_every_short_source():
    for variant in ("paper", "code"):
        model, task = CONSTRUCTIONS["odds_first"](variant), make_task("odds_first", variant=variant)
        findings = list(findings_of(model, task, VerifyOptions(most=7, times=())))
        assert [finding.correct for finding in findings] == [2**length for length in range(1, 8)]
    with pytest.raises(ChoiceError, match="variant"):
        CONSTRUCTIONS["odds_first"]("book")


@pytest.mark.parametrize("group", ["S3", "A4xZ5"])
def test_products_are_exact(group):
    model, task = CONSTRUCTIONS["word_problem"](group), make_task("word_problem", group=group)
    found = score(
        model, task, seed=1, split="test", lengths=LengthRange(200, 200), count=5, judge=judge
    )
    assert found.correct == 5


@pytest.mark.parametrize("language", list(LANGUAGES)[:7])
def test_recognition_of_regular_languages_is_exact(language):
    model, task = CONSTRUCTIONS["flare"](language), make_task("flare", language=language)
    for lengths in (LengthRange(1, 10), LengthRange(1, 200)):
        batch = task.batch(1, "test", 0, 100, lengths)
        with torch.no_grad():
            logits = model(batch.inputs)[0][..., 0]
        assert ((logits > 0).long() == batch.targets)[batch.mask].all()


def test_other_languages_are_refused():
    with pytest.raises(ConfigError, match="marked_copy is not regular"):
        CONSTRUCTIONS["flare"]("marked_copy")
    with pytest.raises(ConfigError, match="majority is not regular"):
        CONSTRUCTIONS["flare"]("majority")


@pytest.mark.parametrize("name", ["parity_check", "stack_manipulation"])
def test_a_network_is_verified_far_beyond_the_training_lengths(name):
    options = VerifyOptions(most=6, times=(125,), count=2)
    findings = list(findings_of(CONSTRUCTIONS[name](), make_task(name), options))
    assert findings[-1].length == 5000
    assert all(finding.correct == finding.count for finding in findings)
    assert [finding.count for finding in findings if finding.every] == (
        [2, 4, 8, 16, 32, 64] if name == "parity_check" else [2, 6, 30, 114, 390, 1266]
    )
