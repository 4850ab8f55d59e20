"""The tests draw the same examples in every run, unless the exploring profile is selected."""

from __future__ import annotations

import ast
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

TESTS = Path(__file__).parent
EXPECTED = "UNBOUNDED_HYPOTHESIS: expected 'fixed' or 'explore'"
CHOSEN = os.environ.get("UNBOUNDED_HYPOTHESIS") or "fixed"


@pytest.mark.skipif(CHOSEN != "fixed", reason="this run explores")
def test_examples_are_the_same_in_every_run() -> None:
    assert settings().derandomize
    assert settings().database is None


def test_no_test_overrides_the_profile() -> None:
    for path in TESTS.rglob("*.py"):
        if path == TESTS / "conftest.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and "settings" in ast.unparse(node.func):
                names = {keyword.arg for keyword in node.keywords}
                assert not names & {"derandomize", "database"}, f"{path.name}:{node.lineno}"


DRAWS = """
from hypothesis import given, settings, strategies as st
@settings(max_examples=20)
@given(st.integers(0, 10**9))
def test_draws(number):
    with open("numbers", "a") as file:
        print(number, file=file)
"""


def drawn(folder: Path, profile: str) -> tuple[list[str], subprocess.CompletedProcess[str]]:
    """The draws of a test in a separate process, below a copy of conftest.py."""
    tests = folder / "tests"
    tests.mkdir(parents=True, exist_ok=True)
    (tests / "conftest.py").write_text((TESTS / "conftest.py").read_text(encoding="utf-8"))
    numbers = folder / "numbers"
    (tests / "test_draws.py").write_text(DRAWS, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tests)],
        env=os.environ | {"UNBOUNDED_HYPOTHESIS": profile}, cwd=folder, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    lines = numbers.read_text(encoding="utf-8").splitlines() if numbers.exists() else []
    return lines, done


@pytest.mark.slow
def test_the_fixed_profile_repeats_draws_and_exploring_changes_them(tmp_path: Path) -> None:
    results = [drawn(tmp_path / name, name.split("-")[0]) for name in (
        "fixed-1", "fixed-2", "explore-1", "explore-2",
    )]  # fmt: skip
    assert all(done.returncode == 0 for _, done in results), [done.stdout for _, done in results]
    first, second, third, fourth = (lines for lines, _ in results)
    assert first == second
    assert third != fourth
    assert not (tmp_path / "fixed-1" / ".hypothesis" / "examples").exists()


def test_an_unknown_profile_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    configure = runpy.run_path(str(TESTS / "conftest.py"))["pytest_configure"]
    monkeypatch.setenv("UNBOUNDED_HYPOTHESIS", "exlpore")
    with pytest.raises(pytest.UsageError, match=f"{EXPECTED}, got 'exlpore'"):
        configure(None)


@pytest.mark.slow
def test_pytest_ends_with_this_error(tmp_path: Path) -> None:
    _, done = drawn(tmp_path, "exlpore")
    assert done.returncode != 0
    assert f"{EXPECTED}, got 'exlpore'" in done.stderr
