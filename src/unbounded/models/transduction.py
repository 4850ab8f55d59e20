"""The sequence model as plain keywords: what is saved, shared and built again from JSON."""

from __future__ import annotations

from typing import Any

from huggingface_hub import PyTorchModelHubMixin
from torch import Tensor, nn

from unbounded.errors import ChoiceError
from unbounded.layers import DeepLSTM, MemoryRNN
from unbounded.memories import MEMORIES
from unbounded.models.initialization import (
    INITIALIZATIONS,
    OUTPUT_INITIALIZATIONS,
    draw_as_torch,
)
from unbounded.models.sequence_model import SequenceModel

#: The name of the model without a memory.
NO_MEMORY = "none"


class TransductionModel(
    nn.Module,
    PyTorchModelHubMixin,
    library_name="unbounded",
    license="apache-2.0",
    tags=["external-memory", "neural-stack"],
):
    """A `SequenceModel` made from numbers and names alone.

    `save_pretrained(folder)` writes model.safetensors and config.json;
    `TransductionModel.from_pretrained(folder)` builds the same model from them.

    Args:
        input_vocabulary: size of the input index space.
        output_vocabulary: size of the output index space.
        memory: "stack", "queue", "deque", or "none" for a deep LSTM.
        controller: "lstm", "gru" or "elman"; only "lstm" without a memory.
        hidden_size: units of the controller, or of each LSTM layer.
        memory_width: size of the stored vectors.
        embedding_size: size of the input embeddings, and of the readout beside a memory.
        layers: LSTM layers of the model without a memory.
        skip_input: whether each of these layers reads the embedding too.
        learn_initial_state: whether the first state is a parameter; zero otherwise.
        pop_bias: initial bias of the pop heads.
        initialization: "glorot" draws matrices from Glorot's uniform distribution and sets the
            forget gate's bias to 1; "torch" draws both as PyTorch's own layers do.
        output_initialization: "normal" draws the output embedding from N(0, 1), as
            torch.nn.Embedding does; "torch" as torch.nn.Linear does.
        backend: "auto", "reference" or a kernel by name.
    Raises:
        ChoiceError: no memory or initialization has that name.
    Source: Grefenstette et al. 2015, arXiv:1506.02516, sections 3 and 4.
    """

    def __init__(
        self,
        *,
        input_vocabulary: int,
        output_vocabulary: int,
        memory: str,
        controller: str = "lstm",
        hidden_size: int = 256,
        memory_width: int = 256,
        embedding_size: int = 64,
        layers: int = 1,
        skip_input: bool = True,
        learn_initial_state: bool = True,
        pop_bias: float = -1.0,
        initialization: str = "glorot",
        output_initialization: str = "normal",
        backend: str = "auto",
    ) -> None:
        super().__init__()
        if initialization not in INITIALIZATIONS:
            raise ChoiceError("initialization", initialization, INITIALIZATIONS)
        if output_initialization not in OUTPUT_INITIALIZATIONS:
            raise ChoiceError(
                "output initialization", output_initialization, OUTPUT_INITIALIZATIONS
            )
        layer: nn.Module
        if memory == NO_MEMORY:
            layer = DeepLSTM(
                embedding_size,
                hidden_size,
                layers,
                skip_input=skip_input,
                batch_first=True,
                learn_initial_state=learn_initial_state,
            )
            layer_size = hidden_size
        elif memory in MEMORIES:
            layer = MemoryRNN(
                embedding_size,
                hidden_size,
                MEMORIES[memory](memory_width, pop_bias=pop_bias),
                controller=controller,
                output_size=embedding_size,
                batch_first=True,
                backend=backend,
                learn_initial_state=learn_initial_state,
            )
            layer_size = embedding_size
        else:
            raise ChoiceError("memory", memory, [NO_MEMORY, *MEMORIES])
        self.sequence = SequenceModel(
            input_vocabulary, output_vocabulary, embedding_size, layer, layer_size
        )
        if initialization == "torch":
            draw_as_torch(self.sequence.layer)
        if output_initialization == "torch":
            self.sequence.output.reset_parameters()

    def forward(
        self, inputs: Tensor, state: Any = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        """As `SequenceModel.forward`: logits [B, T, V] and the state."""
        logits, state = self.sequence(inputs, state, lengths)
        return logits, state
