"""`unbounded train TASK`."""

from __future__ import annotations

import dataclasses
import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import Namespace

from unbounded.cli.parsing import Parser, parse
from unbounded.errors import ChoiceError, ConfigError
from unbounded.experiments import plain_yaml
from unbounded.experiments.config import RunConfig, from_dict
from unbounded.experiments.presets import PRESETS, PROTOCOLS, preset_path, protocol_path

_DESCRIPTION = """Train a model on a task until it is solved or out of budget.

Without further options this is the task's preset. What is set is, in rising precedence: the
preset, what --protocol changes in it, --config FILE, the other options. The defaults below are the
preset's where a task is named (`unbounded train TASK --help`), else general ones, which presets
override; --print_config prints what a task has. The run lives in RUNS/TASK-MODEL-HASH-seedN, with
checkpoints, metrics, report and figures; after Ctrl-C, SIGTERM or a crash --resume goes on.

examples:
  unbounded train copy
  unbounded train anbn
  unbounded train anbn --restarts 5 --jobs 2
  unbounded train anbn --protocol paper --training.update symbol
  unbounded train penn_treebank --data DIR
  unbounded train reversal --model.memory deque --training.learning_rate 1e-3 --seed 2
  unbounded train copy --print_config > mine.yaml && unbounded train --config mine.yaml
"""
_LENGTHS = "--evaluation.lengths"


def parser(arguments: Sequence[str]) -> Parser:
    """The parser of this verb; the task among the arguments chooses the defaults.

    Raises:
        ChoiceError: there is no such task or protocol.
    """
    task, protocol = _task(arguments), _protocol(arguments)
    if task is None:
        return _bare_parser([])
    files = [preset_path(task)]
    if protocol is not None:
        files.append(protocol_path(protocol, task))
    return _bare_parser([str(file) for file in files])


def _bare_parser(files: list[str]) -> Parser:
    made = Parser(prog="unbounded train", description=_DESCRIPTION, default_config_files=files)
    made.add_argument("task", nargs="?", type=str, help="What to learn; see `unbounded list`.")
    made.add_argument(
        "--protocol", type=str | None, help="paper: train as the task's paper did, not as fast."
    )
    made.add_argument("--config", action="config", help="A YAML file with any of the options.")
    made.add_class_arguments(RunConfig, None, skip={"task"})
    made.add_argument(
        "--data", type=str | None, help="Folder of a corpus, for penn_treebank: machine.data."
    )
    made.add_argument("--runs", type=str, default="runs", help="Folder of the run folders.")
    made.add_argument(
        "--restarts",
        type=int,
        default=1,
        help="Train so many seeds, from --seed on, and report each; the best is chosen by "
        "validation.",
    )
    made.add_argument("--jobs", type=int, default=1, help="Restarts at once, one thread each.")
    made.add_argument("--resume", action="store_true", help="Go on with an existing run.")
    made.add_argument("--overwrite", action="store_true", help="Replace an existing run.")
    made.add_argument("--quiet", action="store_true", help="Show only the result.")
    made.add_argument(
        "--tensorboard", action="store_true", help="Also write metrics for TensorBoard."
    )
    return made


def run(arguments: Sequence[str]) -> int:
    """Train; 0 when the run finished, 130 or 143 when a signal stopped it."""
    arguments = _with_lists(arguments)
    given, faults = parse(parser(arguments), arguments)
    from unbounded.experiments.build import faults as faults_of_values

    # Without the positional argument, jsonargparse forgets the task of preset and config file.
    given.task = given.task or _task(arguments)
    if given.data is not None:
        given.machine.data = given.data
    config = _config(given)
    if config is None and not any(fault.startswith("config: ") for fault in faults):
        faults.append(f"task: none was named. Valid: {', '.join(sorted(PRESETS))}.")
    if config is not None:
        faults += faults_of_values(config)
    for name in ("restarts", "jobs"):
        if getattr(given, name) < 1:
            faults.append(f"{name}: expected at least 1, got {getattr(given, name)}")
    if given.jobs > 1 and given.restarts == 1:
        faults.append("jobs: one run is one job; give --restarts too")
    if given.jobs > 1 and given.tensorboard:
        faults.append("jobs: --tensorboard is for restarts one after the other; give --jobs 1")
    if faults or config is None:
        raise ConfigError(faults)
    from unbounded.training import Interrupted

    try:
        return _train(config, given)
    except Interrupted as error:
        print(f"\n{error}; the run is saved, --resume goes on with it", file=sys.stderr)
        return error.exit_code


def _train(config: RunConfig, given: Namespace) -> int:
    from unbounded.evaluation import table
    from unbounded.experiments.restarts import train_restarts
    from unbounded.experiments.run import train_run

    options = {name: given[name] for name in ("resume", "overwrite", "quiet", "tensorboard")}
    if given.restarts > 1:
        restarts = train_restarts(
            config,
            given.restarts,
            root=Path(given.runs),
            jobs=given.jobs,
            anew=not given.resume,
            **options,
        )
        if restarts is not None:
            print(f"{restarts.text}\n\nwritten: {restarts.folder}")
            _say_next(config, Path(given.runs) / restarts.data["best"], given.quiet)
        return 0
    result = train_run(config, root=Path(given.runs), anew=not given.resume, **options)
    if not result.first:
        return 0
    if not result.fresh:
        print(f"this run is finished: {result.report['stopped']}")
    print(table(result.report))
    if "rounded" in result.report:
        print("\nafter rounding:")
        print(table({**result.report, **result.report["rounded"]}))
    print(f"run folder: {result.folder}")
    _say_next(config, result.folder, given.quiet)
    return 0


def _say_next(config: RunConfig, folder: Path, quiet: bool) -> None:
    """Show what can be done with a run whose memory has actions to look at and to round."""
    from unbounded.experiments.build import build_task
    from unbounded.experiments.kinds import kind_of
    from unbounded.memories import SUPERPOSITION_MEMORIES
    from unbounded.tasks import LengthRange

    streams = kind_of(config.task).name == "streams"
    if quiet or not streams or config.model.memory not in SUPERPOSITION_MEMORIES:
        return
    task = build_task(config)
    shortest = task.train_lengths.minimum
    short = LengthRange(shortest, shortest + 2)
    ((source, target),) = task.examples(config.seed, "test", 0, 1, short)
    symbols, rounded = shlex.quote("".join((*source, *target))), config.rounding.batches > 0
    print("next:")
    print(f"  unbounded actions {folder} {symbols}{' --rounded' if rounded else ''}")
    if not rounded:
        # As in the tiers of joulin2015.
        rate = config.training.learning_rate / 5
        print(f"  unbounded evaluate {folder} --discretize")
        print("  train again with these options too, for a discrete machine (docs/rounding.md):")
        print(f"    --rounding.batches 60 --rounding.every 1 --rounding.learning_rate {rate:g}")


def _with_lists(arguments: Sequence[str]) -> list[str]:
    """The arguments, with `65:128,129:256` written as the list that it means."""
    made: list[str] = []
    for argument in arguments:
        option, equals, value = argument.partition("=")
        if option == _LENGTHS and equals:
            made.append(f"{option}={_listed(value)}")
        else:
            made.append(_listed(argument) if made and made[-1] == _LENGTHS else argument)
    return made


def _listed(text: str) -> str:
    if text.startswith(("[", "-")) or text == "null":
        return text
    return json.dumps([each.strip() for each in text.split(",")])


def _config(given: Namespace) -> RunConfig | None:
    if given.task is None:
        return None
    data: dict[str, Any] = given.as_dict()
    names = {item.name for item in dataclasses.fields(RunConfig)}
    return from_dict({key: value for key, value in data.items() if key in names})


def _task(arguments: Sequence[str]) -> str | None:
    """The task named on the command line or in the config file, before anything is parsed."""
    named: Any = _named(arguments)
    if named is None:
        for number, argument in enumerate(arguments):
            option, _, value = argument.partition("=")
            if option == "--config":
                path = value or "".join(arguments[number + 1 : number + 2])
                named = _task_of_file(Path(path))
    if named is not None and named not in PRESETS:
        raise ChoiceError("task", named, PRESETS)
    return None if named is None else str(named)


def _protocol(arguments: Sequence[str]) -> str | None:
    """The protocol named on the command line, before anything is parsed."""
    for number, argument in enumerate(arguments):
        option, _, value = argument.partition("=")
        if option == "--protocol":
            named = value or "".join(arguments[number + 1 : number + 2])
            if named not in PROTOCOLS:
                raise ChoiceError("protocol", named, PROTOCOLS)
            return named
    return None


def _named(arguments: Sequence[str]) -> str | None:
    """The positional argument, wherever it stands among the options."""
    actions = _bare_parser([])._option_string_actions
    value_follows = False
    for argument in arguments:
        if value_follows:
            value_follows = False
        elif argument.startswith("-"):
            action = actions.get(argument)
            alone = "=" in argument or argument.startswith("--print_config")
            value_follows = not alone and (action is None or action.nargs != 0)
        else:
            return argument
    return None


def _task_of_file(path: Path) -> Any:
    try:
        data = plain_yaml.load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return None
    return data.get("task") if isinstance(data, dict) else None
