"""Constructed language models are exact after the mark, and uniform before it."""

from __future__ import annotations

import pytest
import torch

from unbounded import constructions
from unbounded.errors import ChoiceError
from unbounded.extraction.extract import listed_strings
from unbounded.tasks import LengthRange, make_task
from unbounded.verification import VerifyOptions, findings_of

LANGUAGES = ["marked_reversal", "marked_copy"]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("symbols", [2, 5])
def test_the_part_after_the_mark_is_verified_at_ten_times_the_length_of_training(language, symbols):
    model = constructions.stack_language(language, symbols)
    task = make_task("stack_language", language=language, symbols=symbols)
    findings = list(findings_of(model, task, VerifyOptions(most=7, times=(1, 10), count=3)))
    every = [finding.count for finding in findings if finding.every]
    assert every == [symbols**size for size in range(4)]
    assert findings[-1].length == 800
    assert all(finding.correct == finding.count for finding in findings)
    assert all(finding.certainty == 1 and finding.displaced == 0 for finding in findings)


def test_before_the_mark_all_symbols_are_equally_likely():
    task = make_task("stack_language")
    batch = task.batch(1, "test", 0, 3, LengthRange(9, 9))
    logits = constructions.stack_language()(batch.inputs)[0]
    # The output </s> comes first.
    assert logits[:, :5, 1:].unique().tolist() == [0.0]
    assert (logits[:, :5, 0] == -20).all()


def test_a_network_of_another_language_is_wrong():
    task = make_task("stack_language", language="marked_copy")
    options = VerifyOptions(most=5, times=())
    findings = list(findings_of(constructions.stack_language(), task, options))
    assert [finding.correct for finding in findings] == [1, 2, 2]
    assert findings[-1].wrong == "<s> 0 1 # 0 1"


def test_strings_are_listed_for_an_extraction():
    batch, length = listed_strings(make_task("stack_language"), 2, 200)
    assert length >= 7
    assert torch.equal(batch.mask.sum(dim=1), batch.lengths // 2)


def test_other_languages_are_refused():
    with pytest.raises(ChoiceError, match="language"):
        constructions.stack_language("unmarked_copy")
