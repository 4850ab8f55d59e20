"""The networks of Joulin & Mikolov as plain keywords: what is saved and built again from JSON."""

from __future__ import annotations

from functools import partial
from typing import Any

from huggingface_hub import PyTorchModelHubMixin
from torch import Tensor, nn

from unbounded.errors import ChoiceError, ConfigError
from unbounded.layers import (
    CONTROLLERS,
    SRCN,
    ControllerRNN,
    DeepLSTM,
    ElmanController,
    MemoryRNN,
)
from unbounded.layers.memory_rnn import ControllerFactory
from unbounded.layers.symbols import input_weight
from unbounded.memories import SUPERPOSITION_MEMORIES
from unbounded.models.initialization import SYMBOL_INITIALIZATIONS, draw_sums
from unbounded.models.sequence_model import SequenceModel

NO_MEMORY = "none"
#: The structurally constrained network: a baseline, no controller of a memory.
SRCN_NAME = "srcn"


class StreamModel(
    nn.Module,
    PyTorchModelHubMixin,
    library_name="unbounded",
    license="apache-2.0",
    tags=["external-memory", "stack-rnn"],
):
    """A network that predicts the next symbol of a stream, made from numbers and names alone.

    Symbols enter one-hot and the logits have no bias. First weights are `draw_sums`, but for an
    LSTM or GRU, whose layers draw their own.

    Args:
        vocabulary: number of symbols.
        memory: "superposition_stack", "superposition_list", or "none" for the baselines.
        controller: "elman" (sigmoid, without biases), "lstm" or "gru"; without a memory also
            "srcn", the structurally constrained network.
        hidden_size: units.
        recurrent: whether an Elman controller has the matrix R. The paper has it for Penn Treebank
            and for the baseline, and R = 0 beside a memory on the toy tasks.
        count: stacks or lists; the paper has 10 stacks or 5 lists.
        depth: cells of each that are read.
        noop: whether NO-OP is among the actions.
        capacity, overflow: as for the memory; the authors' program has 200 and "drop_bottom".
        layers: layers of the LSTM without a memory.
        context_size: context units of the structurally constrained network; None gives it 40.
        symbol_initialization: of the columns that one-hot symbols choose: "as_model" for as all the
            rest, or "normal" for N(0, 1), as torch.nn.Embedding. Where there are many symbols
            small columns tell them apart little at first, and training begins slowly.
        backend: "auto", "reference" or a kernel by name.
    Raises:
        ChoiceError: no memory, controller or initialization has that name.
        ConfigError, ShapeError: a number is out of range, or means nothing for this model.
    Source: Joulin & Mikolov 2015, arXiv:1503.01007, sections 3 to 5.
    """

    def __init__(
        self,
        *,
        vocabulary: int,
        memory: str = "superposition_stack",
        controller: str = "elman",
        hidden_size: int = 40,
        recurrent: bool = False,
        count: int = 10,
        depth: int = 2,
        noop: bool = False,
        capacity: int | None = None,
        overflow: str = "error",
        layers: int = 1,
        context_size: int | None = None,
        symbol_initialization: str = "as_model",
        backend: str = "auto",
    ) -> None:
        super().__init__()
        if memory != NO_MEMORY and memory not in SUPERPOSITION_MEMORIES:
            raise ChoiceError("memory", memory, [NO_MEMORY, *SUPERPOSITION_MEMORIES])
        if controller not in CONTROLLERS and (memory, controller) != (NO_MEMORY, SRCN_NAME):
            alone = [SRCN_NAME] if memory == NO_MEMORY else []
            raise ChoiceError(
                f"controller with memory={memory!r}", controller, [*CONTROLLERS, *alone]
            )
        if symbol_initialization not in SYMBOL_INITIALIZATIONS:
            raise ChoiceError(
                "symbol initialization", symbol_initialization, SYMBOL_INITIALIZATIONS
            )
        if context_size is not None and controller != SRCN_NAME:
            raise ConfigError([f"context_size: only controller='srcn' has it, not {controller!r}"])
        if layers != 1 and (memory, controller) != (NO_MEMORY, "lstm"):
            raise ConfigError(
                [f"layers: only an LSTM without a memory has more than 1, not {layers}"]
            )
        if not recurrent and (memory, controller) == (NO_MEMORY, "elman"):
            raise ConfigError(
                ["recurrent: without it and a memory nothing is remembered; give True"]
            )
        make: str | ControllerFactory = controller
        if controller == "elman":
            make = partial(ElmanController, activation="sigmoid", recurrent=recurrent, bias=False)
        layer: nn.Module
        if memory != NO_MEMORY:
            structure = SUPERPOSITION_MEMORIES[memory](
                count, depth, noop, capacity=capacity, overflow=overflow
            )
            layer = MemoryRNN(
                vocabulary, hidden_size, structure, make, batch_first=True, backend=backend
            )
        elif controller == "lstm":
            layer = DeepLSTM(vocabulary, hidden_size, layers, skip_input=False, batch_first=True)
        elif controller == SRCN_NAME:
            context = 40 if context_size is None else context_size
            layer = SRCN(vocabulary, hidden_size, context, batch_first=True)
        else:
            layer = ControllerRNN(vocabulary, hidden_size, make, batch_first=True)
        size = layer.output_size if isinstance(layer, SRCN) else hidden_size
        self.sequence = SequenceModel(vocabulary, vocabulary, None, layer, size, output_bias=False)
        draw_sums(self.sequence.output if controller in ("lstm", "gru") else self.sequence)
        weight = input_weight(layer)
        if symbol_initialization == "normal" and weight is not None:
            nn.init.normal_(weight.detach()[:, :vocabulary])

    def forward(
        self, inputs: Tensor, state: Any = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        """As `SequenceModel.forward`: logits [B, T, V] and the state."""
        logits, state = self.sequence(inputs, state, lengths)
        return logits, state
