from __future__ import annotations

import json
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file

from tests.experiments.tiny import assert_same_run, interrupted, metrics, tiny
from tests.sweep import diagonal
from unbounded.errors import ConfigError, NonFiniteError
from unbounded.evaluation.provenance import kernels
from unbounded.experiments.config.check import errors
from unbounded.experiments.config.compose import composed, overlay, preset_of
from unbounded.experiments.config.identity import config_hash, run_name, with_id
from unbounded.experiments.config.schema import from_dict, to_dict
from unbounded.experiments.run import build
from unbounded.experiments.run.evaluate import evaluate_run
from unbounded.experiments.run.numerics import device_of, matmul_precision
from unbounded.experiments.run.run import train_run
from unbounded.experiments.run.run_folder import RunFolder
from unbounded.kernels import available, has_tiles
from unbounded.models import MemoryModel
from unbounded.tasks import LengthRange
from unbounded.training.checkpoint import checkpoint_folders
from unbounded.training.metrics_log import MetricsLog


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_run(tiny(), root=tmp_path_factory.mktemp("whole"), quiet=True).folder


def test_a_run_folder_has_all_files(uninterrupted: Path) -> None:
    assert uninterrupted.name == run_name(tiny())
    assert uninterrupted.name.startswith("copy-queue-lstm-")
    assert uninterrupted.name.endswith("-seed3")
    names = {path.name for path in uninterrupted.iterdir() if not path.name.startswith(".")}
    assert {"config.yaml", "metrics.jsonl", "checkpoints", "model", "report.json"} <= names
    saved = yaml.safe_load((uninterrupted / "config.yaml").read_text())
    assert saved.pop("used") == {"threads": 1, "kernels": kernels()}
    assert from_dict(saved) == with_id(tiny())
    report = json.loads((uninterrupted / "report.json").read_text())
    assert report["split"] == "test"
    assert [each["lengths"] for each in report["rows"]] == ["1:3", "4:6", "7:12"]
    assert report["batches"] == 40
    assert report["stopped"] == "budget: 40 batches are done"


def test_metrics_are_written_when_due(uninterrupted: Path) -> None:
    lines = metrics(uninterrupted)
    assert [line["batch"] for line in lines if line["kind"] == "train"] == [10, 20, 30, 40]
    accuracies = [(line["batch"], line["lengths"]) for line in lines if line["kind"] == "accuracy"]
    assert accuracies == [(20, "1:3"), (20, "4:6"), (40, "1:3"), (40, "4:6")]
    assert [line["batch"] for line in lines if line["kind"] == "validation"] == [20, 40]


def test_only_the_last_two_checkpoints_stay(uninterrupted: Path) -> None:
    kept = [path.name for path in checkpoint_folders(uninterrupted / "checkpoints")]
    assert kept == ["batch-000000040", "batch-000000030"]
    assert len(list((uninterrupted / "checkpoints").iterdir())) == 2


def test_the_saved_model_is_the_trained_model(uninterrupted: Path) -> None:
    model = MemoryModel.from_pretrained(uninterrupted / "model")
    newest = checkpoint_folders(uninterrupted / "checkpoints")[0]
    again = MemoryModel.from_pretrained(newest)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name]), name


def test_the_model_card_has_task_training_and_scores(uninterrupted: Path) -> None:
    card = (uninterrupted / "model" / "README.md").read_text(encoding="utf-8")
    report = json.loads((uninterrupted / "report.json").read_text())
    assert "Needed" not in card
    for line in (
        "| task | copy |",
        f"| lengths of training | {report['train_lengths']} |",
        f"| seed | {report['seed']} |",
        f"| batches of training | {report['batches']} |",
        f"| trained parameters | {report['parameters']} |",
        "# queue-lstm on copy",
        "Copy the source: a_1 ... a_k to a_1 ... a_k.",
    ):
        assert line in card.splitlines(), line
    for row in report["rows"]:
        assert f"| {row['lengths']} | {row['count']} | {row['exact_match']:.3f} |" in card


def test_the_model_card_lists_the_limits_of_the_model(uninterrupted: Path) -> None:
    card = (uninterrupted / "model" / "README.md").read_text(encoding="utf-8")
    limits = card.partition("## What it cannot do\n\n")[2].partition("\n\n")[0].splitlines()
    report = json.loads((uninterrupted / "report.json").read_text())
    assert report["success"] is False
    wrong = [
        f"{100 - 100 * row['exact_match']:.1f} % at {row['lengths']}"
        for row in report["rows"]
        if row["exact_match"] < 1
    ]
    assert wrong
    assert limits == [
        "* It does not solve the task. Solved means: test exact match 1.00.",
        f"* Wrong sequences by length: {', '.join(wrong)}.",
        "* No sequence longer than 12 was scored.",
        "* Its gates take values between 0 and 1, so that errors can add up over the steps.",
        "* It knows the 8 input symbols of its task, no other.",
        "* It is the result of one seed. Another seed may not learn the task.",
    ]


def test_the_code_of_the_model_card_runs(
    uninterrupted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    card = (uninterrupted / "model" / "README.md").read_text(encoding="utf-8")
    code = "".join(part.partition("```")[0] for part in card.split("```python\n")[1:])
    exec(code.replace("FOLDER", str(uninterrupted / "model")), names := {})
    targets, outputs = capsys.readouterr().out.splitlines()
    assert len(targets.split()) == len(outputs.split())
    example = names["task"].example(3, "test", 0, LengthRange(1, 3))
    assert targets.split()[: len(example.target)] == list(example.target)


def test_resume_and_overwrite_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="exclude each other"):
        train_run(tiny(), root=tmp_path, quiet=True, resume=True, overwrite=True)


def test_a_finished_run_returns_its_report_again(uninterrupted: Path) -> None:
    before = (uninterrupted / "metrics.jsonl").read_bytes()
    result = train_run(tiny(), root=uninterrupted.parent, quiet=True, resume=True)
    assert not result.fresh
    assert result.report["batches"] == 40
    assert (uninterrupted / "metrics.jsonl").read_bytes() == before


CODES = {
    signal.SIGINT: 130,
    signal.SIGTERM: 143,
    signal.SIGUSR1: 143,
    signal.SIGUSR2: 143,
    signal.SIGXCPU: 143,
}


@pytest.mark.parametrize(("number", "record"), diagonal(CODES, [0, 2, 3, 4, 7], share=4))
def test_a_signal_saves_and_resume_ends_the_same(
    uninterrupted: Path, tmp_path: Path, number: signal.Signals, record: int
) -> None:
    """The signal comes while the n-th record is written: directly after a step."""
    before = signal.getsignal(number)
    with interrupted(MetricsLog, "append", lambda n, *_: n == record, number) as caught:
        train_run(tiny(), root=tmp_path, quiet=True)
    assert caught.value.exit_code == CODES[number]
    assert signal.getsignal(number) == before
    folder = tmp_path / run_name(tiny())
    assert (folder / "config.yaml").exists()
    assert not (folder / "report.json").exists()
    train_run(tiny(), root=tmp_path, quiet=True, resume=True)
    assert_same_run(uninterrupted, folder)


@pytest.mark.parametrize(
    ("asked", "cuda", "mps", "device"),
    [
        ("auto", True, False, "cuda"),
        ("cpu", True, True, "cpu"),
        ("cuda", True, False, "cuda"),
        ("auto", False, True, "mps"),
        ("auto", False, False, "cpu"),
    ],
)
@pytest.mark.parametrize("update", ["chunk", "per_symbol"])
def test_the_device_of_a_run(
    asked: str, cuda: bool, mps: bool, device: str, update: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    config = tiny(update=update)
    config.hardware.device = asked
    assert device_of(config).type == (device if update == "chunk" else "cpu")
    accelerator_options: dict[str, Any] = {}
    monkeypatch.setattr(build, "Accelerator", lambda **options: accelerator_options.update(options))
    build.make_accelerator(config)
    assert accelerator_options["cpu"] is (asked == "cpu" or update == "per_symbol")


def test_the_matmul_precision_is_restored_and_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tiny(batches=2, accuracy_every=0)
    config.hardware.matmul_precision = "medium"
    before = torch.get_float32_matmul_precision()
    result = train_run(config, root=tmp_path)
    assert torch.get_float32_matmul_precision() == before
    assert torch.backends.cudnn.allow_tf32
    used = ", products of medium precision" if has_tiles() else ""
    assert result.report["hardware"]["kernels"] == f"{kernels()}{used}"
    assert "trained_with" not in result.report
    assert f"kernels: {kernels()}{used}, threads: 1" in capsys.readouterr().out
    # It is not part of the name, but a run does not resume with another precision.
    assert run_name(config) == run_name(tiny(batches=2, accuracy_every=0))
    (result.folder / "report.json").unlink()
    config.hardware.matmul_precision = None
    with pytest.raises(
        ConfigError, match="expected medium, with which this run started, got highest"
    ):
        train_run(config, root=tmp_path, resume=True)
    config.hardware.matmul_precision = "medium"
    train_run(config, root=tmp_path, resume=True)
    config.hardware.matmul_precision = "high"
    train_run(config, root=tmp_path, overwrite=True)


@pytest.mark.parametrize("asked", [None, "highest", "high", "medium"])
def test_lstms_of_a_gpu_have_the_precision_of_all_products(asked: str | None) -> None:
    cudnn = torch.backends.cudnn
    assert cudnn.rnn.fp32_precision == "tf32"  # torch's own
    before = precisions()
    with matmul_precision(asked):
        assert cudnn.allow_tf32 is (asked in ("high", "medium"))
        assert (cudnn.rnn.fp32_precision == "tf32") is cudnn.allow_tf32
        if asked is None:
            assert precisions()["products"] == before["products"]
    after = precisions()
    assert after["cudnn"] == before["cudnn"]
    assert asked is not None or after == before


def precisions() -> dict[str, list[str]]:
    """The precisions set by the process, in torch's newer settings."""
    own = torch.backends
    cudnn = [own.cudnn.fp32_precision, own.cudnn.rnn.fp32_precision, own.cudnn.conv.fp32_precision]
    products = [own.cuda.matmul.fp32_precision, own.mkldnn.matmul.fp32_precision]
    return {"cudnn": cudnn, "products": [*products, own.fp32_precision]}


def test_an_evaluation_has_all_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = train_run(tiny(batches=2, accuracy_every=0), root=tmp_path, quiet=True).folder
    hardened = []
    monkeypatch.setattr(
        "unbounded.experiments.run.evaluate.make_report",
        lambda *arguments, **options: hardened.append(torch.backends.cudnn.allow_tf32) or {},
    )
    evaluate_run(folder)
    assert hardened == [False]


@pytest.mark.parametrize("asked", [None, "highest", "high"])
def test_precision_settings_of_a_process_are_kept(asked: str | None) -> None:
    cudnn = torch.backends.cudnn
    cudnn.rnn.fp32_precision = "ieee"
    try:
        with matmul_precision(asked):
            assert cudnn.rnn.fp32_precision == "ieee"
        assert cudnn.rnn.fp32_precision == "ieee"
    finally:
        cudnn.allow_tf32 = True
        cudnn.rnn.fp32_precision = "tf32"


def test_a_precision_with_torchs_newer_settings_is_refused(tmp_path: Path) -> None:
    config = tiny(batches=2, accuracy_every=0)
    config.hardware.matmul_precision = "medium"
    torch.backends.mkldnn.matmul.fp32_precision = "bf16"
    try:
        with pytest.raises(ConfigError, match=r"set torch.backends.\*.fp32_precision"):
            train_run(config, root=tmp_path, quiet=True)
    finally:
        torch.backends.mkldnn.matmul.fp32_precision = "none"


@pytest.mark.parametrize("precision", ["high", "medium"])
def test_a_run_of_lower_precision_resumes_bit_by_bit(tmp_path: Path, precision: str) -> None:
    def run(name: str, precision: str | None) -> Path:
        config = tiny(accuracy_every=0)
        config.hardware.matmul_precision = precision
        return train_run(config, root=tmp_path / name, resume=True, quiet=True).folder

    full, other = run("whole", precision), run("other", precision)
    (other / "report.json").unlink()
    shutil.rmtree(checkpoint_folders(other / "checkpoints")[0])
    assert_same_run(run("other", precision), full)
    if not has_tiles():  # torch's own products may have less precision there
        return
    exact = load_file(run("exact", None) / "model/model.safetensors")
    less = load_file(full / "model/model.safetensors")
    assert not all(torch.equal(exact[name], less[name]) for name in exact)


def test_nan_stops_with_step_and_tensor_and_leaves_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from unbounded.models import SequenceModel

    forward, calls = SequenceModel.forward, 0

    def poisoned(model: SequenceModel, *arguments: Any, **named: Any) -> Any:
        nonlocal calls
        if model.training:
            calls += 1
        if calls == 25:
            with torch.no_grad():
                model.output.weight[1, 2] = float("nan")
        return forward(model, *arguments, **named)

    monkeypatch.setattr(SequenceModel, "forward", poisoned)
    with pytest.raises(NonFiniteError) as caught:
        train_run(tiny(accuracy_every=0, stop="budget"), root=tmp_path, quiet=True)
    assert "stopped in batch 25" in str(caught.value)
    assert "parameter sequence.output.weight (1 NaN and 0 infinite of " in str(caught.value)
    kept = checkpoint_folders(
        tmp_path / run_name(tiny(accuracy_every=0, stop="budget")) / "checkpoints"
    )
    assert [path.name for path in kept] == ["batch-000000015"]


def test_minutes_are_a_budget(tmp_path: Path) -> None:
    config = tiny(minutes=1e-9, accuracy_every=0)
    report = train_run(config, root=tmp_path, quiet=True).report
    assert report["batches"] == 1
    assert report["stopped"] == "budget: 1e-09 minutes are over"


def test_the_hash_ignores_seed_and_hardware() -> None:
    assert config_hash(tiny()) == config_hash(from_dict(to_dict(tiny())))
    other = tiny()
    other.seed, other.hardware.threads = 9, 2
    assert config_hash(other) == config_hash(tiny())
    other.training.learning_rate = 0.5
    assert config_hash(other) != config_hash(tiny())


def test_a_model_without_memory_trains_too(tmp_path: Path) -> None:
    config = tiny(batches=3, accuracy_every=0)
    config.model.memory, config.model.readout_size = {"name": "none"}, None
    config.model.controller["num_layers"] = 2
    result = train_run(config, root=tmp_path, quiet=True)
    assert result.report["model"] == "lstm-2"
    assert not (result.folder / "traces").exists()


def test_no_trace_is_kept_of_a_very_long_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("unbounded.experiments.run.run._MOST_TRACED", 3)
    result = train_run(tiny(batches=1, accuracy_every=0), root=tmp_path)
    assert "no trace is kept: the example has " in capsys.readouterr().out
    assert not (result.folder / "traces").exists()


@pytest.mark.skipif(not available().ok, reason=available().reason)
def test_a_run_on_kernels_only_is_trained_hardened_traced_and_scored(tmp_path: Path) -> None:
    config = tiny(batches=4)
    config.hardware.backend = "cpu"
    config.hardening = {"name": "gradual", "batches": 2, "every": 1, "tolerance": 1.0}
    folder = train_run(config, root=tmp_path, quiet=True).folder
    report = RunFolder(folder).report()
    assert report is not None
    assert report["hardened"]["batches"] == 2
    assert (folder / "traces" / "example.json").is_file()
    assert evaluate_run(folder, discretize=True)["discretized"]


@pytest.mark.parametrize(
    ("model", "precision", "message"),
    [
        ({"memory": "none", "controller": "srcn"}, "no", "no kernel is built for srcn"),
        ({"memory": "none", "controller": "gru"}, "bf16", "the kernels train in full precision"),
        ({"memory": "queue", "controller": "lstm"}, "bf16", "the kernels train in full precision"),
    ],
)
def test_unsupported_kernels_are_an_error_before_training(
    model: dict[str, Any], precision: str, message: str
) -> None:
    config = composed(overlay(preset_of("copy"), {"model": model}))
    config.hardware.backend = "cpu"
    config.training.precision = precision
    assert [each for each in errors(config) if message in each]


def test_a_run_with_an_id_is_resumed_with_its_own_config_only(tmp_path: Path) -> None:
    config = replace(tiny(batches=4, accuracy_every=0), id="mine")
    folder = train_run(config, root=tmp_path, quiet=True).folder
    assert folder == tmp_path / "mine"
    assert not train_run(config, root=tmp_path, quiet=True, resume=True).fresh
    others = [replace(config, seed=7)]
    others.append(replace(config, training=replace(config.training, learning_rate=0.5)))
    for report in (True, False):
        for other, option in zip(others, ("seed", "training.learning_rate"), strict=True):
            with pytest.raises(ConfigError, match=rf"mine has another config \({option}\)"):
                train_run(other, root=tmp_path, quiet=True, resume=True)
        if report:
            (folder / "report.json").unlink()
    assert train_run(others[0], root=tmp_path, quiet=True, overwrite=True).fresh
