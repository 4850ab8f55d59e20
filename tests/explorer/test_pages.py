"""Pages contain escaped runs, in a file that makes no requests."""

from __future__ import annotations

import base64
import hashlib
import importlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.constructions import model_of
from tests.explorer.vectors import BASELINES
from unbounded.constructions import CONSTRUCTIONS
from unbounded.errors import ChoiceError, ConfigError, RunExistsError, StorageError
from unbounded.experiments.config.check import build_task
from unbounded.experiments.run.plan import plan
from unbounded.experiments.run.run_folder import RunFolder
from unbounded.explorer.built_in import RUNS, built_in_data
from unbounded.explorer.model_data import model_tensors
from unbounded.explorer.notebook import explore
from unbounded.explorer.page import MARK, built_in_runs, html, template, write_page
from unbounded.explorer.run_data import run_data
from unbounded.explorer.task_data import no_rule, rule_of, samples_of, task_data
from unbounded.explorer.weights import agreement, as_in_page, packed_weights, unpacked_weights
from unbounded.models.memory_model import MemoryModel
from unbounded.rnn.blocks import SequencePart
from unbounded.rnn.controllers import ElmanController
from unbounded.rnn.room import drops_are_meant
from unbounded.tasks import LengthRange, make_task
from unbounded.tasks.streams import StreamTask
from unbounded.training import OBJECTIVES

SHORT = {"train_lengths": "2:4", "test_lengths": "5:6"}


def data_of(page: str) -> dict[str, Any]:
    """The data in a page."""
    match = re.search(r'<script type="application/json" id="unbounded-data">(.*?)</script>', page)
    assert match is not None
    data: dict[str, Any] = json.loads(match[1])
    return data


def test_the_template_forbids_every_request() -> None:
    page = template()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    rules = dict(rule.split(" ", 1) for rule in policy[1].split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["img-src"] == "data:"
    assert set(rules) == {
        "default-src", "script-src", "style-src", "img-src", "base-uri", "form-action",
    }  # fmt: skip
    script = re.search(r'<script type="module">(.*?)</script>', page, flags=re.DOTALL)
    style = re.search(r"<style>(.*?)</style>", page, flags=re.DOTALL)
    assert script is not None
    assert style is not None
    for text, rule in ((script[1], rules["script-src"]), (style[1], rules["style-src"])):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rule == f"'sha256-{digest}'"
    assert not re.search(r'(src|href)="(?!data:)', page)
    assert page.count("{data}") == 1
    assert MARK in page[:4096]


def test_symbols_and_titles_are_escaped_in_the_page() -> None:
    run = built_in_runs()[0]
    run["task"]["inputs"][2] = "</script><script>alert(1)</script>"
    run["title"] = "<!--<script>&"
    page = html([run])
    body = page[page.index('id="unbounded-data"') :]
    inside = body[: body.index("</script>")]
    assert not re.search(r"[<>&]", inside.partition(">")[2])
    assert data_of(page)["runs"][0]["task"]["inputs"][2] == run["task"]["inputs"][2]
    assert data_of(page)["title"] == "<!--<script>&"


def test_a_page_without_a_run_is_refused() -> None:
    with pytest.raises(ConfigError, match="runs: expected at least one, got none"):
        html([])


def test_packaged_models_equal_the_committed_runs() -> None:
    """`python -m unbounded.explorer.built_in > src/unbounded/explorer/machines.json`."""
    runs = built_in_runs()
    assert runs == json.loads(json.dumps(built_in_data()))
    assert all(len(json.dumps(run["weights"])) < 12_000 for run in runs)
    assert [run["title"].rpartition(", ")[2] for run in runs] == ["trained"] * 3 + [
        "set by hand"
    ] * 3
    for run in runs:
        trained = run["title"].endswith("trained")
        assert run["note"].startswith("Trained on lengths" if trained else "Not trained:")
        assert bool(run["curves"]) == trained
        units = {curve["name"]: curve["unit"] for curve in run["curves"]}
        assert not trained or units.pop("training perplexity") == "perplexity"
        assert set(units.values()) <= {"share"}


@pytest.mark.parametrize(("name", "length"), [("copy", 200), ("reversal", 200), ("anbn", 150)])
def test_a_packaged_trained_model_is_exact_far_beyond_training_lengths(
    name: str, length: int
) -> None:
    """With the weights of the page, in 8 bits."""
    config = RunFolder(RUNS / name).config()
    task = plan(config, build_task(config)).task
    model = as_in_page(RunFolder(RUNS / name).load_model(hardened=True)[0], "int8")
    batch = task.batch(11, "test", 0, 8, LengthRange(length, length))
    mask = batch.mask
    if isinstance(task, StreamTask):
        judged = task.with_sequences(2).judged(11, "test", 0, 8, LengthRange(length, length))
        batch, mask = judged.batch, judged.judged >= 0
    with torch.no_grad(), drops_are_meant():
        predicted = OBJECTIVES[task.objective].predict(model(batch.inputs)[0])
    assert int(mask.sum()) > 8
    assert bool((predicted == batch.targets)[mask].all())


@pytest.mark.parametrize("precision", ["float16", "float32", "float64"])
def test_packed_weights_can_be_unpacked(precision: str) -> None:
    tensors = {
        "a": torch.tensor([[0.5, -2.0, 6144.0], [1.0, 0.25, 0.0]], dtype=torch.float64),
        "filled": torch.full((2, 2), 1e-6, dtype=torch.float64),
        "empty": torch.zeros(0, 3),
        "b": torch.tensor([1.5, 3.0], dtype=torch.float64),
    }
    weights = json.loads(json.dumps(packed_weights(tensors, precision)))
    assert weights["tensors"]["filled"] == {"shape": [2, 2], "fill": 1e-6}
    back = unpacked_weights(weights)
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(back[name].numpy(), tensor.double().numpy())


def test_int8_weights_are_within_half_a_quantization_step() -> None:
    torch.manual_seed(0)
    weight = torch.randn(5, 7) * torch.logspace(-3, 3, 5)[:, None]
    weight[2] = 0.0
    tensors = {"heads.weight": weight, "heads.bias": torch.tensor([0.1, -2.0])}
    weights = json.loads(json.dumps(packed_weights(tensors, "int8")))
    assert set(weights["tensors"]) == {"heads.weight"}
    assert weights["rest"]["precision"] == "float16"
    assert len(base64.b64decode(weights["data"])) == 35
    back = unpacked_weights(weights)
    steps = weight.abs().amax(dim=1, keepdim=True).double() / 127
    assert bool(((back["heads.weight"] - weight).abs() <= 0.5001 * steps).all())
    assert back["heads.bias"].tolist() == tensors["heads.bias"].half().tolist()


def test_an_unknown_precision_is_an_error() -> None:
    with pytest.raises(ChoiceError, match="unknown precision 'int4'"):
        packed_weights({}, "int4")


def tiny_model(task: Any, **options: Any) -> MemoryModel:
    torch.manual_seed(0)
    sizes = {"inputs": len(task.input_vocabulary), "outputs": len(task.output_vocabulary)}
    return MemoryModel(**sizes, **{"hidden_size": 8, "embedding_size": 4, **options})


def test_half_precision_is_used_if_it_changes_no_answer() -> None:
    task = make_task("copy", symbols=4, **SHORT)
    run = run_data(CONSTRUCTIONS["copy"](symbols=4), task, "machine")
    assert run["weights"]["precision"] == "float16"
    assert "32 of 32 test strings" in run["note"]


def test_float32_is_used_if_half_precision_changes_an_answer() -> None:
    task = make_task("copy", symbols=4, **SHORT)
    model = tiny_model(task)
    # Two logits that are equal in half precision.
    with torch.no_grad():
        model.sequence.output.weight.zero_()
        assert model.sequence.output.bias is not None
        model.sequence.output.bias.copy_(torch.tensor([1.0, 1.0, 1.0, 1.00001, 1.0]))
    assert agreement(model, task, 0, LengthRange(2, 4)).differing == 32
    run = run_data(model, task, "close")
    assert run["weights"]["precision"] == "float32"
    assert "in half precision 32 of 32 test strings have other outputs" in run["note"]


@pytest.mark.parametrize("weights", ["half", "int8"])
def test_weights_too_large_for_half_precision_are_stored_in_float32(weights: str) -> None:
    """The heads of a hardened model have such weights."""
    task = make_task("copy", symbols=4, **SHORT)
    model = CONSTRUCTIONS["copy"](symbols=4)
    layer: Any = model.sequence.layer
    with torch.no_grad():
        layer.layers[0].heads.weight.mul_(1e4)
        layer.layers[0].heads.bias.copy_(
            torch.linspace(1e-3, 2e-3, len(layer.layers[0].heads.bias))
        )
        layer.layers[0].heads.bias[0] = 7e5
    run = run_data(model, task, "large", weights=weights)
    stored = run["weights"]
    assert stored["precision"] == ("int8" if weights == "int8" else "float16")
    large = stored["rest"]["rest"] if weights == "int8" else stored["rest"]
    assert large["precision"] == "float32"
    assert "heads.bias" in large["tensors"]
    assert ("heads.weight" in large["tensors"]) == (weights == "half")
    assert (
        unpacked_weights(stored)["heads.bias"].float().tolist()
        == layer.layers[0].heads.bias.tolist()
    )


def test_int8_is_used_on_request_and_changes_no_answer() -> None:
    task = make_task("copy", symbols=4, **SHORT)
    model = CONSTRUCTIONS["copy"](symbols=4)
    run = run_data(model, task, "machine", weights="int8")
    assert run["weights"]["precision"] == "int8"
    assert run["note"].startswith("Weights in 8 bits: 32 of 32 test strings have the same")
    in_page = as_in_page(model, "int8")
    stored, own = unpacked_weights(run["weights"]), model_tensors(in_page)
    assert set(stored) == set(own)
    for name, tensor in own.items():
        np.testing.assert_allclose(tensor.numpy(), stored[name].numpy(), rtol=1e-6)
    half = run_data(model, task, "machine")
    small = len(run["weights"]["data"]) + len(run["weights"]["rest"]["data"])
    assert small < 0.6 * len(half["weights"]["data"])


def test_int8_falls_back_to_float16_with_a_note() -> None:
    task = make_task("copy", symbols=4, **SHORT)
    model = tiny_model(task)
    # Logits that differ by less than a step of their rows.
    with torch.no_grad():
        model.sequence.output.weight.zero_()
        model.sequence.output.weight[:, 0] = 100.0
        assert model.sequence.output.bias is not None
        model.sequence.output.bias.zero_()
        model.sequence.output.weight[1, 1], model.sequence.output.weight[2, 1] = 0.3, -0.3
    run = run_data(model, task, "close", weights="int8")
    assert run["weights"]["precision"] == "float16"
    assert "; in 8 bits " in run["note"]
    assert run_data(model, task, "close", weights="float32")["note"] == "Weights in float32."
    with pytest.raises(ChoiceError, match="unknown weights 'int4'"):
        run_data(model, task, "close", weights="int4")


def test_a_model_for_another_task() -> None:
    model = tiny_model(make_task("copy", symbols=4, **SHORT))
    with pytest.raises(ConfigError, match="it reads 10 symbols, but task copy has 12"):
        run_data(model, make_task("copy", symbols=5, **SHORT), "other")


class CustomController(ElmanController):
    """A controller that the page does not know."""


class CustomMixer(SequencePart):
    """A part of a block that the page does not know."""

    def initial_state(self, batch_size: int, like: torch.Tensor) -> tuple[Any, ...]:
        return ()

    def parts(self, name: str, state: Any) -> list[Any]:
        return []

    def forward(self, x: torch.Tensor, state: Any, lengths: Any) -> tuple[torch.Tensor, Any]:
        return x, state


def test_a_model_that_the_page_cannot_run() -> None:
    task = make_task("copy", symbols=4, **SHORT)
    model = tiny_model(task, memory="none", controller="srcn")
    with pytest.raises(ConfigError, match="page cannot run SRCN; it runs lstm, gru"):
        run_data(model, task, "srcn")
    model = tiny_model(task, memory="none", controller="elman")
    model.sequence.layer.controller.__class__ = CustomController
    with pytest.raises(ConfigError, match=r"run CustomController; .*, and shows traces of Transf"):
        run_data(model, task, "custom")
    model = tiny_model(task, memory="none", controller=BASELINES["transformer"])
    for block in model.sequence.layer.blocks[1:]:
        block.mixers = nn.ModuleList([CustomMixer()])
    with pytest.raises(ConfigError, match=r"attention or the delta rule, .* got a Transformer"):
        run_data(model, task, "custom mixers")
    importlib.import_module("unbounded.memories.register")
    model = tiny_model(task, memory="unbounded.memories.register.Register")
    with pytest.raises(ConfigError, match=r"cannot show a Register; it shows stack"):
        run_data(model, task, "register")


@pytest.fixture
def text(tmp_path: Path) -> Any:
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.txt").write_text("a b c d\nb a d c\n" * 20)
    return make_task("text", data=str(tmp_path))


def test_a_text_has_traces_and_no_weights(text: Any) -> None:
    run = run_data(tiny_model(text, memory="superposition_stack"), text, "text")
    assert run["weights"] is None
    assert [len(trace["symbols"]) for trace in run["traces"]] == [60, 60, 60, 20]
    first = run["traces"][0]
    assert first["symbols"][:4] == ["<eos>", "a", "b", "c"]
    assert set(first["symbols"]) <= set(run["task"]["inputs"])
    assert {*first["predicted"], *first["target"]} <= set(run["task"]["outputs"])
    assert run["samples"][0]["inputs"][:2] == [0, 1]
    assert data_of(html([run]))["runs"][0]["traces"][0]["version"] == 3


def test_a_transformer_with_a_memory_has_traces_of_samples() -> None:
    layer = {"name": "transformer", "memory": {"name": "stack", "width": 4}}
    task = make_task("reversal", symbols=4, **SHORT)
    model = tiny_model(task, memory="none", controller=layer)
    run = run_data(model, task, "a transformer")
    assert run["weights"] is None
    assert "Transformer, is not in the page" in run["note"]
    assert run["model"]["memory"]["kind"] == "stack"
    trace = run["traces"][0]
    first = task.batch(0, "test", 0, 1, LengthRange(2, 4))
    assert trace["symbols"] == [task.input_vocabulary[token] for token in first.inputs[0].tolist()]
    assert sum(target is not None for target in trace["target"]) == int(first.mask.sum())
    with torch.no_grad():
        predicted = model.sequence(first.inputs)[0].argmax(-1)[0].tolist()
    assert trace["predicted"] == [task.output_vocabulary[token] for token in predicted]


@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_has_traces_of_samples(name: str) -> None:
    task = make_task("reversal", symbols=4, **SHORT)
    model = tiny_model(task, memory="none", controller=BASELINES[name])
    run = run_data(model, task, name)
    layer = type(model.sequence.layer).__name__
    assert run["weights"] is None
    assert f"network itself, {layer}, is not in the page" in run["note"]
    assert run["model"]["controller"]["kind"] == layer
    is_attention = layer == "Transformer"
    kind = "attention_weights" if is_attention else "delta_matrices"
    assert run["model"]["memory"]["kind"] == kind
    assert run["task"]["outputs"] == list(task.output_vocabulary)
    for trace, sample in zip(run["traces"], run["samples"], strict=True):
        steps, outputs = len(sample["inputs"]), len(task.output_vocabulary)
        assert trace["distribution"]["shape"] == [steps, outputs]
        field = "weights" if is_attention else "strength"
        layers = run["model"]["memory"]["options"]["layers"]
        last = steps if is_attention else model.sequence.layer.blocks[0].mixers[0].steps
        assert trace["instructions"][field]["shape"] == [steps, layers, 2, last]
    assert explore(model, task).picture.startswith("<svg")


@pytest.mark.parametrize(("name", "outputs"), [("dyck", ["no", "yes"]), ("ntm_copy", None)])
def test_the_outputs_of_traces_are_texts(name: str, outputs: list[str] | None) -> None:
    task = make_task(name, **({"bits": 2} if outputs is None else {}))
    bits = {"embedding_size": None, "input_bits": 2} if outputs is None else {}
    model = tiny_model(task, memory="none", controller=BASELINES["transformer"], **bits)
    run = run_data(model, task, name)
    assert run["task"]["objective"] == ("binary" if outputs else "cross_entropy")
    assert outputs is None or run["task"]["outputs"] == outputs
    for trace in run["traces"]:
        assert ("distribution" in trace) == (outputs is not None)
        shown = {*trace["predicted"], *trace["target"]} - {None}
        assert shown <= set(run["task"]["outputs"])


def test_a_stream_of_a_transformer_is_short_and_has_the_determined_symbols() -> None:
    layer = {"name": "transformer", "memory": {"name": "stack", "width": 4}}
    task = make_task("anbn")
    run = run_data(tiny_model(task, memory="none", controller=layer), task, "stream")
    samples = samples_of(task, 0, LengthRange(2, 19), 8)
    for trace, sample in zip(run["traces"], samples, strict=True):
        symbols = [task.input_vocabulary[token] for token in sample["inputs"]]
        assert trace["symbols"] == symbols
        assert [target is not None for target in trace["target"]] == list(map(bool, sample["mask"]))


def test_weights_have_no_effect_on_a_page_of_traces(text: Any) -> None:
    model = tiny_model(text, memory="superposition_stack")
    assert "So the option int8" in run_data(model, text, "text", weights="int8")["note"]
    with pytest.raises(ChoiceError, match="weights"):
        run_data(model, text, "text", weights="int4")


def test_a_text_without_a_memory(text: Any) -> None:
    controller = BASELINES["deltaproduct"]
    run = run_data(tiny_model(text, memory="none", controller=controller), text, "text")
    assert run["model"]["memory"]["kind"] == "delta_matrices"
    with pytest.raises(ConfigError, match="model: expected a memory, attention or the delta rule"):
        run_data(tiny_model(text, memory="none"), text, "text")


def test_too_many_symbols() -> None:
    with pytest.raises(ConfigError, match=r"copy: 10002 symbols are too many for a page"):
        task_data(make_task("copy", symbols=5000), 8)


RULES = {
    "copy": ("order", "copy"),
    "answer_reverse": ("order", "reversal"),
    "answer_odd_first": ("order", "odd_first"),
    "anbn": ("counting", "equal"),
    "anb2n": ("counting", "repeated"),
    "anbmc_product": ("counting", "product"),
    "binary_addition": ("sum", "binary"),
    "answer_double": ("digits", "double"),
    "answer_addition": ("digits", "addition"),
    "answer_repeat_copy": ("marks", "repeat"),
    "answer_priority_sort": ("marks", "sort"),
    "svo_sov": ("grammar", "svo_sov"),
    "gender": ("grammar", "gender"),
    "memorization": ("backwards", "memorization"),
    "dyck": ("dyck", "dyck"),
    "dyck_prefixes": ("dyck", "dyck_prefixes"),
}


@pytest.mark.parametrize(("name", "rule"), RULES.items(), ids=RULES)
def test_rules(name: str, rule: tuple[str, str]) -> None:
    data = rule_of(make_task(name))
    assert data is not None
    assert (data["kind"], data["name"]) == rule


def test_tasks_without_a_rule_on_the_page_give_a_reason(tmp_path: Path) -> None:
    programs = make_task("programs")
    assert rule_of(programs) is None
    assert no_rule(programs).startswith("the page runs no programs")
    (tmp_path / "pairs.tsv").write_text("".join(f"a b{k}\tb{k} a\n" for k in range(300)))
    pairs = make_task("pairs", data=str(tmp_path / "pairs.tsv"))
    assert rule_of(pairs) is None
    assert no_rule(pairs).startswith("the pairs of this task come from a file")
    data = task_data(programs, 8)
    assert (data["rule"], data["no_rule"]) == (None, no_rule(programs))
    assert task_data(make_task("copy", symbols=4), 8)["no_rule"] == ""


@pytest.mark.parametrize("name", ["svo_sov", "gender"])
def test_a_source_of_these_grammars_has_one_target(name: str) -> None:
    """The page takes the first derivation that it finds."""
    task: Any = make_task(name)
    for length in range(1, 10):
        if not task.pairs.count_of(length, 1):
            continue
        pairs = task.pairs.every(length, 1)
        targets: dict[bytes, set[bytes]] = {}
        for source, target in zip(pairs.source, pairs.target, strict=True):
            targets.setdefault(source.tobytes(), set()).add(target.tobytes())
        assert all(len(each) == 1 for each in targets.values())


def test_the_prompt_of_a_sample_ends_where_the_answer_begins() -> None:
    task = make_task("copy", symbols=4, **SHORT)
    (sample,) = samples_of(task, 0, LengthRange(3, 3), 1)
    assert sample["inputs"][: sample["prompt"]][-1] == 1
    assert sample["prompt"] == 5
    assert sample["mask"] == [0, 0, 0, 0, 1, 1, 1, 1]


def test_a_page_replaces_a_page_and_no_other_file(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    page = html(built_in_runs())
    write_page(path, page)
    write_page(path, page)
    assert path.read_text(encoding="utf-8") == page
    path.write_text("my own page")
    with pytest.raises(RunExistsError, match="is not a page of `unbounded explore`"):
        write_page(path, page)
    write_page(path, page, overwrite=True)
    with pytest.raises(StorageError, match=r"making folder .* failed"):
        write_page(path / "page.html", page)
    with pytest.raises(RunExistsError, match="is a folder; name a file in it"):
        write_page(tmp_path, page, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    write_page(tmp_path / "made" / "page.html", page)
    assert (tmp_path / "made" / "page.html").is_file()


@pytest.mark.parametrize(
    ("name", "options", "typed"),
    [
        ("stack_manipulation", {}, False),
        ("modular_arithmetic", {"computation": 1}, False),
        ("word_problem", {"group": "A4xZ5"}, True),
        ("flare", {"language": "dyck_2_3", "ns": 1.0}, True),
        ("stack_language", {"language": "dyck"}, True),
        ("dynamic_ngrams", {}, True),
        ("mqar", {}, True),
    ],
)
def test_the_tasks_of_the_benchmarks_have_a_page(
    name: str, options: dict[str, Any], typed: bool
) -> None:
    task = make_task(name, **options)
    model = model_of(task, memory={"name": "stack", "width": 4}, hidden_size=8).eval()
    run = run_data(model, task, "run")
    assert run["task"]["typed"] is typed
    assert "the page does not know the rule" in run["task"]["no_rule"]
    for sample in run["samples"]:
        steps = len(sample["inputs"])
        first = sample["mask"].index(1)
        is_answer = task.layout == "answer"
        assert sample["prompt"] == (first + 1 if is_answer else steps)
        assert len(sample["targets"]) == len(sample["mask"]) == steps
    html([run])
