"""What a result file says about where it came from: versions, commit and class of machine."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import torch

import unbounded
from unbounded.kernels import available

#: Written into a wheel when it is built (CMakeLists.txt); a working copy has none.
BUILT_FROM = "_commit.txt"


def provenance() -> dict[str, Any]:
    """Versions, commit, threads, kernels and class of machine; nothing names a person or a host."""
    return {
        "versions": {
            "unbounded": unbounded.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "commit": commit(),
        "machine": {
            "processor": processor(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "kernels": kernels(),
        },
    }


def kernels() -> str:
    """The instruction set of the compiled kernels here; "none" where there are none."""
    found = available()
    return found.instruction_set if found.ok else "none"


def commit() -> str | None:
    """The commit the package was run from, with -dirty when files differ; None where none is known.

    A working copy is asked anew each time; an installed package has what it was built from.
    """
    folder = Path(unbounded.__file__).parent
    # In somebody else's repository (a virtual environment inside it) the package is not tracked.
    if _git(folder, "ls-files", "--error-unmatch", "__init__.py") is None:
        try:
            return (folder / BUILT_FROM).read_text(encoding="utf-8").strip() or None
        except OSError:
            return None
    name = _git(folder, "rev-parse", "HEAD")
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no", ".")
    return f"{name}-dirty" if name and changed else name


def processor() -> str:
    """The processor's model name where the system tells it, its architecture elsewhere."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as stream:
            for line in stream:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.machine()


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
