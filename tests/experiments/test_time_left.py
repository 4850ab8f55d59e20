from __future__ import annotations

import json

import pytest

from tests.experiments.made_up import ended, tiny_study
from unbounded.experiments.trials.time_left import RunMinutes, TimeLeft, in_words, with_jobs


def test_minutes_of_a_run_are_estimated_from_the_nearest_measured_runs():
    # copy/queue and copy/lstm-1, of three seeds each.
    queue, queue_1, queue_2, lstm, *_ = trials = tiny_study().trials
    assert RunMinutes(trials, {}).of(queue) is None
    measured = {queue.name: 10.0, queue_1.name: 20.0, lstm.name: 3.0}
    expected = RunMinutes(trials, measured)
    assert [expected.of(trial) for trial in trials] == [10.0, 20.0, 15.0, 3.0, 3.0, 3.0]
    expected.add(queue_2, 90.0)
    assert expected.of(queue_2) == 90.0
    # For another cell the minutes of its task are used.
    assert RunMinutes(trials, {lstm.name: 3.0}).of(queue) == 3.0


def trained(runs, trial, batch):
    folder = runs / trial.name
    folder.mkdir(parents=True, exist_ok=True)
    record = {"kind": "train", "batch": batch, "perplexity": 2.0}
    (folder / "metrics.jsonl").write_text(json.dumps(record) + "\n")


def test_without_a_measured_run_the_budget_gives_the_time(tmp_path):
    first, second, third, *_ = trials = tiny_study(batches=100).trials
    now = 0.0
    left = TimeLeft([first, second, third], 2, RunMinutes(trials, {}), tmp_path, now=lambda: now)
    assert left.minutes() is None
    left.look([first, second])
    assert left.minutes() is None
    now = 600.0
    trained(tmp_path, first, 20)
    trained(tmp_path, second, 50)
    # 50 and 20 minutes in all, of which 10 are over; the third one takes 35.
    assert left.minutes() == pytest.approx((40 + 10 + 35) / 2)
    # It ends early; its time is the estimate for the others.
    left.ended(ended(first, 12.0))
    left.look([second, third])
    assert left.minutes() == pytest.approx(12)
    left.ended(ended(second, 1.0, 1))
    left.ended(ended(third, 12.0))
    assert left.minutes() == 0


def test_a_resumed_run_has_its_remaining_time(tmp_path):
    first, *_ = trials = tiny_study(batches=100).trials
    trained(tmp_path, first, 75)
    now = 0.0
    expected = RunMinutes(trials, {first.name: 40.0})
    left = TimeLeft([first], 1, expected, tmp_path, now=lambda: now)
    left.look([first])
    assert left.minutes() == pytest.approx(10)
    now = 900.0  # longer than expected: the estimate uses its budget
    trained(tmp_path, first, 90)
    assert left.minutes() == pytest.approx(10)
    # The time of a part is not used for a complete run.
    left.ended(ended(first, 25.0))
    assert expected.of(first) == 40.0


def test_jobs_share_the_minutes_and_runs_are_not_split():
    assert with_jobs([], 2) == 0
    assert with_jobs([10, 20, 30], 2) == 30
    assert with_jobs([10, 20, 30], 1) == 60


@pytest.mark.parametrize(
    ("minutes", "text"),
    [(0.2, "less than a minute"), (1, "1 minute"), (42.2, "42 minutes"), (150, "2.5 hours")],
)
def test_a_time_in_words(minutes, text):
    assert in_words(minutes) == text
