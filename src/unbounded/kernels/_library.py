"""Finds and loads the compiled kernels; knows the C interface and nothing of torch tensors."""

from __future__ import annotations

import ctypes
import functools
import os
from pathlib import Path
from typing import Final, NamedTuple

import torch

from unbounded.errors import BackendError

INTERFACE_VERSION: Final = 1
INSTRUCTION_SETS: Final = ("avx512", "avx2", "baseline")

_SIZES = ("steps batch hidden width initial_rows saves threads weight_ih_stride").split()
_POINTERS = (
    "lengths weight_ih weight_hh head_weight head_bias hidden0 cell0 reading0 strengths0 "
    "gates outputs cells tanh_cells readings values strengths hidden_last cell_last reading_last "
    "instructions deaths kept grave_rows grave_strengths live_range "
    "grad_outputs grad_hidden_last grad_cell_last grad_reading_last grad_strengths_last "
    "grad_values grad_gates grad_instructions grad_hidden0 grad_cell0 grad_reading0 "
    "grad_strengths0"
).split()


class Call(ctypes.Structure):
    """`UnboundedCall` of csrc/call.h."""

    _fields_ = [(name, ctypes.c_int64) for name in _SIZES] + [
        (name, ctypes.c_void_p) for name in _POINTERS
    ]


class Availability(NamedTuple):
    """Whether the compiled kernels can be used here, and which."""

    ok: bool
    reason: str
    path: str
    instruction_set: str
    threads: int


class _Loaded(NamedTuple):
    library: ctypes.CDLL | None
    reason: str
    path: str
    instruction_set: str


def _open(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    library.unbounded_instruction_set.restype = ctypes.c_char_p
    library.unbounded_best_instruction_set.restype = ctypes.c_char_p
    library.unbounded_call_bytes.restype = ctypes.c_int64
    for entry in (library.unbounded_forward, library.unbounded_backward):
        entry.argtypes = [ctypes.c_int] * 3 + [ctypes.POINTER(Call), ctypes.c_void_p]
        entry.restype = ctypes.c_int
    if library.unbounded_interface_version() != INTERFACE_VERSION:
        raise OSError(f"{path.name} was built for another version of this package")
    if library.unbounded_call_bytes() != ctypes.sizeof(Call):
        raise OSError(f"{path.name} disagrees with this package about the layout of a call")
    return library


@functools.cache
def load() -> _Loaded:
    """The library for this processor, or the reason why there is none."""
    folder = Path(os.environ.get("UNBOUNDED_KERNELS") or Path(__file__).parent / "_lib")
    named = {isa: folder / f"libunbounded_{isa}.so" for isa in INSTRUCTION_SETS}
    try:
        if folder.is_file():
            library = _open(folder)
            return _Loaded(library, "", str(folder), library.unbounded_instruction_set().decode())
        if not named["baseline"].is_file():
            return _Loaded(
                None,
                f"no compiled kernels in {folder}: the package was installed without a C++ "
                "compiler (GCC or clang); install one and install the package again",
                "",
                "",
            )
        forced = os.environ.get("UNBOUNDED_ISA")
        if forced is not None and forced not in named:
            return _Loaded(
                None, f"UNBOUNDED_ISA={forced!r} is none of {', '.join(INSTRUCTION_SETS)}", "", ""
            )
        # The baseline build runs everywhere, so it is the one to ask.
        best = _open(named["baseline"]).unbounded_best_instruction_set().decode()
        runnable = INSTRUCTION_SETS[INSTRUCTION_SETS.index(best) :]
        if forced is not None and forced not in runnable:
            return _Loaded(None, f"this processor cannot run UNBOUNDED_ISA={forced!r}", "", "")
        for isa in (forced,) if forced is not None else runnable:
            if named[isa].is_file():
                return _Loaded(_open(named[isa]), "", str(named[isa]), isa)
        return _Loaded(None, f"no library for {forced or best} in {folder}", "", "")
    except OSError as error:
        return _Loaded(None, f"the compiled kernels do not load: {error}", "", "")


@functools.cache
def _parallel_for() -> int | None:
    """Address of torch's own parallel region, so that no second thread pool is made."""
    for name in ("libtorch_cpu.so", "libtorch_cpu.dylib"):
        path = Path(torch.__file__).parent / "lib" / name
        if path.is_file():
            try:
                entry = ctypes.CDLL(str(path)).torch_parallel_for
            except (OSError, AttributeError):
                continue
            return ctypes.cast(entry, ctypes.c_void_p).value
    return None


_forked = False


def _after_fork() -> None:
    # The threads of the parent's pool do not exist in a forked child.
    global _forked
    _forked = True


os.register_at_fork(after_in_child=_after_fork)


def threads() -> int:
    """How many threads a call made now would use."""
    return 1 if _forked or _parallel_for() is None else torch.get_num_threads()


def available() -> Availability:
    """Whether the compiled kernels can be used here; `reason` says why not."""
    loaded = load()
    ok = loaded.library is not None
    return Availability(
        ok, loaded.reason, loaded.path, loaded.instruction_set, threads() if ok else 0
    )


def run(direction: str, structure: int, controller: int, dtype: int, call: Call) -> None:
    """Runs `forward` or `backward`; the buffers named in `call` are the caller's to keep alive."""
    loaded = load()
    if loaded.library is None:
        raise BackendError(loaded.reason)
    call.threads = threads()
    entry = getattr(loaded.library, f"unbounded_{direction}")
    code = entry(
        structure,
        controller,
        dtype,
        ctypes.byref(call),
        _parallel_for() if call.threads > 1 else None,
    )
    if code == 2:
        raise MemoryError("no memory for the packed weights of a fused recurrence")
    if code:
        raise BackendError(f"the fused {direction} pass failed with code {code}")
