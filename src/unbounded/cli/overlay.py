"""The config of a command line, composed from preset, protocol, config files and options.

Every option of a config has the form `--SECTION.NAME VALUE`. An option of a component is one level
deeper, as in `--training.schedule.batches 300`. The value of a component is a name or a mapping, as
in `--training.schedule cooldown`.
"""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml
from jsonargparse import Namespace

from unbounded.cli.errors import file_error, unknown_option
from unbounded.cli.parsing import repeated_line
from unbounded.custom_components import is_path, module_of, part_of
from unbounded.errors import ChoiceError, ConfigError, UnboundedError
from unbounded.experiments.config import plain_yaml
from unbounded.experiments.config.compose import (
    OTHER_MEMORIES,
    component_places,
    joined,
    nested,
    overlay,
    preset_of,
)
from unbounded.experiments.config.presets import PRESETS, PROTOCOLS
from unbounded.experiments.config.schema import (
    SECTIONS,
    ModelConfig,
    RunConfig,
    all_options,
    is_entry,
    kind_of,
    to_dict,
    unknown_options,
)
from unbounded.options import field_kinds, fits, from_text, item_kind, words

#: Keys of a config file that are not options of the config.
_PROTOCOL: Final = "protocol"


@dataclass(frozen=True)
class Words:
    """The arguments of a command line, sorted by kind.

    Fields:
        rest: arguments that are not options of a config.
        options: dotted names of config options with their texts, in order.
        errors: options without a value and repeated options, one line each.
    """

    rest: list[str]
    options: list[tuple[str, str]]
    errors: list[str] = field(default_factory=list)


def sorted_words(
    arguments: Sequence[str], beginnings: Collection[str] = tuple(field_kinds(RunConfig))
) -> Words:
    """Separate the config options of a command line from its other arguments.

    Args:
        arguments: the arguments after the verb.
        beginnings: of the names of options that are taken out, such as "model".
    """
    rest: list[str] = []
    options: list[tuple[str, str]] = []
    errors: list[str] = []
    waiting = list(arguments)
    while waiting:
        word = waiting.pop(0)
        option, equals, value = word.partition("=")
        name = option.removeprefix("--")
        is_option = option.startswith("--") and name.partition(".")[0] in beginnings
        following = waiting[0] if waiting and not equals else value
        if not is_option or (name == "task" and not following.startswith("{")):
            rest.append(word)
            continue
        if not equals:
            if not waiting or waiting[0].startswith("--"):
                errors.append(_no_value(name))
                continue
            value = waiting.pop(0)
        options.append((name, value))
    return Words(rest, options, [*errors, *_repeated(options)])


def _no_value(name: str) -> str:
    expected = "a name" if name in component_places() else "a value"
    kind = kind_of(name)
    if kind is not None and name not in component_places():
        expected = words(kind).removesuffix(" or null")
    return (
        f"{name}: expected {expected} after it, got nothing; a value that begins with - is written "
        f"--{name}=-..."
    )


class ConfigFile(NamedTuple):
    """A config file.

    Fields:
        path: the file.
        data: its options, nested, without the task's protocol.
        task: the task's name; None if it names none.
        protocol: the protocol that it names.
        of_run: whether it is a run's own config.yaml, which names every option.
    """

    path: Path
    data: dict[str, Any]
    task: str | None
    protocol: Any
    of_run: bool


def read_config_file(path: Path) -> ConfigFile:
    """Read a config file, and expand dotted names.

    A run's own config.yaml also has the run's id and the hardware that it used, which are left out.

    Raises:
        ConfigError: the file cannot be read, or a section of it is none.
        ChoiceError: its task is no name.
    """
    if message := file_error(path):
        raise ConfigError(f"config: {message}")
    data: dict[Any, Any] = plain_yaml.load(path.read_text(encoding="utf-8"))
    result: dict[str, Any] = {}
    for key, value in data.items():
        own = nested(str(key), value)
        if twice := _in_both(result, own):
            raise ConfigError(f"config: {twice}: expected it once in the file, got it twice")
        result = joined(result, own)
    of_run = isinstance(result.get("used"), dict)
    if of_run:
        del result["used"]
        result.pop("id", None)
    protocol = result.pop(_PROTOCOL, None)
    task = part_of(result["task"]).get("name") if "task" in result else None
    if "task" in result and not isinstance(task, str):
        raise ChoiceError("task", task, PRESETS)
    errors = _no_sections(result)
    if OTHER_MEMORIES in result:  # only presets have this key
        errors += unknown_options({OTHER_MEMORIES: result[OTHER_MEMORIES]})
    if errors:
        raise ConfigError(errors)
    return ConfigFile(path, result, task, protocol, of_run)


def _no_sections(data: Mapping[str, Any]) -> list[str]:
    """One error for each entry of a config file that should have options but does not."""
    errors = [
        f"{name}: expected options, got {data[name]!r:.80}"
        for name in SECTIONS
        if name in data and not isinstance(data[name], Mapping)
    ]
    for place in sorted(component_places()):
        if _has(data, place) and not isinstance(part := _at(data, place), str | Mapping):
            example = "a name, or a mapping such as {name: NAME}"
            errors.append(f"{place}: expected {example}, got {part!r:.80}")
    return errors


def _in_both(left: Any, right: Any) -> str:
    """The dotted name of the first option that both mappings have; empty if there is none."""
    if not isinstance(left, Mapping):
        return ""
    for name, value in left.items():
        if isinstance(right, Mapping) and name not in right:
            continue
        inner = _in_both(value, right[name] if isinstance(right, Mapping) else right)
        if inner or not (isinstance(value, Mapping) and isinstance(right, Mapping)):
            return f"{name}.{inner}" if inner else str(name)
    return ""


def _at(data: Any, name: str) -> Any:
    """The value at a dotted name; None if there is none."""
    for part in name.split("."):
        data = data.get(part) if isinstance(data, Mapping) else None
    return data


def _has(data: Any, name: str) -> bool:
    section, _, last = name.rpartition(".")
    owner = _at(data, section) if section else data
    return isinstance(owner, Mapping) and last in owner


@dataclass(frozen=True)
class Composed:
    """The config of a command line, as data.

    Fields:
        task: the task's name; None if there is none.
        data: the whole config.
        options: dotted names and texts of the options on the command line.
        modules: modules of custom components that the command line names; they may be imported.
        errors: errors of options, one line each.
    """

    task: str | None
    data: dict[str, Any]
    options: tuple[tuple[str, str], ...]
    modules: tuple[str, ...]
    errors: list[str]


def compose_config(
    task: str | None,
    options: Sequence[tuple[str, str]],
    *,
    files: Sequence[Path] = (),
    protocol: str | None = None,
    imports: Sequence[str] = (),
) -> Composed:
    """Compose a preset, a protocol, config files and the options of a command line.

    Args:
        task: the task's name on the command line; None takes it from a file.
        options: dotted names and texts.
        files: config files, in order.
        protocol: one of PROTOCOLS; None takes it from a file.
        imports: modules that the command line names; they are imported.
    Raises:
        ChoiceError: the task or protocol does not exist.
        ConfigError: a config file cannot be read, or is for another task.
    """
    read = [read_config_file(path) for path in files]
    typed = _task_of(options)
    if None not in (task, typed) and typed != task:
        raise ConfigError(f"task: expected one task, got {task!r} and {typed!r}")
    named = task = typed if task is None else task
    for file in read:
        if None not in (file.task, task) and file.task != task:
            raise ConfigError(
                f"config: {file.path} is for task {file.task!r}, but this "
                f"run is for task {task!r}; leave one out"
            )
        task = file.task if task is None else task
        protocol = file.protocol if protocol is None else protocol
    if task is not None and not (task in PRESETS or is_path(task)):
        raise ChoiceError("task", task, PRESETS)
    if protocol is not None and protocol not in PROTOCOLS:
        raise ChoiceError("protocol", protocol, PROTOCOLS)
    whole = next((file for file in read if file.of_run), None)
    if whole is not None and protocol is not None:
        raise ConfigError(
            f"protocol: {whole.path} is a run's whole config; give --protocol or --config"
        )
    modules = (*_modules(named, options), *imports)
    import_modules(modules)
    base = preset_of(task or "", protocol)
    if whole is not None:
        base = to_dict(RunConfig(task={"name": task}))
    data = overlay(base, *(file.data for file in read))
    data = overlay(data, *_named(options))
    errors: list[str] = []
    for name, text in options:
        try:
            place = name.removesuffix(".name")
            place = place if place in component_places() else name
            data = overlay(data, nested(place, _value(place, text, data)))
        except ConfigError as error:
            errors += error.errors
    changes = [nested(name, _read(text)) for name, text in options]
    _without_preset_ranges(data, [*(file.data for file in read), *changes])
    return Composed(task, data, tuple(options), modules, errors)


def _task_of(options: Sequence[tuple[str, str]]) -> str | None:
    """The task that options name, as in `--task '{name: copy}'`; None if they name none."""
    named = None
    for name, text in options:
        if name == "task" and isinstance(value := _read(text), Mapping):
            named = value.get("name", named)
        elif name == "task.name":
            named = text
    return named if named is None else str(named)


def _modules(task: str | None, options: Sequence[tuple[str, str]]) -> list[str]:
    """Modules of the custom components that a command line names.

    Names of tasks, memories and controllers may be import paths, and so may options of memories and
    controllers, such as a group.
    """
    paths = [] if task is None else [task]
    for name, text in options:
        if name.startswith(("model.memory", "model.controller")):
            value = _read(text)
            paths += map(str, value.values()) if isinstance(value, Mapping) else [text]
    return [module_of(path) for path in paths if is_path(path)]


def _without_preset_ranges(data: dict[str, Any], changes: Sequence[Mapping[str, Any]]) -> None:
    """Leave out the preset's evaluation ranges if the lengths differ. Streams keep these ranges."""
    lengths = ("task.train_lengths", "task.test_lengths", "training.lengths")
    is_other = any(_has(change, name) for change in changes for name in lengths)
    is_given = any(_has(change, "evaluation.lengths") for change in changes)
    if is_other and not is_given and not data["training"].get("chunk_steps"):
        data["evaluation"].pop("lengths", None)


def _named(options: Sequence[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    """Put options that name components first, because their other options depend on these."""
    for name, text in options:
        place = name.removesuffix(".name")
        if place in component_places() and place != "task" and not _is_mapping(text):
            yield nested(place, text)


def _value(name: str, text: str, data: Mapping[str, Any]) -> Any:
    """Parse the value of an option.

    Raises:
        ConfigError: there is no such option.
    """
    value = _read(text)
    if name in component_places():
        if _is_mapping(text) and not isinstance(value, dict):
            raise ConfigError(f"{name}: {text!r:.80} is not YAML{_yaml_fault(text)}")
        return value if isinstance(value, dict) else text
    if name in SECTIONS:
        if isinstance(value, dict):
            return value
        raise ConfigError(f"{name}: expected one of its options, as in --{name}.NAME VALUE")
    place, _, option = name.rpartition(".")
    if place in component_places():
        return _component_value(place, option, text, data)
    if is_entry(name):
        return value
    kind = kind_of(name)
    if kind is None:
        raise ConfigError(unknown_option(f"--{name}", [f"--{known}" for known in all_options()]))
    return _typed(text, value, kind)


def _read(text: str) -> Any:
    """Parse a text as YAML, except that an empty text stays empty and does not become null."""
    return plain_yaml.load_or_text(text) if text.strip() else text


def _is_mapping(text: str) -> bool:
    return text.lstrip().startswith("{")


def _yaml_fault(text: str) -> str:
    try:
        plain_yaml.load(text)
    except yaml.YAMLError as error:
        return plain_yaml.yaml_error(error)
    return ""


def _typed(text: str, value: Any, kind: Any) -> Any:
    item = item_kind(kind)
    if item is None or fits(value, kind):
        return from_text(text, value, kind)
    parts = [part.strip() for part in text.split(",")]
    return [from_text(part, _read(part), item) for part in parts]


def _component_value(place: str, option: str, text: str, data: Mapping[str, Any]) -> Any:
    owner: Any = data
    for part in place.split("."):
        owner = owner.get(part, {}) if isinstance(owner, Mapping) else {}
    model = data["model"]
    parts = ModelConfig(memory=part_of(model["memory"]), controller=part_of(model["controller"]))
    return option_value(place, part_of(owner).get("name"), option, text, parts)


def option_value(place: str, name: object, option: str, text: str, model: ModelConfig) -> Any:
    """Parse the value of a component's option, according to the component's signature.

    Args:
        place: the component's place in a config.
        name: the component's name.
        option: the option's name; the value of an unknown one is as in YAML.
        text: what is typed.
        model: of the same config; its memory determines the controllers.
    """
    # Imported here, because the other options do not need torch.
    from unbounded.experiments.config.components import component_options

    value = _read(text)
    try:
        known = component_options(place, name, model)
    except UnboundedError:  # the check of the config reports this
        return value
    return _typed(text, value, known[option].kind) if option in known else value


def _repeated(options: Sequence[tuple[str, str]]) -> list[str]:
    """One line for each repeated option, because only the last would count."""
    names = [name for name, _ in options]
    kinds = {name: kind_of(name) for name in names if names.count(name) > 1}
    return [
        repeated_line(
            f"--{name}", names.count(name), is_list=kind is not None and bool(item_kind(kind))
        )
        for name, kind in kinds.items()
    ]


def modules_of(given: Namespace) -> list[str]:
    """The modules of --import."""
    return [] if given.imports is None else [name.strip() for name in given.imports.split(",")]


def import_given(given: Namespace) -> None:
    """Import the modules of --import.

    Raises:
        ConfigError: modules cannot be imported; lists all of them.
    """
    import_modules(modules_of(given))


def import_modules(modules: Sequence[str]) -> None:
    """Import the modules that the command line names, and nothing else.

    Raises:
        ConfigError: modules cannot be imported; lists all of them.
    """
    errors = []
    for module in modules:
        is_file = module.endswith(".py")
        if is_file or not all(part.isidentifier() for part in module.split(".")):
            errors.append(
                f"import: expected a module such as mypackage.memories, got {module!r}. "
                f"{'Leave out .py' if is_file else 'Give its full name'}"
            )
            continue
        try:
            importlib.import_module(module)
        except ImportError as error:
            first = module.partition(".")[0]
            here = Path(first).is_dir() or Path(f"{first}.py").is_file()
            is_missing = here and error.name == first  # no other module is missing
            hint = f". {first} is in this folder: PYTHONPATH=. before the command"
            errors.append(f"the package of {module} cannot be imported: {error}{hint * is_missing}")
        except (Exception, SystemExit) as error:  # the user's code can raise anything
            errors.append(f"the package of {module} cannot be imported: {_located(error)}")
    if errors:
        raise ConfigError(errors)


def _located(error: BaseException) -> str:
    """An error of a user's module, with the file and line where it was raised."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        file, line, text = error.filename, error.lineno, error.msg
    else:
        frames = traceback.extract_tb(error.__traceback__)
        last = next(frame for frame in reversed(frames) if not frame.filename.startswith("<"))
        file, line, text = last.filename, last.lineno, str(error)
    return f"{type(error).__name__}: {text} ({file}, line {line})"
