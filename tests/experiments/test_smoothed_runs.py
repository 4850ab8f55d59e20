"""Smoothed labels together with half precision and hardening."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.experiments.tiny import metrics, tiny
from tests.experiments.tiny_streams import tiny_streams
from unbounded.experiments.run.run import train_run


def losses(root: Path, **training: object) -> list[float]:
    folder = train_run(tiny(batches=20, **training), root=root, quiet=True).folder
    lines = [line for line in metrics(folder) if line["kind"] == "train"]
    return [line["loss_nats_per_token"] for line in lines]


def test_half_precision_is_close_to_float32(tmp_path: Path) -> None:
    smoothed = losses(tmp_path, label_smoothing=0.4)
    assert losses(tmp_path, label_smoothing=0.4, precision="bf16") == pytest.approx(
        smoothed, rel=0.02
    )
    assert losses(tmp_path) != pytest.approx(smoothed, rel=1e-4)


def test_hardening_uses_the_smoothed_loss(tmp_path: Path) -> None:
    config = tiny_streams(batches=20)
    own = {"batches": 4, "every": 1, "learning_rate": 0.1, "tolerance": 1.0}
    config.hardening = {"name": "gradual", **own}
    ends = []
    for share in (0.0, 0.4):
        # At this rate no weight changes before the hardening: the trained model is the same.
        config.training = dataclasses.replace(
            config.training, label_smoothing=share, learning_rate=1e-30
        )
        result = train_run(config, root=tmp_path, quiet=True)
        lines = [line for line in metrics(result.folder / "hardening") if line["kind"] == "train"]
        ends.append([line["loss_nats_per_token"] for line in lines])
    plain, smoothed = ends
    # A batch has several chunks, and only the first has the same weights; both losses are
    # reported without the smoothing.
    assert smoothed[0] == pytest.approx(plain[0], rel=0.05)
    assert smoothed != pytest.approx(plain, rel=1e-4)
