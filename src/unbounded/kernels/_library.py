"""Loading of the compiled kernels and their C interface, without any torch tensors."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch

from unbounded.errors import BackendError, ChoiceError
from unbounded.kernels._call import Call, DeltaCall, OutputCall, Switches

INTERFACE_VERSION: Final = 16
INSTRUCTION_SETS: Final = ("avx512", "avx2", "baseline")
#: The precisions of float32 products (set_float32_matmul_precision), in the order of csrc/tiles.h.
PRECISIONS: Final = ("highest", "high", "medium")


class Availability(NamedTuple):
    """Whether the compiled kernels can be used here, and which build is loaded."""

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
    library.unbounded_output_bytes.restype = ctypes.c_int64
    library.unbounded_delta_bytes.restype = ctypes.c_int64
    library.unbounded_vector_bytes.restype = ctypes.c_int64
    call, pointer = ctypes.POINTER(Call), ctypes.c_void_p
    names: list[Any] = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int]
    library.unbounded_open.argtypes = [*names, call, pointer, ctypes.POINTER(pointer)]
    library.unbounded_run.argtypes = [pointer, call, pointer]
    library.unbounded_finish.argtypes = [pointer, call]
    library.unbounded_finish.restype = None
    library.unbounded_close.argtypes = [pointer]
    library.unbounded_close.restype = None
    library.unbounded_backward.argtypes = [*names, call, pointer]
    library.unbounded_unroll.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_int, call, pointer]
    library.unbounded_output_loss.argtypes = [ctypes.c_int, ctypes.POINTER(OutputCall)]
    library.unbounded_most_symbols.restype = ctypes.c_int64
    delta: list[Any] = [ctypes.c_int, ctypes.c_int, ctypes.POINTER(DeltaCall), pointer]
    library.unbounded_delta_rule.argtypes = delta
    if library.unbounded_interface_version() != INTERFACE_VERSION:
        raise OSError(f"{path.name} was built for another version of this package")
    sizes = [
        library.unbounded_call_bytes(),
        library.unbounded_delta_bytes(),
        library.unbounded_output_bytes(),
    ]
    if sizes != list(map(ctypes.sizeof, (Call, DeltaCall, OutputCall))):
        raise OSError(f"{path.name} disagrees with this package about the layout of a call")
    return library


def _folder() -> Path:
    named = os.environ.get("UNBOUNDED_KERNELS")
    if named:
        return Path(named)
    # An editable installation spreads the package over two folders.
    places = [Path(place) / "_lib" for place in sys.modules["unbounded.kernels"].__path__]
    return next((place for place in places if place.is_dir()), places[0])


def _runnable(baseline: Path) -> tuple[str, ...]:
    # The baseline build runs on every processor, so it can report the best build for this
    # processor.
    best = _open(baseline).unbounded_best_instruction_set().decode()
    return INSTRUCTION_SETS[INSTRUCTION_SETS.index(best) :]


def _load() -> _Loaded:
    """Load the library for this processor, or find the reason why there is none."""
    folder = _folder()
    named = {isa: folder / f"libunbounded_{isa}.so" for isa in INSTRUCTION_SETS}
    try:
        if folder.is_file():
            library = _open(folder)
            return _Loaded(library, "", str(folder), library.unbounded_instruction_set().decode())
        if not named["baseline"].is_file():
            hint = " (set by UNBOUNDED_KERNELS; unset it to use the package's kernels)"
            where = f"{folder}{hint if os.environ.get('UNBOUNDED_KERNELS') else ''}"
            return _Loaded(
                None,
                f"no compiled kernels in {where}: the package was installed without a C++ "
                "compiler (GCC or clang); install one and install the package again",
                "",
                "",
            )
        forced = os.environ.get("UNBOUNDED_ISA")
        if forced is not None and forced not in named:
            error = ChoiceError("environment variable UNBOUNDED_ISA", forced, INSTRUCTION_SETS)
            return _Loaded(None, str(error), "", "")
        runnable = _runnable(named["baseline"])
        if forced is not None and forced not in runnable:
            return _Loaded(None, f"this processor cannot run UNBOUNDED_ISA={forced!r}", "", "")
        for isa in (forced,) if forced is not None else runnable:
            if named[isa].is_file():
                return _Loaded(_open(named[isa]), "", str(named[isa]), isa)
        return _Loaded(None, f"no library for {forced or runnable[0]} in {folder}", "", "")
    except OSError as error:
        return _Loaded(None, f"the compiled kernels do not load: {error}", "", "")


#: The library is loaded with this module, not at the first call, so that torch.compile sees only
#: constants.
LOADED: Final = _load()
WHY_NOT_LOADED: Final = LOADED.reason
#: Register size of the loaded build; 0 without a build.
VECTOR_BYTES: Final[int] = 0 if LOADED.library is None else LOADED.library.unbounded_vector_bytes()


def _requiring_variable() -> str:
    """The environment variable that requires the kernels, or an empty string."""
    required = os.environ.get("UNBOUNDED_REQUIRE_KERNELS", "0") not in ("", "0")
    if required:
        return "UNBOUNDED_REQUIRE_KERNELS"
    return "UNBOUNDED_ISA" if "UNBOUNDED_ISA" in os.environ else ""


_REQUIRED_BY: Final = _requiring_variable()
#: The error to raise at the first use if the environment requires kernels that are missing. The
#: error is not raised at import, so that `unbounded doctor` can report what is missing.
ERROR: Final = (
    f"{_REQUIRED_BY} is set and {LOADED.reason}" if LOADED.reason and _REQUIRED_BY else ""
)


def _find_parallel_for() -> int | None:
    """Address of torch's parallel region, which avoids a second thread pool."""
    for name in ("libtorch_cpu.so", "libtorch_cpu.dylib"):
        path = Path(torch.__file__).parent / "lib" / name
        if path.is_file():
            try:
                entry = ctypes.CDLL(str(path)).torch_parallel_for
            except (OSError, AttributeError):
                continue
            return ctypes.cast(entry, ctypes.c_void_p).value
    return None


_PARALLEL_FOR: Final = _find_parallel_for()
_forked = False

#: Switches that are passed with every call. `switched` sets them temporarily.
_switches = Switches()


def _after_fork() -> None:
    # The threads of the parent's pool do not exist in a forked child.
    global _forked
    _forked = True


os.register_at_fork(after_in_child=_after_fork)


def threads() -> int:
    """Number of threads that a call would currently use."""
    return 1 if _forked or _PARALLEL_FOR is None else torch.get_num_threads()


_HAS_TILES: Final = LOADED.library is not None and bool(LOADED.library.unbounded_has_tiles())
#: Precisions for the values of torch.backends.mkldnn.matmul.fp32_precision, the setting for
#: products on the CPU.
_OF_BACKEND: Final = {"tf32": "high", "bf16": "medium"}


def has_tiles() -> bool:
    """Whether the loaded build and this processor have products in bfloat16 tiles (AMX)."""
    return _HAS_TILES


def product_precision() -> str:
    """Current precision of float32 products; "highest" if the processor has no other precision."""
    if not _HAS_TILES:
        return PRECISIONS[0]
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:  # torch's newer settings prevent reading it
        newer = attrgetter("matmul.fp32_precision")(torch.backends.mkldnn)
        return _OF_BACKEND.get(newer, PRECISIONS[0])


def available() -> Availability:
    """Whether the compiled kernels can be used here; `reason` explains if not."""
    ok = LOADED.library is not None
    return Availability(
        ok, LOADED.reason, LOADED.path, LOADED.instruction_set, threads() if ok else 0
    )


def _check(status: int, what: str) -> None:
    if status == 2:
        raise MemoryError(f"no memory for {what}")
    if status:
        raise BackendError(f"{what} failed with status {status}")


def _library() -> ctypes.CDLL:
    if LOADED.library is None:
        raise BackendError(LOADED.reason)
    return LOADED.library


def _prepare(call: Call) -> int | None:
    """Set the threads of a call and return the address of the parallel region to use."""
    call.threads = threads()
    call.precision = PRECISIONS.index(product_precision())
    call.switches = _switches
    return _PARALLEL_FOR if call.threads > 1 else None


@contextlib.contextmanager
def switched(**values: int) -> Iterator[None]:
    """Within the block, kernels are called with given switches; see `Switches`. Not thread-safe."""
    global _switches
    before, _switches = _switches, Switches(**values)
    try:
        yield
    finally:
        _switches = before


def without_memory() -> contextlib.AbstractContextManager[None]:
    """Within the block, fused recurrences omit the memory's part, so that its time can be measured.

    In the block, the read vector is 0, and the final memory is undefined. Not thread-safe.
    """
    return switched(skips_memory=1)


class Handle:
    """An open forward session: packed weights and the memory on the C++ side."""

    def __init__(self, structure: str, controller: str, value_bytes: int, call: Call) -> None:
        self._library = _library()
        self._handle = ctypes.c_void_p()
        status = self._library.unbounded_open(
            structure.encode(), controller.encode(), value_bytes, ctypes.byref(call),
            _prepare(call), ctypes.byref(self._handle),
        )  # fmt: skip
        _check(status, "the packed weights of a fused recurrence")

    def run(self, call: Call) -> None:
        """Run `call.steps` steps; the caller must keep the buffers of `call` alive."""
        status = self._library.unbounded_run(self._handle, ctypes.byref(call), _prepare(call))
        _check(status, "a fused recurrence")

    def finish(self, call: Call) -> None:
        """Write the last state of the memory."""
        self._library.unbounded_finish(self._handle, ctypes.byref(call))

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self._library.unbounded_close(self._handle)


def run_backward(structure: str, controller: str, value_bytes: int, call: Call) -> None:
    """Run the backward pass of a forward pass that saved its buffers."""
    status = _library().unbounded_backward(
        structure.encode(), controller.encode(), value_bytes, ctypes.byref(call), _prepare(call)
    )
    _check(status, "the backward pass of a fused recurrence")


def run_unroll(structure: str, is_backward: bool, value_bytes: int, call: Call) -> None:
    """Run only the memory, forward or backward."""
    status = _library().unbounded_unroll(
        structure.encode(), is_backward, value_bytes, ctypes.byref(call), _prepare(call)
    )
    _check(status, "a fused unroll")


def most_symbols() -> int:
    """Largest vocabulary for `run_output_loss`; 0 without the compiled kernels."""
    return 0 if LOADED.library is None else int(LOADED.library.unbounded_most_symbols())


def run_output_loss(value_bytes: int, call: OutputCall) -> None:
    """Run the output layer and its loss, forward and backward.

    Raises:
        IndexError: a target under the mask is not a symbol.
    """
    status = _library().unbounded_output_loss(value_bytes, ctypes.byref(call))
    if status == 3:
        raise IndexError(f"a target is not one of the {call.symbols} symbols")
    _check(status, "the output layer of a static-buffer step")


def run_delta_rule(is_backward: bool, value_bytes: int, call: DeltaCall) -> None:
    """Run the delta rule, forward or backward."""
    call.threads = threads()
    status = _library().unbounded_delta_rule(
        is_backward, value_bytes, ctypes.byref(call), _PARALLEL_FOR if call.threads > 1 else None
    )
    _check(status, "the delta rule")
