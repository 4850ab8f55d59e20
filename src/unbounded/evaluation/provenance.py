"""What a result file says about where it came from: versions, commit and class of machine."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import torch

import unbounded
from unbounded.kernels import available, gpu, product_precision

#: Written into a wheel when it is built (CMakeLists.txt); a working copy has none.
BUILT_FROM = "_commit.txt"


def provenance(device: torch.device | None = None) -> dict[str, Any]:
    """Versions, commit, threads, kernels and class of machine; nothing names a person or a host.

    Args:
        device: where it was computed; None for the CPU.
    """
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
            "kernels": kernels(device),
            **_accelerator(device),
        },
    }


def _accelerator(device: torch.device | None) -> dict[str, Any]:
    """The model name of a GPU; nothing for the CPU, which `processor` names."""
    if device is None or device.type != "cuda":
        return {}
    return {"accelerator": torch.cuda.get_device_name(device)}


def kernels(device: torch.device | None = None) -> str:
    """What the kernels for a device are, whether a model has one or not; "none" without any.

    Args:
        device: None for the CPU; "cuda" without a number for the current one.
    Returns:
        Of the CPU the instruction set that they were compiled for, and the precision of their
        products in float32 if that is not the highest; "triton" of CUDA.
    """
    if device is not None and device.type == "cuda":
        number = torch.cuda.current_device() if device.index is None else device.index
        return "triton" if gpu.why_not(None, number) is None else "none"
    if device is not None and device.type != "cpu":
        return "none"
    found = available()
    if not found.ok:
        return "none"
    precision = product_precision()
    rest = "" if precision == "highest" else f", products of {precision} precision"
    return found.instruction_set + rest


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
