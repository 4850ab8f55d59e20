"""A memory as plain data; another program can build the same memory from it later."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from unbounded.errors import ConfigError, ShapeError
from unbounded.memories.baseline_states import AttentionWeights, DeltaMatrices
from unbounded.memories.core import Memory
from unbounded.memories.dnc import DNC
from unbounded.memories.lie_access import LieAccessMemory
from unbounded.memories.lie_access.groups import GROUPS, Group, chosen_group
from unbounded.memories.lie_access.weightings import WEIGHTINGS
from unbounded.memories.nondeterministic_stack import NondeterministicStack
from unbounded.memories.push_pop import NeuralDeque, NeuralQueue, NeuralStack
from unbounded.memories.random_access import RandomAccessMemory
from unbounded.memories.rolling_tape import RollingTape
from unbounded.memories.superposition import (
    SuperpositionList,
    SuperpositionMemory,
    SuperpositionStack,
)
from unbounded.memories.turing_tape import TuringTape

_CELLS: Final = ("count", "depth", "noop", "capacity", "overflow")
_TAPE: Final = (
    "slots", "width", "read_heads", "write_heads", "shift", "shift_range", "variant", "reads",
)  # fmt: skip

#: For each name in data: the class, and the attributes for the options on which its steps depend.
KINDS: Final[dict[str, tuple[type[Memory[Any, Any]], tuple[str, ...]]]] = {
    "stack": (NeuralStack, ("width",)),
    "queue": (NeuralQueue, ("width",)),
    "deque": (NeuralDeque, ("width",)),
    "superposition_stack": (SuperpositionStack, _CELLS),
    "superposition_list": (SuperpositionList, _CELLS),
    "turing_tape": (TuringTape, _TAPE),
    "rolling_tape": (RollingTape, ("slots", "width", "tapes", "variant")),
    "dnc": (DNC, ("slots", "width", "read_heads", "links")),
    "nondeterministic_stack": (
        NondeterministicStack, ("states", "symbols", "width", "window", "normalized"),
    ),
    "lie_access": (LieAccessMemory, ("width", "variant", "key_gate", "action_gate")),
    "random_access": (RandomAccessMemory, ("width", "key_size", "tape", "sharpening")),
}  # fmt: skip
#: The same for what a trace holds of a baseline.
BASELINES: Final[dict[str, tuple[type[Memory[Any, Any]], tuple[str, ...]]]] = {
    "delta_matrices": (
        DeltaMatrices, ("layers", "num_heads", "head_size", "steps", "negative_eigenvalues"),
    ),
    "attention_weights": (
        AttentionWeights, ("layers", "num_heads", "head_size", "positions"),
    ),
}  # fmt: skip
_ALL: Final = KINDS | BASELINES
#: Options of a Lie-access memory that are omitted from the data at their defaults.
_LIE_DEFAULTS: Final = {
    "value_activation": "tanh", "gates": "sigmoid", "read_heads": 1, "write_heads": 1,
}  # fmt: skip


def memory_data(memory: Memory[Any, Any]) -> dict[str, Any]:
    """Describe a memory as plain data.

    Returns:
        "kind", one of KINDS or BASELINES; "options" of its class on which a step depends; "heads",
        each with name, shape, activation and whether it is a gate; "write_strengths".
    Raises:
            ConfigError: a custom class or group, which has no name.
    """
    kind = next((kind for kind, (known, _) in _ALL.items() if type(memory) is known), None)
    if kind is None:
        raise ConfigError(
            f"memory: the explorer cannot show a {type(memory).__name__}; it shows "
            f"{', '.join(KINDS)}. `unbounded actions` shows the gates of any memory"
        )
    options = {name: getattr(memory, name) for name in _ALL[kind][1]}
    # Omitted at their defaults, so that pages of older versions can still read memories without
    # them.
    if isinstance(memory, SuperpositionMemory):
        options |= memory.other_options
    if isinstance(memory, LieAccessMemory):
        options |= _lie_options(memory)
    heads = [
        {
            "name": head.name,
            "shape": list(head.shape),
            "activation": head.activation,
            "gate": head.gate,
        }
        for head in memory.heads
    ]
    return {
        "kind": kind,
        "options": options,
        "heads": heads,
        "write_strengths": list(memory.write_strengths),
    }


def has_name(memory: Memory[Any, Any]) -> bool:
    """Whether `memory_data` supports a memory."""
    try:
        memory_data(memory)
    except ConfigError:
        return False
    return True


def memory_from_data(data: Mapping[str, Any]) -> Memory[Any, Any]:
    """Build a memory from the data of `memory_data`. The steps of both memories are the same.

    Raises:
        ConfigError: there is no such kind, or its options are not those of its class.
    """
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in _ALL:
        raise ConfigError(f"memory: expected a kind of {', '.join(_ALL)}, got {kind!r}")
    try:
        return _ALL[kind][0](**data["options"])
    except (TypeError, ValueError, LookupError) as error:
        raise ConfigError(f"memory {kind}: {error}") from error


def _lie_options(memory: LieAccessMemory) -> dict[str, Any]:
    group = memory.group
    if not _is_named(group):
        raise ConfigError(
            f"memory: expected a group of {', '.join(GROUPS)}, given by its name, got "
            f"{group.name!r} with keys of size {group.key_size} ({type(group).__name__})"
        )
    if memory.weighting_name not in WEIGHTINGS:
        names = ", ".join(WEIGHTINGS)
        raise ConfigError(f"memory: expected a weighting of {names}, got {memory.weighting_name!r}")
    options: dict[str, Any] = {"group": group.name, "step": memory.step_length}
    options["weighting"] = memory.weighting_name
    options["key_size"] = group.key_size
    options["capacity"] = memory.capacity
    options["drop"] = None if memory.capacity is None else memory.drop
    others = {name: getattr(memory, name) for name in _LIE_DEFAULTS}
    return options | {name: it for name, it in others.items() if it != _LIE_DEFAULTS[name]}


def _is_named(group: Group) -> bool:
    """Whether a group can be built again from its name and the size of its keys."""
    if group.name not in GROUPS:
        return False
    try:
        return type(chosen_group(group.name, group.key_size)) is type(group)
    except ShapeError:
        return False
