"""`unbounded doctor`: check the installation, the hardware and the kernels."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import unbounded
from unbounded.cli.parsing import Parser, parse
from unbounded.errors import BackendError, ConfigError

NEEDED = (
    "torch",
    "numpy",
    "scipy",
    "accelerate",
    "safetensors",
    "huggingface_hub",
    "filelock",
    "jsonargparse",
    "docstring_parser",
    "PyYAML",
    "shtab",
    "rich",
    "matplotlib",
)
# Bytes of a run folder with two checkpoints of the paper's largest model and its pictures.
ENOUGH_MB = 200

_DESCRIPTION = """Show installed packages and hardware; exit code 0 if the library is usable.

examples:
  unbounded doctor
  unbounded doctor --json

The compiled kernels are optional. Without them everything runs on the slower reference
implementation, and this command shows why. With them, a small parity run compares the two.
"""


@dataclass(frozen=True)
class Finding:
    """One line of the diagnosis.

    Fields:
        name: the item checked.
        value: the result as text.
        usable: False if the library cannot be used until this is fixed.
    """

    name: str
    value: str
    usable: bool = True


def parser(arguments: Sequence[str]) -> Parser:
    """The argument parser of this verb."""
    made = Parser(prog="unbounded doctor", description=_DESCRIPTION)
    made.add_argument("--json", action="store_true", help="Print the diagnosis as JSON.")
    return made


def run(arguments: Sequence[str]) -> int:
    """Diagnose, and return 0 if the library can be used, otherwise 1."""
    given, errors = parse(parser(arguments), arguments)
    if errors:
        raise ConfigError(errors)
    findings = [*_software(), *_hardware(), *_kernels(), *_kernels_for_cuda(), *_disk(Path.cwd())]
    usable = all(finding.usable for finding in findings)
    if given.json:
        data = {"usable": usable, "findings": [asdict(finding) for finding in findings]}
        print(json.dumps(data, indent=2))
    else:
        width = max(len(finding.name) for finding in findings)
        for finding in findings:
            mark = "" if finding.usable else "  <- FIX THIS"
            print(f"{finding.name:<{width}}  {finding.value}{mark}")
        print("\nusable" if usable else "\nnot usable: see the marked lines")
    return 0 if usable else 1


def _software() -> list[Finding]:
    findings = [
        Finding("unbounded", unbounded.__version__),
        Finding("python", f"{platform.python_version()} ({sys.implementation.name})"),
    ]
    for name in NEEDED:
        installed = _installed(name)
        missing = f"missing: pip install {name}"
        findings.append(Finding(name, installed or missing, usable=installed is not None))
    tensorboard = _installed("tensorboard")
    without = "not installed (optional): pip install 'unbounded[tensorboard]'"
    findings.append(Finding("tensorboard", tensorboard or without))
    return findings


def _hardware() -> list[Finding]:
    import torch

    from unbounded.evaluation.provenance import processor

    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    devices = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return [
        Finding("system", f"{platform.system()} {platform.machine()}"),
        Finding("processor", f"{processor()}, {cores} core(s) for this process"),
        Finding("threads", f"{torch.get_num_threads()} (torch)"),
        Finding("instruction set", f"{torch.backends.cpu.get_cpu_capability()} (torch)"),
        Finding("cuda", ", ".join(devices) or "no device that this torch can use"),
    ]


def _kernels() -> list[Finding]:
    from unbounded.kernels import available, has_tiles

    kernels = available()
    if not kernels.ok:
        required = os.environ.get("UNBOUNDED_REQUIRE_KERNELS", "0") not in ("", "0")
        required = required or "UNBOUNDED_ISA" in os.environ
        text = f"not available, the reference path is used: {kernels.reason}"
        return [Finding("kernels", text, usable=not required)]
    text = f"available, {kernels.instruction_set}, {kernels.threads} thread(s)"
    if has_tiles():
        text += ", bfloat16 tiles (for torch.set_float32_matmul_precision)"
    return [Finding("kernels", text), *_parity("cpu")]


def _kernels_for_cuda() -> list[Finding]:
    import torch

    from unbounded.kernels import gpu

    if not torch.cuda.is_available():
        return []
    missing = gpu.why_not(None, torch.cuda.current_device())
    if missing is not None:
        return [Finding("kernels, cuda", f"not available, the reference path is used: {missing}")]
    return _parity("cuda")


def _parity(backend: str) -> list[Finding]:
    """Compare outputs and every gradient of a small layer between kernels and reference."""
    from unbounded.kernels import gpu
    from unbounded.memories import MEMORIES
    from unbounded.rnn.parity import TOLERANCE, kernel_error

    findings = []
    for name in gpu.MEMORIES if backend == "cuda" else MEMORIES:
        title = f"parity, {name}" if backend == "cpu" else f"parity, {name}, {backend}"
        try:
            error = kernel_error(name, backend)
        except BackendError as reason:
            findings.append(Finding(title, str(reason), usable=False))
            continue
        text = f"largest relative error {error:.1e} (float64, bound {TOLERANCE:.0e})"
        findings.append(Finding(title, text, usable=error <= TOLERANCE))
    return findings


def _disk(folder: Path) -> list[Finding]:
    free_mb = shutil.disk_usage(folder).free // 2**20
    writable = os.access(folder, os.W_OK)
    text = f"{free_mb} MiB free" + ("" if writable else ", not writable")
    if free_mb < ENOUGH_MB:
        text += f", less than the {ENOUGH_MB} MiB that a run may need"
    return [Finding("current folder", text, usable=writable and free_mb >= ENOUGH_MB)]


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
