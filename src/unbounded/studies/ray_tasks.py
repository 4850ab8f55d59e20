"""Workers of a study as tasks on an existing Ray cluster."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from unbounded.errors import ConfigError
from unbounded.experiments.trials.plan_file import read_plan
from unbounded.experiments.trials.work import Shard, WorkOptions, work
from unbounded.studies.frame import need

#: Resources of a worker, unless the user requests others.
_RESOURCES: Final = {"num_cpus": 1}


def work_on(plan: str, runs: str, options: str, number: int, total: int) -> int:
    """Work on a shard in a Ray task, and return the worker's exit code.

    Args:
        plan, runs: the plan's file and the folder of runs, as every node sees them.
        options: of the worker, as text.
        number, total: the shard.
    """
    own = replace(WorkOptions.from_json(options), shard=Shard(number, total))
    for module in own.modules:
        importlib.import_module(module)
    return work(read_plan(Path(plan)), Path(runs), own, print).exit_code


class RayTasks:
    """The workers of a study on a Ray cluster.

    A task whose node dies is started on another node, which takes over the claims of its runs.

    Args:
        address: of the cluster; "auto" for the one of this machine.
        plan, runs: the plan's file and the folder of runs.
        options: of the workers.
        jobs: number of workers.
        resources: options of Ray's tasks, such as num_gpus.
    Raises:
        LabError: ray is not installed.
        ConfigError: there is no such cluster.
    """

    def __init__(
        self,
        address: str,
        plan: Path,
        runs: Path,
        options: WorkOptions,
        jobs: int,
        resources: Mapping[str, Any] | None = None,
    ) -> None:
        self._ray = need("ray", "ray")
        try:
            self._ray.init(address=address, log_to_driver=False, logging_level="error")
        except (ConnectionError, RuntimeError, ValueError) as error:
            first = str(error).split("\n", 1)[0]
            raise ConfigError(
                f"ray: no cluster at {address!r} ({first}); `ray start --head` starts one"
            ) from error
        chosen = {**_RESOURCES, **(resources or {})}
        try:
            task = self._ray.remote(max_retries=-1, **chosen)(work_on)
        except (TypeError, ValueError) as error:
            self._ray.shutdown()
            raise ConfigError(f"ray: {str(error).splitlines()[0]}") from error
        arguments = (str(plan.resolve()), str(runs.resolve()), options.to_json())
        self._tasks = [task.remote(*arguments, number, jobs) for number in range(1, jobs + 1)]

    def are_over(self) -> bool:
        """Whether every worker has ended."""
        done, _ = self._ray.wait(self._tasks, num_returns=len(self._tasks), timeout=0)
        return len(done) == len(self._tasks)

    def errors(self) -> list[str]:
        """The reasons why workers failed, one line each."""
        lines = []
        for task in self._tasks:
            try:
                self._ray.get(task, timeout=0)
            except Exception as error:  # a worker may raise any error
                lines.append(f"{type(error).__name__}: {str(error).strip().splitlines()[-1]}")
        return lines

    def close(self) -> None:
        """Stop the remaining workers, and leave the cluster."""
        for task in self._tasks:
            self._ray.cancel(task, force=False)
        self._ray.shutdown()
