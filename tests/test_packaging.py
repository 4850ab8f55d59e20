"""The files around the package agree: versions, supported Pythons, the README's test command."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import unbounded

ROOT = Path(__file__).resolve().parents[1]
GITHUB = ROOT / ".github"
FORMS = sorted(path for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config")


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def pythons() -> list[str]:
    found = [
        line.rpartition(" ")[2]
        for line in pyproject()["project"]["classifiers"]
        if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", line)
    ]
    assert found
    return found


def test_one_version() -> None:
    version = pyproject()["project"]["version"]
    assert unbounded.__version__ == version
    assert str(read(ROOT / "CITATION.cff")["version"]) == version
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## \[(\d.*?)\]", changes, re.MULTILINE).group(1) == version


def test_every_supported_python_is_tested() -> None:
    identifiers = " ".join(f"cp{version.replace('.', '')}-*" for version in pythons())
    assert pyproject()["tool"]["cibuildwheel"]["build"] == identifiers
    matrix = read(GITHUB / "workflows" / "tests.yml")["jobs"]["tests"]["strategy"]["matrix"]
    assert matrix["python"] == pythons()
    assert f"for version in {' '.join(pythons())}; do" in (ROOT / ".ci" / "resolve").read_text()


def test_the_matrix_runs_the_command_of_the_readme() -> None:
    steps = read(GITHUB / "workflows" / "tests.yml")["jobs"]["tests"]["steps"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    command = next(step["run"] for step in steps if "pytest" in step.get("run", ""))
    assert f"    {command}\n" in readme


@pytest.mark.parametrize("path", sorted((GITHUB / "workflows").glob("*.yml")), ids=lambda p: p.stem)
def test_scripts_of_the_workflows_exist(path: Path) -> None:
    for script in re.findall(r"(?<![\w/])\.ci/[\w.]+", path.read_text(encoding="utf-8")):
        assert (ROOT / script).is_file(), script


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_issue_forms_have_the_shape_that_github_accepts(path: Path) -> None:
    form = read(path)
    assert form.keys() <= {"name", "description", "title", "labels", "body"}
    assert form["name"]
    assert form["description"]
    fields = [part for part in form["body"] if part["type"] != "markdown"]
    assert {part["type"] for part in fields} <= {"input", "textarea"}
    names = [part["id"] for part in fields]
    assert len(set(names)) == len(names) > 0
    for part in form["body"]:
        attributes = part["attributes"]
        needed = "value" if part["type"] == "markdown" else "label"
        assert isinstance(attributes[needed], str)
        assert attributes[needed].strip()
        assert attributes.keys() <= {"value", "label", "description", "placeholder", "render"}


def test_issue_forms_request_the_output_of_doctor() -> None:
    for name in ("bug", "reproduction"):
        form = (GITHUB / "ISSUE_TEMPLATE" / f"{name}.yml").read_text(encoding="utf-8")
        assert "unbounded doctor" in form
