"""How torch's threads wait for each other in a process of the command line."""

import os
import subprocess
import sys

import pytest

from unbounded.__main__ import start

LOADS = (
    "import sys; sys.argv[1:] = ['list']\n"
    "from unbounded.__main__ import start\nstart()\nimport torch"
)
SAYS = "import sys, unbounded.__main__; sys.exit('torch' in sys.modules)"


def started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["unbounded", "--version"])
    start()


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    found: dict[str, str] = {}
    monkeypatch.setattr("os.environ", found)
    return found


def test_threads_sleep_soon_while_they_wait(environment, monkeypatch):
    started(monkeypatch)
    assert environment["GOMP_SPINCOUNT"] == "1000"


@pytest.mark.parametrize(
    "given",
    [{"OMP_WAIT_POLICY": "active"}, {"GOMP_SPINCOUNT": "7"}, {"OMP_WAIT_POLICY": "passive"}],
)
def test_wait_settings_of_the_environment_are_kept(given, environment, monkeypatch):
    environment.update(given)
    started(monkeypatch)
    assert {name: environment.get(name) for name in given} == given
    assert ("GOMP_SPINCOUNT" in environment) == ("GOMP_SPINCOUNT" in given)


def test_the_wait_settings_are_set_before_torch_is_imported():
    assert subprocess.run([sys.executable, "-c", SAYS], check=False).returncode == 0


@pytest.mark.skipif(
    sys.platform != "linux", reason="only libgomp, which torch has on Linux, reads GOMP_SPINCOUNT"
)
def test_libgomp_reads_the_spin_count():
    environment = {name: value for name, value in os.environ.items() if "GOMP" not in name}
    output = subprocess.run(
        [sys.executable, "-c", LOADS],
        env={**environment, "OMP_DISPLAY_ENV": "verbose"},
        capture_output=True,
        text=True,
        check=True,
    ).stderr
    assert "GOMP_SPINCOUNT = '1000'" in output
