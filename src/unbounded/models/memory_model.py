"""The one model: symbols, a layer with any memory or none, logits; built from plain keywords."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import torch
from huggingface_hub import ModelCard, PyTorchModelHubMixin, hf_hub_download
from huggingface_hub.errors import (
    EntryNotFoundError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from torch import Tensor, nn

from unbounded.checks import check_bool, check_path
from unbounded.errors import CheckpointError, ChoiceError, ConfigError
from unbounded.files import usual_modes
from unbounded.models import initial_state
from unbounded.models.initialization import (
    INITIALIZATIONS,
    OUTPUT_INITIALIZATIONS,
    SYMBOL_INITIALIZATIONS,
    initialize,
)
from unbounded.models.inputs import bit_faults, input_size
from unbounded.models.model_card import model_card
from unbounded.models.model_parts import make_layer
from unbounded.models.saved_model import read_model
from unbounded.models.sequence_model import SequenceModel, dropout_faults, tie_faults
from unbounded.notebook import shown
from unbounded.options import option_errors
from unbounded.own_parts import part_of

#: What the Hub takes as a name, and what a run's folder holds models in.
_HUB_NAME: Final = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")
#: Options of the download.
_OF_HUB: Final = ("revision", "token", "cache_dir", "local_files_only", "force_download")
#: What the Hub says of a name, and what is to be done; the first that fits counts.
_HUB_FAULTS: Final[dict[type[Exception], str]] = {
    LocalEntryNotFoundError: (
        "it could not be looked for, nor is it in the cache. Check the connection, and "
        "local_files_only."
    ),
    OfflineModeIsEnabled: (
        "it could not be looked for, nor is it in the cache. Unset HF_HUB_OFFLINE."
    ),
    RevisionNotFoundError: "it has no such revision. Check revision.",
    RepositoryNotFoundError: (
        "there is none of that name that you may read. Check the name, or give token."
    ),
    EntryNotFoundError: (
        "it is no model of this library: it lacks config.json or model.safetensors."
    ),
    HFValidationError: "there can be none of that name. A name is USER/NAME.",
    HfHubHTTPError: "it could not be read. Try again later.",
}
_OF_RUNS: Final = ("model", "model-rounded", "checkpoints")

#: The network of Joulin & Mikolov 2015 on the toy tasks, but for the vocabulary, as keywords:
#: `MemoryModel(inputs=2, outputs=2, **STACK_RNN)`. (R = 0 there; Penn Treebank has recurrent=True.)
STACK_RNN: Final[dict[str, Any]] = {
    "memory": {"name": "superposition_stack"},
    "controller": {"name": "elman", "activation": "sigmoid", "recurrent": False, "bias": False},
    "hidden_size": 40,
    "embedding_size": None,
    "output_bias": False,
    "initialization": "sums",
    "output_initialization": "sums",
}


class MemoryModel(
    nn.Module,
    PyTorchModelHubMixin,
    library_name="unbounded",
    license="apache-2.0",
    tags=["external-memory", "neural-stack", "stack-rnn"],
):
    """A `SequenceModel` made from numbers and names alone.

    `save_pretrained(folder)` writes model.safetensors and config.json;
    `MemoryModel.from_pretrained(folder)` builds the same model from them. A part is a name, or a
    mapping of a name and options: {"name": "queue", "width": 256}. Options are those of the class
    that the name stands for; a part of your own is named by its import path.

    Args:
        inputs: size of the input index space.
        outputs: logits at each step: the size of the output index space, or 1 to say yes or no.
        memory: one of `unbounded.memories.MEMORIES`, or "none" for the controller alone.
        controller: "lstm", "gru" or "elman"; without a memory "lstm" is a `DeepLSTM` and "srcn"
            the structurally constrained network.
        hidden_size: units of the controller, or of each LSTM layer.
        embedding_size: size of the input embeddings; None feeds the symbols one-hot.
        readout_size: size of tanh(W h + b) between the controller and the logits, beside a memory;
            None for the controller's own output.
        output_bias: whether the logits have a bias.
        dropout: share of what the logits are made of that is dropped in training, in [0, 1);
            between the layers of a deep controller it is an option of that.
        tied_embeddings: whether the output matrix is the input embedding (Press & Wolf 2017), of
            one vocabulary; what the logits are made of has `embedding_size` numbers then. It begins
            as `output_initialization` says, or as `symbol_initialization` where that says more.
        output_reading: whether what is read at a step reaches the logits of the same step, as in
            the program of Yang & Rush 2017, beside the controller's output.
        learn_initial_state: whether the controller's first state is a parameter; zero otherwise.
        map_initial_state: whether each learned number of the first state is the sum of two, as in
            the program of Yang & Rush 2017.
        initialization: of the layer: "glorot", "torch" as PyTorch's own layers, "sums" of uniform
            numbers, as in the authors' program of Joulin & Mikolov 2015, or "glorot_parts" for a
            draw of each kind of input and each head and biases of 0, as in that of Deleu & Dureau
            2016 (layers with gates keep "glorot" at these two).
        output_initialization: of the output embedding: "normal" for N(0, 1), "torch", "sums" or
            "glorot" with biases of 0.
        symbol_initialization: of the columns that one-hot symbols choose: "as_model", "sums", or
            "normal" for N(0, 1): where there are many symbols, small columns tell them apart little
            at first, and large ones of rare symbols stay as they were drawn. Embeddings are N(0, 1)
            at "as_model", and can be "sums".
        input_bits: with embedding_size None, the low so many bits of a symbol's number are an input
            each, what is above them one more, a number; 0 for the number alone.
        read_only_token: the symbol from whose first occurrence on nothing is written, as in the
            answer phase of Yang 2016; None writes always.
        backend: "auto", "reference", "cpu" or "cuda", as of the layer.
    Raises:
        ChoiceError: there is no memory, controller or initialization of that name.
        ConfigError, ShapeError: an option is unknown, out of range, or means nothing here.
        DTypeError: an option that is yes or no is no bool.
    Source: Grefenstette et al. 2015, sections 3 and 4; Joulin & Mikolov 2015, sections 3 to 5.
    """

    def __init__(
        self,
        *,
        inputs: int,
        outputs: int,
        memory: str | Mapping[str, Any] = "queue",
        controller: str | Mapping[str, Any] = "lstm",
        hidden_size: int = 256,
        embedding_size: int | None = 64,
        readout_size: int | None = None,
        output_bias: bool = True,
        dropout: float = 0.0,
        tied_embeddings: bool = False,
        output_reading: bool = False,
        learn_initial_state: bool = False,
        map_initial_state: bool = False,
        initialization: str = "glorot",
        output_initialization: str = "normal",
        symbol_initialization: str = "as_model",
        input_bits: int | None = None,
        read_only_token: int | None = None,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        for name, choice in (
            ("output_bias", output_bias),
            ("tied_embeddings", tied_embeddings),
            ("output_reading", output_reading),
            ("learn_initial_state", learn_initial_state),
            ("map_initial_state", map_initial_state),
        ):
            check_bool(name, choice)
        initialize_by = (initialization, output_initialization, symbol_initialization)
        faults = initialization_faults(
            *initialize_by, embedding_size=embedding_size, input_bits=input_bits
        )
        faults += bit_faults(input_bits, embedding_size)
        faults += dropout_faults(dropout)
        faults += map_faults(map_initial_state, learn_initial_state)
        if tied_embeddings:
            faults += tie_faults(inputs, outputs, embedding_size)
        if faults:
            raise ConfigError(faults)
        seen = inputs if input_bits is None else input_size(inputs, input_bits)
        layer, size = make_layer(
            memory,
            controller,
            seen if embedding_size is None else embedding_size,
            hidden_size,
            readout_size,
            learn_initial_state=learn_initial_state,
            output_reading=output_reading,
            backend=backend,
        )
        self.sequence = SequenceModel(
            inputs,
            outputs,
            embedding_size,
            layer,
            size,
            output_bias=output_bias,
            dropout=dropout,
            tied_embeddings=tied_embeddings,
            input_bits=input_bits,
            read_only_token=read_only_token,
        )
        initialize(self.sequence, *initialize_by)
        if map_initial_state:
            initial_state.map_initial_state(layer)

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: str | Path,
        *,
        map_location: str | torch.device = "cpu",
        **options: Any,
    ) -> MemoryModel:
        """The model of a folder, or of the Hugging Face Hub under the name USER/NAME.

        Args:
            pretrained_model_name_or_path: a folder that `save_pretrained` wrote, or a name.
            map_location: device of the weights.
            options: of `huggingface_hub.hf_hub_download` (revision, token, cache_dir,
                local_files_only, force_download), and keywords of the model that take the place of
                saved ones.
        Returns:
            the model in evaluation mode.
        Raises:
            CheckpointError: there is no model, or a file of it is unreadable, truncated, damaged,
                foreign or from a newer version. Of a path the Hub is not asked.
            ConfigError: an option is unknown, or a component of your own was not imported.
            DTypeError: the path is no text and no path. DeviceError: `map_location` cannot be used.
        """
        check_path("pretrained_model_name_or_path", pretrained_model_name_or_path)
        path = Path(pretrained_model_name_or_path)
        is_name = _HUB_NAME.fullmatch(str(pretrained_model_name_or_path)) is not None
        is_local = path.exists() or (path.parent != Path() and path.parent.is_dir())
        is_name = is_name and not is_local and path.name not in _OF_RUNS
        if not is_name and not (path / "config.json").is_file():
            raise CheckpointError(
                f"{path} is not the folder of a model: it has no config.json. Of a run it is "
                "RUN/model; a name on the Hub is USER/NAME."
            )
        of_hub: dict[str, Any] = {name: options.pop(name) for name in _OF_HUB if name in options}
        filled = ("inputs", "outputs")
        if errors := option_errors("the model", cls, options, filled=filled):
            raise ConfigError(errors)
        if is_name:
            path = _downloaded(str(pretrained_model_name_or_path), of_hub)
        return read_model(path, cls, options, map_location)

    def generate_model_card(self, *, sections: str = "", **_: Any) -> ModelCard:
        """The README.md that `save_pretrained` and `push_to_hub` write.

        Args:
            sections: Markdown on task, training and scores, given as
                `save_pretrained(folder, model_card_kwargs={"sections": text})`.
        """
        trained = sum(weight.numel() for weight in self.parameters() if weight.requires_grad)
        front_matter = self._hub_mixin_info.model_card_data.to_yaml()
        return ModelCard(
            model_card(
                self.config, front_matter=front_matter, parameters=trained, sections=sections
            )
        )

    def _save_pretrained(self, save_directory: Path) -> None:
        super()._save_pretrained(save_directory)
        usual_modes(save_directory)

    @property
    def config(self) -> dict[str, Any]:
        """The keywords that build a model of the same kind, as plain values."""
        config = self._hub_mixin_config
        if not isinstance(config, dict):
            raise ConfigError(["model: it has no config of plain values"])
        parts = {name: part_of(config[name]) for name in ("memory", "controller") if name in config}
        return {**config, **parts}

    def forward(
        self, inputs: Tensor, state: Any = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        """As `SequenceModel.forward`: logits [B, T, V] and the state."""
        logits, state = self.sequence(inputs, state, lengths)
        return logits, state

    def _repr_html_(self) -> str:
        """In a notebook: the explorer's page, in which it runs, with symbols that are numbers."""
        return shown(self)


def _downloaded(name: str, options: Mapping[str, Any]) -> Path:
    """The folder with a model of the Hub.

    Args:
        name: on the Hub.
        options: of `hf_hub_download`.
    Raises:
        CheckpointError: there is none, or it cannot be reached.
    """
    path = Path()
    try:
        for file in ("config.json", "model.safetensors"):
            path = Path(hf_hub_download(name, file, **options)).parent
    except tuple(_HUB_FAULTS) as error:
        reason = next(why for kind, why in _HUB_FAULTS.items() if isinstance(error, kind))
        said = str(error).strip().partition("\n")[0]
        raise CheckpointError(
            f"{name} is no folder here, and on the Hugging Face Hub {reason} ({said})"
        ) from error
    return path


def map_faults(mapped: bool, learned: bool) -> list[str]:
    """What is wrong with the option `map_initial_state`, a line or none."""
    if learned or not mapped:
        return []
    return ["map_initial_state: has no effect on a first state that is zero; leave it at False"]


def initialization_faults(
    initialization: str,
    output_initialization: str,
    symbol_initialization: str,
    *,
    embedding_size: int | None,
    input_bits: int | None,
) -> list[str]:
    """What is wrong with the choices of first weights, a line each."""
    faults = [
        f"{field}: {ChoiceError(field.replace('_', ' '), value, valid)}"
        for field, value, valid in (
            ("initialization", initialization, INITIALIZATIONS),
            ("output_initialization", output_initialization, OUTPUT_INITIALIZATIONS),
            ("symbol_initialization", symbol_initialization, SYMBOL_INITIALIZATIONS),
        )
        if value not in valid
    ]
    if faults:
        return faults
    if embedding_size is not None and symbol_initialization == "normal":
        return [
            "symbol_initialization: embeddings are drawn from N(0, 1) anyway; leave it at "
            "'as_model', or feed the symbols one-hot"
        ]
    if input_bits is not None and symbol_initialization != "as_model":
        return [
            "symbol_initialization: bits choose no column; leave it at 'as_model', or feed the "
            "symbols one-hot"
        ]
    return []
