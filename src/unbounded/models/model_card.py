"""The model card of a saved model: description, loading, licence and citation."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Final

import unbounded
from unbounded.custom_components import NO_MEMORY, is_path, module_of
from unbounded.files import markdown_cell
from unbounded.memories import MEMORIES
from unbounded.models.model_parts import BASELINES
from unbounded.rnn import CONTROLLERS

_GREFENSTETTE: Final = (
    "Grefenstette et al. 2015, Learning to Transduce with Unbounded Memory, arXiv:1506.02516"
)
_JOULIN: Final = (
    "Joulin & Mikolov 2015, Inferring Algorithmic Patterns with Stack-Augmented Recurrent Nets, "
    "arXiv:1503.01007"
)
_YANG: Final = "Yang & Rush 2017, Lie-Access Neural Turing Machines, arXiv:1611.02854"
#: The paper of each memory, by the memory's name.
_SOURCES: Final[Mapping[str, str]] = {
    "stack": _GREFENSTETTE,
    "queue": _GREFENSTETTE,
    "deque": _GREFENSTETTE,
    "quiet_deque": f"{_GREFENSTETTE}; the quiet bottom is added by `unbounded`",
    "superposition_stack": _JOULIN,
    "superposition_list": _JOULIN,
    "turing_tape": "Graves et al. 2014, Neural Turing Machines, arXiv:1410.5401",
    "rolling_tape": "Delétang et al. 2023, Neural Networks and the Chomsky Hierarchy, "
    "arXiv:2207.02098",
    "nondeterministic_stack": "DuSell & Chiang 2023, The Surprising Computational Power of "
    "Nondeterministic Stack RNNs, arXiv:2210.01343",
    "dnc": "Graves et al. 2016, Hybrid computing using a neural network with dynamic external "
    "memory, Nature 538",
    "lie_access": _YANG,
    "ram": _YANG,
    "none": "no paper: a recurrent network without external memory, the baseline of the others",
}
_SIZES: Final = {
    "hidden_size": "hidden units",
    "embedding_size": "embedding",
    "readout_size": "readout units",
    "inputs": "input symbols",
    "outputs": "logits a step",
}


def model_card(
    config: Mapping[str, Any],
    *,
    front_matter: str,
    parameters: int,
    title: str = "",
    sections: str = "",
    usage: str = "",
) -> str:
    """Return the card as Markdown.

    Args:
        config: the keywords of a `MemoryModel`.
        front_matter: library, licence and tags as YAML.
        parameters: number of trained parameters.
        title: the heading; by default the names of memory and controller.
        sections: Markdown on task, training, scores and limits, before the loading section.
        usage: Markdown at the end of the loading section.
    """
    memory, controller = _part(config.get("memory")), _part(config.get("controller"))
    kind = (
        f"A recurrent network ({controller[0]}) without external memory"
        if memory[0] == NO_MEMORY
        else f"A recurrent network ({controller[0]}) with a differentiable external memory "
        f"({memory[0]})"
    )
    sizes = {
        title: "one-hot symbols" if name == "embedding_size" else "none"
        for name, title in _SIZES.items()
        if config.get(name) is None
    }
    sizes |= {title: str(config[name]) for name, title in _SIZES.items() if config.get(name)}
    properties = {
        "memory": _in_words(memory),
        "controller": _in_words(controller),
        **{title: sizes[title] for title in _SIZES.values() if title in sizes},
        "trained parameters": str(parameters),
    }
    rows = "\n".join(f"| {name} | {markdown_cell(value)} |" for name, value in properties.items())
    source = _SOURCES.get(memory[0], f"the module of the memory, `{markdown_cell(memory[0])}`")
    modules = {module_of(name) for name in (memory[0], controller[0]) if is_path(name)}
    imports = "".join(f"import {module}\n" for module in sorted(modules))
    middle = f"{sections.strip()}\n\n" if sections.strip() else ""
    more = f"\n\n{usage.strip()}" if usage.strip() else ""
    heading = title or f"{memory[0]} with {controller[0]}"
    parts = [
        f"* `{markdown_cell(name)}`: {markdown_cell(first)}"
        for name, first in (
            (memory[0], _first_line(MEMORIES.get(memory[0]))),
            (controller[0], _first_line({**BASELINES, **CONTROLLERS}.get(controller[0]))),
        )
        if first
    ]
    described = "".join(f"{line}\n" for line in parts) + ("\n" if parts else "")
    return f"""---
{front_matter.strip()}
---

# {markdown_cell(heading)}

{markdown_cell(kind)}, made with the Python library `unbounded`.

{described}| property | value |
| --- | --- |
{rows}

{middle}## Load it

```python
import torch
{imports}from unbounded.models import MemoryModel

model = MemoryModel.from_pretrained("FOLDER")  # this folder, or USER/NAME on the Hub
tokens = torch.zeros(1, 8, dtype=torch.long)  # [B, T], numbers of input symbols
logits, state = model(tokens)  # [B, T, {config.get("outputs", "V")}] and the state to go on with
```{more}

## Licence

Apache-2.0.

## Citation

* The memory: {source}.
* The library: The unbounded authors, `unbounded` {unbounded.__version__}.
"""


def _first_line(part: Any) -> str:
    """The first line of a component's docstring; empty for a custom component."""
    return (inspect.getdoc(part) or "").partition("\n")[0] if part is not None else ""


def _part(value: Any) -> tuple[str, Mapping[str, Any]]:
    """The name and the options of a memory or controller."""
    if not isinstance(value, Mapping):
        return str(value), {}
    return str(value.get("name")), {key: option for key, option in value.items() if key != "name"}


def _in_words(part: tuple[str, Mapping[str, Any]]) -> str:
    name, options = part
    listed = ", ".join(f"{key} {value}" for key, value in options.items())
    return f"{name}: {listed}" if listed else name
