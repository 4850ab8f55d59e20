"""`unbounded train TASK`: train a model on a task."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonargparse import Namespace

from unbounded.cli.defaults import (
    FLAGS,
    OPTION_GROUPS,
    Beginning,
    begin,
    exact_options,
    import_modules,
    specified_options,
)
from unbounded.cli.harden import hardened_text
from unbounded.cli.parsing import Parser, parse
from unbounded.errors import ConfigError, UnboundedError
from unbounded.experiments.config import plain_yaml
from unbounded.experiments.config.compose import as_kept
from unbounded.experiments.config.harden import with_hardening
from unbounded.experiments.config.presets import PRESETS
from unbounded.experiments.config.schema import RunConfig, from_dict, to_dict
from unbounded.files import printable

if TYPE_CHECKING:
    from unbounded.tasks import Task

_DESCRIPTION = """Train a model on a task until it is solved or out of budget.

examples:
  unbounded train copy
  unbounded train anbn --harden
  unbounded train anbn --restarts 5 --jobs 2
  unbounded train anbn --protocol paper --training.update per_symbol
  unbounded train penn_treebank --data DIR
  unbounded train copy --model.memory superposition_stack --model.memory.count 20
  unbounded train pairs --data FILE --model.memory none --model.controller gru
  unbounded train reversal --model.memory deque --training.learning_rate 1e-3 --seed 2
  unbounded train copy --print_config > mine.yaml && unbounded train --config mine.yaml

Values come from the task's preset, --protocol, --config FILE and the other options, in rising
precedence. `unbounded train TASK --help` shows the preset's defaults; without a task, the defaults
are general and presets override them. --print_config prints a task's config. A memory or controller
other than the preset's, or given by name in FILE, takes none of the preset's options. The run
folder RUNS/TASK-MODEL-HASH-seedN gets checkpoints, metrics, report and figures. After Ctrl-C,
SIGTERM or a crash, --resume continues the run; it starts a run that does not exist yet.
"""


_PRINT = "--print_config"
#: Prefix of the error that the task's data are missing.
_NO_DATA = "--data: give"
#: Options that --help shows; --help-all shows all.
_FIRST = (
    "--help",
    "--help-all",
    "--protocol",
    "--config",
    _PRINT,
    "--seed",
    "--data",
    "--runs",
    "--harden",
    "--restarts",
    "--jobs",
    "--log_with",
    "--resume",
    "--overwrite",
    "--quiet",
    "--model.memory",
    "--model.controller",
    "--model.hidden_size",
    "--training.optimizer",
    "--training.learning_rate",
    "--training.batch_size",
    "--training.batches",
    "--training.stop",
    "--training.lengths",
    "--evaluation.count",
    "--evaluation.lengths",
    "--hardware.device",
)


def parser(arguments: Sequence[str]) -> Parser:
    """The parser of this verb, with the defaults of the task in the arguments.

    Raises:
        ChoiceError: unknown task or protocol.
        ConfigError: a config file cannot be read.
    """
    made = _bare_parser()
    return _with_defaults(made, begin(arguments, _flags(made)))


def _bare_parser() -> Parser:
    made = Parser(
        prog="unbounded train",
        usage="unbounded train [TASK] [options]",
        description=_DESCRIPTION,
        first=_FIRST,
    )
    made.add_argument("task", nargs="?", type=str, help="See `unbounded list`.")
    made.add_argument(
        "--protocol", type=str | None, help="paper: train as in the task's paper, which is slower."
    )
    made.add_argument(
        "--config",
        type=str,
        help="A YAML file with any of the options; later files take precedence.",
    )
    made.add_argument(_PRINT, action="store_true", help="Print the config and stop.")
    made.add_class_arguments(RunConfig, None, skip={"task"})
    made.add_argument("--data", type=str, help="File or folder of data.")
    made.add_argument(
        "--import",
        dest="imports",
        type=str,
        help="A module with custom components that the config names.",
    )
    made.add_argument("--runs", type=str, default="runs", help="Folder of the run folders.")
    made.add_argument(
        "--restarts",
        type=int,
        default=1,
        help="Train this many seeds, from --seed on; report each, and the best by the selection "
        "metric.",
    )
    made.add_argument(
        "--harden",
        action="store_true",
        help="Then train the memory's gates to 0 or 1 (see --hardening.*).",
    )
    made.add_argument("--jobs", type=int, default=1, help="Concurrent restarts, one thread each.")
    made.add_argument(
        "--resume",
        action="store_true",
        help="Continue the run, or start it.",
    )
    made.add_argument("--overwrite", action="store_true", help="Replace an existing run.")
    made.add_argument("--quiet", action="store_true", help="Show only the result.")
    made.add_argument(
        "--log_with",
        metavar="NAMES",
        type=str | None,
        help="Also log to trackers: wandb,tensorboard,mlflow, ...",
    )
    return made


def _flags(made: Parser) -> list[str]:
    return [
        name
        for name, action in made._option_string_actions.items()
        if action.nargs == 0 or name == "--help"
    ]


def _with_defaults(made: Parser, beginning: Beginning) -> Parser:
    flat: dict[str, Any] = {}
    for key, value in beginning.defaults.items():
        if key in ("model", "training", "hardening", "evaluation", "hardware"):
            flat |= {f"{key}.{name}": own for name, own in value.items()}
        elif key != "task":
            flat[key] = value
    made.set_defaults(flat)
    return made


def run(arguments: Sequence[str]) -> int:
    """Train; 0 if the run finished, 130 or 143 if a signal stopped it."""
    made = _bare_parser()
    # jsonargparse has an option of this name itself.
    print_only = _PRINT in arguments
    arguments = [argument for argument in arguments if argument != _PRINT]
    beginning = begin(arguments, _flags(made))
    given, errors = parse(_with_defaults(made, beginning), beginning.arguments, arguments)
    if given.data is not None:
        given.hardware.data = given.data
    named = {error.partition(":")[0] for error in errors}
    errors += [error for error in beginning.errors if error.partition(":")[0] not in named]
    import_modules(beginning.modules)
    config = _config(given, beginning)
    if given.harden and config is not None:
        specified = specified_options("hardening", beginning.arguments)
        if "batches" in specified and config.hardening.batches == 0:
            errors.append("harden: --hardening.batches 0 hardens nothing; leave one of them out")
        else:
            config = with_hardening(config, specified)
    from unbounded.experiments.config.check import examine

    task = None
    if config is None:
        errors.append(f"task: expected a task, got none. Valid: {', '.join(sorted(PRESETS))}.")
    else:
        task, problems = examine(config)
        # Printing a config does not need the data.
        errors += [line for line in problems if not (print_only and line.startswith(_NO_DATA))]
    if not given.runs.strip():
        errors.append("runs: expected a folder, got an empty string; '.' is the current folder")
    for name in ("restarts", "jobs"):
        if getattr(given, name) < 1:
            errors.append(f"{name}: expected at least 1, got {getattr(given, name)}")
    if given.jobs > 1 and given.restarts == 1:
        errors.append("jobs: a single run has one job; give --restarts too")
    if given.jobs > 1 and config is not None and config.hardware.threads not in (None, 1):
        errors.append("hardware.threads: concurrent restarts have one thread each; leave it out")
    if given.log_with is not None:
        from unbounded.experiments.run.trackers import tracker_errors, tracker_names

        given.log_with = tracker_names(given.log_with)
        errors += tracker_errors(given.log_with)
        if given.jobs > 1:
            errors.append("jobs: --log_with needs sequential restarts; give --jobs 1")
    if print_only and config is not None and not errors:
        print(plain_yaml.dump(to_dict(config)), end="")
        return 0
    if errors or config is None or task is None:
        raise ConfigError(errors)
    from unbounded.training import Interrupted

    try:
        return _train(config, task, given, beginning.modules)
    except Interrupted as error:
        after = "the run is saved; the same command with --resume continues it"
        print(f"\n{error}; {after}", file=sys.stderr)
        return error.exit_code


def _train(config: RunConfig, task: Task, given: Namespace, modules: Sequence[str]) -> int:
    from unbounded.evaluation import table
    from unbounded.experiments.run.run import train_run
    from unbounded.experiments.trials.restarts import train_restarts

    options: dict[str, Any] = {name: given[name] for name in FLAGS}
    options |= {"task": task, "log_with": given.log_with or ()}
    if given.restarts > 1:
        restarts = train_restarts(
            config,
            given.restarts,
            root=Path(given.runs),
            jobs=given.jobs,
            modules=modules,
            **options,
        )
        if restarts is not None:
            print(f"{restarts.text}\n\nwritten: {restarts.folder}")
            if restarts.data["best"] is not None:
                _say_next(config, task, Path(given.runs) / restarts.data["best"], given.quiet)
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
    _say_next(config, task, result.folder, given.quiet)
    return 0


def _say_next(config: RunConfig, task: Task, folder: Path, quiet: bool) -> None:
    """Print the next commands for a run whose memory has gates."""
    from unbounded.evaluation import metric_set_of
    from unbounded.experiments.config.check_training import decides, has_actions
    from unbounded.experiments.run.folder import read_report
    from unbounded.tasks import LengthRange

    if quiet or not decides(config):
        return
    report = read_report(folder) or {}
    part = report.get("hardened")
    # If hardening improved nothing, there is only the trained model.
    hardened = " --hardened" if part and not part.get("harm", False) else ""
    named = shlex.quote(str(folder))
    lines = [f"unbounded explore {named}{hardened}    # watch it at work"]
    if task.layout == "stream" and has_actions(config):
        shortest = task.train_lengths.minimum
        short = LengthRange(shortest, shortest + 2)
        ((source, target),) = task.examples(config.seed, "test", 0, 1, short)
        symbols = shlex.quote("".join((*source, *target)))
        lines.append(f"unbounded actions {named} {symbols}{hardened}")
    scores = [report["validation"]] if "validation" in report else report.get("rows", [])
    if scores and all(score.get("right") == 0 for score in scores):
        pass  # hardening and verification would achieve nothing
    elif part:
        lines.append(f"unbounded verify {named}    # lengths at which it is correct")
    elif metric_set_of(task.metric_set).judges_hardening:
        lines.append(f"unbounded harden {named}    # train gates to 0 or 1, for longer inputs")
    print("next:", *lines, sep="\n  ")


def _config(given: Namespace, beginning: Beginning) -> RunConfig | None:
    task = beginning.task
    if task is None:
        return None
    data: dict[str, Any] = given.clone(with_meta=False).as_dict()
    for group in OPTION_GROUPS:
        part, _, name = group.rpartition(".")
        owner = data[part] if part else data
        factory = _factory(group, task, data)
        if isinstance(owner[name], dict) and factory is not None:
            texts = beginning.texts[group]
            owner[name] = exact_options(factory, owner[name], beginning.of_files[group], texts)
    memory = data["model"]["memory"]
    if isinstance(memory, dict) and isinstance(memory.get("name"), str):
        data["model"]["memory"] = as_kept(memory, memory)
    names = {item.name for item in dataclasses.fields(RunConfig)}
    chosen = {key: value for key, value in data.items() if key in names}
    try:
        return from_dict({**chosen, "task": task})
    except TypeError as error:
        raise ConfigError(str(error).split("; ")) from error


def _factory(group: str, task: str, data: dict[str, Any]) -> Callable[..., Any] | None:
    """The factory of the component whose options a section holds; None if its name is invalid."""
    from unbounded.models.model_parts import part_factory
    from unbounded.tasks import task_factory
    from unbounded.training.optimizers import OPTIMIZERS

    model = data["model"]
    with suppress(UnboundedError):  # reported by the check of the config
        if group == "task_options":
            return task_factory(task)
        if group == "training.optimizer_options":
            return OPTIMIZERS.get(data["training"]["optimizer"])
        return part_factory(group.removeprefix("model."), model["memory"], model["controller"])
    return None
