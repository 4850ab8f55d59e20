"""Check an installed wheel: its own kernels run, forward and backward, and its files are there.

Run with the Python of a fresh environment that has the wheel with its extra `lab`, from a folder
without the sources. `--without-compiler` also requires that no compiler is on PATH.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import torch

import unbounded as ub
from unbounded.explorer.page import template
from unbounded.kernels import available
from unbounded.memories import MEMORIES
from unbounded.rnn.parity import TOLERANCE, kernel_error

COMPILERS = ("c++", "g++", "clang++", "cc", "gcc", "clang")
if "--without-compiler" in sys.argv and any(map(shutil.which, COMPILERS)):
    sys.exit(f"PATH: expected no compiler, got {list(filter(None, map(shutil.which, COMPILERS)))}")

package, kernels = Path(ub.__file__).resolve().parent, available()
if "site-packages" not in package.parts:
    sys.exit(f"unbounded: expected an installed package, got {package}")
if not kernels.ok or Path(kernels.path).resolve().parent != package / "kernels" / "_lib":
    sys.exit(f"kernels: expected those of the wheel, got {kernels}")

layer = ub.MemoryRNN(32, 64, ub.NeuralStack(width=16), batch_first=True, backend="cpu")
output, _ = layer(torch.randn(8, 20, 32))
output.sum().backward()
gradients = [weight.grad for weight in layer.parameters()]
if any(gradient is None or not gradient.isfinite().all() for gradient in gradients):
    sys.exit("MemoryRNN: expected a finite gradient of every weight from the fused kernel")

errors = {name: kernel_error(name, "cpu") for name in MEMORIES}
if not all(error <= TOLERANCE for error in errors.values()):
    sys.exit(f"kernels: expected an error of at most {TOLERANCE}, got {errors}")
if not (package / "py.typed").is_file() or "<html" not in template():
    sys.exit("unbounded: expected py.typed and the explorer's template.html in the package")
print(
    f"unbounded {ub.__version__}, Python {sys.version.split()[0]}, torch {torch.__version__}: the "
    f"wheel's kernels ({Path(kernels.path).name}) run {len(errors)} memories, largest relative "
    f"error {max(errors.values()):.1e}"
)
