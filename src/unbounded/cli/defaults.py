"""Default config of `unbounded train`, computed from its arguments before they are parsed.

The available options depend on the task's preset, --protocol, and the memory and controller from
--config and the command line. The parser then uses these values as defaults.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from unbounded.cli.errors import file_error
from unbounded.custom_components import is_path, module_of, part_of
from unbounded.errors import ChoiceError, ConfigError
from unbounded.experiments.config import plain_yaml
from unbounded.experiments.config.compose import (
    CHOSEN_BY,
    OPTIONS_OF,
    merged,
    preset_of,
)
from unbounded.experiments.config.presets import PRESETS, PROTOCOLS
from unbounded.experiments.config.schema import RunConfig
from unbounded.options import from_text, options_of, value_error

_PARTS: Final = ("memory", "controller")
#: Config sections that hold the options of a component.
OPTION_GROUPS: Final = (
    "task_options",
    "model.memory",
    "model.controller",
    "training.optimizer_options",
)
_LENGTHS = "--evaluation.lengths"
_DATA = "--hardware.data"
_TASK, _TASK_OPTION = "--task.", "--task_options."
#: Options that take no value.
FLAGS: Final = ("resume", "overwrite", "quiet")


@dataclass(frozen=True)
class Beginning:
    """Arguments of `unbounded train` before parsing.

    Fields:
        task: its name, or None.
        defaults: a config as plain data.
        arguments: the arguments left to parse; those from config files come first.
        modules: modules of custom components named on the command line; they may be imported.
        of_files: component options from config files, by OPTION_GROUPS. They keep their YAML
            types; an argument parser would convert a text to a number.
        texts: component options from the command line, as typed.
        errors: config file values whose type differs from their field's, one line each.
    """

    task: str | None
    defaults: dict[str, Any]
    arguments: list[str]
    modules: tuple[str, ...]
    of_files: dict[str, dict[str, Any]]
    texts: dict[str, dict[str, str]]
    errors: list[str]


def begin(arguments: Sequence[str], flags: Sequence[str]) -> Beginning:
    """Extract task, protocol, config files, memory and controller from the arguments.

    Args:
        arguments: the arguments after the verb.
        flags: option strings that take no value.
    Raises:
        ChoiceError: the task or protocol does not exist.
        ConfigError: a config file cannot be read, or is not a mapping of options.
    """
    rest, files = _without_config(arguments)
    rest = spelled_out(rest)
    read = [(file, _of_file(file)) for file in files]
    file = ", ".join(map(str, files))
    of_run = False
    for _, own in read:
        if isinstance(own.get("used"), dict):
            # A run folder's config also records the hardware that the run used.
            del own["used"]
            of_run = True
    task = _positional(rest, flags)
    from_file = task is None
    for path, own in read:
        named = own.get("task", task)
        if task not in (None, named):
            raise ConfigError(
                [f"config: {path} is for task {named!r}, but the task is {task!r}; leave one out"]
            )
        task = named
    data: dict[str, Any] = {}
    for _, own in read:
        data = _over(data, own)
    known = task is None or (isinstance(task, str) and (task in PRESETS or is_path(task)))
    if not known:
        raise ChoiceError("task", task, PRESETS)
    named, kept = _values_of(rest, "--protocol"), data.pop("protocol", None)
    protocol = named[-1] if named else kept
    if protocol is not None and protocol not in PROTOCOLS:
        raise ChoiceError("protocol", protocol, PROTOCOLS)
    if protocol is not None and of_run:
        raise ConfigError(
            [f"protocol: {file} is of a run and names every option; give --protocol or --config"]
        )
    parts = {name: _value_of(rest, f"--model.{name}.name") for name in _PARTS}
    named = {name: value for name, value in parts.items() if value is not None}
    model = data.get("model")
    own, whole = {}, set()
    if isinstance(model, dict):
        parts_of_file = {name: model[name] for name in _PARTS if isinstance(model.get(name), dict)}
        whole = {name for name, part in parts_of_file.items() if "name" in part}
        own = {name: _part(name, model.pop(name)) for name in _PARTS if name in model}
    base = preset_of(task or "copy", protocol) if task or protocol else preset_of("")
    defaults = merged(base, {"model": own}, whole=whole)
    defaults = merged(defaults, {"model": named}, *_variant(rest), *_choices(data, rest))
    words = [task] if task and from_file else []
    of_files = {group: _mapping_at(data, group) for group in OPTION_GROUPS}
    of_files["model.memory"] |= own.get("memory", {})
    of_files["model.controller"] |= own.get("controller", {})
    for group, options in of_files.items():
        for name in specified_options(group, rest):
            options.pop(name, None)
        options |= _typed_mapping(group, rest)
        options.pop("name", None)
    flat = [word for word in _flat("", {**data, "task": None}) if word]
    _follow_ranges(defaults, [*flat, *rest])
    paths = [*named.values(), *_options_of_parts(rest), *([] if from_file else [task])]
    modules = [module_of(path) for path in paths if path and is_path(path)]
    modules += _values_of(rest, "--import")
    return Beginning(
        task,
        defaults,
        [*words, *flat, *rest],
        tuple(modules),
        of_files,
        {group: option_texts(group, rest) for group in OPTION_GROUPS},
        _file_errors(data, RunConfig, ""),
    )


def _file_errors(data: Mapping[str, Any], kind: type, where: str) -> list[str]:
    """One line for each text in a config file where a number or a boolean is expected."""
    errors: list[str] = []
    for name, expected in typing.get_type_hints(kind).items():
        value = data.get(name)
        if isinstance(expected, type) and dataclasses.is_dataclass(expected):
            if isinstance(value, dict):
                errors += _file_errors(value, expected, f"{where}{name}.")
        elif isinstance(value, str) and (error := value_error(f"{where}{name}", value, expected)):
            errors.append(f"{error}, a text; leave the quotes out")
    return errors


def _mapping_at(data: Mapping[str, Any], group: str) -> dict[str, Any]:
    """The mapping at a dotted name; empty if there is none."""
    value: Any = data
    for part in group.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return dict(value) if isinstance(value, dict) else {}


def _typed_mapping(group: str, arguments: Sequence[str]) -> dict[str, Any]:
    """A component's options given as a mapping on the command line, with their YAML types."""
    typed: dict[str, Any] = {}
    for text in _values_of(arguments, f"--{group}"):
        with suppress(yaml.YAMLError):  # the parser reports invalid YAML
            data = plain_yaml.load(text)
            typed |= data if isinstance(data, dict) else {}
    return typed


def option_texts(group: str, arguments: Sequence[str]) -> dict[str, str]:
    """A component's options on a command line, as typed; the last occurrence counts."""
    prefix = f"--{group}."
    names = [word.partition("=")[0] for word in arguments if word.startswith(prefix)]
    return {name.removeprefix(prefix): _values_of(arguments, name)[-1] for name in names}


def exact_options(
    factory: Callable[..., Any],
    options: Mapping[str, Any],
    of_file: Mapping[str, Any],
    texts: Mapping[str, str],
) -> dict[str, Any]:
    """Restore the types of a component's options after a parser that guesses them.

    Args:
        factory: makes the component.
        options: the parsed options.
        of_file: options from config files and mappings; YAML determines their types.
        texts: options as typed; the factory's signature determines their types.
    """
    known = options_of(factory)
    exact = dict(options)
    for name in options:
        if name in texts and name in known:
            exact[name] = from_text(texts[name], options[name], known[name].kind)
        elif name in of_file and name not in texts:
            exact[name] = of_file[name]
    return exact


def _over(base: Mapping[str, Any], change: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    """Merge the data of a later config file over those of an earlier one.

    A memory or controller with a name replaces the earlier one. A different optimizer, schedule,
    stop rule or curriculum replaces the earlier one and its options.
    """
    result = dict(base)
    for key, value in change.items():
        part, before = f"{where}{key}", base.get(key)
        if part in ("model.memory", "model.controller") and key in base:
            own = part_of(value)
            result[key] = own if "name" in own else {**part_of(before), **own}
        elif isinstance(value, dict) and isinstance(before, dict):
            result[key] = _over(before, value, f"{part}.")
        else:
            result[key] = value
    if where == "training.":
        for choice, options in OPTIONS_OF.items():
            if choice in change and base.get(choice, change[choice]) != change[choice]:
                for option in set(options) - set(change):
                    result.pop(option, None)
    return result


def _follow_ranges(defaults: dict[str, Any], words: Sequence[str]) -> None:
    """Reset the evaluation lengths if the run changes the preset's lengths, except on streams."""
    own = {"train_lengths", "test_lengths"} & specified_options("task_options", words)
    if (own or "lengths" in specified_options("training", words)) and not defaults["training"][
        "chunk_steps"
    ]:
        defaults["evaluation"]["lengths"] = None


def _variant(rest: Sequence[str]) -> list[dict[str, Any]]:
    """Memory options on the command line that determine defaults of other options."""
    named = {name: _value_of(rest, f"--model.memory.{name}") for name in CHOSEN_BY}
    chosen = {name: value for name, value in named.items() if value is not None}
    return [{"model": {"memory": chosen}}] if chosen else []


def _choices(data: dict[str, Any], rest: Sequence[str]) -> list[dict[str, Any]]:
    """The schedule and curriculum of a config file, then those of the command line.

    If the command line replaces one, the file's options of it are dropped.
    """
    of_file = training if isinstance(training := data.get("training"), dict) else {}
    values = {name: _value_of(rest, f"--training.{name}") for name in OPTIONS_OF}
    own = {name: value for name, value in values.items() if value is not None}
    for name, value in own.items():
        if of_file.get(name, value) != value:
            for option in OPTIONS_OF[name]:
                of_file.pop(option, None)
    chosen = {name: of_file[name] for name in OPTIONS_OF if isinstance(of_file.get(name), str)}
    return [{"training": chosen}, {"training": own}]


def _part(name: str, value: Any) -> dict[str, Any]:
    """A memory or controller of a config file as a mapping.

    Raises:
        ConfigError: the value is neither a name nor a mapping.
    """
    part = part_of(value)
    if not isinstance(part.get("name", ""), str) or not all(isinstance(key, str) for key in part):
        raise ConfigError(
            [
                f"config: model.{name}: expected a name, or a mapping such as {{name: queue, "
                f"width: 256}}, got {value!r}"
            ]
        )
    return part


def import_modules(modules: Sequence[str]) -> None:
    """Import the modules that the command line names, and nothing else.

    Raises:
        ConfigError: modules cannot be imported; lists all of them.
    """
    errors = []
    for module in modules:
        if not all(part.isidentifier() for part in module.split(".")):
            errors.append(
                f"import: expected a module such as mypackage.memories, got {module!r}. Give its "
                "full name"
            )
            continue
        try:
            importlib.import_module(module)
        except ImportError as error:
            first = module.partition(".")[0]
            here = Path(first).is_dir() or Path(f"{first}.py").is_file()
            is_missing = here and error.name == first  # not a module that it imports itself
            hint = f". {first} is in this folder: PYTHONPATH=. before the command"
            errors.append(f"the package of {module} cannot be imported: {error}{hint * is_missing}")
    if errors:
        raise ConfigError(errors)


def _without_config(arguments: Sequence[str]) -> tuple[list[str], list[Path]]:
    """The arguments without --config, and the config files in order."""
    rest: list[str] = []
    files: list[Path] = []
    words = iter(arguments)
    for word in words:
        option, equals, value = word.partition("=")
        if option == "--config":
            path = value if equals else next(words, "")
            if not path:
                raise ConfigError(["config: expected a path, got nothing"])
            files.append(Path(path))
        else:
            rest.append(word)
    return rest, files


def _of_file(path: Path) -> dict[str, Any]:
    if message := file_error(path):
        raise ConfigError([f"config: {message}"])
    try:
        data: dict[str, Any] = plain_yaml.load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigError([f"config: {path} cannot be read: {error}"]) from error
    return _with_model_nested(data)


def _with_model_nested(data: dict[Any, Any]) -> dict[str, Any]:
    """Expand dotted keys such as `model.memory.width` of a config file into nested mappings.

    Raises:
        ConfigError: such a key occurs twice in the file.
    """
    result = {key: value for key, value in data.items() if not _is_dotted(key)}
    for key in filter(_is_dotted, data):
        *parts, last = str(key).split(".")
        inner: Any = result
        for part in parts:
            inner = inner.setdefault(part, {}) if isinstance(inner, dict) else None
        if not isinstance(inner, dict) or last in inner:
            raise ConfigError([f"config: {key}: expected it once in the file, got it twice"])
        inner[last] = data[key]
    return result


def _is_dotted(key: Any) -> bool:
    return isinstance(key, str) and key.startswith("model.")


def spelled_out(arguments: Sequence[str]) -> list[str]:
    """Expand the short forms of memory, controller and task options.

    `65:128,129:256` becomes a list. Single task options come last, because a whole
    --task_options mapping replaces those before it.
    """
    made: list[str] = []
    single: list[str] = []
    wants_value = False
    following = [*arguments, ""][1:]
    for word, behind in zip(arguments, following, strict=True):
        option, equals, value = word.partition("=")
        if wants_value and not word.startswith("--"):
            single.append(word)
            wants_value = False
            continue
        is_single = option.startswith((_TASK, _TASK_OPTION))
        wants_value = is_single and not equals
        given = value if equals else behind
        if option in ("--model.memory", "--model.controller") and not given.startswith("{"):
            made.append(f"{option}.name{equals}{value}")
        elif is_single:
            name = word.removeprefix(_TASK).removeprefix(_TASK_OPTION)
            single.append(f"{_TASK_OPTION}{name}")
        elif option == _DATA:
            # --data can name a file `null`; --hardware.data cannot.
            made.append(f"--data{equals}{value}")
        elif option == _LENGTHS and equals:
            made.append(f"{option}={_listed(value)}")
        else:
            made.append(_listed(word) if made and made[-1] == _LENGTHS else word)
    return made + single


def _listed(text: str) -> str:
    if text.startswith(("[", "-")) or text == "null":
        return text
    return json.dumps([part.strip() for part in text.split(",")])


def _values_of(arguments: Sequence[str], name: str) -> list[str]:
    """All values of an option, in order."""
    values = []
    for number, word in enumerate(arguments):
        option, equals, value = word.partition("=")
        if option == name:
            following = arguments[number + 1 : number + 2]
            values.append(value if equals else "".join(following))
    return values


def specified_options(part: str, arguments: Sequence[str]) -> set[str]:
    """Names of a config section's options in the arguments, given singly or in a mapping."""
    prefix = f"--{part}."
    words = [word.partition("=")[0] for word in arguments]
    names = {word.removeprefix(prefix) for word in words if word.startswith(prefix)}
    for text in _values_of(arguments, f"--{part}"):
        with suppress(yaml.YAMLError):  # the parser reports invalid YAML
            data = plain_yaml.load(text)
            names |= set(data) if isinstance(data, dict) else set()
    return names


def _options_of_parts(arguments: Sequence[str]) -> list[str]:
    """All values of memory and controller options: a group may be an import path."""
    names = {word.partition("=")[0] for word in arguments}
    prefixes = tuple(f"--model.{part}." for part in _PARTS)
    return [
        value
        for name in sorted(names)
        if name.startswith(prefixes)
        for value in _values_of(arguments, name)
    ]


def _value_of(arguments: Sequence[str], name: str) -> str | None:
    values = _values_of(arguments, name)
    return values[-1] if values and values[-1] else None


def _positional(arguments: Sequence[str], flags: Sequence[str]) -> str | None:
    """The positional argument, at any place among the options."""
    value_follows = False
    for word in arguments:
        if value_follows:
            value_follows = False
        elif word.startswith("-"):
            alone = "=" in word or word in flags
            value_follows = not alone
        else:
            return word
    return None


def _flat(prefix: str, data: dict[Any, Any]) -> Iterator[str]:
    """The options of a config file as arguments."""
    for key, value in data.items():
        name = f"{prefix}{key}"
        if name == "task":
            continue
        if isinstance(value, dict) and name != "task_options":
            yield from _flat(f"{name}.", value)
        elif name in FLAGS and isinstance(value, bool):
            if value:
                yield f"--{name}"
        else:
            text = value if isinstance(value, str) else json.dumps(value)
            is_data = f"--{name}" == _DATA and isinstance(value, str)
            yield f"{'--data' if is_data else f'--{name}'}={text}"
