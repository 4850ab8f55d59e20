"""Features that need only torch, numpy and safetensors, and errors without the extra `lab`."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from unbounded.errors import LabError
from unbounded.lab import LAB, missing, require

ROOT = Path(__file__).resolve().parents[1]
#: Makes the packages of the extra missing, as far as Python can see.
WITHOUT_LAB = f"""
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {sorted(LAB)}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name in {sorted(LAB)} else find(name, *more)
"""
CORE = """
import tempfile
from pathlib import Path
import torch
import unbounded as ub
from unbounded.tasks import make_task

layer = ub.MemoryRNN(3, 8, ub.NeuralStack(4), batch_first=True)
x = torch.randn(2, 5, 3)
output, state = layer(x)
output.sum().backward()
output, state = layer(x, ub.detach_state(state))
for memory in (ub.NeuralQueue(4), ub.NeuralDeque(4), ub.SuperpositionStack(2), ub.TuringTape(6, 3),
               ub.SuperpositionList(2, capacity=9), ub.LieAccessMemory(4)):
    ub.MemoryRNN(3, 8, memory, controller="gru")(torch.randn(5, 2, 3))
trace = layer(x, return_trace=True)[-1]
path = Path(tempfile.mkdtemp()) / "trace.safetensors"
ub.save_trace(path, trace)
ub.load_trace(path)
print(make_task("copy").examples(0, "train", 0, 1))
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT_LAB + code]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_memories_layers_and_tasks_need_no_lab() -> None:
    done = run(CORE)
    assert done.returncode == 0, done.stderr
    assert "|||" in done.stdout or "Example" in done.stdout


NEEDS_LAB = (
    "import unbounded; unbounded.evaluation",
    "import unbounded; unbounded.explore",
    "from unbounded.models import MemoryModel",
    "import unbounded.models; unbounded.models.MemoryModel",
)


def test_imports_without_the_lab_extra_name_the_command_to_install_it() -> None:
    """In one process: an import that failed is tried again."""
    code = f"""
for code in {NEEDS_LAB}:
    try:
        exec(code)
    except ImportError as error:
        print(error)
"""
    done = run(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("pip install 'unbounded[lab]'") == len(NEEDS_LAB)


def test_the_command_without_the_lab_extra_fails_without_a_traceback() -> None:
    done = run("import unbounded.__main__ as main; sys.exit(main.start())")
    assert done.returncode == 2
    assert re.search(r"unbounded: the command line needs .*PyYAML.*unbounded\[lab\]", done.stderr)
    assert "Traceback" not in done.stderr


def test_the_lab_extra_lists_the_packages_of_the_code() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {
        extra: {re.split(r"[\[<>=]", line)[0] for line in lines}
        for extra, lines in project["optional-dependencies"].items()
    }
    assert {re.split("[<>=]", line)[0] for line in project["dependencies"]} == {
        *("torch", "numpy", "safetensors")
    }
    assert names["lab"] == set(LAB.values())
    assert "unbounded" in names["dev"]


def test_installed_packages_are_not_reported_as_missing() -> None:
    assert missing("training") == ""
    require("training", "accelerate")
    required = {**LAB, "no_such_module": "no-such-package"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unbounded.lab.LAB", required)
        with pytest.raises(LabError, match="training needs no-such-package: pip install"):
            require("training", "no_such_module")
        with pytest.raises(ImportError):
            require("training")
