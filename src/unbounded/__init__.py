"""Neural networks with external memory for PyTorch.

Data flows from the top of this list to the bottom. A folder imports only folders above it.

    tasks/        what to learn: samplers, vocabularies, batches; one file for each task family
    memories/     the data structures as equations: one folder for each memory
    kernels/      the memories' equations fused over time: tensors in, tensors out
    rnn/          controller + heads + memory over time
    models/       tokens -> embedding -> layer -> logits
    constructions/ constructed networks: weights are set by hand, exact at any length
    training/     objective, loop, curricula, schedules, checkpoints
    evaluation/   metrics, length sweeps, reports (JSON), metric sets
    verification/ where a network is correct: every short string, drawn long ones, margins
    extraction/   the automaton of a hardened network: a table, a graph, a program
    figures/      draws saved reports, traces and tables; runs no model
    experiments/  config/, run/, trials/, tables/, and a preset for each row of a published table
    explorer/     a trained network in one HTML file that shows it step by step
    studies/      custom studies: folders, tables, data frames, plots, executors of clusters
    cli/          one file for each command

Everything down to rnn/ needs torch, numpy and safetensors. The rest needs the extra `lab`. Public
names are imported when first used, so `import unbounded` is fast. `import unbounded.kernels`
registers the operators in `torch.ops.unbounded`.
"""

from __future__ import annotations

import importlib

# Defined here, because importing `typing` would take longer than the rest of this file.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from unbounded.explorer.notebook import explore
    from unbounded.memories import (
        DNC,
        LieAccessMemory,
        NeuralDeque,
        NeuralQueue,
        NeuralStack,
        NondeterministicStack,
        RandomAccessMemory,
        RollingTape,
        SuperpositionList,
        SuperpositionStack,
        TuringTape,
        detach_state,
        index_state,
        move_state,
        trim_cells,
    )
    from unbounded.rnn import (
        SRCN,
        ControllerRNN,
        DeepLSTM,
        DeltaNet,
        DeltaProduct,
        ElmanController,
        GRUController,
        LSTMController,
        MemoryAttention,
        MemoryRNN,
        MemoryRNNState,
        Trace,
        Transformer,
        load_trace,
        save_trace,
    )

__version__ = "0.1.0"

__all__ = [
    "DNC",
    "SRCN",
    "ControllerRNN",
    "DeepLSTM",
    "DeltaNet",
    "DeltaProduct",
    "ElmanController",
    "GRUController",
    "LSTMController",
    "LieAccessMemory",
    "MemoryAttention",
    "MemoryRNN",
    "MemoryRNNState",
    "NeuralDeque",
    "NeuralQueue",
    "NeuralStack",
    "NondeterministicStack",
    "RandomAccessMemory",
    "RollingTape",
    "SuperpositionList",
    "SuperpositionStack",
    "Trace",
    "Transformer",
    "TuringTape",
    "__version__",
    "detach_state",
    "explore",
    "index_state",
    "load_trace",
    "move_state",
    "save_trace",
    "trim_cells",
]

_FOLDERS = (
    "tasks", "memories", "kernels", "rnn", "models", "constructions", "training", "evaluation",
    "verification", "extraction", "figures", "experiments", "explorer", "studies", "cli",
    "errors",
)  # fmt: skip


#: Folders that need the extra `lab`.
_LAB = (
    "constructions", "evaluation", "verification", "extraction", "figures", "experiments",
    "studies", "cli",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a public name or a subpackage at first access (PEP 562)."""
    if name in _LAB or name == "explore":
        from unbounded.lab import require

        require(f"unbounded.{name}")
    if name in _FOLDERS:
        return importlib.import_module(f"{__name__}.{name}")
    if name in __all__:
        for folder in ("rnn", "memories", "explorer.notebook"):
            home = importlib.import_module(f"{__name__}.{folder}")
            if hasattr(home, name):
                globals()[name] = value = getattr(home, name)
                return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load_kernels() -> None:
    """Import the fused kernels, which register themselves for `Memory.unroll`."""
    importlib.import_module(f"{__name__}.kernels")


def __dir__() -> list[str]:
    """List the public names, whether or not they are loaded."""
    return sorted({*__all__, *_FOLDERS})
