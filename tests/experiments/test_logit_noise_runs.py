"""Hardening with noise on the logits of gates."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.experiments.tiny import tiny
from unbounded.experiments.run.run import train_run
from unbounded.training.hooks.logit_noise import LogitNoise


def test_the_offset_grows_with_the_inverse_temperature(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {}
    shifted = LogitNoise._shifted

    def noted(
        noise: LogitNoise, size: float, batch: int, chunk: int
    ) -> AbstractContextManager[None]:
        sizes[batch] = size
        return shifted(noise, size, batch, chunk)

    monkeypatch.setattr(LogitNoise, "_shifted", noted)
    config = tiny(batches=4)
    config.hardening = {
        "name": "gradual", "batches": 6, "every": 2, "factor": 2.0, "tolerance": 1.0,
        "logit_noise": 0.5,
    }  # fmt: skip
    report = train_run(config, root=tmp_path, quiet=True).report
    assert report["hardened"]["batches"] == 6
    # Sharpened after batches 1, 2 and 4; batch 0 has the gates' own temperature.
    assert sizes == {1: 0.5, 2: 1.5, 3: 1.5, 4: 3.5, 5: 3.5}
