"""The origin of a result file: versions, commit and hardware."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import torch

import unbounded
from unbounded.kernels import available, gpu, product_precision

#: This file is written into a wheel when the wheel is built (CMakeLists.txt). A working copy has no
#: such file.
BUILT_FROM = "_commit.txt"


def provenance(device: torch.device | None = None) -> dict[str, Any]:
    """Return versions, commit, threads, kernels and hardware, but no name of a person or host.

    Args:
        device: the device of the computation; None for the CPU.
    """
    return {
        "versions": {
            "unbounded": unbounded.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "commit": commit(),
        "hardware": {
            "processor": processor(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "kernels": kernels(device),
            **_accelerator(device),
        },
    }


def _accelerator(device: torch.device | None) -> dict[str, Any]:
    """The model name of a GPU; empty for the CPU, which `processor` names."""
    if device is None or device.type != "cuda":
        return {}
    return {"accelerator": torch.cuda.get_device_name(device)}


def kernels(device: torch.device | None = None) -> str:
    """The kernels for a device, whether or not a model uses them; "none" without kernels.

    Args:
        device: None for the CPU; "cuda" without a number for the current one.
    Returns:
        for the CPU the instruction set of the compiled kernels, and the precision of their float32
        products if it is not the highest; "triton" for CUDA.
    """
    if device is not None and device.type == "cuda":
        number = torch.cuda.current_device() if device.index is None else device.index
        return "triton" if gpu.why_not(None, number) is None else "none"
    if device is not None and device.type != "cpu":
        return "none"
    cpu_kernels = available()
    if not cpu_kernels.ok:
        return "none"
    precision = product_precision()
    precision_note = "" if precision == "highest" else f", products of {precision} precision"
    return cpu_kernels.instruction_set + precision_note


def commit() -> str | None:
    """The package's commit, followed by -dirty if files differ from it; None if unknown.

    A working copy is inspected at each call. An installed package stores the commit of its build.
    """
    folder = Path(unbounded.__file__).parent
    # In a foreign repository, such as one around a virtual environment, the package is not tracked.
    if _git(folder, "ls-files", "--error-unmatch", "__init__.py") is None:
        try:
            return (folder / BUILT_FROM).read_text(encoding="utf-8").strip() or None
        except OSError:
            return None
    name = _git(folder, "rev-parse", "HEAD")
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no", ".")
    return f"{name}-dirty" if name and changed else name


def processor() -> str:
    """The processor's model name if the system reports it, otherwise its architecture."""
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
        result = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout.strip() if result.returncode == 0 else None
