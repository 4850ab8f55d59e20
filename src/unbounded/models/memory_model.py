"""MemoryModel: symbols, a layer with or without memory, and logits, from plain keywords."""

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
from unbounded.custom_components import part_of
from unbounded.errors import CheckpointError, ChoiceError, ConfigError
from unbounded.files import usual_modes
from unbounded.models import initial_state
from unbounded.models.initialization import (
    INITIALIZATIONS,
    OUTPUT_INITIALIZATIONS,
    SYMBOL_INITIALIZATIONS,
    initialize,
)
from unbounded.models.inputs import bit_errors, input_size
from unbounded.models.model_card import model_card
from unbounded.models.model_parts import make_layer
from unbounded.models.saved_model import read_model
from unbounded.models.sequence_model import SequenceModel, dropout_errors, tie_errors
from unbounded.notebook import shown
from unbounded.options import option_errors

#: Names that the Hub accepts.
_HUB_NAME: Final = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")
#: Options that are passed to the download.
_OF_HUB: Final = ("revision", "token", "cache_dir", "local_files_only", "force_download")
#: Causes of the Hub's errors, with advice. The first match is used.
_HUB_ERRORS: Final[dict[type[Exception], str]] = {
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
#: Folders of models in a run's folder. These names are never searched on the Hub.
_OF_RUNS: Final = ("model", "model-hardened", "checkpoints")

#: Keywords of the network of Joulin & Mikolov 2015 on the toy tasks, without the vocabulary:
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
    """A `SequenceModel` that is built only from numbers and names.

    `save_pretrained(folder)` writes model.safetensors and config.json;
    `MemoryModel.from_pretrained(folder)` builds the same model from them. A component is a name, or
    a mapping of a name and options: {"name": "queue", "width": 256}. The named class determines the
    options; a custom component is named by its import path.

    Args:
        inputs: size of the input index space.
        outputs: logits at each step: the size of the output index space, or 1 for yes or no.
        memory: one of `unbounded.memories.MEMORIES`, or "none" for the controller alone.
        controller: "lstm", "gru" or "elman"; without a memory "lstm" is a `DeepLSTM`, "srcn" the
            structurally constrained network, "transformer", "deltanet" and "deltaproduct" are
            networks of blocks.
        hidden_size: units of the controller, or of each layer of an LSTM or network of blocks.
        embedding_size: size of the input embeddings; None feeds the symbols one-hot.
        readout_size: size of tanh(W h + b) between the controller and the logits, with a memory
            only; None for the controller's output.
        output_bias: whether the logits have a bias.
        dropout: share of the output layer's input that is dropped in training, in [0, 1). Between
            the layers of a deep controller it is an option of the controller.
        tied_embeddings: whether the output matrix is the input embedding (Press & Wolf 2017), with
            one vocabulary; the output layer's input then has `embedding_size` numbers. The matrix
            is initialized by `output_initialization`, then by `symbol_initialization` if that draws
            symbols.
        output_read_vector: whether a step's read vector reaches the logits of the same step, next
            to the controller's output, as in the program of Yang & Rush 2017.
        learn_initial_state: whether the controller's initial state is a parameter; zero otherwise.
            A network of blocks has none to learn.
        map_initial_state: whether each learned number of the initial state is the sum of two, as in
            the program of Yang & Rush 2017.
        initialization: of the layer. "glorot"; "torch" for PyTorch's defaults; "sums" of uniform
            numbers, as in the program of Joulin & Mikolov 2015; or "glorot_parts", a separate draw
            for each kind of input and each head, with biases of 0, as in the program of Deleu &
            Dureau 2016. Layers with gates keep "glorot" at the last two.
        output_initialization: of the output embedding: "normal" for N(0, 1), "small_normal" for
            N(0, 0.3^2), "torch", "sums", or "glorot" with biases of 0.
        symbol_initialization: of the columns of one-hot symbols: "as_model", "sums", or "normal"
            for N(0, 1). With many symbols, columns with small values are initially hard to tell
            apart. With large values, the columns of rare symbols hardly change. Embeddings are N(0,
            1) at "as_model", and can be "sums".
        input_bits: with embedding_size None, this many low bits of a symbol's number are one input
            each. The higher bits form one more input, a number. With 0 this number is the only
            input.
        input_number: "plain" for this number unchanged, or "fraction" for a number in [-1, 1).
        read_only_token: the symbol that ends writing at its first occurrence, as in the answer
            phase of Yang 2016; None writes always.
        length_token: for a memory that uses the length of its sequences or a bidirectional
            Transformer, the symbol fed while answering; see `SequenceModel`.
        backend: "auto", "reference", "cpu" or "cuda", as for the layer.
    Raises:
        ChoiceError: an unknown memory, controller or initialization.
        ConfigError, ShapeError: an option is unknown, out of range, or without effect.
        DTypeError: a yes-or-no option is not a bool.
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
        output_read_vector: bool = False,
        learn_initial_state: bool = False,
        map_initial_state: bool = False,
        initialization: str = "glorot",
        output_initialization: str = "normal",
        symbol_initialization: str = "as_model",
        input_bits: int | None = None,
        input_number: str = "plain",
        read_only_token: int | None = None,
        length_token: int | None = None,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        for name, choice in (
            ("output_bias", output_bias),
            ("tied_embeddings", tied_embeddings),
            ("output_read_vector", output_read_vector),
            ("learn_initial_state", learn_initial_state),
            ("map_initial_state", map_initial_state),
        ):
            check_bool(name, choice)
        initialize_by = (initialization, output_initialization, symbol_initialization)
        errors = initialization_errors(
            *initialize_by, embedding_size=embedding_size, input_bits=input_bits
        )
        errors += bit_errors(input_bits, embedding_size, input_number)
        errors += dropout_errors(dropout)
        errors += map_errors(map_initial_state, learn_initial_state)
        if tied_embeddings:
            errors += tie_errors(inputs, outputs, embedding_size)
        if errors:
            raise ConfigError(errors)
        seen = inputs if input_bits is None else input_size(inputs, input_bits)
        layer, size = make_layer(
            memory,
            controller,
            seen if embedding_size is None else embedding_size,
            hidden_size,
            readout_size,
            learn_initial_state=learn_initial_state,
            output_read_vector=output_read_vector,
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
            input_number=input_number,
            read_only_token=read_only_token,
            length_token=length_token,
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
        """Load the model in a folder, or on the Hugging Face Hub under the name USER/NAME.

        Args:
            pretrained_model_name_or_path: a folder that `save_pretrained` wrote, or a name.
            map_location: device of the weights.
            options: of `huggingface_hub.hf_hub_download` (revision, token, cache_dir,
                local_files_only, force_download), and keywords of the model that replace saved
                ones.
        Returns:
            the model in evaluation mode.
        Raises:
            CheckpointError: there is no model, or a file of it is unreadable, truncated, damaged,
                foreign or from a newer version. For a path the Hub is not asked.
            ConfigError: an option is unknown, or a custom component was not imported.
            DTypeError: the path is neither text nor a Path. DeviceError: `map_location` is not
                usable.
        """
        check_path("pretrained_model_name_or_path", pretrained_model_name_or_path)
        path = Path(pretrained_model_name_or_path)
        is_name = _HUB_NAME.fullmatch(str(pretrained_model_name_or_path)) is not None
        is_local = path.exists() or (path.parent != Path() and path.parent.is_dir())
        is_name = is_name and not is_local and path.name not in _OF_RUNS
        if not is_name and not (path / "config.json").is_file():
            raise CheckpointError(
                f"{path} is not the folder of a model: it has no config.json. In a run it is "
                "RUN/model; a name on the Hub is USER/NAME."
            )
        of_hub: dict[str, Any] = {name: options.pop(name) for name in _OF_HUB if name in options}
        filled = ("inputs", "outputs")
        if errors := option_errors("the model", cls, options, filled=filled):
            raise ConfigError(errors)
        if is_name:
            path = _downloaded(str(pretrained_model_name_or_path), of_hub)
        return read_model(path, cls, options, map_location)

    def generate_model_card(
        self, *, title: str = "", sections: str = "", usage: str = "", **_: Any
    ) -> ModelCard:
        """The README.md that `save_pretrained` and `push_to_hub` write.

        The texts are given as `save_pretrained(folder, model_card_kwargs={"sections": text})`.

        Args:
            title: the heading; by default the names of memory and controller.
            sections: Markdown on task, training, scores and limits.
            usage: Markdown that follows the code which loads the model.
        """
        trained = sum(weight.numel() for weight in self.parameters() if weight.requires_grad)
        front_matter = self._hub_mixin_info.model_card_data.to_yaml()
        return ModelCard(
            model_card(
                self.config,
                front_matter=front_matter,
                parameters=trained,
                title=title,
                sections=sections,
                usage=usage,
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
            raise ConfigError("model: its keywords cannot be stored as plain values")
        parts = {name: part_of(config[name]) for name in ("memory", "controller") if name in config}
        return {**config, **parts}

    def forward(
        self, inputs: Tensor, state: Any = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        """Compute logits [B, T, V] and the state; see `SequenceModel.forward`."""
        logits, state = self.sequence(inputs, state, lengths)
        return logits, state

    def _repr_html_(self) -> str:
        """In a notebook, show the explorer's page with the running model.

        The symbols on the page are numbers.
        """
        return shown(self)


def _downloaded(name: str, options: Mapping[str, Any]) -> Path:
    """Download a model from the Hub and return its folder.

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
    except tuple(_HUB_ERRORS) as error:
        reason = next(why for kind, why in _HUB_ERRORS.items() if isinstance(error, kind))
        detail = str(error).strip().partition("\n")[0]
        raise CheckpointError(
            f"{name} is not a folder here, and on the Hugging Face Hub {reason} ({detail})"
        ) from error
    return path


def map_errors(mapped: bool, learned: bool) -> list[str]:
    """The error of the option `map_initial_state`, as a list of at most one."""
    if learned or not mapped:
        return []
    return ["map_initial_state: has no effect on an initial state of zero; leave it at False"]


def initialization_errors(
    initialization: str,
    output_initialization: str,
    symbol_initialization: str,
    *,
    embedding_size: int | None,
    input_bits: int | None,
) -> list[str]:
    """The errors of the initialization options, one per line."""
    errors = [
        f"{field}: {ChoiceError(field.replace('_', ' '), value, valid)}"
        for field, value, valid in (
            ("initialization", initialization, INITIALIZATIONS),
            ("output_initialization", output_initialization, OUTPUT_INITIALIZATIONS),
            ("symbol_initialization", symbol_initialization, SYMBOL_INITIALIZATIONS),
        )
        if value not in valid
    ]
    if errors:
        return errors
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
