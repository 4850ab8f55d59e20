"""Whatever a file, an argument or a config says, only the library's own errors come out.

The last item of Part 6. Small here, larger with `pytest -m slow`; nothing is trained.
"""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.experiments.tiny import tiny
from unbounded.cli import main
from unbounded.errors import UnboundedError
from unbounded.evaluation.report import table
from unbounded.experiments.config import plain_yaml
from unbounded.experiments.config.check import examine
from unbounded.experiments.config.schema import from_dict, to_dict
from unbounded.experiments.run.folder import read_report
from unbounded.experiments.run.loading import load_config
from unbounded.experiments.run.run import train_run

pytestmark = pytest.mark.hypothesis  # also of those that draw inside the test

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([0, 1, 2, -1, 10**30, 1e30, -1.0, float("nan"), float("inf")]),
    st.text(max_size=8),
    st.sampled_from(["copy", "anbn", "queue", "none", "lstm", "adam", "1:3", "9:2", "queue:x"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


def leaves(data: dict[str, Any], above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The paths of a config: of every option, and of every group of options."""
    found = []
    for key, value in data.items():
        found.append((*above, key))
        if isinstance(value, dict):
            found += leaves(value, (*above, key))
    return found


PATHS = leaves(to_dict(tiny()))
CHANGES = st.lists(st.tuples(st.sampled_from(PATHS), VALUES), min_size=1, max_size=3)


def changed(changes: list[tuple[tuple[str, ...], Any]]) -> dict[str, Any]:
    data = to_dict(tiny())
    for path, value in changes:
        part: Any = data
        for key in path[:-1]:
            part = part.get(key) if isinstance(part, dict) else None
        if isinstance(part, dict):
            part[path[-1]] = value
    return data


def sized(function: Any) -> Any:
    """A small test, and a larger one of the same marked slow."""
    quiet = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    examples = pytest.mark.parametrize("count", [25, pytest.param(3000, marks=pytest.mark.slow)])

    def test(count: int, tmp_path: Path) -> None:
        options = settings(max_examples=count, deadline=None, suppress_health_check=quiet)
        options(function)(tmp_path)

    test.__doc__ = function.__doc__
    return examples(test)


def command(*arguments: str) -> int:
    """The exit code of a command; what it prints is not looked at."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            return main(arguments)
        except SystemExit as end:
            return int(end.code or 0)


@sized
@given(changes=CHANGES)
def test_configs(tmp_path: Path, changes: Any) -> None:
    try:
        config = from_dict(changed(changes))
    except (UnboundedError, TypeError):  # a TypeError says what it lacks
        return
    with contextlib.suppress(UnboundedError):
        _, faults = examine(config)
        assert all(isinstance(fault, str) for fault in faults)


@sized
@given(changes=CHANGES)
def test_configs_of_run_folders(tmp_path: Path, changes: Any) -> None:
    with contextlib.suppress(yaml.YAMLError):
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(changed(changes)), encoding="utf-8")
        with contextlib.suppress(UnboundedError):
            load_config(tmp_path)


@sized
@given(changes=CHANGES)
def test_config_files(tmp_path: Path, changes: Any) -> None:
    with contextlib.suppress(yaml.YAMLError):
        path = tmp_path / "mine.yaml"
        path.write_text(yaml.safe_dump(changed(changes)), encoding="utf-8")
        assert command("train", "--config", str(path), "--print_config") in (0, 2)


@sized
@given(text=st.text(max_size=60) | st.text(alphabet="[]{}&*a: -!|>'\"\n", max_size=60))
def test_yaml(tmp_path: Path, text: str) -> None:
    with contextlib.suppress(yaml.YAMLError):
        plain_yaml.load(text)


@sized
@given(path=st.sampled_from(PATHS), value=st.text(max_size=12) | SCALARS.map(str))
def test_arguments(tmp_path: Path, path: tuple[str, ...], value: str) -> None:
    assert command("train", "copy", f"--{'.'.join(path)}", value, "--print_config") in (0, 2)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    config = tiny(batches=2, accuracy_every=0)
    return train_run(config, root=tmp_path_factory.mktemp("fuzz"), quiet=True).report


@pytest.mark.parametrize("count", [60, pytest.param(3000, marks=pytest.mark.slow)])
def test_reports(report: dict[str, Any], count: int, tmp_path: Path) -> None:
    paths = leaves(report)

    @settings(max_examples=count, deadline=None)
    @given(st.sampled_from(paths), VALUES)
    def holds(path: tuple[str, ...], value: Any) -> None:
        data = json.loads(json.dumps(report))
        part = data
        for key in path[:-1]:
            part = part[key]
        part[path[-1]] = value
        (tmp_path / "report.json").write_text(json.dumps(data), encoding="utf-8")
        with contextlib.suppress(UnboundedError):
            again = read_report(tmp_path)
            assert again is not None
            table(again)  # what is taken for a report can be shown

    holds()
