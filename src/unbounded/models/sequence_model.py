"""Tokens in, logits out: embedding, recurrent layer, softmax over the output symbols."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unbounded.checks import check_bool, check_positive
from unbounded.errors import DeviceError, ShapeError
from unbounded.models.inputs import bit_inputs, check_tokens
from unbounded.rnn import MemoryRNN, MemoryRNNState, Transformer
from unbounded.rnn.read_only import check_read_only, run_phases
from unbounded.rnn.symbols import input_weight, run_symbols


def part_storages(
    module: nn.Module, state: dict[str, Any], prefix: str, local_metadata: dict[str, Any]
) -> None:
    """Copy each tensor of a model's state dict that is part of a larger storage.

    On a GPU, cuDNN keeps the weights of a torch.nn.LSTM in one storage. safetensors refuses such
    tensors; accelerate treats tensors in one storage as a tied weight and writes only the first.
    Tensors that span their complete storage, including tied ones, are not copied, nor are the
    module's own tensors (`state_dict(keep_vars=True)`). Changes to a copy do not change the model.
    Use `load_state_dict`.

    Args:
        module: the model. local_metadata: unused, part of the hook's signature for
            `register_state_dict_post_hook`.
        state: of the module and others; changed in place.
        prefix: of the names of the module's tensors.
    """
    kept = {id(tensor) for tensor in (*module.parameters(), *module.buffers())}
    for name, tensor in state.items():
        if not name.startswith(prefix) or not isinstance(tensor, Tensor) or id(tensor) in kept:
            continue
        if tensor.layout is not torch.strided:
            continue
        if tensor.untyped_storage().nbytes() > tensor.nbytes:
            state[name] = tensor.clone()


class SequenceModel(nn.Module):
    """Embedding -> layer -> logits. This model supports the Batch of every task.

    Source and target symbols have separate indices, and so separate rows of the input embedding.
    The output embedding is a separate matrix. Both matrices are drawn from N(0, 1), as in
    torch.nn.Embedding. With the small weights of torch.nn.Linear instead, reversal is not learned
    in three times as many batches (results/grefenstette2015).

    Args:
        input_vocabulary: size of the input index space (source symbols, then target symbols).
        output_vocabulary: V, size of the output index space.
        embedding_size: size of the input embeddings (64 in the paper). None feeds the symbols
            one-hot, so that the controller's input matrix is their embedding (the matrix U of
            Joulin & Mikolov 2015).
        layer: a batch-first recurrent layer, forward(x, state, lengths) -> (output, state), whose
            outputs have `layer_size` numbers.
        layer_size: size of the layer's output; 64 in the paper, like the embeddings.
        output_bias: whether the logits have a bias; Joulin & Mikolov 2015 have none.
        dropout: share of the output layer's input that is dropped in training, in [0, 1). The rest
            is divided by 1 - dropout.
        tied_embeddings: whether the output matrix is the input embedding (Press & Wolf 2017), with
            one vocabulary; `layer_size` must then equal `embedding_size`.
        input_bits: this many low bits of a symbol's number are one input each. The higher bits form
            one more input, a number. With 0 this number is the only input. None feeds embeddings or
            one-hot symbols.
        input_number: "plain" for this number unchanged, or "fraction" for a number in [-1, 1); see
            `bit_inputs`.
        read_only_token: the symbol that ends writing at its first occurrence, in 0 ..
            input_vocabulary - 1; None writes always. The state carries whether a sequence has had
            it (a `ReadOnlyState` with the layer's state as `layer`).
        length_token: the symbol fed while answering, or None. For a memory that uses the length of
            its sequences, that length ends at its first occurrence; None counts all. For a
            bidirectional layer, what comes after its last occurrence is padding.
    Source: Grefenstette et al. 2015, arXiv:1506.02516, section 4.
    """

    def __init__(
        self,
        input_vocabulary: int,
        output_vocabulary: int,
        embedding_size: int | None,
        layer: nn.Module,
        layer_size: int,
        *,
        output_bias: bool = True,
        dropout: float = 0.0,
        tied_embeddings: bool = False,
        input_bits: int | None = None,
        input_number: str = "plain",
        read_only_token: int | None = None,
        length_token: int | None = None,
    ) -> None:
        super().__init__()
        for name, value in (
            ("input_vocabulary", input_vocabulary),
            ("output_vocabulary", output_vocabulary),
            ("embedding_size", 1 if embedding_size is None else embedding_size),
            ("layer_size", layer_size),
        ):
            check_positive(name, value)
        check_bool("output_bias", output_bias)
        check_bool("tied_embeddings", tied_embeddings)
        if not getattr(layer, "batch_first", False):
            raise ShapeError("layer: expected a layer made with batch_first=True.")
        if read_only_token is not None:
            check_read_only(layer)
        for name, token in (("read_only_token", read_only_token), ("length_token", length_token)):
            is_symbol = hasattr(token, "__index__") and not isinstance(token, bool)
            if token is not None and (not is_symbol or not 0 <= token < input_vocabulary):
                raise ShapeError(
                    f"{name}: expected a symbol of 0..{input_vocabulary - 1}, got {token!r}."
                )
        errors = dropout_errors(dropout)
        if errors:
            raise ShapeError(errors[0])
        self.input_vocabulary, self.input_bits = input_vocabulary, input_bits
        self.input_number = input_number
        self.dropout = dropout
        self.read_only_token, self.length_token = read_only_token, length_token
        self.embedding = (
            None if embedding_size is None else nn.Embedding(input_vocabulary, embedding_size)
        )
        self.layer = layer
        self.output: nn.Linear | TiedLinear
        if tied_embeddings:
            errors = tie_errors(input_vocabulary, output_vocabulary, embedding_size, layer_size)
            if self.embedding is None or errors:
                raise ShapeError(errors[0])
            self.output = TiedLinear(self, bias=output_bias)
        else:
            self.output = nn.Linear(layer_size, output_vocabulary, bias=output_bias)
        nn.init.normal_(self.output.weight)
        module: Any = self  # the next line has no types in torch
        module.register_state_dict_post_hook(part_storages)

    def forward(
        self, inputs: Tensor, state: Any = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        """Score the next token at every step.

        Args:
            inputs: tokens, integers [B, T] in 0..input_vocabulary-1.
            state: the layer's state from an earlier call; None for the initial one.
            lengths: int64 [B]. A model is causal, so logits up to them do not depend on them.
                Beyond them the layer's output is 0. With the longest sequence first, the kernels
                skip the steps beyond.
        Returns:
            logits [B, T, V] and the layer's state.
        Raises:
            DTypeError, ShapeError: `inputs` is no such tensor of tokens. Values on a GPU are not
                checked.
        Warns:
            RoomWarning: as for `MemoryRNN`; `unbounded.models.with_room` returns a model that drops
                nothing.
        """
        hidden, state = self.hidden(inputs, state, lengths)
        if self.dropout:
            hidden = F.dropout(hidden, self.dropout, self.training)
        return self.logits(hidden), state

    def logits(self, hidden: Tensor) -> Tensor:
        """Map the result of `hidden`, [..., O], to logits [..., V]."""
        if isinstance(self.output, TiedLinear) and self.embedding is not None:
            # `self.embedding` is used, because a replica of nn.DataParallel has its own embedding.
            weight = self.embedding.weight
            if weight.is_meta and not hidden.is_meta:
                raise DeviceError(
                    f"embedding: expected weights on {hidden.device}, got those on meta. Give "
                    "accelerate preload_module_classes=['SequenceModel']: an output with tied "
                    "embeddings has no separate weights to load."
                )
            result: Tensor = self.output(hidden, weight)
        else:
            result = self.output(hidden)
        return result

    def hidden(
        self, inputs: Tensor, state: Any = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        """Return the output layer's input [B, T, O] and the state.

        The arguments are as for `forward`.
        """
        inputs = check_tokens(inputs, self.input_vocabulary)
        if lengths is None and self._is_bidirectional and self.length_token is not None:
            fed = inputs == self.length_token
            lengths = (fed * torch.arange(1, fed.shape[1] + 1, device=fed.device)).amax(dim=1)
        if state is None:
            state = self.started(inputs, lengths)
        if self.read_only_token is not None and isinstance(self.layer, MemoryRNN):
            answers = inputs == self.read_only_token
            return run_phases(self.layer, self.embed(inputs), answers, state, lengths)
        if self._looks_up:
            return run_symbols(self.layer, inputs, state, lengths)
        result: tuple[Tensor, Any] = self.layer(self.embed(inputs), state, lengths)
        return result

    @property
    def uses_lengths(self) -> bool:
        """Whether the layer's memory uses the lengths of its sequences."""
        return isinstance(self.layer, MemoryRNN) and self.layer.memory.uses_lengths

    def started(self, inputs: Tensor, lengths: Tensor | None = None) -> MemoryRNNState | None:
        """The state with which complete sequences start; None for the default initial state.

        Args:
            inputs: tokens of the sequences to their ends, int64 [B, T]. A call without a state
                takes its own; one with the first steps only needs this state.
            lengths: int64 [B].
        """
        if not isinstance(self.layer, MemoryRNN) or not self.layer.memory.uses_lengths:
            return None
        return self.layer.initial_state(len(inputs), self._source_lengths(inputs, lengths))

    def _source_lengths(self, inputs: Tensor, lengths: Tensor | None) -> Tensor:
        """Number of symbols before the first `length_token` of each sequence, int64 [B]."""
        counted = torch.ones_like(inputs, dtype=torch.bool)
        if self.length_token is not None:
            counted = (inputs == self.length_token).cumsum(dim=1) == 0
        source = counted.sum(dim=1)
        return source if lengths is None else torch.minimum(source, lengths.to(source))

    @property
    def needs_lengths(self) -> bool:
        """Whether padding would change earlier outputs in a call without lengths."""
        return self._is_bidirectional or self.uses_lengths

    @property
    def _is_bidirectional(self) -> bool:
        return isinstance(self.layer, Transformer) and self.layer.bidirectional

    @property
    def one_hot(self) -> bool:
        """Whether exactly one of the layer's inputs is 1 at each step, and all others are 0."""
        return self.embedding is None and self.input_bits is None

    @property
    def _looks_up(self) -> bool:
        """Whether a lookup of one-hot symbols costs less than a product."""
        weight = input_weight(self.layer) if self.one_hot else None
        return weight is not None and self.input_vocabulary > len(weight)

    def embed(self, inputs: Tensor) -> Tensor:
        """The layer's input for tokens [B, T]: embeddings, one-hot vectors, or bits."""
        if self.input_bits is not None:
            symbols, bits = self.input_vocabulary, self.input_bits
            dtype = self.output.weight.dtype
            return bit_inputs(inputs, symbols, bits, dtype, self.input_number)
        if self.embedding is None:
            one_hot = F.one_hot(inputs, self.input_vocabulary)
            return one_hot.to(self.output.weight.dtype)
        embedded: Tensor = self.embedding(inputs)
        return embedded


class TiedLinear(nn.Module):
    """Logits from the vectors of an embedding: y = E x + b with the embedding's parameter E.

    Args:
        model: its current `embedding` [V, D] is used, even if it is replaced later.
        bias: whether there is a bias b [V].
    Source: Press & Wolf 2017, arXiv:1608.05859; Inan et al. 2017, arXiv:1611.01462.
    """

    bias: nn.Parameter | None

    def __init__(self, model: SequenceModel, *, bias: bool) -> None:
        super().__init__()
        # The embedding is not a submodule here, because its parameter must have only one name in
        # files and optimizers.
        object.__setattr__(self, "_model", model)
        self.register_parameter("bias", None)
        weight = self.weight
        if bias:
            self.bias = nn.Parameter(weight.new_zeros(len(weight)))
        self.reset_parameters()

    @property
    def weight(self) -> Tensor:
        """The embedding's weight, [V, D]."""
        model: SequenceModel = self.__dict__["_model"]
        if model.embedding is None:
            raise ShapeError("embedding: expected an nn.Embedding, which the output shares.")
        return self._checked(model.embedding.weight)

    def _checked(self, weight: Tensor) -> Tensor:
        if self.bias is not None and len(weight) != len(self.bias):
            raise ShapeError(
                f"embedding: expected {len(self.bias)} symbols, as many as the output's bias has, "
                f"got {len(weight)}."
            )
        return weight

    def reset_parameters(self) -> None:
        """Draw matrix and bias like torch.nn.Linear."""
        bound = 1 / math.sqrt(self.weight.shape[1])
        nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Tensor, weight: Tensor | None = None) -> Tensor:
        """Map x [..., D] to logits [..., V].

        Args:
            weight: the matrix [V, D]; None takes the model's embedding.
        """
        return F.linear(x, self.weight if weight is None else self._checked(weight), self.bias)


def tie_errors(
    inputs: int, outputs: int, embedding_size: int | None, layer_size: int | None = None
) -> list[str]:
    """The error that prevents input and output from sharing embeddings, as a list of at most one.

    Args:
        inputs, outputs: sizes of the vocabularies. layer_size: None if not known yet.
    """
    if embedding_size is None:
        return ["tied_embeddings: one-hot symbols have no embeddings; give embedding_size"]
    if inputs != outputs:
        return [
            f"tied_embeddings: needs one vocabulary, got {inputs} input symbols and {outputs} "
            "output symbols"
        ]
    if layer_size not in (None, embedding_size):
        return [
            f"tied_embeddings: the output layer takes {layer_size} numbers and embeddings have "
            f"{embedding_size}; give embedding_size {layer_size}"
        ]
    return []


def dropout_errors(dropout: float) -> list[str]:
    """The error of the option `dropout`, as a list of at most one."""
    is_number = isinstance(dropout, int | float) and not isinstance(dropout, bool)
    if is_number and 0 <= dropout < 1:
        return []
    return [f"dropout: expected a number in [0, 1), got {dropout!r}"]
