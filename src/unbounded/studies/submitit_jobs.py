"""Workers of a study as jobs of submitit: a SLURM array, or processes on this computer.

A job that is stopped before its work is done saves its run and asks SLURM to queue the job again.
"""

from __future__ import annotations

import getpass
import importlib
import math
import re
import signal
import subprocess
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from unbounded.errors import ChoiceError, ConfigError, UnboundedError
from unbounded.experiments.trials.plan_file import read_plan
from unbounded.experiments.trials.work import Shard, WorkOptions, work
from unbounded.studies.frame import need

#: Parameters of submitit that all clusters have.
_GENERIC: Final = (
    "name", "nodes", "gpus_per_node", "cpus_per_task", "timeout_min", "mem_gb", "tasks_per_node",
    "stderr_to_stdout",
)  # fmt: skip
#: Number of seconds before a job's end at which the job is asked to save.
_SIGNAL_S: Final = 90
#: Number of times that a job may be queued again after its time limit.
_MOST_TIMEOUTS: Final = 10_000
#: Minutes of a job if the user sets no limit.
_MINUTES: Final = 60
_SQUEUE_S: Final = 10.0
_LOCAL_S: Final = 0.1


@dataclass(frozen=True)
class WorkerJob:
    """The work of one job, in a form that submitit can pickle.

    Fields:
        plan, runs: the plan's file and the folder of runs, as absolute paths.
        options: of the worker.
    """

    plan: str
    runs: str
    options: WorkOptions

    def __call__(self, number: int, total: int) -> int:
        """Work on a shard, and return the worker's exit code."""
        submitit = need("submitit", "cluster")
        for module in self.options.modules:
            importlib.import_module(module)
        requeue_by = getattr(signal, f"SIG{submitit.JobEnvironment.USR_SIG}")
        requeue = signal.getsignal(requeue_by)
        # The worker handles the signal, so that its run is saved before the job is queued again.
        signal.signal(requeue_by, signal.SIG_DFL)
        try:
            result = work(
                read_plan(Path(self.plan)),
                Path(self.runs),
                replace(self.options, shard=Shard(number, total)),
                lambda text: print(text, flush=True),
            )
        finally:
            signal.signal(requeue_by, requeue)
        if result.stopped == requeue_by and callable(requeue):
            requeue(requeue_by, None)
        return result.exit_code

    def checkpoint(self, number: int, total: int) -> Any:
        """Return the same job again, for submitit."""
        return need("submitit", "cluster").helpers.DelayedSubmission(self, number, total)


class SubmittedJobs:
    """The jobs of a study.

    Args:
        cluster: slurm, local or debug.
        folder: folder of submitit's files.
        job: the work of each job.
        jobs: number of jobs.
        limit_s: time limit of a job; None for the default.
        parameters: parameters of submitit by name, such as partition and mem_gb.
    Raises:
        LabError: submitit is not installed.
        ConfigError: there is no SLURM here, or it does not take a parameter.
        UnboundedError: SLURM refuses the jobs.
    """

    def __init__(
        self,
        cluster: str,
        folder: Path,
        job: WorkerJob,
        jobs: int,
        *,
        limit_s: float | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        submitit = need("submitit", "cluster")
        self._cluster = cluster
        minutes = _MINUTES if limit_s is None else max(1, math.ceil(limit_s / 60))
        given = {
            "timeout_min": minutes,
            "cpus_per_task": 1,
            "name": "unbounded-study",
            **(parameters or {}),
        }
        if cluster == "slurm":
            seconds = min(_SIGNAL_S, 30 * int(given["timeout_min"]))
            given = {"signal_delay_s": seconds, **given}
        named = {
            name if name in _GENERIC or name.startswith("slurm_") else f"slurm_{name}": value
            for name, value in given.items()
        }
        try:
            executor = submitit.AutoExecutor(
                folder=folder, cluster=cluster, slurm_max_num_timeout=_MOST_TIMEOUTS
            )
            executor.update_parameters(**named)
        except (RuntimeError, ValueError, NameError, TypeError, AssertionError) as error:
            first = str(error).split("\n", 1)[0]
            hint = ""
            if '"srun"' in first:  # there is no SLURM here
                hint = " --executor local tries it on this machine."
            unknown = re.match(r"Unknown argument '(\w+)'.*?Valid arguments: (.*)", first)
            if unknown is not None:
                names = (*_GENERIC, *unknown[2].split(", "))
                first = str(ChoiceError("parameter of --slurm", unknown[1], names))
            raise ConfigError(f"executor: {first}{hint}") from error
        numbers = list(range(1, jobs + 1))
        try:
            self.jobs = executor.map_array(job, numbers, [jobs] * jobs)
        except submitit.core.utils.FailedJobError as error:
            raise UnboundedError(f"SLURM refuses the jobs: {error}") from error
        self._queue = QueuedJobs({str(self.jobs[0].job_id).partition("_")[0]})

    @property
    def names(self) -> str:
        """The ids of the jobs."""
        ids = [str(job.job_id) for job in self.jobs]
        return ids[0] if len(ids) == 1 else f"{ids[0]} to {ids[-1]}"

    def run_here(self) -> None:
        """Run the jobs of the cluster `debug` one after the other in this process."""
        for job in self.jobs:
            job.results()

    def join(self) -> None:
        """Wait for the processes of the cluster `local`, which end soon after the last run."""
        if self._cluster == "local":
            for job in self.jobs:
                job.wait()
                while not job.done():
                    time.sleep(_LOCAL_S)

    def are_over(self) -> bool:
        """Whether no job is queued or running."""
        if all(job.paths.result_pickle.exists() for job in self.jobs):
            return True
        if self._cluster != "slurm":
            return all(job.done() for job in self.jobs)
        return self._queue.are_over()


class QueuedJobs:
    """Job arrays in SLURM's queue.

    Args:
        arrays: the ids of the arrays.
    """

    def __init__(self, arrays: Collection[str]) -> None:
        self.arrays = sorted(arrays)
        self._asked = 0.0

    @classmethod
    def of(cls, folder: Path) -> QueuedJobs:
        """The arrays that were submitted from a folder of jobs and are still in the queue."""
        # submitit names this file of a job ID_submitted.pkl, or ARRAY_TASK_submitted.pkl.
        arrays = {path.name.partition("_")[0] for path in folder.glob("*_submitted.pkl")}
        return cls(arrays & (_in_queue() or set()) if arrays else ())

    @property
    def names(self) -> str:
        """The ids of the arrays."""
        return ", ".join(self.arrays)

    def are_over(self) -> bool:
        """Whether none of these arrays is in the queue; False if SLURM does not answer."""
        if time.monotonic() - self._asked < _SQUEUE_S:
            return False
        self._asked = time.monotonic()
        queue = _in_queue()
        return queue is not None and queue.isdisjoint(self.arrays)


def _in_queue() -> set[str] | None:
    """The ids of this user's arrays that are queued or running; None if SLURM does not answer."""
    with suppress(OSError, KeyError, subprocess.SubprocessError):  # KeyError: a user without a name
        command = ["squeue", "--noheader", "--user", getpass.getuser(), "--format", "%F"]
        listed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        return set(listed.stdout.split())
    return None
