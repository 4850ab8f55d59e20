"""Claims: each run has one worker, a dead claim is taken over once, clocks do not matter."""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from pathlib import Path

import pytest

from unbounded.experiments.trials import claims as claims_module
from unbounded.experiments.trials.claims import (
    CLAIMS,
    MOST_DEATHS,
    ClaimRecord,
    Claims,
    Clock,
    newest_claims,
    read_claim,
)

FAST = {"heartbeat_s": 0.02, "dead_after_s": 0.2}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path


def beats(runs: Path) -> Path:
    return runs / CLAIMS / "workers"


def elsewhere(claims: Claims) -> None:
    """Make a worker appear to run on another host, where its process is invisible."""
    path = claims.folder / "workers" / claims.worker
    path.write_text(json.dumps({**json.loads(path.read_text()), "machine": "another"}))


def stopped(runs: Path) -> Claims:
    """A worker of another host whose heartbeat has ended."""
    claims = Claims(runs, Clock(**FAST))
    claims.__enter__()
    elsewhere(claims)
    claims._ended.set()
    return claims


def watched_dead(claims: Claims, worker: str, limit_s: float = 2.0) -> bool:
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if claims.is_dead(worker):
            return True
        time.sleep(0.01)
    return False


def test_a_run_is_claimed_once(runs: Path) -> None:
    with Claims(runs) as first, Claims(runs) as second:
        assert first.take("a") is not None
        assert second.take("a") is None
        second.look()
        assert second.take("a") is None
        assert second.take("b") is not None


def test_only_one_of_many_threads_claims_a_run(runs: Path) -> None:
    workers = [Claims(runs).__enter__() for _ in range(16)]
    start = threading.Barrier(len(workers))
    taken: list[tuple[str, str]] = []

    def race(claims: Claims) -> None:
        start.wait()
        names = [f"run{number}" for number in range(20)]
        taken.extend((name, claims.worker) for name in names if claims.take(name) is not None)

    threads = [threading.Thread(target=race, args=(claims,)) for claims in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(name for name, _ in taken) == sorted(f"run{number}" for number in range(20))
    for claims in workers:
        claims.__exit__(None, None, None)


def test_other_workers_read_the_end_of_a_run(runs: Path) -> None:
    with Claims(runs) as first, Claims(runs) as second:
        claim = first.take("a")
        assert claim is not None
        first.end(claim, "failed", error="it broke", seconds=2.0)
        second.look()
        record = second.record("a")
        assert record is not None
        assert (record.state, record.error, record.seconds) == ("failed", "it broke", 2.0)
        assert second.take("a") is None
        again = second.take("a", retry=True)
        assert again is not None
        assert again.generation == 2
    assert newest_claims(runs)["a"].worker == second.worker


def test_a_released_run_is_claimed(runs: Path) -> None:
    with Claims(runs) as first, Claims(runs) as second:
        claim = first.take("a")
        assert claim is not None
        first.end(claim, "released")
        second.look()
        assert second.take("a") is not None


def test_a_living_worker_keeps_its_run(runs: Path) -> None:
    with Claims(runs, Clock(**FAST)) as first, Claims(runs, Clock(**FAST)) as second:
        elsewhere(first)
        first.take("a")
        second.look()
        assert not watched_dead(second, first.worker, 0.6)
        assert second.is_proved_alive(first.worker)
        assert second.take("a") is None


def test_a_dead_claim_is_taken_over_once(runs: Path) -> None:
    dead = stopped(runs)
    dead.take("a")
    with Claims(runs, Clock(**FAST)) as first, Claims(runs, Clock(**FAST)) as second:
        for claims in (first, second):
            claims.look()
            assert claims.take("a") is None  # not at the first look
            assert watched_dead(claims, dead.worker)
        taken = [claims.take("a") for claims in (first, second)]
        assert [claim is not None for claim in taken] == [True, False]
        assert taken[0] is not None
        assert taken[0].record.deaths == 1


def test_a_worker_is_notified_of_its_lost_claim(runs: Path) -> None:
    lost = threading.Event()
    with Claims(runs, Clock(**FAST), lost.set) as slow:
        slow.take("a")
        (runs / CLAIMS / "a.2").write_text(json.dumps(vars(ClaimRecord("another"))))
        assert lost.wait(5)
        assert slow.lost.is_set()


def test_the_claim_of_an_ended_local_process_is_free_at_once(runs: Path) -> None:
    with Claims(runs) as first, Claims(runs) as second:
        first.take("a")
        path = beats(runs) / first.worker
        identity = json.loads(path.read_text())
        path.write_text(json.dumps({**identity, "process": 2**22 + 1}))
        second.look()
        assert second.take("a") is not None


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_clock_that_is_an_hour_wrong_takes_no_living_run(runs: Path, hours: int) -> None:
    # A share on which heartbeats have the time of the host that writes them.
    wrong = Claims(runs, Clock(**FAST))
    with wrong, Claims(runs, Clock(**FAST)) as right:
        elsewhere(wrong)
        wrong.take("a")
        right.look()
        for _ in range(40):
            shifted = time.time() + hours * 3600
            os.utime(beats(runs) / wrong.worker, (shifted, shifted))
            assert right.take("a") is None
            time.sleep(0.01)


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_clock_that_is_an_hour_wrong_hides_no_dead_run(runs: Path, hours: int) -> None:
    dead = stopped(runs)
    dead.take("a")
    shifted = time.time() + hours * 3600
    os.utime(beats(runs) / dead.worker, (shifted, shifted))
    with Claims(runs, Clock(**FAST)) as right:
        right.look()
        assert watched_dead(right, dead.worker)
        assert right.take("a") is not None


def test_a_run_whose_workers_died_often_is_not_claimed_again(runs: Path) -> None:
    for attempt in range(MOST_DEATHS):
        dead = Claims(runs)
        dead.__enter__()
        dead.look()
        claim = dead.take("a")
        assert claim is not None
        assert claim.record.deaths == attempt
        dead._ended.set()
        path = beats(runs) / dead.worker
        path.write_text(json.dumps({**json.loads(path.read_text()), "process": 2**22 + 1}))
    with Claims(runs) as claims:
        claims.look()
        assert claims.take("a") is None
        claims.look()
        record = claims.record("a")
        assert record is not None
        assert record.state == "failed"
        assert "3 attempts died" in record.error


def test_a_share_without_hard_links(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*paths: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(claims_module.os, "link", refuse)
    with Claims(runs) as first, Claims(runs) as second:
        assert first.take("a") is not None
        assert second.take("a") is None
        second.look()
        assert second.record("a") == ClaimRecord(first.worker)


def test_a_claim_succeeds_if_nfs_repeats_the_link(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def twice(source: Path, target: Path) -> None:
        link(source, target)
        link(source, target)

    monkeypatch.setattr(claims_module.os, "link", twice)
    with Claims(runs) as first:
        assert first.take("a") is not None


def test_a_claim_that_is_being_written_counts_as_running(runs: Path) -> None:
    (runs / "a.1").write_text("{")
    assert read_claim(runs / "a.1").state == "running"
    with Claims(runs, Clock(**FAST)) as claims:
        (runs / CLAIMS / "a.1").touch()
        claims.look()
        assert claims.take("a") is None
        assert watched_dead(claims, "")
        assert claims.take("a") is not None


def test_a_worker_without_claims_leaves_no_file(runs: Path) -> None:
    with Claims(runs) as claims:
        claim = claims.take("a")
        assert claim is not None
        claims.end(claim, "finished", is_fresh=True)
    assert list(beats(runs).iterdir()) == []
    assert newest_claims(runs, ["a", "b"])["a"].is_fresh
