"""`unbounded train TASK`: train a model on a task."""

from __future__ import annotations

import json
import shlex
import sys
import textwrap
from argparse import RawDescriptionHelpFormatter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from docstring_parser import parse as parse_docstring
from jsonargparse import Namespace

from unbounded.cli.harden import hardened_text
from unbounded.cli.names import PLACES, names_of
from unbounded.cli.overlay import Composed, Words, compose_config, modules_of, sorted_words
from unbounded.cli.parsing import Parser, UsageError, add_import, parse
from unbounded.errors import ConfigError
from unbounded.experiments.config import plain_yaml
from unbounded.experiments.config.compose import (
    normalised,
    preset_of,
    unknown_parts,
    with_hardening,
)
from unbounded.experiments.config.presets import PRESETS, PROTOCOLS
from unbounded.experiments.config.schema import (
    SECTIONS,
    EvaluationConfig,
    RunConfig,
    all_options,
    to_dict,
)
from unbounded.files import printable

if TYPE_CHECKING:
    from unbounded.tasks import Task

_DESCRIPTION = """Train a model on a task until it is solved or out of budget.

examples:
  unbounded train copy
  unbounded train anbn --harden --restarts 5 --jobs 2
  unbounded train copy --model.memory superposition_stack --model.memory.count 20
  unbounded train copy --print_config > mine.yaml && unbounded train --config mine.yaml

Values come from the preset, --protocol, --config FILE and the options; later ones take precedence.
Another component (memory, ...) replaces the preset's with all its options; see `unbounded list`.
"""

_PRINT: Final = "--print_config"
#: Prefix of the error for missing data of a task.
_NO_DATA: Final = "--data: give"


def parser(arguments: Sequence[str]) -> Parser:
    """The argument parser of this verb.

    The help of this parser shows the config of the given task.
    """
    words = sorted_words([word for word in arguments if word not in ("--help", "-h")])
    task = protocol = None
    with suppress(UsageError, ConfigError):
        rest, _ = _values(words.rest, "--config")
        given, _ = parse(_parser(), rest)
        task = given.task if given.task in PRESETS else None
        protocol = given.protocol if given.protocol in PROTOCOLS else None
    return _parser("\n".join(_help_lines(preset_of(task or "", protocol), task)))


def _parser(epilog: str = "") -> Parser:
    made = Parser(
        prog="unbounded train",
        usage="unbounded train [TASK] [options]",
        description=_DESCRIPTION,
        epilog=epilog,
        also=[f"--{name}" for name in all_options()],
        formatter_class=_Help,
    )
    made.add_argument("task", nargs="?", type=str, help="See `unbounded list`.")
    for name, text in (
        ("--protocol", "paper: train as in the task's paper, which is slower."),
        ("--config", "A YAML file with any of the options; later files take precedence."),
        ("--data", "File or folder of data."),
        ("--log_with", "Also log to trackers: wandb,tensorboard,mlflow, ..."),
    ):
        made.add_argument(name, type=str, help=text)
    add_import(made)
    made.add_argument("--runs", type=str, default="runs", help="Folder of the run folders.")
    made.add_argument(
        "--restarts",
        type=int,
        default=1,
        help="Train this many seeds, from --seed on, and report each.",
    )
    made.add_argument("--jobs", type=int, default=1, help="Concurrent restarts, one thread each.")
    for name, text in (
        ("--until_solved", "End with the first restart that solves the task on validation."),
        ("--harden", "Then train the memory's gates to 0 or 1."),
        ("--resume", "Continue the run after Ctrl-C, SIGTERM or a crash; or start it."),
        ("--overwrite", "Replace an existing run."),
        ("--quiet", "Show only the result."),
        (_PRINT, "Print the config and stop."),
    ):
        made.add_argument(name, action="store_true", help=text)
    return made


def _help_lines(data: Mapping[str, Any], task: str | None) -> Iterator[str]:
    """The options of a config with their values, one line each."""
    yield f"config options, with the values {f'of {task}' if task else 'without a preset'}:"
    explained = {f"{where}.{name}": text for where, kind in SECTIONS.items()
                 for name, text in _explained(kind).items()}  # fmt: skip
    explained |= _explained(RunConfig)
    yield "  --task.OPTION VALUE                        an option of the task"
    for name in all_options():
        if name in ("task", "hardware.data"):  # these are given as TASK and --data
            continue
        section, _, option = name.rpartition(".")
        value = data.get(section, {}).get(option) if section else data.get(name)
        if section == "evaluation" and option not in data["evaluation"]:
            value = getattr(EvaluationConfig(), option)
        text = explained[name].partition(". ")[0].rstrip(".")
        if name in _KINDS and name != "task":
            text = ", ".join(names_of(_KINDS[name]))
        shown = f"  --{name} {_short(value)}"
        yield f"{shown:<44} {textwrap.shorten(text, _COLUMNS - 45, placeholder=' ...')}"


_COLUMNS: Final = 110


class _Help(RawDescriptionHelpFormatter):
    """Help with one line for each option."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26, width=_COLUMNS)


_KINDS: Final = {place: kind for kind, place in PLACES.items()}


def _short(value: Any) -> str:
    """Format a value in one line. A component is represented by its name."""
    if isinstance(value, Mapping):
        more = " ..." if len(value) > 1 else ""
        return f"{value.get('name', '')}{more}"
    return value if isinstance(value, str) else json.dumps(value)


def _explained(kind: type) -> dict[str, str]:
    """The descriptions of a section's options, from its docstring."""
    params = parse_docstring(kind.__doc__ or "").params
    return {param.arg_name: " ".join((param.description or "").split()) for param in params}


def run(arguments: Sequence[str]) -> int:
    """Train, and return 0 if the run finished, 130 or 143 if a signal stopped it."""
    # Removed from the arguments first, because jsonargparse has an option of this name.
    print_only = _PRINT in arguments
    words = sorted_words([argument for argument in arguments if argument != _PRINT])
    rest, files = _values(words.rest, "--config")
    if {"--help", "-h"} & set(rest):
        parser(arguments).print_help()
        raise SystemExit(0)
    given, errors = parse(_parser(), rest)
    result = _composed(given, words, [Path(file) for file in files])
    errors += [*words.errors, *result.errors]
    config = None
    if result.task is None:
        errors.append(f"task: expected a task, got none. Valid: {', '.join(sorted(PRESETS))}.")
    else:
        config = _config(result, given, errors)
    task = None
    if config is not None:
        from unbounded.experiments.config.check import examine

        task, problems = examine(config)
        # Printing a config does not need the data.
        problems = [line for line in problems if not (print_only and line.startswith(_NO_DATA))]
        errors += [line for line in problems if line not in errors]
    errors += _flag_errors(given, config)
    if print_only and config is not None and not errors:
        print(plain_yaml.dump(to_dict(config)), end="")
        return 0
    if errors or config is None or task is None:
        raise ConfigError(errors)
    from unbounded.training import Interrupted

    try:
        return _train(config, task, given, result.modules)
    except Interrupted as error:
        after = "the run is saved; the same command with --resume continues it"
        print(f"\n{error}; {after}", file=sys.stderr)
        return error.exit_code


def _values(arguments: Sequence[str], option: str) -> tuple[list[str], list[str]]:
    """Separate an option: return the other arguments, and the option's values.

    Raises:
        ConfigError: the option has no value.
    """
    rest: list[str] = []
    values: list[str] = []
    waiting = list(arguments)
    while waiting:
        word = waiting.pop(0)
        name, equals, value = word.partition("=")
        if name != option:
            rest.append(word)
            continue
        value = value if equals else waiting.pop(0) if waiting else ""
        if not value:
            raise ConfigError(f"{option.lstrip('-')}: expected a path, got nothing")
        values.append(value)
    return rest, values


def _composed(given: Namespace, words: Words, files: Sequence[Path]) -> Composed:
    result = compose_config(
        given.task,
        words.options,
        files=files,
        protocol=given.protocol,
        imports=modules_of(given),
    )
    if given.data is not None:  # not YAML, because a file may be named null
        result.data["hardware"]["data"] = given.data
    return result


def _config(result: Composed, given: Namespace, errors: list[str]) -> RunConfig:
    """The config of a command line. Errors of its options are appended to the list."""
    errors += [line for line in unknown_parts(result.data) if line not in errors]
    config = normalised(result.data)
    if not given.harden:
        return config
    texts = [text for name, text in result.options if name in ("hardening", "hardening.name")]
    if config.hardening.get("name") == "none" and any("none" in text for text in texts):
        errors.append("harden: cannot be combined with --hardening none; leave one of them out")
        return config
    return with_hardening(config)


def _flag_errors(given: Namespace, config: RunConfig | None) -> list[str]:
    errors = []
    if not given.runs.strip():
        errors.append("runs: expected a folder, got an empty string; '.' is the current folder")
    errors += [
        f"{name}: expected at least 1, got {getattr(given, name)}"
        for name in ("restarts", "jobs")
        if getattr(given, name) < 1
    ]
    if given.jobs > 1 and given.restarts == 1:
        errors.append("jobs: works only with several runs; give --restarts too")
    if given.until_solved and given.restarts == 1:
        errors.append("until_solved: works only with several runs; give --restarts too")
    if given.until_solved and given.jobs > 1:
        errors.append("until_solved: concurrent restarts cannot end early; give --jobs 1")
    if given.until_solved and config is not None and config.training.stop.get("name") != "solved":
        errors.append("until_solved: needs the stop rule that says so; give --training.stop solved")
    if given.jobs > 1 and config is not None and config.hardware.threads not in (None, 1):
        errors.append("hardware.threads: concurrent restarts have one thread each; leave it out")
    if given.log_with is not None:
        from unbounded.experiments.run.trackers import tracker_errors, tracker_names

        given.log_with = tracker_names(given.log_with)
        errors += tracker_errors(given.log_with)
        if given.jobs > 1:
            errors.append("jobs: --log_with needs sequential restarts; give --jobs 1")
    return errors


def _train(config: RunConfig, task: Task, given: Namespace, modules: Sequence[str]) -> int:
    from unbounded.evaluation import table
    from unbounded.experiments.run.run import train_run
    from unbounded.experiments.trials.restarts import train_restarts

    options: dict[str, Any] = {name: given[name] for name in ("resume", "overwrite", "quiet")}
    options |= {"task": task, "log_with": given.log_with or ()}
    if given.restarts > 1:
        restarts = train_restarts(
            config,
            given.restarts,
            root=Path(given.runs),
            jobs=given.jobs,
            until_solved=given.until_solved,
            modules=modules,
            **options,
        )
        if restarts is not None:
            print(f"{restarts.text}\n\nwritten: {restarts.folder}")
            if restarts.data["best"] is not None:
                best = Path(given.runs) / restarts.data["best"]
                _say_next(config, task, best, given.quiet, modules)
        return 0
    result = train_run(config, root=Path(given.runs), **options)
    if not result.first:
        return 0
    if not result.fresh:
        print(f"this run is finished: {printable(result.report['stopped'])}")
    print(table(result.report))
    if "hardened" in result.report:
        print(f"\n{hardened_text(result.report)}")
    print(f"run folder: {result.folder}")
    _say_next(config, task, result.folder, given.quiet, modules)
    return 0


def _say_next(
    config: RunConfig, task: Task, folder: Path, quiet: bool, modules: Sequence[str] = ()
) -> None:
    """Print the next commands for a run whose memory has gates.

    Args:
        modules: of the run's custom components.
    """
    from unbounded.evaluation import metric_set_of
    from unbounded.experiments.config.check_training import has_actions, has_gates
    from unbounded.experiments.run.run_folder import RunFolder
    from unbounded.models.model_parts import can_be_shown
    from unbounded.tasks import LengthRange

    if quiet or not has_gates(config):
        return
    report = RunFolder(folder).report() or {}
    part = report.get("hardened")
    # If hardening was not successful, there is only the trained model.
    imports = f" --import {','.join(dict.fromkeys(modules))}" if modules else ""
    is_hardened = part and not part.get("harm", False)
    flags = (" --hardened" if is_hardened else "") + imports
    named = shlex.quote(str(folder))
    shows = can_be_shown(config.model.memory, config.model.hidden_size)
    lines = [f"unbounded explore {named}{flags}    # watch it at work"] if shows else []
    if task.layout == "stream" and has_actions(config):
        shortest = task.train_lengths.minimum
        short = LengthRange(shortest, shortest + 2)
        ((source, target),) = task.examples(config.seed, "test", 0, 1, short)
        symbols = shlex.quote("".join((*source, *target)))
        lines.append(f"unbounded actions {named} {symbols}{flags}")
    scores = [report["validation"]] if "validation" in report else report.get("rows", [])
    if scores and all(score.get("correct") == 0 for score in scores):
        pass  # hardening and verification would be useless
    elif part:
        lines.append(f"unbounded verify {named}{imports}    # lengths at which it is correct")
    elif metric_set_of(task.metric_set).judges_hardening:
        lines.append(
            f"unbounded harden {named}{imports}    # train gates to 0 or 1, for longer inputs"
        )
    if lines:
        print("next:", *lines, sep="\n  ")
