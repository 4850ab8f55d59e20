"""Time contenders in turns (A B A B) within one run; report medians and ratios."""

from __future__ import annotations

import importlib.util
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from unbounded import kernels
from unbounded.errors import BackendError
from unbounded.experiments.bench.cases import Case, make_memory
from unbounded.memories.core import state_tensors
from unbounded.rnn import MemoryRNN
from unbounded.rnn.parity import relative_error

Pass = Callable[[], object]

#: Memories that the JAX scan supports.
JAX_MEMORIES = ("stack", "queue", "deque")


def memory_layer(case: Case, backend: str) -> MemoryRNN:
    """Make the layer of a case, with the same weights for every backend."""
    torch.manual_seed(0)
    return MemoryRNN(
        case.input,
        case.hidden,
        make_memory(case),
        case.controller,
        output_size=case.output,
        backend=backend,
        dtype=getattr(torch, case.dtype),
    )


def sequence(case: Case, size: int) -> Tensor:
    """Make an input [T, B, size] that requires a gradient, as an embedding's output does."""
    generator = torch.Generator().manual_seed(1)
    dtype = getattr(torch, case.dtype)
    shape = (case.steps, case.batch, size)
    return torch.randn(*shape, generator=generator, dtype=dtype).requires_grad_()


def forward_backward(layer: nn.Module, x: Tensor) -> Pass:
    """Return a function that runs `layer` on x and computes every gradient."""

    def run() -> object:
        layer.zero_grad(set_to_none=True)
        x.grad = None
        output, _ = layer(x)
        output.sum().backward()
        return output

    return run


def torch_layer(case: Case) -> nn.Module:
    """Make PyTorch's layer of the same controller.

    The input size of the layer is the size of the input plus the size of the read vector.
    """
    kinds: dict[str, Callable[..., nn.Module]] = {"lstm": nn.LSTM, "gru": nn.GRU, "elman": nn.RNN}
    dtype = getattr(torch, case.dtype)
    return kinds[case.controller](case.input + case.read_vector, case.hidden, dtype=dtype)


def without_memory(run: Pass) -> Pass:
    """Return the same pass, but with a kernel that omits the memory's part of every step."""

    def bare() -> object:
        with kernels.without_memory():
            return run()

    return bare


def knows_jax(case: Case) -> bool:
    """Whether a case can be timed as a jax.lax.scan here."""
    known = case.controller == "lstm" and case.memory in JAX_MEMORIES
    return known and importlib.util.find_spec("jax") is not None


def contenders(case: Case) -> dict[str, Pass]:
    """Return the passes that are timed for a case, by name.

    "fused" and "reference" are the same layer. "without_memory" is the fused pass without the
    memory's part of every step. "torch" is PyTorch's layer with the same controller and input size,
    without a memory. "jax" is the same model as a jax.lax.scan, if jax is installed and the scan
    supports the case.
    """
    x = sequence(case, case.input)
    layer = memory_layer(case, "cpu")
    fused = forward_backward(layer, x)
    found: dict[str, Pass] = {
        "fused": fused,
        "torch": forward_backward(torch_layer(case), sequence(case, case.input + case.read_vector)),
        "without_memory": without_memory(fused),
        "reference": forward_backward(memory_layer(case, "reference"), sequence(case, case.input)),
    }
    if knows_jax(case):
        from unbounded.experiments.bench.jax_scan import Scan

        found["jax"] = Scan(case, layer, x).forward_backward
    return found


#: Largest relative difference between kernel and reference with which a case is timed. In float32,
#: the two sum a thousand terms in different orders, which changes results by about 1e-5. The
#: float64 bound checks that the mathematics agrees.
PARITY = {"float32": 1e-4, "float64": 1e-10}
#: The float32 bound for memories whose weights are inverse distances. If a head is near a key, such
#: a memory amplifies rounding errors. In float64 these memories have the same bound as all others.
PARITY_OF_INVERSES = {"lie_access": 1e-3}


#: The slow contenders are timed in separate rounds, together with the fused pass.
SLOW = ("reference", "jax")


@dataclass(frozen=True)
class Measurement:
    """The measurements of one case.

    Fields:
        case: the sizes.
        parity_error: largest relative error of an output or gradient, fused against reference.
        median_ms: by contender. spread_ms: (lower, upper) quartile by contender.
        ratios: medians of the ratios within rounds: fused divided by torch; reference and jax
            divided by fused, each warm; "memory_share", the share of the fused time that the memory
            takes.
        gflop: operations of the matrix products.
        peak_gflops: what a large torch.mm reached with the same threads in the same run.
        share_of_peak: of that rate, reached by the fused pass; the roofline of these products.
    """

    case: Case
    parity_error: float
    median_ms: dict[str, float]
    spread_ms: dict[str, tuple[float, float]]
    ratios: dict[str, float]
    gflop: float
    peak_gflops: float
    share_of_peak: float


def measure(case: Case, repeats: int, progress: Callable[[str], None]) -> Measurement:
    """Check that the results agree, then time the contenders in turns.

    Args:
        case: what to measure.
        repeats: rounds; each contender runs once a round.
        progress: called with a description of the current work.
    Raises:
        BackendError: the kernels cannot serve the case, or it does not pass parity; then nothing
            is timed.
    """
    case.check()
    threads = torch.get_num_threads()
    torch.set_num_threads(case.threads)
    try:
        progress(f"{case.name}: parity")
        for dtype in dict.fromkeys(("float64", case.dtype)):
            error = parity_error(replace(case, dtype=dtype))
            _must_agree(case, "reference", dtype, error)
        if knows_jax(case):
            _must_agree(case, "jax", case.dtype, jax_error(case))
        progress(f"{case.name}: timing")
        passes = contenders(case)
        slow = {name: passes.pop(name) for name in SLOW if name in passes}
        times = interleave(passes, repeats)
        # The slow contenders are timed separately and fewer times, and an untimed pass precedes
        # each timed one. The reference empties the caches of its successor, which would happen only
        # once in a program with a single backend.
        beside = interleave(slow | {"fused": passes["fused"]}, max(2, repeats // 3), warm=True)
        times |= {name: beside[name] for name in slow}
        peak = peak_gflops(case.dtype)
    finally:
        torch.set_num_threads(threads)
    median = {name: statistics.median(each) for name, each in times.items()}
    ratios = {"fused/torch": ratio(times["fused"], times["torch"])}
    ratios |= {f"{name}/fused": ratio(beside[name], beside["fused"]) for name in slow}
    ratios["memory_share"] = 1 - ratio(times["without_memory"], times["fused"])
    rate = case.gflop / median["fused"] * 1e3
    return Measurement(
        case=case,
        parity_error=error,
        median_ms=median,
        spread_ms={name: _quartiles(each) for name, each in times.items()},
        ratios=ratios,
        gflop=case.gflop,
        peak_gflops=peak,
        share_of_peak=rate / peak,
    )


def ratio(times: list[float], others: list[float]) -> float:
    """The median of the ratios within rounds, because a slow phase of the computer cancels out."""
    return statistics.median(one / other for one, other in zip(times, others, strict=True))


def interleave(
    passes: dict[str, Pass], repeats: int, *, warm: bool = False
) -> dict[str, list[float]]:
    """Time the passes in turns, in ms. The first round is a warm-up and does not count.

    With `warm`, each pass is also run without timing immediately before each timed run.
    """
    times: dict[str, list[float]] = {name: [] for name in passes}
    for turn in range(repeats + 1):
        for name, run in passes.items():
            if warm:
                run()
            start = time.perf_counter()
            run()
            if turn:
                times[name].append(1e3 * (time.perf_counter() - start))
    return times


def parity_error(case: Case) -> float:
    """Return the largest relative error of the fused kernel's outputs and gradients."""
    results = []
    for backend in ("cpu", "reference"):
        layer, x = memory_layer(case, backend), sequence(case, case.input)
        output, _ = layer(x)
        weights = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view_as(output)
        gradients = torch.autograd.grad((output * weights).sum(), [x, *layer.parameters()])
        results.append([output.detach(), *gradients])
    return max(relative_error(ours, theirs) for ours, theirs in zip(*results, strict=True))


def jax_error(case: Case) -> float:
    """Return the largest relative error of the scan's outputs, final state or gradient of x."""
    from unbounded.experiments.bench.jax_scan import Scan

    layer, x = memory_layer(case, "cpu"), sequence(case, case.input)
    output, state = layer(x)
    (grad_x,) = torch.autograd.grad(output.sum(), [x])
    ours = [output.detach(), *state_tensors(state), grad_x]
    theirs = Scan(case, layer, x).results()
    return max(relative_error(one, other) for one, other in zip(ours, theirs, strict=True))


def _must_agree(case: Case, name: str, dtype: str, error: float) -> None:
    bound = PARITY[dtype]
    if dtype == "float32":
        bound = PARITY_OF_INVERSES.get(case.memory, bound)
    if not error <= bound:
        raise BackendError(
            f"{case.name}: fused and {name} differ by {error:.1e} (relative, {dtype}), bound "
            f"{bound:.0e}; wrong results are not timed."
        )


def peak_gflops(dtype: str, size: int = 2048, repeats: int = 5) -> float:
    """Return the rate of a large square torch.mm with the current number of threads, in GFLOP/s."""
    left, right = (torch.randn(size, size, dtype=getattr(torch, dtype)) for _ in range(2))
    torch.mm(left, right)
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        torch.mm(left, right)
        times.append(time.perf_counter() - start)
    return 2 * size**3 / min(times) / 1e9


def _quartiles(times: list[float]) -> tuple[float, float]:
    if len(times) < 2:
        return times[0], times[0]
    lower, _, upper = statistics.quantiles(times, n=4)
    return lower, upper
