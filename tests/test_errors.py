"""Suggestions of errors: the intended name, and none if no name is similar."""

from __future__ import annotations

import pickle

import pytest

from unbounded import errors
from unbounded.cli.main import VERBS
from unbounded.cli.names import names_of
from unbounded.errors import ChoiceError, closest

TASKS, MEMORIES = names_of("tasks"), names_of("memories")
OPTIONS = ("--model.hidden_size", "--model.memory", "--training.batch_size", "--seed")


@pytest.mark.parametrize(
    ("given", "names", "meant"),
    [
        ("coppy", TASKS, "copy"),
        ("anbmc", TASKS, "anbmc_sum"),
        ("an_bn", TASKS, "anbn"),
        ("treebank", TASKS, "penn_treebank"),
        ("ntm", TASKS, "ntm_copy"),
        ("que", MEMORIES, "queue"),
        ("RAM", MEMORIES, "ram"),
        ("stak", MEMORIES, "stack"),
        ("superposition", MEMORIES, "superposition_stack"),
        ("trian", VERBS, "train"),
        ("--hiden", OPTIONS, "--model.hidden_size"),
        ("--batch", OPTIONS, "--training.batch_size"),
        ("--memory", OPTIONS, "--model.memory"),
    ],
)
def test_similar_names_are_suggested(given, names, meant):
    assert closest(given, names)[0] == meant


@pytest.mark.parametrize("given", ["xyz", "foo", "", "q", "transformer", "imagenet", "gpt"])
@pytest.mark.parametrize("names", [TASKS, MEMORIES, VERBS, OPTIONS])
def test_dissimilar_names_are_not_suggested(given, names):
    assert closest(given, names) == []
    assert "Did you mean" not in str(ChoiceError("name", given, names))


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("flare", ["marked_copy", "parity", "marked_copy/stack", "lstm"]),
    ],
)
def test_a_chance_similarity_to_the_start_of_a_name_is_no_suggestion(given, names):
    assert closest(given, names) == []


@pytest.mark.parametrize(
    "error",
    [
        errors.ConfigError(["seed: too low", "task: unknown"]),
        errors.ConfigError("seed: too low"),
        errors.ChoiceError("memory", "stak", ["stack", "queue"]),
        errors.StorageError(28, "no space left", "model.safetensors"),
        errors.NonFiniteError("the loss is NaN"),
    ],
)
def test_an_error_from_another_process_keeps_its_message(error: Exception) -> None:
    copied = pickle.loads(pickle.dumps(error))
    assert type(copied) is type(error)
    assert str(copied) == str(error)
    assert vars(copied) == vars(error)
