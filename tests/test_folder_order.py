"""Data flows one way: a folder of the package imports those above it, never those below."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import unbounded

PACKAGE = Path(unbounded.__file__).parent
ORDER = re.findall(r"^ {4}(\w+)/ ", unbounded.__doc__ or "", flags=re.MULTILINE)
FILES = sorted(PACKAGE.glob("*/**/*.py"))


def imported(path: Path) -> set[str]:
    """Folders of the package that a file imports anywhere."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            module = node.module or ""
            names |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    folders = {name.split(".")[1] for name in names if name.startswith("unbounded.")}
    return folders & set(ORDER)


def test_the_map_names_every_folder():
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}
    assert folders == set(ORDER)
    assert len(ORDER) == len(set(ORDER)) == 15


@pytest.mark.parametrize("folder", ORDER)
def test_each_folder_is_imported_on_access(folder):
    assert unbounded.__getattr__(folder).__name__ == f"unbounded.{folder}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_a_folder_imports_only_those_above_it(path):
    own = ORDER.index(path.relative_to(PACKAGE).parts[0])
    below = {name for name in imported(path) if ORDER.index(name) > own}
    assert not below, f"imports from below: {', '.join(sorted(below))}"


def test_imports_inside_functions_are_found(tmp_path):
    path = tmp_path / "wrong.py"
    path.write_text(
        "def late():\n    from unbounded import cli\n    import unbounded.training.loop\n"
    )
    assert imported(path) == {"cli", "training"}
