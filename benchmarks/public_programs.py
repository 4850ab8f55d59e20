"""Memories of this library against the public programs of the field, in one run.

    python benchmarks/public_programs.py --chomsky FOLDER --nondeterministic FOLDER

256 units, batches of 32 sequences of 80 steps with 8 inputs, forward and backward, with one core
and with two. Of the nondeterministic stack the memory alone is timed, with batches of 10. The bar
of this stack: a twentieth of the public program's time.

The public programs are imported and are not part of this repository:

- `pip install --no-deps dnc==1.1.0`;
- a clone of google-deepmind/neural_networks_chomsky_hierarchy, with
  `pip install jax dm-haiku chex einshape`;
- a clone of bdusell/nondeterministic-stack-rnn, with `pip install torch-semiring-einsum attrs`.

A program that is missing is left out. Each program is a process of its own, which waits while
another one runs. "unbounded" and `nn.LSTM` share a process. Run it when nothing else runs.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from unittest import mock

if TYPE_CHECKING:
    from torch import Tensor

    import unbounded as ub

WORKER = "--worker"
HERE = "unbounded"
STEPS, BATCH, INPUTS, HIDDEN = 80, 32, 8, 256
STATES, SYMBOLS, BATCH_ALONE = 2, 3, 10
CELLS, WIDTH = 256, 8
SLOTS, SLOT_WIDTH, READ_HEADS = 16, 16, 4
BAR = 20
#: Steps of usages as fine as float64 allows, in which no two usages of a test are equal by chance.
FINE_STEPS = 2**40
#: A pass that takes longer fills the caches itself, so no untimed pass precedes it.
LONG_MS = 1000


@dataclass(frozen=True)
class Row:
    """A public program and the memory here that it is compared with.

    Fields:
        title: as in the README. modules: of which packages it consists or which it needs.
        install: what installs these. folder: the option that gives its clone; None for a package.
        file: of the clone, which is imported. rounds: timed ones.
        compared_steps, compared_batch: of the comparison of read vectors.
    """

    title: str
    modules: tuple[str, ...]
    install: str
    folder: str | None
    file: str
    rounds: int
    compared_steps: int
    compared_batch: int = 4


JAX = ("jax", "haiku", "chex", "einshape")
INSTALL_JAX = "pip install jax dm-haiku chex einshape"
ROWS = {
    "dnc": Row(
        "DNC, 16 slots of 16, 4 read heads", ("dnc",), "pip install --no-deps dnc==1.1.0",
        None, "", 7, 40, 1,
    ),
    "rolling_tape": Row(
        "rolling tape, 256 cells of 8 (variant code)", JAX, INSTALL_JAX,
        "chomsky", "models/tape_rnn.py", 7, 60,
    ),
    "superposition_stack": Row(
        "superposition stack of vectors, width 8, 80 cells", JAX, INSTALL_JAX,
        "chomsky", "models/stack_rnn.py", 9, 60,
    ),
    "nondeterministic_stack": Row(
        "nondeterministic stack, 2 states, 3 symbols, the memory alone",
        ("torch_semiring_einsum", "pynvml", "attr"), "pip install torch-semiring-einsum attrs",
        "nondeterministic", "src/stack_rnn_models/nondeterministic_stack.py", 3, 80,
    ),
}  # fmt: skip

Pass = Callable[[], object]


def memory(row: str) -> ub.Memory[Any, Any]:
    import unbounded as ub

    if row == "dnc":
        return ub.DNC(SLOTS, SLOT_WIDTH, READ_HEADS)
    if row == "rolling_tape":
        return ub.RollingTape(CELLS, WIDTH, variant="code")
    if row == "superposition_stack":
        return ub.SuperpositionStack(
            1, depth=1, noop=True, empty=0, width=WIDTH, activation="identity"
        )
    return ub.NondeterministicStack(STATES, SYMBOLS)


def inputs() -> Tensor:
    import torch

    return torch.randn(STEPS, BATCH, INPUTS, generator=torch.Generator().manual_seed(0))


def passes_here() -> dict[str, Pass]:
    """The passes of this library by row, and `nn.LSTM`."""
    import torch

    import unbounded as ub
    from unbounded.experiments.bench.measuring import forward_backward

    torch.manual_seed(0)
    passes = {"nn.LSTM": forward_backward(torch.nn.LSTM(INPUTS, HIDDEN), inputs().requires_grad_())}
    for row in ROWS:
        if row == "nondeterministic_stack":
            passes[row] = unroll_backward(read_vectors_here)
        else:
            layer = ub.MemoryRNN(INPUTS, HIDDEN, memory(row), backend="cpu")
            passes[row] = forward_backward(layer, inputs().requires_grad_())
    return passes


def public_pass(row: str, folder: str) -> Pass:
    import torch

    from unbounded.experiments.bench.measuring import forward_backward

    torch.manual_seed(0)
    if row == "dnc":
        from dnc import DNC

        network = DNC(
            INPUTS, HIDDEN, num_hidden_layers=1, nr_cells=SLOTS, cell_size=SLOT_WIDTH,
            read_heads=READ_HEADS,
        )  # fmt: skip
        return forward_backward(network, inputs().transpose(0, 1).contiguous().requires_grad_())
    if row == "nondeterministic_stack":
        stacks = imported(row, folder)
        return unroll_backward(lambda action: public_read_vectors(stacks, action))
    return haiku_pass(row, imported(row, folder))


def imported(row: str, folder: str) -> ModuleType:
    """Import the file of a clone."""
    path = Path(folder, ROWS[row].file)
    if row == "nondeterministic_stack":
        sys.path.insert(0, str(path.parents[1]))
        known = "torch_rnn_tools" in sys.modules or importlib.util.find_spec("torch_rnn_tools")
        if not known:
            import torch

            # Only their network derives from it, and the stack alone is used here.
            base = type("UnidirectionalRNN", (torch.nn.Module,), {"State": type("State", (), {})})
            sys.modules["torch_rnn_tools"] = ModuleType("torch_rnn_tools")
            sys.modules["torch_rnn_tools"].UnidirectionalRNN = base  # type: ignore[attr-defined]
        return importlib.import_module(f"{path.parent.name}.{path.stem}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def haiku_pass(row: str, module: ModuleType) -> Pass:
    """Their core, unrolled and compiled. An LSTM is the controller, and heads are linear."""
    import haiku as hk
    import jax

    def outputs(x: Any) -> Any:
        if row == "rolling_tape":
            core = tape_core(module, HIDDEN)
            state = core.initial_state(BATCH, STEPS)
        else:
            core = module.StackRNNCore(WIDTH, STEPS, inner_core=hk.LSTM, hidden_size=HIDDEN)
            state = core.initial_state(BATCH)
        return hk.dynamic_unroll(core, x, state)[0]

    network = hk.without_apply_rng(hk.transform(outputs))
    x = jax.numpy.asarray(inputs().numpy())
    parameters = network.init(jax.random.PRNGKey(0), x)
    run = jax.jit(
        jax.value_and_grad(lambda weights, x: network.apply(weights, x).sum(), argnums=(0, 1))
    )
    return lambda: jax.block_until_ready(run(parameters, x))


def tape_core(module: ModuleType, hidden: int) -> Any:
    import haiku as hk

    return module.TapeInputLengthJumpCore(
        WIDTH, CELLS, mlp_layers_size=(), inner_core=hk.LSTM, hidden_size=hidden
    )


def unroll_backward(run: Callable[[Tensor], Tensor]) -> Pass:
    """A pass of a nondeterministic stack from log weights of transitions to their gradient."""
    import torch

    generator = torch.Generator().manual_seed(0)
    head = memory("nondeterministic_stack").heads[0]
    action = torch.randn(BATCH_ALONE, STEPS, *head.shape, generator=generator).requires_grad_()
    weights = torch.randn(BATCH_ALONE, STEPS, STATES * SYMBOLS, generator=generator)
    return lambda: torch.autograd.grad(run(action), action, weights)


def read_vectors_here(action: Tensor) -> Tensor:
    stack: Any = memory("nondeterministic_stack")
    no_vectors = action.new_zeros(*action.shape[:2], 0)
    read_vectors: Tensor = stack.unroll(stack.Instruction(action, no_vectors), backend="cpu")[0]
    return read_vectors


def public_read_vectors(module: ModuleType, action: Tensor) -> Tensor:
    """The read vectors [B, T, Q S] of their stack for log weights [B, T, Q, S, 2 Q S + Q]."""
    import torch
    from torch_semiring_einsum import AutomaticBlockSize

    batch, steps = action.shape[:2]
    stack = module.NondeterministicStack(
        batch_size=batch, num_states=STATES, stack_alphabet_size=SYMBOLS, sequence_length=steps + 1,
        include_states_in_reading=True, block_size=AutomaticBlockSize(), dtype=action.dtype,
        device=action.device, semiring=module.log,
    )  # fmt: skip
    tops, shape = STATES * SYMBOLS, (STATES, SYMBOLS)
    read_vectors = []
    for weights in action.unbind(1):
        push, replace, pop = weights.split([tops, tops, STATES], dim=-1)
        stack.update(push.unflatten(-1, shape), replace.unflatten(-1, shape), pop)
        read_vectors.append(stack.reading())
    return torch.stack(read_vectors, 1)


def differences(row: str, folder: str) -> dict[str, float]:
    """The greatest difference of read vectors for the same instructions, in float64.

    Of a DNC there is a second one, of the reference implementation with usages that are compared
    in steps as fine as in the public program. Another order of slots changes later read vectors.
    """
    import torch

    here, sizes = memory(row), ROWS[row]
    generator = torch.Generator().manual_seed(0)
    leading = sizes.compared_batch, sizes.compared_steps
    drawn = {
        head.name: torch.randn(
            *leading, *head.shape, generator=generator, dtype=torch.float64
        )
        for head in here.heads
    }  # fmt: skip
    if row == "dnc":
        return differences_of_dnc(here, drawn)
    if row == "nondeterministic_stack":
        public = public_read_vectors(imported(row, folder), drawn["action"])
        ours = read_vectors_here(drawn["action"])
        return {"greatest_difference": greatest(ours - public)}
    import haiku as hk
    import jax

    jax.config.update("jax_enable_x64", True)
    drawn["action"] = drawn["action"].softmax(-1)
    module = imported(row, folder)
    actions, values = (jax.numpy.asarray(field.squeeze(2).numpy()) for field in drawn.values())
    steps = sizes.compared_steps

    def read_vectors() -> Any:
        cells = CELLS if row == "rolling_tape" else steps
        contents = jax.numpy.zeros((sizes.compared_batch, cells, WIDTH))
        core = tape_core(module, HIDDEN) if row == "rolling_tape" else None
        read = []
        for t in range(steps):
            if core is not None:
                contents = core._update_memory(contents, actions[:, t], values[:, t], steps)
            else:
                contents = module._update_stack(contents, actions[:, t], values[:, t])
            read.append(contents[:, 0])
        return jax.numpy.stack(read, 1)

    public = torch.tensor(jax.device_get(hk.transform(read_vectors).apply({}, None)))
    state = here.initial_state(sizes.compared_batch, dtype=torch.float64)
    if row == "rolling_tape":
        state = here.started(state, torch.full((sizes.compared_batch,), steps))
    ours = here.unroll(here.Instruction(**drawn), state, backend="cpu")[0]
    return {"greatest_difference": greatest(ours - public)}


def greatest(change: Tensor) -> float:
    return float(change.abs().max())


def differences_of_dnc(here: Any, drawn: dict[str, Tensor]) -> dict[str, float]:
    """Their memory with an identity as its heads reads the activations from its input."""
    import torch
    from dnc import Memory

    from unbounded.memories.dnc import reference

    rows = SLOT_WIDTH * READ_HEADS + 3 * SLOT_WIDTH + 5 * READ_HEADS + 3
    public = Memory(rows, SLOTS, SLOT_WIDTH, READ_HEADS, independent_linears=False).double()
    torch.nn.init.eye_(public.interface_weights.weight)
    torch.nn.init.zeros_(public.interface_weights.bias)
    order = (
        "read_key", "read_strength", "write_key", "write_strength", "erase", "write_value",
        "free_gate", "allocation_gate", "write_gate", "read_mode",
    )  # fmt: skip
    interface = torch.cat([drawn[name].flatten(2) if drawn[name].dim() > 2 else
                           drawn[name].unsqueeze(2) for name in order], dim=2)  # fmt: skip
    gates = ("free_gate", "erase", "allocation_gate", "write_gate")
    fields = {name: drawn[name].sigmoid() for name in gates}
    fields |= {name: drawn[name].tanh() for name in ("read_key", "write_key", "write_value")}
    for name in ("read_strength", "write_strength"):
        fields[name] = torch.nn.functional.softplus(drawn[name])
    # Their modes are backward, forward, content; here they are backward, content, forward.
    fields["read_mode"] = drawn["read_mode"].softmax(-1)[..., [0, 2, 1]]
    state = {name: field.double() for name, field in public.reset(interface.shape[0]).items()}
    read_vectors = []
    with torch.no_grad():
        for t in range(interface.shape[1]):
            read, state = public(interface[:, t], state)
            read_vectors.append(read.flatten(1))
        instruction = here.Instruction(**fields)
        ours = here.unroll(instruction, backend="cpu")[0]
        with mock.patch.object(reference, "USAGE_STEPS", FINE_STEPS):
            same_order = here.unroll(instruction, backend="reference")[0]
    expected = torch.stack(read_vectors, 1)
    return {
        "greatest_difference": greatest(ours - expected),
        "greatest_difference_same_order": greatest(same_order - expected),
    }


def worker(program: str, folder: str, cores: list[int]) -> None:
    """Build the passes of a program on these cores, and time one for each line that comes."""
    os.sched_setaffinity(0, cores)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a program prints is no answer

    def answer(content: object) -> None:
        print(json.dumps(content), file=answers, flush=True)

    import torch

    torch.set_num_threads(len(cores))
    try:
        passes = passes_here() if program == HERE else {program: public_pass(program, folder)}
        answer({"passes": list(passes)})
    except Exception as error:
        answer({"error": f"{type(error).__name__}: {error}".splitlines()[0]})
        return
    for line in sys.stdin:
        name = line.strip()
        if name == "differences":
            answer(differences(program, folder))
            continue
        run = passes[name]
        for _ in range(2):  # what another process has pushed out of the caches comes back
            start = time.perf_counter()
            run()
            elapsed = 1e3 * (time.perf_counter() - start)
            if elapsed > LONG_MS:
                break
        answer(elapsed)


class Program:
    """A process that times the passes of one program, and waits between two questions."""

    def __init__(self, name: str, folder: str, cores: list[int]) -> None:
        self.name = name
        self.process = subprocess.Popen(
            [sys.executable, __file__, WORKER, json.dumps([name, folder, cores])],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=os.environ | {"OMP_NUM_THREADS": str(len(cores))},
        )  # fmt: skip
        started = self._answer()
        if "error" in started:
            raise SystemExit(f"{name}: expected a program that runs, got {started['error']}")

    def ask(self, question: str) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(question + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name}: expected an answer, got an end; see the lines above.")
        return json.loads(line)

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def measured(row: str, public: Program, here: Program, rounds: int) -> dict[str, float]:
    """Time the contenders of a row in turns; ratios are medians of the ratios within rounds."""
    contenders = {"public": (public, row), HERE: (here, row)}
    if row != "nondeterministic_stack":
        contenders["nn.LSTM"] = (here, "nn.LSTM")
    for program, name in contenders.values():
        program.ask(name)
    times: dict[str, list[float]] = {contender: [] for contender in contenders}
    for _ in range(rounds):
        for contender, (program, name) in contenders.items():
            times[contender].append(program.ask(name))
    result = {f"{contender}_ms": statistics.median(each) for contender, each in times.items()}
    for contender in contenders.keys() - {HERE}:
        pairs = zip(times[contender], times[HERE], strict=True)
        result[f"{contender}_over_{HERE}"] = statistics.median(a / b for a, b in pairs)
    return {name: round(result[name], 3) for name in sorted(result)}


def check(arguments: argparse.Namespace) -> tuple[dict[str, str], dict[str, str]]:
    """The folder of each row that can be measured, and why the others are left out."""
    folders, left_out = {}, {}
    for row, program in ROWS.items():
        option = program.folder
        folder = vars(arguments)[option] if option else ""
        missing = [name for name in program.modules if importlib.util.find_spec(name) is None]
        if folder and not (folder / program.file).is_file():
            raise SystemExit(
                f"--{option}: expected a folder with {program.file}, got {folder}. "
                "Pass the folder of the clone."
            )
        if folder is None:
            left_out[row] = f"pass --{option} FOLDER, a clone of the program"
        elif missing:
            left_out[row] = f"no module {', '.join(missing)}; `{program.install}`"
        else:
            folders[row] = str(folder and folder.resolve())
    return folders, left_out


def versions(rows: dict[str, str]) -> dict[str, str | None]:
    """Versions of the packages, and commits of the clones (null if a folder is no clone)."""
    packages = {
        "dnc": ("dnc",),
        "rolling_tape": ("jax", "dm-haiku"),
        "superposition_stack": ("jax", "dm-haiku"),
        "nondeterministic_stack": ("torch-semiring-einsum",),
    }
    result: dict[str, str | None] = {}
    for row, folder in rows.items():
        result |= {package: version(package) for package in packages[row]}
        if folder:
            git = ["git", "-C", folder, "rev-parse", "HEAD"]
            is_clone = Path(folder, ".git").exists()
            commit = subprocess.run(git, capture_output=True, text=True) if is_clone else None
            result[f"--{ROWS[row].folder}"] = commit.stdout.strip() or None if commit else None
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--chomsky", type=Path, metavar="FOLDER")
    parser.add_argument("--nondeterministic", type=Path, metavar="FOLDER")
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).with_suffix(".json"), metavar="FILE"
    )
    parser.add_argument("--rounds", type=int, help="of each row; default 3 to 9", metavar="N")
    arguments = parser.parse_args()
    if arguments.rounds is not None and arguments.rounds < 1:
        raise SystemExit(f"--rounds: expected at least 1, got {arguments.rounds}.")
    if not arguments.out.resolve().parent.is_dir():
        raise SystemExit(f"--out: expected a file in a folder, got {arguments.out}. Make it first.")
    folders, left_out = check(arguments)
    for row, reason in left_out.items():
        print(f"{ROWS[row].title}: left out; {reason}", flush=True)
    if not folders:
        raise SystemExit("programs: expected one at least, got none. See the lines above.")
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise SystemExit(f"cores: expected 2 for this process, got {len(cores)}.")

    from unbounded.evaluation.provenance import provenance

    origin = provenance()
    del origin["hardware"]["threads"]
    rows: dict[str, dict[str, Any]] = {row: {"title": ROWS[row].title} for row in folders}
    for count in (1, 2):
        here = Program(HERE, "", cores[:count])
        for row, folder in folders.items():
            public = Program(row, folder, cores[:count])
            if count == 1:
                rows[row] |= public.ask("differences")
            result = measured(row, public, here, arguments.rounds or ROWS[row].rounds)
            public.close()
            rows[row][f"{count} core{'s'[: count - 1]}"] = result
            ratio, there = result[f"public_over_{HERE}"], result["public_ms"]
            print(
                f"{ROWS[row].title:64} {count} core{'s'[: count - 1]:1} {there:8.1f} "
                f"{result[f'{HERE}_ms']:7.1f} ms  ratio {ratio:.2f}", flush=True,
            )  # fmt: skip
            if row == "nondeterministic_stack" and ratio < BAR:
                print(f"  misses its bar of {BAR}", flush=True)
        here.close()
    result = {
        "date": datetime.now(UTC).date().isoformat(),
        **origin,
        "programs": versions(folders),
        "left_out": left_out,
        "rows": rows,
    }
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    worker(*json.loads(sys.argv[2])) if sys.argv[1:2] == [WORKER] else main()
