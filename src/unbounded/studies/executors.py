"""Executors, which train the runs of a plan: a pool, a shard, SLURM, submitit or Ray."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol

from unbounded.experiments.run.run_lock import make_runs
from unbounded.experiments.trials.plan_file import read_plan
from unbounded.experiments.trials.trial import Outcome, Trial
from unbounded.experiments.trials.work import Shard, WorkOptions, work
from unbounded.experiments.trials.workers import PlanWatch, run_workers, visible_gpus
from unbounded.signals import Interrupted, stop_requests

#: Folder in a study's folder for the scripts, messages and results of SLURM's jobs.
JOBS: Final = "jobs"
#: Seconds between two checks of workers elsewhere.
_POLL_S: Final = 1.0


@dataclass(frozen=True)
class Executor:
    """An executor with its options.

    Fields:
        name: one of NAMES in cli/executors.py; "watch" only follows whoever works.
        jobs: number of workers.
        options: of the workers; `time_limit_s` is that of this process, or of each job.
        parameters: of submitit, such as partition and mem_gb.
        address: of the Ray cluster.
        resources: options of Ray's tasks, such as num_gpus.
    """

    name: str = "pool"
    jobs: int = 1
    options: WorkOptions = field(default_factory=WorkOptions)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    address: str = "auto"
    resources: Mapping[str, Any] = field(default_factory=dict)


class Workers(Protocol):
    """Workers on a cluster."""

    def are_over(self) -> bool:
        """Whether every worker has ended."""


def run_plan(
    executor: Executor,
    plan: Path,
    watched: PlanWatch,
    runs: Path,
    *,
    watch: Callable[[list[Trial]], None],
    ended: Callable[[Outcome], None],
    say: Callable[[str], None],
) -> bool:
    """Have an executor train the runs of a plan, and follow their progress.

    Args:
        executor: who trains.
        plan: the plan's file.
        watched: follows the runs.
        runs: the folder of the run folders.
        watch: called with the running trials.
        ended: called with each run that ended, here or elsewhere.
        say: called with each line about the workers.
    Returns:
        Whether all workers ended although runs are left that no other worker has.
    Raises:
        Interrupted: a signal or the time limit; runs at work here are saved.
        LabError: the package of the executor is not installed.
        ConfigError: there is no such cluster.
        StorageError: the disk is full, or a folder cannot be written.
    """
    make_runs(runs)
    name, jobs, options = executor.name, executor.jobs, executor.options
    if name == "pool":
        gpus = visible_gpus()
        run_workers(plan, watched, runs, jobs, options, watch=watch, ended=ended, gpus=gpus)
        return False
    if name == "shard":
        _work_here(plan, watched, runs, options, ended, say)
        return False
    if name == "watch":
        return _follow(watched, None, watch, ended, say)
    if name == "ray":
        from unbounded.studies.ray_tasks import RayTasks

        tasks = RayTasks(executor.address, plan, runs, options, jobs, executor.resources)
        try:
            is_left = _follow(watched, tasks, watch, ended)
            for line in tasks.errors() if is_left else ():
                say(f"a worker failed: {line}")
            return is_left
        finally:
            tasks.close()
    from unbounded.studies.submitit_jobs import QueuedJobs, SubmittedJobs, WorkerJob

    folder = plan.parent / JOBS
    if name == "slurm" and (queued := QueuedJobs.of(folder)).arrays:
        say(
            f"jobs {queued.names} of this study are in the queue already, and are followed; "
            f"`scancel {' '.join(queued.arrays)}` ends them"
        )
        return _follow(watched, queued, watch, ended)
    job = WorkerJob(str(plan.resolve()), str(runs.resolve()), replace(options, time_limit_s=None))
    submitted = SubmittedJobs(
        name, folder, job, jobs, limit_s=options.time_limit_s, parameters=executor.parameters
    )
    say(f"submitted {jobs} jobs: {submitted.names}; their output is in {folder}")
    if name == "debug":
        submitted.run_here()
    is_left = _follow(watched, submitted, watch, ended)
    submitted.join()
    return is_left


def _work_here(
    plan: Path,
    watched: PlanWatch,
    runs: Path,
    options: WorkOptions,
    ended: Callable[[Outcome], None],
    say: Callable[[str], None],
) -> None:
    shard: Shard = options.shard
    result = work(read_plan(plan), runs, options, say)
    own = {*result.finished, *result.failed}  # reported when they ended
    for outcome in watched.look()[1]:
        if outcome.trial.name not in own:
            ended(outcome)
    say(
        f"shard {shard.number}/{shard.total}: {len(result.finished)} runs finished, "
        f"{len(result.failed)} failed; {result.elsewhere} are with other workers"
    )
    if result.stopped is not None:
        raise Interrupted(result.stopped)


def _follow(
    watched: PlanWatch,
    workers: Workers | None,
    watch: Callable[[list[Trial]], None],
    ended: Callable[[Outcome], None],
    say: Callable[[str], None] | None = None,
) -> bool:
    """Follow workers elsewhere until they have ended, or until every run has ended.

    Args:
        say: called once with a line if no run is in progress; None for never.
    """
    with stop_requests() as request:
        while True:
            is_over = workers is not None and workers.are_over()
            running, over = watched.look()
            for outcome in over:
                ended(outcome)
            watch(running)
            if say is not None and watched.waiting and not running:
                say(
                    "no run is in progress; the command without --watch starts workers, and queued "
                    "jobs begin later"
                )
                say = None
            if is_over or not watched.waiting:
                return bool(watched.waiting)
            request.check()
            time.sleep(_POLL_S)
