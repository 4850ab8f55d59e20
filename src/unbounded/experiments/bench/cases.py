"""The sizes to benchmark, and the number of operations that each size needs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from unbounded.errors import ChoiceError, ConfigError

if TYPE_CHECKING:
    from unbounded.memories import Memory

GATES = {"lstm": 4, "gru": 3, "elman": 1}
DTYPES = ("float32", "float64")
# The memories of Grefenstette et al. 2015.
_PAPER = ("stack", "queue", "deque")


@dataclass(frozen=True)
class Case:
    """The sizes of one benchmarked model.

    Args:
        memory: stack, queue, deque, superposition_stack, superposition_list, turing_tape or
            lie_access.
        controller: lstm, gru or elman.
        steps: T.
        batch: B.
        input: I, size of the input.
        hidden: H, units of the controller.
        width: M, size of the stored vectors (a tape has 128 of them); of superpositions S, how
            many there are.
        output: O, size of the layer's output.
        dtype: float32 or float64.
        threads: of this process.
    """

    memory: str = "stack"
    controller: str = "lstm"
    steps: int = 130
    batch: int = 10
    input: int = 64
    hidden: int = 256
    width: int = 256
    output: int = 64
    dtype: str = "float32"
    threads: int = 2

    @property
    def name(self) -> str:
        """A short name that distinguishes the case from other cases."""
        return (
            f"{self.memory}-{self.controller} T{self.steps} B{self.batch} I{self.input} "
            f"H{self.hidden} M{self.width} {self.dtype} {self.threads} thread(s)"
        )

    @property
    def read_vector(self) -> int:
        """R, the size of the read vector."""
        return make_memory(self).read_vector_size

    @property
    def gflop(self) -> float:
        """Operations of the matrix products in 1e9.

        There are three products, forward and backward.
        """
        gates = GATES[self.controller] * self.hidden
        heads = sum(head.size for head in make_memory(self).heads)
        products = gates * (self.input + self.read_vector + self.hidden)
        products += (heads + self.output) * self.hidden
        return 3 * 2 * products * self.steps * self.batch / 1e9

    def errors(self) -> list[str]:
        """The reasons why the case cannot be run, one line each; empty if it can be run."""
        from unbounded.rnn import CONTROLLERS

        found = [
            f"{name}: expected an integer >= 1, got {value!r}"
            for name, value in vars(self).items()
            if isinstance(value, int) and value < 1
        ]
        for kind, value, valid in (
            ("memory", self.memory, _memories()),
            ("controller", self.controller, CONTROLLERS),
            ("dtype", self.dtype, DTYPES),
        ):
            if value not in valid:
                found.append(f"{kind}: {ChoiceError(kind, value, valid)}")
        return found

    def check(self) -> None:
        """Raise a ConfigError that lists all errors, unless the case can be run."""
        found = self.errors()
        if found:
            raise ConfigError(found)


def make_memory(case: Case) -> Memory[Any, Any]:
    """Make the memory of a case."""
    make = _memories()[case.memory]
    memory: Memory[Any, Any] = (
        make(width=case.width) if case.memory == "turing_tape" else make(case.width)
    )
    return memory


def _memories() -> dict[str, Any]:
    # Imported only here, because `--help` shows the fields of Case and must not load torch.
    from unbounded.memories import MEMORIES

    return dict(MEMORIES)


def _paper() -> list[Case]:
    return [Case(memory=memory, threads=threads) for threads in (2, 1) for memory in _PAPER]


def _sizes() -> list[Case]:
    sizes = [Case(batch=1), Case(batch=64), Case(batch=128), Case(hidden=512)]
    return [replace(case, memory=memory) for case in sizes for memory in _PAPER]


def _controllers() -> list[Case]:
    return [
        Case(memory=memory, controller=controller)
        for controller in ("gru", "elman")
        for memory in _PAPER
    ]


def _superposition() -> list[Case]:
    sizes = Case(controller="elman", steps=50, batch=32, input=2, hidden=40, output=2, threads=1)
    return [
        replace(sizes, memory="superposition_stack", width=10),
        replace(sizes, memory="superposition_list", width=5),
    ]


def _tape() -> list[Case]:
    sizes = Case("turing_tape", "elman", 12, 16, input=1, hidden=100, width=20, output=1, threads=1)
    return [
        replace(sizes, controller=controller, steps=steps)
        for controller in ("elman", "lstm")
        for steps in (12, 128)
    ]


def _lie() -> list[Case]:
    sizes = Case("lie_access", batch=32, input=14, width=20, output=1)
    return [replace(sizes, hidden=h, threads=threads) for threads in (2, 1) for h in (50, 100)]


#: Lists of cases by name; "all" is every one of them.
SUITES = {
    "paper": _paper,
    "sizes": _sizes,
    "controllers": _controllers,
    "superposition": _superposition,
    "tape": _tape,
    "lie": _lie,
}


def suite(name: str) -> list[Case]:
    """Return the cases of a suite.

    Raises:
        ChoiceError: no such suite.
    """
    if name == "all":
        return [case for make in SUITES.values() for case in make()]
    if name not in SUITES:
        raise ChoiceError("suite", name, (*SUITES, "all"))
    return SUITES[name]()
