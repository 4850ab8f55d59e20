"""Trends of falling margins; a drifting network fails near the predicted length."""

from __future__ import annotations

import math

import pytest

from tests.verification.runs import softened
from unbounded import constructions
from unbounded.constructions.assembly import SCALE
from unbounded.tasks import make_task
from unbounded.verification import Finding, VerifyOptions, findings_of, predict, trend_of

LENGTHS = list(range(4, 65, 4))
COURSES = {
    "linear": (lambda n: 1 - n / 500, 500),
    "root": (lambda n: 1 - math.sqrt(n) / 20, 400),
    "logarithm": (lambda n: 7 - math.log(n), math.exp(7)),
    "one over root": (lambda n: 1 / math.sqrt(n) - 0.02, 2500),
}


@pytest.mark.parametrize("scale", COURSES)
def test_a_margin_that_falls_on_a_scale_ends_at_the_prediction(scale):
    margin, end = COURSES[scale]
    margins = [margin(n) for n in LENGTHS]
    margins[5] -= 0.01  # one outlier changes no line
    trend = trend_of(LENGTHS, margins)
    assert trend.scale == scale
    assert trend.reaches_zero == pytest.approx(end, rel=0.05)
    assert trend.lengths[1] == 64


def test_a_margin_that_falls_only_later_is_fitted_from_there():
    """Like those of an LSTM that counts: they rise up to the training lengths, then fall."""
    margins = [min(n, 20 + (20 - n) / 4) for n in LENGTHS]
    trend = trend_of(LENGTHS, margins)
    assert trend.lengths == (36, 64)
    assert trend.reaches_zero == pytest.approx(100, rel=0.01)


@pytest.mark.parametrize(
    "margin", [lambda n: 2.0, lambda n: n / 100, lambda n: 1 + 1 / math.sqrt(n)]
)
def test_a_margin_that_does_not_fall_to_0_never_ends(margin):
    assert trend_of(LENGTHS, [margin(n) for n in LENGTHS]).reaches_zero is None


def test_a_line_that_ends_at_a_correct_length_is_rejected():
    lengths = [10, 20, 40, 80, 160, 320, 640]
    margins = [0.5 - 0.09 * math.log(n / 2) + 0.02 * math.sqrt(n) for n in lengths]
    trend = trend_of(lengths, margins)
    assert trend.reaches_zero is None or trend.reaches_zero > 640


def test_few_lengths_make_no_trend():
    assert trend_of([1, 2, 3], [3.0, 2.0, 1.0]) is None


def test_errors_below_the_training_lengths_are_ignored():
    findings = [
        Finding(n, True, 1, int(n > 2), 1 - n / 100 if n > 2 else -1.0, None, None, None)
        for n in range(1, 30)
    ]
    prediction = predict(findings, shortest=4)
    assert (prediction["correct_up_to"], prediction["first_error"]) == (29, None)
    assert list(prediction["predicted"]["trends"]) == ["answers"]
    assert prediction["predicted"]["first_error"] == pytest.approx(100, abs=2)
    assert prediction["predicted"]["by"] == "answers"


def test_read_vectors_of_soft_gates_predict_nothing():
    findings = [Finding(n, True, 1, 1, 3.0, 0.8 - n / 99, n / 99, None) for n in range(1, 25)]
    prediction = predict(findings, shortest=1)
    assert list(prediction["predicted"]["trends"]) == ["answers"]
    assert prediction["predicted"]["first_error"] is None


@pytest.mark.parametrize("head", ["push", "pop"])
def test_a_drifting_queue_is_caught_at_the_predicted_length(head):
    """Each push or pop leaves 1 - certainty of a row; half of its inverse later, rows are mixed."""
    certainty = 0.99
    model = softened(constructions.copy(symbols=4), certainty, head)
    task = make_task("copy", symbols=4, train_lengths="4:16")
    options = VerifyOptions(symbols_each=200, times=(1.5, 2, 2.5, 3, 3.5, 4, 6), count=10)
    prediction = predict(list(findings_of(model, task, options)), 4)
    assert prediction["first_error"] in (56, 64)
    end = prediction["from_half"]["first_error"]
    assert end == pytest.approx(0.5 / (1 - certainty), rel=0.1)
    # Predicted from lengths up to 24, with a tenth to spare; observed at the next checked length.
    assert prediction["correct_up_to"] < 1.1 * end
    assert end < 1.1 * prediction["first_error"]
    assert prediction["from_half"]["by"] == "read_vectors"


def test_a_drifting_counter_is_caught_at_the_predicted_length():
    """It pops with strength 0.99. Mixtures widen as they drift: within a factor of 1.5."""
    model = constructions.anbn()
    layer = model.sequence.layer
    layer.layers[0].heads.weight[layer.layers[0].heads.rows("action").start + 1] *= (
        math.log(2 * 99) / SCALE
    )
    options = VerifyOptions(most=90, times=())
    prediction = predict(list(findings_of(model, make_task("anbn"), options)), 1)
    assert 60 <= prediction["first_error"] <= 80
    assert prediction["correct_up_to"] == prediction["first_error"] - 1
    assert prediction["from_half"]["first_error"] == pytest.approx(
        prediction["first_error"], rel=0.33
    )
    assert (
        prediction["from_half"]["trends"]["read_vectors"]["lengths"][1]
        <= prediction["correct_up_to"] / 2
    )
