"""`unbounded list`: everything by name, and the options of one."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

import pytest

import unbounded
from tests.cli.failing import Capture, failing
from unbounded.cli import main
from unbounded.cli.names import PLACES, REGISTRIES, names_of
from unbounded.experiments.config.presets import FAMILIES


@pytest.mark.parametrize(
    ("kind", "use"), [("grefenstette2015", "unbounded reproduce grefenstette2015 --dry-run")]
)
def test_list_explains_the_use_of_components_without_options(
    kind: str, use: str, capsys: Capture
) -> None:
    assert main(["list", kind]) == 0
    assert use in capsys.readouterr().out
    assert main(["list", kind, "--json"]) == 0
    assert use in json.loads(capsys.readouterr().out)["use"]


def test_list_shows_the_names_of_one_kind(capsys: Capture) -> None:
    assert main(["list", "schedule"]) == 0
    out = capsys.readouterr().out
    assert "schedules:" in out
    assert "  cooldown  Keep the learning rate constant until" in out
    assert "copy" not in out
    assert main(["list", "schedules"]) == 0  # a heading of the list
    assert capsys.readouterr().out == out
    assert main(["list", "stop", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["stop_rules"]) == {
        *("solved", "converged", "budget")
    }


def test_list_names_everything(capsys: Capture) -> None:
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    for name in ("copy", "gender", "stack", "deque", "none", "gru", "elman", "rmsprop"):
        assert f"  {name} " in out or f"  {name}\n" in out
    assert main(["list", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["presets"].keys() == found["tasks"].keys()
    assert "superposition_stack" in found["memories"]


def test_tasks_are_listed_by_family(capsys: Capture) -> None:
    assert sorted(name for names in FAMILIES.values() for name in names) == sorted(
        names_of("tasks")
    )
    assert main(["list", "task"]) == 0
    out = capsys.readouterr().out
    assert " the Chomsky hierarchy (Delétang et al. 2023):\n  even_pairs " in out
    assert " recognition (Butoi et al. 2025):\n  flare " in out
    assert main(["list", "task", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"tasks", "families"}
    assert "text" in found["families"]["your own data"]
    assert main(["list", "schedule", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {"schedules"}


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("turing_tape", ["--model.memory.OPTION", "  slots            128\n"]),
        ("stack", ["  width      as wide as the hidden layer\n", "  pop_bias   -1.0\n"]),
        ("lstm", ["--model.controller.OPTION", "  forget_bias  1.0\n", "  num_layers   1\n"]),
        ("dyck", ["--task.OPTION", "  kinds                1\n"]),
        ("none", ["none (model.memory): No memory", "It has no options."]),
        ("cooldown", ["--training.schedule.OPTION", "  batches  500\n"]),
        ("rmsprop", ["--training.optimizer.OPTION", "  eps             0.0001\n"]),
        ("gradual", ["--hardening.OPTION", "  batches           600\n"]),
    ],
)
def test_list_shows_the_options_of_one(name: str, lines: list[str], capsys: Capture) -> None:
    assert main(["list", name]) == 0
    out = capsys.readouterr().out
    assert [line for line in lines if line not in out] == []
    assert "device" not in out
    assert main(["list", name, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)
    assert "Did you mean 'stack'?" in failing(capsys, "list", "stak")


def test_list_explains_options(capsys: Capture) -> None:
    assert main(["list", "lie_access"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for text in (
        '"translation" of R^n',
        '"inverse_square" (InvNorm), or "softmax"',
        "exactly 0 up to -2.5",
    ):
        assert text in shown
    for name in ("copy", "reversal", "answer_odd_first"):
        assert main(["list", name]) == 0
        shown = capsys.readouterr().out
        assert "number of symbols, at least 1" in shown
        assert ("Lengths k are of 2k symbols." in shown) == (name == "answer_odd_first")


@pytest.mark.parametrize("kind", PLACES)
def test_every_option_has_a_text(kind: str, capsys: Capture) -> None:
    for name in names_of(kind):
        if kind == "optimizers":  # the texts are torch's
            continue
        assert main(["list", name]) == 0
        lines = capsys.readouterr().out.splitlines()
        options = {
            line.split()[0]: [*lines, ""][number + 1]
            for number, line in enumerate(lines)
            if re.match(r"  \w+  ", line)
        }
        assert [option for option, text in options.items() if not text[:6].isspace()] == [], name
        # A name in a text is an option that is shown, or public.
        named = set(re.findall(r"`(\w+)`", " ".join(lines)))
        assert named <= {*options, *dir(unbounded)}, name


def test_a_text_has_the_form_of_the_values(capsys: Capture) -> None:
    assert main(["list", "transformer"]) == 0
    shown = capsys.readouterr().out
    assert "null for 4 times hidden_size" in shown
    assert "None" not in shown


def test_listed_names_equal_those_of_the_registries() -> None:
    from unbounded.experiments.config.components import CHOICES
    from unbounded.experiments.tables.published import PAPERS
    from unbounded.memories import MEMORIES
    from unbounded.models.model_parts import BASELINES
    from unbounded.rnn import CONTROLLERS
    from unbounded.tasks import TASKS

    def lines(registry: Mapping[str, object]) -> dict[str, str]:
        return {k: (v.__doc__ or "").strip().split("\n", 1)[0] for k, v in registry.items()}

    # Text for a terminal does not mention the arguments of functions.
    assert not [text for kind in REGISTRIES for text in names_of(kind).values() if "Args" in text]
    assert names_of("tasks") == lines(TASKS)
    memories = lines(MEMORIES)
    assert dict(list(names_of("memories").items())[1:]) == memories
    controllers = {**lines(BASELINES), **lines(CONTROLLERS)}
    assert names_of("controllers") == controllers
    assert names_of("papers") == PAPERS
    assert list(names_of("optimizers")) == list(CHOICES["training.optimizer"].registry)
    assert set(PLACES.values()) == set(CHOICES)
    for kind, place in PLACES.items():
        if place.startswith(("training.", "hardening")) and kind != "optimizers":
            assert names_of(kind) == lines(CHOICES[place].registry)


def test_a_baseline_names_the_memory_that_it_needs(capsys: Capture) -> None:
    needed = "give --model.memory none"
    assert main(["list", "deltanet"]) == 0
    assert needed in capsys.readouterr().out
    assert main(["list", "gru"]) == 0
    assert needed not in capsys.readouterr().out
