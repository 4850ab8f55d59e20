"""A model with a Transformer: padding, saving, and errors of the config."""

from __future__ import annotations

import pytest
import torch

from tests.tolerances import assert_close
from unbounded.errors import ConfigError
from unbounded.evaluation.predictions import predictions, read_inputs
from unbounded.experiments.config.check import errors
from unbounded.experiments.config.compose import composed, overlay, preset_of
from unbounded.experiments.config.identity import model_name
from unbounded.models import MemoryModel, with_room
from unbounded.rnn import MemoryAttention
from unbounded.tasks import make_task


def make(**options):
    torch.manual_seed(0)
    controller = {"name": "transformer", "num_heads": 2, **options}
    task = make_task("reverse_string", train_lengths="2:6", test_lengths="7:8")
    model = MemoryModel(
        inputs=len(task.input_vocabulary), outputs=2, memory="none", controller=controller,
        hidden_size=8, embedding_size=None, length_token=task.answer_token,
    )  # fmt: skip
    return model.eval(), task


@pytest.mark.parametrize("bidirectional", [True, False])
def test_padding_of_a_batch_changes_no_logit(bidirectional):
    model, task = make(bidirectional=bidirectional)
    batch = task.batch(0, "train", 0, 6)
    assert len(set(batch.lengths.tolist())) > 1
    logits, _ = model(batch.inputs)
    for row, length in enumerate(batch.lengths.tolist()):
        alone, _ = model(batch.inputs[row : row + 1, :length])
        given, _ = model(batch.inputs[row : row + 1], lengths=[length])
        assert_close(logits[row, :length], alone[0], "without lengths")
        assert_close(given[0, :length], alone[0], "with lengths")


@pytest.mark.parametrize("bidirectional", [True, False])
def test_a_line_has_the_same_output_in_any_batch(bidirectional):
    model, task = make(bidirectional=bidirectional)
    inputs = read_inputs(task, ["01", "110100", "0"])
    together = predictions(model, task, inputs)
    for line, prediction in zip(inputs, together, strict=True):
        (alone,) = predictions(model, task, [line])
        assert prediction.symbols == alone.symbols
        assert prediction.probabilities == pytest.approx(alone.probabilities, rel=1e-5)


def test_a_transformer_is_saved_and_loaded(tmp_path):
    model, task = make(positions="relative")
    model.save_pretrained(tmp_path)
    inputs = task.batch(0, "train", 0, 3).inputs
    assert torch.equal(MemoryModel.from_pretrained(tmp_path)(inputs)[0], model(inputs)[0])
    assert "A Transformer whose steps attend" in (tmp_path / "README.md").read_text()


def config_errors(task, **model):
    return errors(composed(overlay(preset_of(task), {"model": {"memory": "none", **model}})))


@pytest.mark.parametrize("task", ["copy", "answer_copy", "anbn", "parity_check", "repeat_copy"])
def test_bidirectional_where_no_step_sees_the_answer(task):
    controller = {"name": "transformer", "bidirectional": True}
    found = config_errors(task, controller=controller, hidden_size=8)
    if task == "parity_check":
        assert found == []
    else:
        assert f"model.controller.bidirectional: a step would see the answer on task '{task}'" in (
            "\n".join(found)
        )


def test_sizes_are_checked_with_the_config():
    found = config_errors("parity_check", controller="transformer", hidden_size=6)
    assert found == ["model.controller: num_heads: expected a divisor of hidden_size 6, got 4."]
    found = config_errors("parity_check", controller={"name": "transformer", "positions": "sin"})
    assert "unknown positions 'sin'. Did you mean 'sinusoidal'?" in found[0]
    assert "Valid: alibi, none, relative, rotary, sinusoidal" in found[0]


def test_a_memory_by_name(tmp_path):
    memory = {"name": "stack", "width": 3}
    model, task = make(memory=memory, memory_layers=[1, 2], bidirectional=True)
    batch = task.batch(0, "train", 0, 6)
    logits, _ = model(batch.inputs)
    for row, length in enumerate(batch.lengths.tolist()):
        assert_close(logits[row, :length], model(batch.inputs[row : row + 1, :length])[0][0])
    model.save_pretrained(tmp_path)
    assert torch.equal(MemoryModel.from_pretrained(tmp_path)(batch.inputs)[0], logits)
    stacks = [part.memory.width for part in model.modules() if isinstance(part, MemoryAttention)]
    assert stacks == [3, 3]


def test_a_memory_has_room_for_longer_sequences():
    model, task = make(memory={"name": "superposition_stack", "count": 2, "capacity": 4})
    inputs = task.batch(0, "test", 0, 2).inputs
    roomy, symbols = with_room(model, inputs.shape[1])
    assert symbols == inputs.shape[1] > 4
    assert roomy(inputs)[0].shape[1] == inputs.shape[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"memory": "stak"}, "unknown memory 'stak'. Did you mean 'stack'?"),
        ({"memory": {"name": "stack", "widht": 3}}, "has no option 'widht'. Did you mean 'width'?"),
        ({"memory": "rolling_tape"}, "memory: RollingTape uses lengths"),
        ({"memory_layers": [1]}, "memory_layers: has no effect without a memory"),
        ({"memory": "stack", "memory_layers": [7]}, "expected numbers of 1..2, got 7"),
        ({"memory": "none"}, ""),
    ],
)
def test_errors_of_a_memory_are_those_of_the_config(options, message):
    controller = {"name": "transformer", **options}
    found = config_errors("parity_check", controller=controller, hidden_size=8)
    assert (message in found[0]) if message else found == []


def test_a_run_is_named_by_its_layers():
    for controller, name in (
        ("transformer", "transformer-2"),
        ({"name": "deltanet", "num_layers": 3}, "deltanet-3"),
        ("lstm", "lstm-1"),
    ):
        data = overlay(
            preset_of("parity_check"), {"model": {"memory": "none", "controller": controller}}
        )
        assert model_name(composed(data).model) == name


def test_a_transformer_with_a_memory_or_a_kernel_is_an_error():
    with pytest.raises(ConfigError, match="transformer: expected no memory, got 'queue'"):
        MemoryModel(inputs=3, outputs=2, memory="queue", controller="transformer")
    data = overlay(
        preset_of("parity_check"),
        {"model": {"memory": "none", "controller": "transformer"}, "hardware": {"backend": "cpu"}},
    )
    (found,) = errors(composed(data))
    assert found.startswith("hardware.backend: no kernel is built for transformer")
