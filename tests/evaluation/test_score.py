from __future__ import annotations

from pathlib import Path

import pytest
import torch
from scipy.stats import binomtest

from tests.experiments.tiny import planned, tiny
from unbounded.errors import ConfigError
from unbounded.evaluation import Score, make_report, score, table
from unbounded.evaluation.metric_sets.sequences import row
from unbounded.evaluation.score import wilson
from unbounded.experiments.config.check import build_task
from unbounded.experiments.run.run import train_run
from unbounded.experiments.run.run_folder import RunFolder
from unbounded.models import MemoryModel, generate
from unbounded.tasks import LengthRange, TransductionTask

RANGE = LengthRange(1, 5)


@pytest.fixture(scope="module")
def half_trained(tmp_path_factory: pytest.TempPathFactory) -> MemoryModel:
    """A model that is correct on some sequences and wrong on others."""
    root: Path = tmp_path_factory.mktemp("runs")
    config = tiny(batches=120, accuracy_every=0)
    folder = train_run(config, root=root, quiet=True).folder
    return RunFolder(folder).load_model()[0].eval()


def task() -> TransductionTask:
    tiny_task = build_task(tiny())
    assert isinstance(tiny_task, TransductionTask)
    return tiny_task


def test_chunks_do_not_change_scores(half_trained: MemoryModel) -> None:
    tiny_task = task()

    def scored(chunk_tokens: int) -> Score:
        return score(
            half_trained,
            tiny_task,
            seed=1,
            split="test",
            lengths=RANGE,
            count=50,
            chunk_tokens=chunk_tokens,
        )

    full = scored(10**6)
    assert 0 < full.correct < 50
    assert scored(30) == full
    assert scored(1) == full


def test_start_and_count_choose_the_examples(half_trained: MemoryModel) -> None:
    tiny_task = task()
    parts = [
        score(half_trained, tiny_task, seed=1, split="test", lengths=RANGE, count=n, start=start)
        for n, start in ((30, 0), (20, 30), (50, 0))
    ]
    assert parts[0].correct + parts[1].correct == parts[2].correct
    mean = (30 * parts[0].partial_accuracy + 20 * parts[1].partial_accuracy) / 50
    assert mean == pytest.approx(parts[2].partial_accuracy, abs=1e-12)


def test_teacher_forcing_scores_as_greedy_generation_does(half_trained: MemoryModel) -> None:
    tiny_task = task()
    count = 200
    prompt = tiny_task.prompt(1, "test", 0, count, RANGE)
    outputs = generate(
        half_trained.sequence,
        prompt.inputs,
        prompt.lengths,
        tiny_task.output_to_input,
        tiny_task.end_token,
        max_length=int(prompt.target_lengths.max()),
    )
    correct, partial_accuracy = 0, 0.0
    for number in range(count):
        length = int(prompt.target_lengths[number])
        target = prompt.targets[number, :length].tolist()
        got = outputs[number, :length].tolist()
        got += [-1] * (length - len(got))
        same = [a == b for a, b in zip(target, got, strict=True)]
        correct += all(same)
        partial_accuracy += (same.index(False) if not all(same) else length) / length
    forced = score(half_trained, tiny_task, seed=1, split="test", lengths=RANGE, count=count)
    assert 0 < correct < count
    assert forced.correct == correct
    assert forced.partial_accuracy == pytest.approx(partial_accuracy / count, abs=1e-12)


def test_check_can_early_abort(half_trained: MemoryModel) -> None:
    def check() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        score(half_trained, task(), seed=1, split="test", lengths=RANGE, count=5, check=check)


def test_count_below_one_is_an_error() -> None:
    own = planned(tiny())
    with pytest.raises(ConfigError, match="count must be at least 1, got 0"):
        score(own.model(), own.task, seed=1, split="test", lengths=RANGE, count=0)


def test_wilson_interval_by_hand() -> None:
    # p = 0.9, n = 100, z = 1.959964: (p + z^2/2n +- z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n)
    low, high = Score(count=100, correct=90, partial_accuracy=1.0, partial_error=0.0).interval()
    assert low == pytest.approx(0.825634, abs=1e-6)
    assert high == pytest.approx(0.944771, abs=1e-6)
    low, high = Score(count=1000, correct=1000, partial_accuracy=1.0, partial_error=0.0).interval()
    assert low == pytest.approx(0.996173, abs=1e-6)
    assert high == 1.0


def test_report_has_settings_origin_and_counts() -> None:
    scored = Score(count=1000, correct=999, partial_accuracy=0.9995, partial_error=1e-4)
    rows = [row(LengthRange(65, 128), scored, "test")]
    report = make_report(
        task="copy", metric_set="sequences", split="test", seed=7, rows=rows, batches=3
    )
    assert report["format"] == "unbounded-report"
    assert report["seed"] == 7
    assert report["batches"] == 3
    assert report["versions"]["torch"] == torch.__version__
    assert set(report["hardware"]) == {"processor", "cores", "threads", "kernels"}
    text = table(report)
    assert "65:128" in text
    assert "0.999" in text
    assert text.splitlines()[0] == "copy, split test, seed 7"


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_wilson_interval_is_that_of_scipy(confidence: float) -> None:
    for count in (1, 2, 7, 59, 199, 1000, 11741):
        for correct in {0, 1, count // 3, count - 1, count}:
            result = binomtest(correct, count).proportion_ci(confidence, method="wilson")
            assert wilson(correct, count, confidence) == pytest.approx(result, abs=1e-12)
