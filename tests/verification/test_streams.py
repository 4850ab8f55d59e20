"""Every sequence of a stream task is listed once, and verified alone from a fresh memory."""

from __future__ import annotations

import itertools
import json

import pytest
import torch

from tests.verification.runs import constructed_run
from unbounded import constructions
from unbounded.cli import main
from unbounded.errors import ConfigError
from unbounded.tasks import make_task
from unbounded.tasks.streams import SequenceSource, lay_out_alone
from unbounded.verification import VerifyOptions, findings_of


def texts(task, n):
    drawn = task.source.every(n)
    return [
        "".join(task.source.alphabet[symbol] for symbol in row[:length])
        for row, length in zip(drawn.symbols.tolist(), drawn.lengths.tolist(), strict=True)
    ]


def sums(n):
    """All sums of two numbers with n digits together, in plain Python."""
    numbers = {0: ["0"], **{k: [f"{v:b}" for v in range(2 ** (k - 1), 2**k)] for k in range(1, n)}}
    numbers[n] = [f"{v:b}" for v in range(2 ** (n - 1), 2**n)]
    pairs = [(a, b) for k in range(n + 1) for a in numbers[k] for b in numbers[n - k]]
    return [f"{a}+{b}={int(a, 2) + int(b, 2):b}." for a, b in pairs]


EVERY = {
    "anbn": (5, ["aaaaabbbbb"]),
    "anbncn": (3, ["aaabbbccc"]),
    "anb2n": (2, ["aabbbb"]),
    "anbmc_sum": (3, ["abbccc", "aabccc"]),
    "anbmcndm": (3, ["aabccd", "abbcdd"]),
    "memorization": (
        2,
        ["".join(w) + "=" + "".join(w[::-1]) for w in itertools.product("12", repeat=2)],
    ),
}


@pytest.mark.parametrize("name", EVERY)
def test_every_sequence_of_one_n(name):
    n, expected = EVERY[name]
    task = make_task(name)
    assert sorted(texts(task, n)) == sorted(expected)
    assert [task.source.count_of(k) for k in range(n + 1)] == [
        len(texts(task, k)) if k >= task.source.shortest else 0 for k in range(n + 1)
    ]


@pytest.mark.parametrize("n", [1, 2, 5])
def test_every_sum(n):
    task = make_task("binary_addition")
    lowest_first = []
    for text in sums(n):
        head, answer = text[:-1].split("=")
        lowest_first.append(f"{head}={answer[::-1]}.")
    assert sorted(texts(task, n)) == sorted(lowest_first)
    assert task.source.count_of(n) == len(lowest_first)


def test_drawn_sequences_are_among_the_listed_ones():
    for name in ("anbmc_product", "anb2n", "memorization", "binary_addition"):
        task = make_task(name)
        drawn = {
            "".join((*example.source, *example.target))
            for example in task.examples(1, "test", 0, 60, task.train_lengths.of((4, 4)))
        }
        assert drawn <= set(texts(task, 4)), name


@pytest.mark.parametrize("name", ["anbn", "memorization"])
def test_a_single_sequence_is_laid_out_like_the_first_of_a_stream(name):
    task = make_task(name, sequences=2)
    lengths = task.train_lengths.of((3, 3))
    judged = task.judged(5, "test", 0, 3, lengths)
    stream = task.source.draw(_stream(5), 0, 6, lengths)
    alone = lay_out_alone(type(stream)(*(field[::2] for field in stream)), task.source)
    for row in range(3):
        steps = int(alone.lengths[row])
        counts = judged.judged[row, :steps] == 0
        assert torch.equal(alone.inputs[row, :steps], judged.batch.inputs[row, :steps])
        assert torch.equal(alone.mask[row, :steps], counts)
        assert torch.equal(
            alone.targets[row, :steps][counts], judged.batch.targets[row, :steps][counts]
        )


def _stream(seed):
    from unbounded.tasks.randomness import Stream

    return Stream(seed, "test")


def test_a_source_without_a_listing_raises_an_error():
    class Own(SequenceSource):
        def draw(self, stream, start, size, lengths):
            raise AssertionError("nobody asks it to draw")

    assert Own().count_of(3) is None
    with pytest.raises(ConfigError, match="Own: its sequences of one n cannot be listed"):
        Own().every(3)


@pytest.mark.parametrize("name", ["anbn", "anbmcndm", "memorization", "binary_addition"])
def test_a_constructed_network_is_correct_everywhere(name):
    options = VerifyOptions(most=30, symbols_each=500, times=(1.5, 4), count=5)
    findings = list(findings_of(constructions.CONSTRUCTIONS[name](), make_task(name), options))
    assert all(finding.correct == finding.count for finding in findings)
    assert all(finding.margin > 10 and finding.certainty == 1 for finding in findings)
    listed = [finding.length for finding in findings if finding.every and finding.length <= 28]
    assert listed == list(range(listed[0], listed[-1] + 1))
    assert {28, 76} <= {finding.length for finding in findings}


def test_a_network_of_another_task_is_wrong():
    options = VerifyOptions(most=5, times=())
    findings = list(findings_of(constructions.anb2n(), make_task("anbn"), options))
    assert [finding.length for finding in findings] == [1, 2, 3, 4, 5]
    assert all(finding.correct == 0 for finding in findings)
    assert findings[1].wrong == "a a b b"


def test_the_command(tmp_path, capsys):
    run = constructed_run(tmp_path, "anbn")
    assert main(["verify", str(run), "--most", "12", "--times", "2"]) == 0
    out = capsys.readouterr().out
    assert "proven by enumeration: all 14 sequences of length 1:12, 19, 38 are correct" in out
    report = json.loads((run / "verification-model.json").read_text())
    assert report["format"] == "unbounded-verification"
    assert report["finished"] is True
    assert report["weights"] == "model"
    assert report["proven"] == [
        {"lengths": "1:12", "count": 12},
        {"lengths": "19", "count": 1},
        {"lengths": "38", "count": 1},
    ]
    assert (report["correct_up_to"], report["first_error"]) == (38, None)
    assert report["predicted"]["first_error"] is None
