"""Submitit and Ray: the same runs, each once; errors if they are not installed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT
from tests.studies.tiny_study import begun, tiny
from unbounded.errors import ConfigError, LabError
from unbounded.experiments.trials.claims import newest_claims
from unbounded.experiments.trials.work import WorkOptions
from unbounded.experiments.trials.workers import PlanWatch
from unbounded.studies import StudyFolder, executors, study_runs
from unbounded.studies.executors import JOBS, Executor, run_plan


def follow(folder: StudyFolder, executor: Executor, messages: list[str]) -> bool:
    """Run the plan; return whether runs are left, and add the messages to a list."""
    return run_plan(
        executor,
        folder.plan_file,
        PlanWatch(folder.trials(), folder.runs),
        folder.runs,
        watch=lambda running: None,
        ended=lambda outcome: messages.append(outcome.trial.name),
        say=messages.append,
    )


def run(folder: StudyFolder, executor: Executor) -> list[str]:
    messages: list[str] = []
    assert not follow(folder, executor, messages)
    return messages


def all_once(folder: StudyFolder) -> bool:
    records = newest_claims(folder.runs).values()
    states = [each.state for each in study_runs(folder)]
    return states == ["finished"] * len(states) and all(record.is_fresh for record in records)


# submitit leaves the files of its log handlers open.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_submitits_debug_executor(tmp_path: Path) -> None:
    pytest.importorskip("submitit")
    _, folder = begun(tmp_path / "tiny")
    messages = run(folder, Executor("debug", 2))
    assert "submitted 2 jobs: DEBUG_" in messages[0]
    assert all_once(folder)


# submitit closes no pipe of the processes that it starts.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.slow
def test_submitits_local_executor(tmp_path: Path) -> None:
    pytest.importorskip("submitit")
    _, folder = begun(tmp_path / "tiny")
    run(folder, Executor("local", 2))
    assert all_once(folder)
    assert len({record.worker for record in newest_claims(folder.runs).values()}) == 2


def test_a_stopped_job_saves_before_it_requeues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitit = pytest.importorskip("submitit")
    from unbounded.studies import submitit_jobs
    from unbounded.studies.submitit_jobs import WorkerJob

    _, folder = begun(tmp_path / "tiny")
    events: list[str] = []
    stop = getattr(signal, f"SIG{submitit.JobEnvironment.USR_SIG}")

    def work(*arguments: Any) -> Any:
        assert signal.getsignal(stop) == signal.SIG_DFL  # so that the worker's own handler is used
        events.append("saved")
        return type("Result", (), {"stopped": stop, "exit_code": 75})

    monkeypatch.setattr(submitit_jobs, "work", work)
    before = signal.signal(stop, lambda number, frame: events.append("requeued"))
    try:
        job = WorkerJob(str(folder.plan_file), str(folder.runs), WorkOptions())
        assert job(1, 1) == 75
    finally:
        signal.signal(stop, before)
    assert events == ["saved", "requeued"]
    assert job.checkpoint(1, 1).args == (1, 1)


def test_parameters_of_slurm_reach_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    submitit = pytest.importorskip("submitit")
    from unbounded.studies.submitit_jobs import SubmittedJobs, WorkerJob

    given: dict[str, Any] = {}

    class Executor:
        def __init__(self, **options: Any) -> None:
            given.update(options)

        def update_parameters(self, **options: Any) -> None:
            given.update(options)

        def map_array(self, job: Any, numbers: list[int], totals: list[int]) -> list[Any]:
            given["shards"] = list(zip(numbers, totals, strict=True))
            return [type("Job", (), {"job_id": f"7_{number}"}) for number in numbers]

    monkeypatch.setattr(submitit, "AutoExecutor", Executor)
    parameters = {"partition": "gpu", "mem_gb": 8, "gpus_per_node": 1}
    jobs = SubmittedJobs("slurm", tmp_path, WorkerJob("plan", "runs", WorkOptions()), 3,
                         limit_s=3601, parameters=parameters)  # fmt: skip
    assert jobs.names == "7_1 to 7_3"
    assert given["timeout_min"] == 61
    assert given["slurm_partition"] == "gpu"
    assert (given["mem_gb"], given["gpus_per_node"], given["slurm_signal_delay_s"]) == (8, 1, 90)
    assert given["shards"] == [(1, 3), (2, 3), (3, 3)]


def test_jobs_in_the_queue_are_followed_and_not_submitted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("submitit")
    _, folder = begun(tmp_path / "tiny")
    jobs = folder.plan_file.parent / JOBS
    jobs.mkdir()
    for name in ("7_0", "7_1", "8_0"):
        (jobs / f"{name}_submitted.pkl").touch()
    # SLURM has array 7 at the first question, and then no array of this study.
    squeue, asked = tmp_path / "bin" / "squeue", tmp_path / "asked"
    squeue.parent.mkdir()
    squeue.write_text(f"#!/bin/sh\necho 9\n[ -e {asked} ] || echo 7\n: > {asked}\n")
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", str(squeue.parent))
    monkeypatch.setattr("unbounded.studies.submitit_jobs._SQUEUE_S", 0)
    messages: list[str] = []
    assert follow(folder, Executor("slurm"), messages)
    (message,) = messages
    assert message.startswith("jobs 7 of this study are in the queue already, and are followed")
    assert "`scancel 7`" in message


def test_watching_without_a_worker_names_the_next_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, folder = begun(tmp_path / "tiny")
    messages: list[str] = []

    def stop(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(executors.time, "sleep", stop)
    with pytest.raises(KeyboardInterrupt):
        follow(folder, Executor("watch"), messages)
    (message,) = messages
    assert message.startswith("no run is in progress; the command without --watch starts workers")


def test_an_error_without_slurm_advises_the_local_executor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("submitit")
    monkeypatch.setenv("PATH", str(tmp_path))
    _, folder = begun(tmp_path / "tiny")
    with pytest.raises(ConfigError, match=r'executor: .*"srun".*--executor local'):
        run(folder, Executor("slurm"))
    with pytest.raises(ConfigError, match="executor: "):
        run(folder, Executor("local", parameters={"no_such_parameter": 3}))
    srun = tmp_path / "srun"
    srun.write_text("#!/bin/sh\n")
    srun.chmod(0o755)
    with pytest.raises(ConfigError) as error:
        run(folder, Executor("slurm", parameters={"partitoin": "cpu"}))
    assert "unknown parameter of --slurm 'partitoin'. Did you mean 'partition'?" in str(error.value)
    assert "mem_gb" in str(error.value)
    assert "--executor local" not in str(error.value)


@pytest.mark.parametrize(("name", "extra"), [("slurm", "cluster"), ("ray", "ray")])
def test_a_missing_package_names_its_extra(
    name: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("submitit", "ray"):
        monkeypatch.setitem(sys.modules, package, None)
    _, folder = begun(tmp_path / "tiny")
    with pytest.raises(LabError, match=rf"pip install 'unbounded\[{extra}\]'"):
        run(folder, Executor(name))


@pytest.mark.slow
def test_tasks_of_ray(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    _, folder = begun(tmp_path / "tiny", tiny(seeds="0:4"))
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2,
                      "object_store_memory": 100_000_000, "include_dashboard": False})  # fmt: skip
    try:
        run(folder, Executor("ray", 2, address=cluster.address))
    finally:
        cluster.shutdown()
    assert all_once(folder)


@pytest.mark.slow
def test_a_missing_ray_cluster_is_an_error(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    _, folder = begun(tmp_path / "tiny")
    with pytest.raises(ConfigError, match="`ray start --head` starts one"):
        run(folder, Executor("ray", address="auto"))


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["pool", "shards"])
def test_each_run_is_trained_once_even_if_workers_are_killed(executor: str) -> None:
    """The benchmark at a small size: of eight shards two are killed with -9."""
    command = [sys.executable, str(ROOT / "benchmarks" / "study_executors.py"), "--runs", "60",
               "--only", executor]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    name, _, text = done.stdout.strip().splitlines()[-1].partition(" ")
    result = json.loads(text)
    assert name == executor
    assert (result["reports"], result["trained_once"], result["trained_twice"]) == (60, 60, 0)
