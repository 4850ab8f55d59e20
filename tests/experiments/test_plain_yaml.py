"""The accepted YAML: a short text cannot exhaust memory, time or the stack."""

from __future__ import annotations

import time

import pytest
import yaml

from unbounded.experiments.config import plain_yaml

#: Nine lines that stand for 10^9 values ("billion laughs").
LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
)
BAD = {
    "an alias refers to the value that contains it": "&a [*a]",
    "nested more than 50 levels deep": "[" * 2000 + "]" * 2000,
    "an integer of 5000 digits": "seed: " + "9" * 5000,
    "its aliases expand to more than 100000 values": LAUGHS,
    r"the key 'batches' is already in line 2\n.*line 4, column 3": (
        "training:\n  batches: 3\n  seed: 1\n  'batches': 4"
    ),
    r"the tag \S+ is not supported": "task: !!python/name:os.system",
    "the tag !!set is not supported": "task: copy\nmodel: !!set {a, b}",
    "the tag !!int is not supported": "task: copy\nseed: !!int 3.5",
    "the tag !!timestamp is not supported": "task: copy\nseed: !!timestamp 2",
    "the tag !!binary is not supported": "task: copy\nseed: !!binary x",
    "the merge key << is not supported": "a: &a {seed: 2}\n<<: *a",
    "expected a name before the colon": "? [a]\n: 3",
    "unacceptable character": "a: \ud800",
}


@pytest.mark.parametrize(("reason", "text"), BAD.items(), ids=range(len(BAD)))
def test_yaml_outside_the_subset_of_configs_is_refused_quickly(reason: str, text: str) -> None:
    begun = time.monotonic()
    with pytest.raises(yaml.YAMLError, match=reason):
        plain_yaml.load(text)
    assert time.monotonic() - begun < 60  # once it took minutes, or did not end


@pytest.fixture(params=["the parser in C", "the parser in Python"], autouse=True)
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test runs once with each parser, because PyYAML may have only one of them."""
    if request.param == "the parser in Python":
        monkeypatch.setattr(plain_yaml, "_FastLoader", plain_yaml._Loader)


def test_a_key_may_be_in_two_mappings() -> None:
    assert plain_yaml.load("a: {n: 1}\nb: {n: 2}\n1: x\n'1': y") == {
        "a": {"n": 1},
        "b": {"n": 2},
        1: "x",
        "1": "y",
    }


def test_aliases_are_resolved() -> None:
    assert plain_yaml.load("a: &a [1, 2]\nb: *a\nc: *a") == {"a": [1, 2], "b": [1, 2], "c": [1, 2]}
    assert plain_yaml.load("") is None
    assert plain_yaml.load("9" * 999) == int("9" * 999)
