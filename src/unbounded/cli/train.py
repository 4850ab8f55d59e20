"""`unbounded train TASK`."""

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
    said_of,
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
  unbounded train anbn --protocol paper --training.update symbol
  unbounded train penn_treebank --data DIR
  unbounded train copy --model.memory superposition_stack --model.memory.count 20
  unbounded train pairs --data FILE --model.memory none --model.controller gru
  unbounded train reversal --model.memory deque --training.learning_rate 1e-3 --seed 2
  unbounded train copy --print_config > mine.yaml && unbounded train --config mine.yaml

Without further options this is the task's preset. What is set is, in rising precedence: the
preset, what --protocol changes in it, --config FILE, the other options. The defaults below are the
preset's where a task is named (`unbounded train TASK --help`), else general ones, which presets
override; --print_config prints what a task has. Another memory or controller than the preset's has
none of its options, nor has one that FILE gives with its name and options. The run lives in
RUNS/TASK-MODEL-HASH-seedN, with checkpoints, metrics, report and figures; after Ctrl-C, SIGTERM or
a crash --resume goes on, and it begins a run that is not there: one command for every attempt.
"""


_PRINT = "--print_config"
#: How a fault begins that only says that the task's data were not named.
_NO_DATA = "--data: give"
#: What --help shows; --help-all has the other options too.
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
    "--machine.device",
)


def parser(arguments: Sequence[str]) -> Parser:
    """The parser of this verb; the task among the arguments chooses the defaults.

    Raises:
        ChoiceError: there is no such task or protocol.
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
        "--protocol", type=str | None, help="paper: train as the task's paper did, not as fast."
    )
    made.add_argument(
        "--config",
        type=str,
        help="A YAML file with any of the options; a later one counts more.",
    )
    made.add_argument(_PRINT, action="store_true", help="Print the config and stop.")
    made.add_class_arguments(RunConfig, None, skip={"task"})
    made.add_argument("--data", type=str, help="File or folder of data.")
    made.add_argument(
        "--import",
        dest="imports",
        type=str,
        help="A module of your own that a config names.",
    )
    made.add_argument("--runs", type=str, default="runs", help="Folder of the run folders.")
    made.add_argument(
        "--restarts",
        type=int,
        default=1,
        help="Train so many seeds, from --seed on, and report each, and the best by the measure "
        "that the table names.",
    )
    made.add_argument(
        "--harden",
        action="store_true",
        help="Make the decisions of the trained memory 0 or 1, as --rounding.* says.",
    )
    made.add_argument("--jobs", type=int, default=1, help="Restarts at once, one thread each.")
    made.add_argument(
        "--resume",
        action="store_true",
        help="Go on with the run, or begin it.",
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
        if key in ("model", "training", "rounding", "evaluation", "machine"):
            flat |= {f"{key}.{name}": own for name, own in value.items()}
        elif key != "task":
            flat[key] = value
    made.set_defaults(flat)
    return made


def run(arguments: Sequence[str]) -> int:
    """Train; 0 when the run finished, 130 or 143 when a signal stopped it."""
    made = _bare_parser()
    # jsonargparse has something of its own under this name.
    print_only = _PRINT in arguments
    arguments = [argument for argument in arguments if argument != _PRINT]
    beginning = begin(arguments, _flags(made))
    given, faults = parse(_with_defaults(made, beginning), beginning.arguments, arguments)
    if given.data is not None:
        given.machine.data = given.data
    named = {fault.partition(":")[0] for fault in faults}
    faults += [error for error in beginning.errors if error.partition(":")[0] not in named]
    import_modules(beginning.modules)
    config = _config(given, beginning)
    if given.harden and config is not None:
        said = said_of("rounding", beginning.arguments)
        if "batches" in said and config.rounding.batches == 0:
            faults.append("harden: --rounding.batches 0 hardens nothing; leave one of them out")
        else:
            config = with_hardening(config, said)
    from unbounded.experiments.config.check import examine

    task = None
    if config is None:
        faults.append(f"task: none was named. Valid: {', '.join(sorted(PRESETS))}.")
    else:
        task, found = examine(config)
        # A config is the same wherever the data lie.
        faults += [each for each in found if not (print_only and each.startswith(_NO_DATA))]
    if not given.runs.strip():
        faults.append("runs: expected a folder, got an empty text; '.' is the current one")
    for name in ("restarts", "jobs"):
        if getattr(given, name) < 1:
            faults.append(f"{name}: expected at least 1, got {getattr(given, name)}")
    if given.jobs > 1 and given.restarts == 1:
        faults.append("jobs: one run is one job; give --restarts too")
    if given.jobs > 1 and config is not None and config.machine.threads not in (None, 1):
        faults.append("machine.threads: restarts at once have one thread each; leave it out")
    if given.log_with is not None:
        from unbounded.experiments.run.trackers import tracker_faults, tracker_names

        given.log_with = tracker_names(given.log_with)
        faults += tracker_faults(given.log_with)
        if given.jobs > 1:
            faults.append("jobs: --log_with is for restarts one after the other; give --jobs 1")
    if print_only and config is not None and not faults:
        print(plain_yaml.dump(to_dict(config)), end="")
        return 0
    if faults or config is None or task is None:
        raise ConfigError(faults)
    from unbounded.training import Interrupted

    try:
        return _train(config, task, given, beginning.modules)
    except Interrupted as error:
        after = "the run is saved, the same command with --resume goes on with it"
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
    if "rounded" in result.report:
        print(f"\n{hardened_text(result.report)}")
    print(f"run folder: {result.folder}")
    _say_next(config, task, result.folder, given.quiet)
    return 0


def _say_next(config: RunConfig, task: Task, folder: Path, quiet: bool) -> None:
    """Show what can be done with a run whose memory decides something."""
    from unbounded.evaluation import scoring_of
    from unbounded.experiments.config.check_training import decides, has_actions
    from unbounded.experiments.run.folder import read_report
    from unbounded.tasks import LengthRange

    if quiet or not decides(config):
        return
    report = read_report(folder) or {}
    part = report.get("rounded")
    # Where hardening made nothing better the trained model is all there is.
    hardened = " --rounded" if part and not part.get("harm", False) else ""
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
        pass  # neither hardens nor verifies to anything
    elif part:
        lines.append(f"unbounded verify {named}    # how far it is right")
    elif scoring_of(task.scoring).rounds:
        lines.append(f"unbounded harden {named}    # decisions made wholly, for greater lengths")
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
    """What makes the component whose options a group has; None where its name is wrong."""
    from unbounded.models.model_parts import part_factory
    from unbounded.tasks import task_factory
    from unbounded.training.optimizers import OPTIMIZERS

    model = data["model"]
    with suppress(UnboundedError):  # which the check of the config names
        if group == "task_options":
            return task_factory(task)
        if group == "training.optimizer_options":
            return OPTIMIZERS.get(data["training"]["optimizer"])
        return part_factory(group.removeprefix("model."), model["memory"], model["controller"])
    return None
