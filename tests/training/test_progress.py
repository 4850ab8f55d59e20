from __future__ import annotations

import io
import sys

import pytest

from unbounded.training.progress import Bar, PlainLines, Silent, describe, progress

TRAIN = {
    "kind": "train",
    "batch": 1000,
    "loss_nats_per_token": 0.25,
    "perplexity": 1.284,
    "sequences_per_s": 480.0,
}
LOOK = {
    "kind": "accuracy",
    "batch": 1000,
    "lengths": "65:128",
    "count": 1000,
    "exact_match": 0.5,
    "partial_accuracy": 0.75,
}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def drive(shown: Bar | PlainLines | Silent) -> None:
    shown.begin(0)
    for batch in range(1, 4):
        shown.step(batch, 0.25)
    shown.looking(3, "65:128", 1000)
    shown.record(TRAIN)
    shown.record(LOOK)
    shown.step(4, 0.125)
    shown.say("a word")


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", "160")
    with progress(10, 10) as shown:
        assert isinstance(shown, Bar)
        drive(shown)
    text = terminal.getvalue()
    assert "4/10" in text
    assert "loss 0.1250" in text
    assert "exact match 0.500 at 65:128" in text
    assert "sequences/s" in text
    assert "left" in text
    assert "a word" in text


def test_elsewhere_a_few_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(10, 10) as shown:
        assert isinstance(shown, PlainLines)
        drive(shown)
    out = capsys.readouterr().out
    assert out.splitlines() == [
        "batch 1000: loss 0.2500 nats/token, perplexity 1.2840, 480 sequences/s",
        "batch 1000: exact match 0.500, partial accuracy 0.750 on 1000 validation "
        "sequences of length 65:128",
        "a word",
    ]


def test_plain_lines_are_not_printed_for_every_report(capsys: pytest.CaptureFixture[str]) -> None:
    PlainLines(10).record({**TRAIN, "batch": 100})
    assert capsys.readouterr().out == ""


def test_a_slow_model_has_lines_between_two_reports(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    lines = PlainLines(100, every=50, batch_size=10, now=lambda: now)
    lines.begin(40)
    now = 25.0  # a check before the first batch, which does not count
    lines.step(41, 1.0)
    now = 29.0
    lines.step(42, 3.0)
    now = 30.0
    lines.step(42.25, 2.0)
    (line,) = capsys.readouterr().out.splitlines()
    assert line == (
        "batch 42.25 of 100: loss 2.0000 nats/token, 2.5 sequences/s, at most 0:03:51 left"
    )
    lines.step(43, 1.0)
    lines.record({**TRAIN, "batch": 50})
    lines.step(51, 1.0)
    assert "batch 51" not in capsys.readouterr().out


def test_slow_scoring_is_announced(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    lines = PlainLines(100, now=lambda: now)
    lines.say("stopped")
    lines.looking(9, "8:64", 1000)
    now = 6.0
    lines.looking(9, "65:128", 1000)
    lines.looking(9, "129:256", 1000)
    expected = ["stopped", "scoring 1000 sequences of length 65:128"]
    assert capsys.readouterr().out.splitlines() == expected


def test_scoring_after_training_has_a_line_a_range_and_the_time(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = 0.0
    lines = PlainLines(100, now=lambda: now)
    lines.scoring("1000 sequences of length 8:64", 0.0)
    now = 10.0
    lines.scoring("1000 sequences of length 65:128", 0.25)
    now = 20.0
    lines.scoring("1000 sequences of length 65:128", 0.5)
    now = 45.0
    lines.scoring("1000 sequences of length 65:128", 0.75)
    now = 60.0
    lines.scoring("", 1.0)
    assert capsys.readouterr().out.splitlines() == [
        "scoring 1000 sequences of length 8:64",
        "scoring 1000 sequences of length 65:128, 25% done in 10 s",
        "scoring 1000 sequences of length 65:128, 75% done in 45 s, about 0:00:15 left",
        "scored, 100% done in 60 s",
    ]


def test_scoring_after_training_has_a_bar_and_training_has_no_time_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", "160")
    with progress(1000, 10) as shown:
        assert isinstance(shown, Bar)
        for batch in range(1, 11):
            shown.step(batch, 0.25)
        shown.scoring("1000 sequences of length 65:128", 0.25)
        training, scoring = shown._bar.tasks
        assert training.time_remaining == 0
        assert (scoring.completed, scoring.total) == (25, 100)
        assert scoring.fields["numbers"] == "1000 sequences of length 65:128"
        shown.scoring("", 1.0)
        assert shown._bar.tasks[1].completed == 100
    assert "scoring" in terminal.getvalue()


def test_quiet_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(10, 10, quiet=True) as shown:
        assert isinstance(shown, Silent)
        drive(shown)
    assert capsys.readouterr().out == ""


def test_an_infinite_perplexity_has_a_line() -> None:
    assert "perplexity inf" in describe({**TRAIN, "perplexity": float("inf")})


def test_symbols_of_an_earlier_session_have_no_speed() -> None:
    assert "/s" in describe(TRAIN)
    assert "/s" not in describe({**TRAIN, "sequences_per_s": 0.0})
