"""The options of `unbounded study` and `reproduce` that select the executor of the runs."""

from __future__ import annotations

import math
import signal
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from jsonargparse import Namespace

from unbounded.cli.parsing import Parser
from unbounded.errors import ChoiceError, ConfigError, collected
from unbounded.experiments.config import plain_yaml
from unbounded.signals import Interrupted

if TYPE_CHECKING:
    from unbounded.studies.executors import Executor

#: Time at which this process began, in seconds, for the time limit.
BEGAN: Final = time.monotonic()
NAMES: Final = ("pool", "shard", "slurm", "local", "debug", "ray")
_SUBMITIT: Final = ("slurm", "local", "debug")
#: Exit code after a stop with unfinished runs (EX_TEMPFAIL). The same command resumes them.
EXIT_CONTINUE: Final = 75


def add_executor(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument("--jobs", type=int, default=1, help="Concurrent runs, one thread each.")
    parser.add_argument(
        "--executor",
        type=str,
        help="pool: processes here; shard: this process; slurm: an array of JOBS jobs; ray: JOBS "
        "tasks of a cluster; local and debug: submitit without SLURM. Default pool.",
    )
    parser.add_argument(
        "--shard",
        type=str,
        help="Work in this process, on part K/N of the plan first, then on what others left.",
    )
    parser.add_argument(
        "--isolated", action="store_true", help="With --shard: work on this part alone."
    )
    parser.add_argument(
        "--time_limit",
        type=str,
        help="Save and stop after this time: minutes, or hours:minutes:seconds.",
    )
    parser.add_argument(
        "--slurm",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="A parameter of the jobs: partition=gpu, mem_gb=8, gpus_per_node=1, account=NAME, ...",
    )
    parser.add_argument(
        "--ray_address", type=str, default="auto", help="Of the Ray cluster; auto: the one here."
    )
    parser.add_argument("--gpus", type=float, help="With --executor ray: GPUs of a worker.")
    parser.add_argument(
        "--watch", action="store_true", help="Train nothing; show how other workers get on."
    )


def executor_errors(given: Namespace) -> list[str]:
    """The errors in these options, one line each."""
    errors: list[str] = []
    if given.jobs < 1:
        errors.append(f"jobs: expected at least 1, got {given.jobs}")
    if given.executor is not None and given.executor not in NAMES:
        errors.append(str(ChoiceError("executor", given.executor, NAMES)))
    if given.shard is not None and given.executor not in (None, "shard"):
        errors.append(f"shard: has no meaning with --executor {given.executor}")
    if given.watch and given.time_limit is not None:
        errors.append("time_limit: has no meaning with --watch, which trains nothing")
    if given.isolated and given.shard is None:
        errors.append("isolated: works only with --shard")
    if given.slurm and given.executor not in _SUBMITIT:
        errors.append("slurm: works only with --executor slurm")
    if given.gpus is not None and given.executor != "ray":
        errors.append("gpus: works only with --executor ray")
    for read in (lambda: seconds_of(given.time_limit), lambda: _parameters(given.slurm)):
        with collected(errors):
            read()
    if given.shard is not None:
        from unbounded.experiments.trials.work import Shard

        with collected(errors):
            Shard.parse(given.shard)
    return errors


def executor_of(given: Namespace, **options: Any) -> Executor:
    """Make the executor for these options.

    Args:
        given: the parsed options, without errors.
        options: further fields of `WorkOptions`.
    Raises:
        ConfigError: the variables of a SLURM array are not numbers.
    """
    from unbounded.experiments.trials.work import Shard, WorkOptions
    from unbounded.studies.executors import Executor

    limit = seconds_of(given.time_limit)
    name = given.executor or ("pool" if given.shard is None else "shard")
    if limit is not None and name not in _SUBMITIT:
        limit -= time.monotonic() - BEGAN
    shard = Shard()
    if name == "shard":
        shard = Shard.of_job() if given.shard is None else Shard.parse(given.shard)
    work_options = WorkOptions(shard=shard, isolated=given.isolated, time_limit_s=limit, **options)
    return Executor(
        "watch" if given.watch else name,
        given.jobs,
        work_options,
        _parameters(given.slurm),
        given.ray_address,
        {} if given.gpus is None else {"num_gpus": given.gpus},
    )


def stopped(error: Interrupted, executor: Executor) -> int:
    """Report that a signal or the time limit stopped the command, and return the exit code."""
    what = "every run is saved; the same command resumes"
    if executor.name in _SUBMITIT:
        what = "the jobs go on; the same command with --watch shows their progress"
    elif executor.name == "watch":
        what = "workers that train go on"
    why = str(error)
    if executor.options.time_limit_s is not None and error.number == signal.SIGUSR1:
        why = "stopped: --time_limit is over"
    print(f"\n{why}; {what}", file=sys.stderr)
    return error.exit_code if error.number == signal.SIGINT else EXIT_CONTINUE


def seconds_of(text: str | None) -> float | None:
    """Parse a time limit, in minutes or as hours:minutes:seconds, and return seconds.

    Raises:
        ConfigError: the text is neither.
    """
    if text is None:
        return None
    try:
        parts = [float(part) for part in text.split(":")]
    except ValueError:
        parts = []
    if len(parts) > 3 or not any(parts) or not all(0 <= part < math.inf for part in parts):
        raise ConfigError(
            f"time_limit: expected minutes or hours:minutes:seconds above 0, got {text!r}"
        )
    if len(parts) == 1:
        return 60 * parts[0]
    return sum(part * unit for part, unit in zip(parts, (3600.0, 60.0, 1.0), strict=False))


def _parameters(texts: Sequence[str]) -> dict[str, Any]:
    parameters: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise ConfigError(
                f"slurm: expected KEY=VALUE, such as partition=gpu or mem_gb=8, got {text!r}"
            )
        parameters[name.strip()] = plain_yaml.load_or_text(value)
    return parameters
