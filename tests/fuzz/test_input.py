"""Any file, argument or config raises only the library's own errors.

The test is small here and larger with `pytest -m slow`; nothing is trained.
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
from unbounded.experiments.run.run import train_run
from unbounded.experiments.run.run_folder import RunFolder
from unbounded.memories import MEMORIES
from unbounded.models import MemoryModel
from unbounded.models.model_parts import controller_errors, memory_errors
from unbounded.options import options_of
from unbounded.rnn import CONTROLLERS
from unbounded.tasks import TASKS, make_task
from unbounded.training.optimizers import OPTIMIZERS, optimizer_errors

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
    """The exit code of a command; its output is ignored."""
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
    except (UnboundedError, TypeError):  # a TypeError names the missing argument
        return
    with contextlib.suppress(UnboundedError):
        _, errors = examine(config)
        assert all(isinstance(error, str) for error in errors)


@sized
@given(changes=CHANGES)
def test_configs_of_run_folders(tmp_path: Path, changes: Any) -> None:
    with contextlib.suppress(yaml.YAMLError):
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(changed(changes)), encoding="utf-8")
        with contextlib.suppress(UnboundedError):
            RunFolder(tmp_path).config()


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
            again = RunFolder(tmp_path).report()
            assert again is not None
            table(again)  # an accepted report can be printed

    holds()


TYPED = VALUES | st.sampled_from(["no", "yes", "true", "3", "1e-3", "null", "nan", [1], {"a": 1}])
KINDS: dict[str, Any] = {
    "memory": MEMORIES,
    "controller": CONTROLLERS,
    "optimizer": OPTIMIZERS,
    "task": TASKS,
}
#: Each component with an option of it, one that it has not, and those that no user gives.
OPTIONS = [
    (kind, name, option)
    for kind, registry in KINDS.items()
    for name, factory in registry.items()
    for option in (*options_of(factory, hidden=("device", "dtype", "data")), "nothing")
]
#: Sizes that would fill the memory are not tested here.
SMALL = TYPED.filter(lambda value: not isinstance(value, int) or abs(value) < 50)


@sized
@given(option=st.sampled_from(OPTIONS), value=SMALL)
def test_components(tmp_path: Path, option: tuple[str, str, str], value: Any) -> None:
    kind, name, own = option
    if kind == "memory":
        errors = memory_errors({"name": name, own: value}, 8)
    elif kind == "controller":
        errors = controller_errors({"name": name, own: value}, "queue", 4)
    elif kind == "optimizer":
        errors = optimizer_errors(name, {own: value})
    else:
        with contextlib.suppress(UnboundedError):
            make_task(name, **{own: value})
        return
    assert all(isinstance(error, str) for error in errors)


GROUPS = {
    "memory": "--model.memory",
    "controller": "--model.controller",
    "optimizer": "--training.optimizer",
    "task": "--task",
}


@sized
@given(option=st.sampled_from(OPTIONS), value=st.text(max_size=9) | SMALL.map(str))
def test_component_arguments(tmp_path: Path, option: tuple[str, str, str], value: str) -> None:
    kind, name, own = option
    chosen = {"optimizer": ("--training.optimizer", name)}.get(kind, (GROUPS[kind], name))
    arguments = ("train", name) if kind == "task" else ("train", "copy", *chosen)
    assert command(*arguments, f"{GROUPS[kind]}.{own}={value}", "--print_config") in (0, 2)


CHUNKS = ["!!set", "!!int", "!!binary", "!!timestamp", "!!float", "!!null", "!x", "<<", "&a", "*a"]
CHUNKS += ["task: ", "seed: ", "model: ", "3.5", "copy", "? ", ": ", *"{}[]\n -"]


@sized
@given(chunks=st.lists(st.sampled_from(CHUNKS), max_size=9))
def test_yaml_of_tags_and_merge_keys(tmp_path: Path, chunks: list[str]) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("".join(chunks), encoding="utf-8")
    assert command("train", "--config", str(path), "--print_config") in (0, 2)


@sized
@given(
    verb=st.sampled_from([("train", "copy"), ("evaluate", "RUN"), ("explore", "RUN")]),
    module=st.text(alphabet="._/ -\x00", max_size=6),
)
def test_imports(tmp_path: Path, verb: tuple[str, ...], module: str) -> None:
    assert command(*verb, f"--import={module}") == 2


@sized
@given(
    verb=st.sampled_from(["evaluate", "explore", "actions", "verify", "extract", "harden"]),
    name=st.text(alphabet="ax./", min_size=200, max_size=5000) | st.text(max_size=5),
)
def test_names_of_runs(tmp_path: Path, verb: str, name: str) -> None:
    more = ("aab",) if verb == "actions" else ()
    more += ("--no-open",) if verb == "explore" else ()
    assert command(verb, f"{tmp_path}/{name}", *more) == 2


@sized
@given(name=st.sampled_from(["inputs", "memory", "dropout", "new", "embedding_size"]), value=SMALL)
def test_saved_models(tmp_path: Path, name: str, value: Any) -> None:
    folder = tmp_path / "model"
    if not folder.exists():
        MemoryModel(inputs=3, outputs=3, hidden_size=2).save_pretrained(folder)
        (tmp_path / "config.json").write_text((folder / "config.json").read_text())
    data = json.loads((tmp_path / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**data, name: value}))
    with contextlib.suppress(UnboundedError):
        MemoryModel.from_pretrained(folder)
