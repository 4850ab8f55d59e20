from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.experiments.tiny import planned, tiny
from tests.experiments.tiny_streams import tiny_streams, tiny_text
from unbounded.errors import ConfigError
from unbounded.experiments.config import plain_yaml
from unbounded.experiments.config.check import check_all, checked, errors, ranges
from unbounded.experiments.config.compose import composed, overlay, preset_of
from unbounded.experiments.config.identity import model_name, run_name
from unbounded.experiments.config.presets import PRESETS, PROTOCOLS
from unbounded.experiments.config.schema import RunConfig, from_dict, to_dict
from unbounded.experiments.run.evaluate import own_evaluation_plan
from unbounded.experiments.trials.paper_studies import load_study
from unbounded.models.discrete import deciding_layers
from unbounded.tasks import TASKS, LengthRange, StreamTask
from unbounded.tasks.transduction import TransductionTask


def changed(name: str, value: Any, config: RunConfig | None = None) -> RunConfig:
    config = config or tiny()
    *path, last = name.split(".")
    part: Any = config
    for step in path:
        part = part[step] if isinstance(part, dict) else getattr(part, step)
    if isinstance(part, dict):
        part[last] = value
    elif isinstance(getattr(part, last), dict) and not isinstance(value, dict):
        setattr(part, last, {"name": value})
    else:
        setattr(part, last, value)
    return config


ERRORS = [
    ("task", "coppy", "unknown task 'coppy'. Did you mean 'copy'?"),
    ("task.symbls", 3, "task 'copy' has no option 'symbls'."),
    ("model.memory.push_bias", 1e308, "model.memory.push_bias: expected a finite number"),
    ("task.symbols", 0, "symbols"),
    ("task.train_lengths", "9:3", "9:3 is reversed"),
    ("seed", -1, "seed: expected a number at least 0"),
    ("model.memory", "stak", "model.memory: unknown memory 'stak'. Did you mean 'stack'?"),
    ("model.controller", "ltsm", "model.controller: unknown controller 'ltsm'."),
    ("model.hidden_size", 0, "model.hidden_size: expected a number at least 1, got 0"),
    ("model.memory.width", -3, "model.memory.width: expected an integer >= 1, got -3"),
    ("model.memory.pop_bias", float("nan"), "model.memory.pop_bias: expected a finite number"),
    ("model.controller.num_layers", 2, "model.controller: controller 'lstm' has no option"),
    ("training.optimizer", "rmspro", "training.optimizer: unknown optimizer 'rmspro'."),
    ("training.optimizer", {"name": "sgd", "eps": 1e-8}, "optimizer 'sgd' has no option 'eps'"),
    ("training.stop.share", 0, "training.stop.share: expected a number above 0"),
    ("id", "a/b", "id: expected at most 200 letters, digits"),
    ("training.schedule", "flat", "training.schedule: unknown schedule 'flat'."),
    ("training.stop", "solve", "training.stop: unknown stop 'solve'. Did you mean 'solved'?"),
    ("training.precision", "int8", "training.precision: unknown precision 'int8'."),
    ("training.learning_rate", 0.0, "training.learning_rate: expected a number above 0"),
    ("training.learning_rate", float("inf"), "training.learning_rate: expected"),
    ("training.batch_size", 0, "training.batch_size: expected"),
    ("training.batches", -5, "training.batches: expected"),
    ("training.minutes", 0.0, "training.minutes: expected a number above 0"),
    ("training.clip", -1.0, "training.clip: expected a number above 0"),
    ("training.lengths", "64:8", "training.lengths: length range: 64:8 is reversed"),
    ("training.validation_lengths", "x", "training.validation_lengths: length range: expected"),
    ("training.stop.perplexity", 1.5, "stop 'solved' has no option 'perplexity'."),
    ("training.plateau.every", 9, "plateau 'none' has no option 'every'. It has none."),
    ("hardening.every", 9, "hardening 'none' has no option 'every'. It has none."),
    ("evaluation.count", 0, "evaluation.count: expected"),
    ("evaluation.lengths", ["1:5", "3:9"], "evaluation.lengths: length ranges 1:5 and 3:9 overlap"),
    ("hardware.device", "gpu", "hardware.device: unknown device 'gpu'."),
    ("hardware.threads", 0, "hardware.threads: expected"),
    (
        "hardware.matmul_precision",
        "low",
        "hardware.matmul_precision: unknown matmul_precision 'low'.",
    ),
    ("hardware.backend", "fast", "hardware.backend: unknown backend 'fast'."),
    ("hardware.backend", "cuda", "hardware.backend: cuda "),
]


def test_all_errors_are_reported_together() -> None:
    config = tiny(learning_rate=-1.0, stop="x", batches=0)
    # Options that depend on the kind of task are checked only for a known task.
    config.task, config.model.hidden_size, config.seed = {"name": "cpy"}, 0, -2
    with pytest.raises(ConfigError) as caught:
        checked(config)
    assert len(caught.value.errors) == 6
    for error in caught.value.errors:
        assert error in str(caught.value)


def test_options_of_a_memory_are_errors_without_a_memory() -> None:
    config = changed("model.memory", "none")
    assert errors(config) == []
    same = changed("model.readout_size", None, changed("model.memory", "none"))
    assert run_name(config) == run_name(same)
    assert planned(config).model().config == planned(same).model().config
    assert errors(changed("model.memory.width", 4, config)) == [
        "model.memory: memory 'none' has no option 'width'. It has none."
    ]


def test_checking_a_valid_config_returns_its_task() -> None:
    assert checked(tiny()).name == "copy"


def preset(task: str, *protocols: str) -> RunConfig:
    return composed(preset_of(task, *protocols))


@pytest.mark.parametrize("protocols", [(), *((each,) for each in PROTOCOLS)])
@pytest.mark.parametrize("task", sorted(TASKS))
def test_every_task_has_a_valid_preset(
    task: str, protocols: tuple[str, ...], tmp_path: Path
) -> None:
    config = preset(task, *protocols)
    assert config.task["name"] == task
    if task in ("penn_treebank", "text", "pairs"):
        (error,) = errors(config)
        assert error.startswith("--data: give ")
        return
    assert errors(config) == []
    assert set(PRESETS) == set(TASKS)


@pytest.mark.parametrize("task", ["anbn", "memorization", "binary_addition"])
def test_the_protocol_of_the_paper_is_the_authors_schedule(task: str) -> None:
    """The authors' epoch is this number of batches; the rate is constant for ten epochs."""
    config = preset(task, "paper")
    training = config.training
    epoch = training.curriculum["every"]
    sequences = {"anbn": 2000, "memorization": 2000, "binary_addition": 10000}[task]
    assert epoch * config.task["sequences"] == sequences
    assert (training.batches, training.plateau["every"]) == (100 * epoch, epoch)
    assert training.plateau["hold"] == 11 * epoch
    assert (training.optimizer, training.learning_rate) == ({"name": "sgd"}, 0.1)
    assert (training.clip, training.clip_by, training.chunk_steps) == (15.0, "value", 50)
    config.training.update = "per_symbol"
    assert errors(config) == []


def test_equal_runs_have_one_name() -> None:
    config = tiny()
    config.training.optimizer = {"name": "adam"}
    name = run_name(config)
    config.training.optimizer["betas"] = [0.9, 0.999]  # the defaults, as YAML writes them
    assert run_name(config) == name
    config.model.memory = {"name": "none"}
    name = run_name(config)
    config.hardening = {"name": "gradual"}
    config.training.temperature_noise = {"name": "doubling", "limit": 8}
    assert run_name(config) == name


def test_a_growing_memory_does_not_carry_its_state_between_lengths() -> None:
    for memory, carries in (
        ("superposition_stack", True),
        ("turing_tape", True),
        ("none", True),
        ("stack", False),
        ("lie_access", False),
    ):
        config = composed(overlay(preset_of("anbn"), {"model": {"memory": memory}}))
        assert own_evaluation_plan(config).carry_state is carries, memory


def test_options_that_conflict_with_per_symbol_updates_are_named() -> None:
    config = preset("anbn")
    config.training.update = "per_symbol"
    config.model.memory = {"name": "superposition_stack"}
    config.training.optimizer = {"name": "adam"}
    found = errors(config)
    assert [error.split(":")[0] for error in found] == [
        "training.batch_size",
        "training.optimizer",
        "training.clip_by",
        "model.memory.capacity",
    ]
    config = preset("anbn", "paper")
    config.training.update = "per_symbol"
    config.training.optimizer["momentum"] = 0.9
    (error,) = errors(config)
    assert error.startswith("training.optimizer: in a per-symbol update it has no options")


def test_the_presets_of_streams_are_the_papers_networks() -> None:
    """40+10 for anbn: 2160 weights."""
    config = preset("anbn")
    model = planned(config).model()
    assert sum(each.numel() for each in model.parameters()) == 2160


STREAM_ERRORS = [
    ("model.memory.capacity", 1, "model.memory.capacity: expected an integer >= depth = 2"),
    ("model.memory.count", 2.5, "model.memory.count: expected an integer, got 2.5"),
    ("model.memory.depth", 0, "model.memory.depth: expected an integer >= 1, got 0"),
    ("model.memory.depth", 13, "model.memory.capacity: expected an integer >= depth = 13"),
    ("model.memory.overflow", "drop", "unknown overflow 'drop'. Did you mean 'drop_bottom'?"),
    ("model.controller", "elmann", "model.controller: unknown controller 'elmann'."),
    ("model.controller", "srcn", "srcn: expected no memory, got 'superposition_stack'; give"),
    ("training.chunk_steps", 0, "training.chunk_steps: expected a number at least 1"),
    ("training.curriculum", "grow", "unknown curriculum 'grow'. Did you mean 'growing'?"),
    ("training.curriculum.every", 0, "training.curriculum.every: expected"),
    ("training.curriculum.first", 0, "training.curriculum.first: expected a number at least 1"),
    ("training.update", "letter", "training.update: unknown update 'letter'."),
    ("training.plateau.every", 0, "training.plateau.every: expected a number at least 1"),
    ("training.plateau.factor", 0.0, "training.plateau.factor: expected a number above 0"),
    ("training.clip_by", "values", "unknown clip_by 'values'. Did you mean 'value'?"),
    ("training.stop", "converged", "training.stop: 'converged' has no meaning on task"),
    ("training.lengths", "5:2", "training.lengths: length range: 5:2 is reversed"),
    (
        "training.lengths",
        "1:4",
        "training.lengths: lengths: anbmc_sum has no sequence with n below 2",
    ),
    (
        "evaluation.lengths",
        ["1:9"],
        "evaluation.lengths: lengths: anbmc_sum has no sequence with n below 2",
    ),
    ("evaluation.count", 0, "evaluation.count: expected a number at least 1, got 0"),
    ("evaluation.count", "x", "evaluation.count: expected an integer, got 'x'"),
    ("evaluation.streams", 0, "evaluation.streams: expected a number at least 1"),
    ("evaluation.every", 0, "evaluation.every: expected a number at least 1"),
]


def test_stream_options_are_errors_on_transduction_tasks() -> None:
    (error,) = errors(changed("evaluation.every", 2))
    assert error.startswith("evaluation has no option 'every' on task 'copy'. ")
    # Chunks, curricula and plateaus go with every task.
    assert errors(tiny(chunk_steps=5, curriculum="growing", plateau="halve")) == []


def test_a_doubling_curriculum_goes_with_every_stop_rule() -> None:
    doubling = {"curriculum": "doubling", "lengths": "1:8"}
    for stop in ("solved", "converged", "budget"):
        assert errors(tiny(**doubling, stop=stop)) == []


def test_ranges_that_cannot_be_drawn_are_errors_before_training() -> None:
    config = tiny()
    config.task = {"name": "svo_sov"}
    for name in ("training.lengths", "training.validation_lengths", "evaluation.lengths"):
        value: Any = ["4000:5000"] if name.startswith("evaluation") else "4000:5000"
        (error,) = errors(changed(name, value, deepcopy(config)))
        assert error.startswith(f"{name}: svo_sov: length range: expected sentences of at most")
    assert errors(changed("evaluation.lengths", ["4000:4096"], config)) == []


def test_multiples_of_the_longest_length_are_checked() -> None:
    config = tiny(lengths="8:410")
    config.task = {"name": "svo_sov"}
    (error,) = errors(changed("evaluation.multiples", [2, 10], deepcopy(config)))
    assert error.startswith("evaluation.multiples: svo_sov: ")
    assert "4100:4100" in error
    hardening = {"name": "gradual", "batches": 20}
    far = changed("hardening.far", 10, changed("hardening", hardening, deepcopy(config)))
    (error,) = errors(far)
    assert error.startswith("hardening.far: svo_sov: ")
    assert errors(changed("hardening.far", 9, far)) == []
    odd = changed("hardening", hardening, tiny(lengths="8:9"))
    odd.task = {"name": "bigram_flip"}
    (error,) = errors(changed("hardening.far", 5, odd))
    assert error.startswith("hardening.far: ")
    # A value that is no number is named once.
    bad: Any = ["x"]
    (error,) = errors(changed("evaluation.multiples", bad, tiny()))
    assert error.startswith("evaluation.multiples: expected")


def test_a_range_of_a_file_may_have_gaps(tmp_path: Path) -> None:
    file = tmp_path / "pairs.tsv"
    lines = (f"{'a ' * n}b{number}\tc" for n in (2, 12) for number in range(200))
    file.write_text("\n".join(lines) + "\n")
    config = tiny()
    config.task = {"name": "pairs"}
    config.hardware.data = str(file)
    for name in ("training.lengths", "training.validation_lengths", "evaluation.lengths"):
        found: Any = ["5:20"] if name.startswith("evaluation") else "5:20"
        assert errors(changed(name, found, deepcopy(config))) == []
        empty: Any = ["5:9"] if name.startswith("evaluation") else "5:9"
        (error,) = errors(changed(name, empty, deepcopy(config)))
        assert error.startswith(f"{name}: ")
        assert "5:9" in error


def test_length_options_are_errors_on_a_text(tmp_path: Path) -> None:
    assert errors(tiny_text(tmp_path)) == []
    for name, value in (
        ("training.lengths", "2:3"),
        ("training.curriculum", "growing"),
        ("training.stop", "solved"),
        ("training.accuracy_every", 5),
    ):
        (error,) = errors(changed(name, value, tiny_text(tmp_path)))
        assert error.startswith(f"{name}: ")
    (error,) = errors(changed("evaluation.lengths", ["2:3"], tiny_text(tmp_path)))
    assert error.startswith("evaluation has no option 'lengths' on task 'penn_treebank'.")


def test_the_papers_sizes_are_the_defaults() -> None:
    # Table 2 counts neither embeddings nor softmax; the first state is learned besides.
    for memory, published in (("queue", 673_602), ("deque", 1_002_052), ("none", 328_704)):
        config = composed(overlay(to_dict(RunConfig()), {"model": {"memory": memory}}))
        layer = planned(config).model().sequence.layer
        parameters = dict(layer.named_parameters())
        count = sum(p.numel() for n, p in parameters.items() if p.requires_grad)
        learned_state = 2 * config.model.hidden_size
        assert count - learned_state == published, memory


def test_names_of_runs() -> None:
    config = tiny()
    assert model_name(config.model) == "queue-lstm"
    config.model.memory = {"name": "none"}
    config.model.controller["num_layers"] = 4
    assert model_name(config.model) == "lstm-4"
    assert run_name(config).startswith("copy-lstm-4-")


def test_ranges_overlap_is_found_in_any_order() -> None:
    assert ranges(["65:128", "8:64"]) == (LengthRange(65, 128), LengthRange(8, 64))
    with pytest.raises(ConfigError, match="length ranges 8:64 and 64:70 overlap"):
        ranges(["64:70", "8:64"])
    with pytest.raises(ConfigError, match="length ranges 8:64 and 8:64 overlap"):
        ranges(["8:64", "8:64"])


def test_ranges_may_overlap_only_on_tasks_without_numbers_per_length() -> None:
    assert len(ranges(["3:128", "65:128", "8:64", "3:7"])) == 4
    with pytest.raises(ConfigError, match="length ranges 8:64 and 60:128 overlap"):
        ranges(["3:128", "60:128", "8:64"])
    nested = ["2:60", "2:19"]
    copies = RunConfig(task={"name": "copy"}, evaluation={"lengths": nested})
    assert not [line for line in errors(copies) if "overlap" in line]
    streams = RunConfig(task={"name": "anbn"}, evaluation={"lengths": nested})
    (line,) = [line for line in errors(streams) if "overlap" in line]
    assert line == (
        "evaluation.lengths: length ranges 2:19 and 2:60 overlap; each length has a number of its "
        "own on task 'anbn'"
    )


def test_yaml_scalars_have_the_intended_types() -> None:
    text = "a: 1:4\nb: no\nc: 1e-3\nd: 12\ne: true\nf: null\ng: 65:128\nh: -0.5\ni: 2026-01-01\nj:"
    expected = ["1:4", "no", 1e-3, 12, True, None, "65:128", -0.5, "2026-01-01", None]
    assert list(plain_yaml.load(text).values()) == expected
    data = {"x": "1:4", "y": "no", "z": [1, 2.5, None, True]}
    assert plain_yaml.load(plain_yaml.dump(data)) == data
    assert yaml.safe_load(plain_yaml.dump(data)) == data


def test_a_config_file_of_another_kind_is_named(tmp_path: Path) -> None:
    from unbounded.errors import CheckpointError
    from unbounded.experiments.run.run_folder import RunFolder

    with pytest.raises(CheckpointError, match="is not a run folder"):
        RunFolder(tmp_path).config()
    (tmp_path / "config.yaml").write_text("just text")
    with pytest.raises(CheckpointError, match=r"config\.yaml is not the config of a run"):
        RunFolder(tmp_path).config()
    (tmp_path / "config.yaml").write_text("task: copy\nmodel: {}")
    with pytest.raises(CheckpointError, match=r"config\.yaml is not a run's config") as caught:
        RunFolder(tmp_path).config()
    lacks = ("it has no id\n", "it has no seed\n", "it has no hardware. Use the version ")
    assert all(each in str(caught.value) for each in lacks)
    (tmp_path / "config.yaml").write_text("foo: 3")
    with pytest.raises(CheckpointError, match=r"is not the config of a run: it names no task"):
        RunFolder(tmp_path).config()


def test_a_run_name_depends_only_on_values_that_differ_from_defaults() -> None:
    data = to_dict(RunConfig(seed=4))
    # As saved before these fields existed.
    del data["model"]["initialization"], data["training"]["symbols"]
    assert run_name(from_dict(data)) == run_name(RunConfig(seed=4))
    changed = RunConfig(seed=4)
    changed.training.optimizer["eps"] = 1e-8
    assert run_name(changed) != run_name(RunConfig(seed=4))
    changed.training.optimizer["eps"] = 1e-4
    changed.training.stop["every"] = 100
    assert run_name(changed) == run_name(RunConfig(seed=4))
    changed.id = "mine"
    assert run_name(changed) == "mine"


ANSWER_ERRORS = [
    ("training.plateau.measure", "accuracy", "plateau.measure: unknown measure 'accuracy'."),
    ("training.plateau.patience", 0, "training.plateau.patience: expected a number at least 1"),
    ("training.plateau.window", -1, "training.plateau.window: expected a number at least 0"),
    ("training.plateau.threshold", 0.6, "plateau.threshold: expected a number at most 0.5"),
    ("training.plateau.threshold", -0.1, "plateau.threshold: expected a number at least 0"),
    ("training.curriculum.first", 3, "curriculum 'one_length' has no option 'first'."),
    ("model.memory", "superposition_stack", "memory 'superposition_stack' cannot be kept from wri"),
    ("model.answer_writes", "no", "model.answer_writes: expected true or false or null, got 'no'"),
]


def answering() -> RunConfig:
    task = {"symbols": 4, "train_lengths": "2:4", "test_lengths": "5:6"}
    model = {"memory": "stack", "answer_writes": False}
    training = {"curriculum": "one_length", "schedule": "constant"}
    training |= {"plateau": {"name": "halve", "every": 2, "measure": "errors"}}
    own = {"task": task, "model": model, "training": training}
    return composed(overlay(preset_of("answer_copy"), own))


def streaming() -> RunConfig:
    return tiny_streams("anbmc_sum")


@pytest.mark.parametrize(
    ("make", "name", "value", "message"),
    [
        *((tiny, *row) for row in ERRORS),
        *((streaming, *row) for row in STREAM_ERRORS),
        *((answering, *row) for row in ANSWER_ERRORS),
    ],
)
def test_each_error_is_named(
    make: Callable[[], RunConfig], name: str, value: Any, message: str
) -> None:
    assert errors(make()) == []
    (found,) = errors(changed(name, value, make()))
    assert message in found


def test_another_stop_rule_drops_the_share_of_the_preset() -> None:
    own = {"training": {"stop": "budget"}}
    other = composed(overlay(preset_of("copy"), own))
    assert errors(other) == []
    assert other.training.stop == {"name": "budget"}
    assert from_dict(preset_of("copy")).training.stop == {"name": "solved", "share": 0.99}
    (error,) = errors(changed("training.stop.share", 0.5, other))
    assert error == "training.stop: stop 'budget' has no option 'share'. It has none."


def test_options_without_effect_on_the_answer_or_the_plateau_are_errors(tmp_path: Path) -> None:
    (error,) = errors(changed("model.answer_writes", False))
    assert error == "model.answer_writes: has no effect on task 'copy'; leave it at True"
    assert errors(changed("model.answer_writes", None)) == []
    config = tiny(plateau={"name": "halve", "window": 1, "patience": 2})
    (error,) = errors(config)
    assert error == "training.plateau.patience: has no effect with a window; leave it out"
    (error,) = errors(changed("training.plateau.measure", "errors", tiny_text(tmp_path)))
    assert "training.plateau.measure: errors has no meaning on task 'penn_treebank'" in error


def test_a_curriculum_with_lengths_outside_the_task_is_an_error() -> None:
    config = tiny(curriculum="one_length")
    config.task["name"] = "bigram_flip"
    (error,) = errors(config)
    assert "training.curriculum: one_length needs examples of every length of" in error
    assert "and task 'bigram_flip' has none of 1" in error
    config.task["name"] = "answer_bigram_flip"
    assert errors(config) == []


def test_the_answer_phase_is_read_only_only_if_enabled_and_supported() -> None:
    config = answering()
    assert planned(config).model().sequence.read_only_token == 1
    config.model.answer_writes = True
    assert planned(config).model().sequence.read_only_token is None
    config.model.answer_writes = None
    assert planned(config).model().sequence.read_only_token == 1
    for memory in ({"name": "turing_tape", "slots": 3}, {"name": "none"}):
        config.model.memory = memory
        config.model.readout_size, config.model.output_read_vector = None, False
        assert errors(config) == []
        assert planned(config).model().sequence.read_only_token is None


def test_null_removes_a_preset_value_of_an_option_without_null() -> None:
    preset = preset_of("answer_bigram_flip")
    assert preset["model"]["memory"]["gates"] == "hard_sigmoid"
    nulls = {"model": {"memory": {"gates": None, "read_key_gate_bias": None}}}
    memory = composed(overlay(preset, nulls)).model.memory
    assert "gates" not in memory
    assert memory["read_key_gate_bias"] is None


def test_a_variant_may_be_given_as_a_year() -> None:
    memory = {"name": "lie_access", "variant": 2017}
    config = composed(overlay(preset_of("copy"), {"model": {"memory": memory}}))
    assert config.model.memory["variant"] == "2017"
    assert errors(config) == []
    assert deciding_layers(planned(config).model())[0].memory.step_length == "bounded"


def test_a_component_of_another_name_drops_the_options_of_the_earlier_one() -> None:
    preset = preset_of("binary_addition")
    changed = overlay(
        preset,
        {"training": {"schedule": "linear", "curriculum": {"every": 3}}, "hardening": "none"},
        {"training": {"optimizer": {"name": "sgd", "momentum": 0.9}}},
    )
    assert changed["training"]["schedule"] == {"name": "linear"}
    assert changed["training"]["curriculum"] == {"name": "growing", "every": 3}
    assert changed["training"]["optimizer"] == {"name": "sgd", "momentum": 0.9}
    assert changed["hardening"] == {"name": "none"}
    assert preset["training"]["schedule"]["name"] == "cooldown"


def test_a_growing_memory_on_streams_gets_the_papers_capacity() -> None:
    other = {"model": {"memory": "superposition_list"}}
    bounds = {"name": "superposition_list", "capacity": 200, "overflow": "drop_ends"}
    assert composed(overlay(preset_of("anbn"), other)).model.memory == bounds
    own = {"name": "superposition_list", "capacity": 30}  # a complete component is not changed
    assert composed(overlay(preset_of("anbn"), {"model": {"memory": own}})).model.memory == own
    assert composed(overlay(preset_of("copy"), other)).model.memory == {
        "name": "superposition_list"
    }


def test_label_smoothing_with_an_unreachable_perplexity_is_an_error() -> None:
    smoothed = {"training": {"label_smoothing": 0.1}}
    assert errors(composed(overlay(preset_of("copy"), smoothed))) == []
    for training, message in (
        ({"label_smoothing": 0.6}, "training.label_smoothing: expected a number at most 0.5"),
        (
            {"label_smoothing": 0.1, "stop": "converged"},
            "training.label_smoothing: with 0.1 training cannot fall below 1.05, and "
            "training.stop.perplexity is 1.001; give more, or 0 here",
        ),
        (
            {"label_smoothing": 0.1, "curriculum": "doubling"},
            "training.label_smoothing: with 0.1 training cannot fall below 0.0513, and "
            "training.curriculum.below is 0.0001; give more, or 0 here",
        ),
    ):
        found = errors(composed(overlay(preset_of("copy"), {"training": training})))
        assert any(line.startswith(message) for line in found), found
    by_symbol = overlay(
        preset_of("anbn", "paper"), smoothed, {"training": {"update": "per_symbol"}}
    )
    message = "training.label_smoothing: a per-symbol update needs 0.0, got 0.1"
    assert message in errors(composed(by_symbol))


def test_an_invalid_memory_is_not_reported_as_having_no_gates() -> None:
    for option in ({"group": "sphere", "key_size": 5}, {"capacity": 10, "drop": 20}):
        config = composed(overlay(preset_of("answer_copy"), {"model": {"memory": option}}))
        (error,) = errors(config)
        assert "has no gates" not in error


def test_null_removes_a_preset_value_of_a_task_option() -> None:
    preset = preset_of("binary_addition")
    assert preset["task"] == {"name": "binary_addition", "sequences": 10, "train_lengths": "1:39"}
    plain = composed(overlay(preset, {"task": {"train_lengths": None}}))
    assert plain.task == {"name": "binary_addition", "sequences": 10}
    assert errors(plain) == []


def test_the_ranges_of_many_configs_are_drawn_from_once_a_task(monkeypatch):
    drawn = []
    batch = TransductionTask.batch

    def counted(task, *arguments):
        drawn.append(arguments)
        return batch(task, *arguments)

    monkeypatch.setattr(TransductionTask, "batch", counted)
    configs = [
        replace(tiny(lengths="2:4"), seed=seed, model=replace(tiny().model, hidden_size=size))
        for size in (4, 8)
        for seed in range(20)
    ]
    checked(configs[0])
    once = len(drawn)
    assert once > 0
    check_all(configs)
    assert len(drawn) == 2 * once
    bad = replace(configs[-1], training=replace(configs[-1].training, lengths="0:0"))
    with pytest.raises(ConfigError, match=r"training\.lengths"):
        check_all([*configs, bad])
    with pytest.raises(ConfigError, match="seed: expected a number at least 0, got -1"):
        check_all([*configs, replace(configs[0], seed=-1)])


def test_a_study_of_streams_is_checked_with_few_draws(monkeypatch):
    drawn = []
    judged = StreamTask.judged

    def counted(task, *arguments):
        drawn.append(task.sequences)
        return judged(task, *arguments)

    monkeypatch.setattr(StreamTask, "judged", counted)
    trials = [trial for trial in load_study("joulin2015", "laptop").trials if not trial.lacks_data]
    check_all(trial.config for trial in trials)
    # 905 draws, of hundreds of sequences each, when each seed had its own.
    assert 0 < len(drawn) < len(trials) / 2
    assert set(drawn) == {2}
