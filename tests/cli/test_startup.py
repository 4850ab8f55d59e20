"""Commands that do not import torch, and Ctrl-C during the start."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import unbounded
from tests.cli.failing import Capture, failing
from unbounded.cli import main


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_scripts(shell: str, capsys: Capture) -> None:
    assert main(["--print_shtab", shell]) == 0
    out = capsys.readouterr().out
    assert "--training.learning_rate" in out
    assert "bigram_flip" in out
    assert "grefenstette2015" in out
    assert "unknown shell 'fsh'" in failing(capsys, "--print_shtab=fsh")


def run_python(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout


HEAVY = ["torch", "accelerate", "matplotlib", "huggingface_hub", "jsonargparse", "scipy"]
HEAVY += ["rich", "yaml"]


def test_commands_that_only_print_text_do_not_import_torch() -> None:
    code = (
        "import sys\nfrom unbounded.cli import main\n"
        "for command in ['--help'], ['list'], ['train', '--help'], ['--print_shtab', 'bash']:\n"
        "    try:\n        main(command)\n    except SystemExit:\n        pass\n"
        f"    heavy = {HEAVY} if command == ['--help'] else {HEAVY[:4]}\n"
        "    print('\\nloaded', command, [m for m in heavy if m in sys.modules])\n"
    )
    loaded = [line for line in run_python(code).splitlines() if line.startswith("loaded")]
    assert len(loaded) == 4
    assert all(line.endswith(" []") for line in loaded), loaded


def test_public_names_are_imported_when_they_are_used() -> None:
    folders = [each.parent.name for each in Path(unbounded.__file__).parent.glob("*/__init__.py")]
    code = (
        "import sys, unbounded\n"
        f"folders = {[*folders, 'errors']}\n"
        f"loaded = [m for m in {HEAVY} if m in sys.modules]\n"
        "missing = set(unbounded.__all__) - set(dir(unbounded))\n"
        "more = set(dir(unbounded)) - set(unbounded.__all__) - set(folders)\n"
        "from unbounded import *\n"
        "print(loaded, missing, more, unbounded.memories.NeuralStack is NeuralStack,"
        " [m for m in ('accelerate', 'matplotlib') if m in sys.modules])\n"
        "try:\n    unbounded.NeuralStak\nexcept AttributeError as error:\n    print(error)\n"
    )
    out = run_python(code).splitlines()
    assert out == ["[] set() set() True []", "module 'unbounded' has no attribute 'NeuralStak'"]


def test_ctrl_c_while_something_is_imported(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(folder: object) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt as error:
            raise ImportError("half imported") from error  # numpy, for example, raises this error

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in background jobs
    with monkeypatch.context() as patch:
        patch.setattr(sys.modules["unbounded.cli.main"], "verb_module", interrupted)
        message = failing(capsys, "list", code=130)
    assert message == "unbounded: stopped by Ctrl-C\n"
    assert signal.signal(signal.SIGINT, before) == signal.default_int_handler


def test_ctrl_c_before_the_command_starts() -> None:
    code = (
        "import sys\n"
        "class Finder:\n"
        "    def find_spec(name, path, target=None):\n"
        "        if name == 'unbounded.cli.main':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Finder)\n"
        "from unbounded.__main__ import start\n"
        "sys.exit(start())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "unbounded: stopped by Ctrl-C\n")
