"""Tokens in, logits out: an embedding, a recurrent layer, a softmax over the output symbols."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from unbounded.checks import check_bool, check_positive
from unbounded.errors import DeviceError, ShapeError
from unbounded.layers.memory_rnn import MemoryRNN
from unbounded.layers.read_only import check_read_only, run_phases
from unbounded.layers.symbols import input_weight, run_symbols
from unbounded.models.inputs import bit_inputs, check_tokens
from unbounded.models.own_storages import part_storages


class SequenceModel(nn.Module):
    """Embedding -> layer -> logits; one model for every task's Batch.

    Source and target words have separate indices, and so separate rows of the input embedding; the
    output embedding is a matrix of its own. Both are drawn from N(0, 1), as torch.nn.Embedding
    does: with the small weights of torch.nn.Linear instead, reversal is not learned in three times
    as many batches (results/grefenstette2015).

    Args:
        input_vocabulary: size of the input index space (source words, then target words).
        output_vocabulary: V, size of the output index space.
        embedding_size: size of the input embeddings (64 in the paper); None feeds the symbols
            one-hot, so that the controller's own input matrix is their embedding (the matrix U of
            Joulin & Mikolov 2015).
        layer: a batch-first recurrent layer, forward(x, state, lengths) -> (output, state), whose
            outputs have `layer_size` numbers.
        layer_size: size of the layer's output; 64 in the paper, where it meets 64-d embeddings.
        output_bias: whether the logits have a bias; Joulin & Mikolov 2015 have none.
        dropout: share of what the logits are made of that is dropped in training, in [0, 1): the
            rest is divided by 1 - dropout.
        tied_embeddings: whether the output matrix is the input embedding (Press & Wolf 2017), of
            one vocabulary; `layer_size` is `embedding_size` then.
        input_bits: the low so many bits of a symbol's number are an input each, what is above them
            one more, a number; 0 for the number alone. None feeds embeddings or one-hot symbols.
        read_only_token: the symbol from whose first occurrence on nothing is written, in 0 ..
            input_vocabulary - 1; None writes always. The state carries over to later calls whether
            a sequence has had it (a `ReadOnlyState`, with the layer's own state as `layer`).
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
        read_only_token: int | None = None,
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
            is_symbol = hasattr(read_only_token, "__index__") and read_only_token is not True
            is_symbol = is_symbol and read_only_token is not False
            if not is_symbol or not 0 <= read_only_token < input_vocabulary:
                raise ShapeError(
                    f"read_only_token: expected a symbol of 0..{input_vocabulary - 1}, got "
                    f"{read_only_token!r}."
                )
        faults = dropout_faults(dropout)
        if faults:
            raise ShapeError(faults[0])
        self.input_vocabulary, self.input_bits = input_vocabulary, input_bits
        self.dropout = dropout
        self.read_only_token = read_only_token
        self.embedding = (
            None if embedding_size is None else nn.Embedding(input_vocabulary, embedding_size)
        )
        self.layer = layer
        self.output: nn.Linear | TiedLinear
        if tied_embeddings:
            faults = tie_faults(input_vocabulary, output_vocabulary, embedding_size, layer_size)
            if self.embedding is None or faults:
                raise ShapeError(faults[0])
            self.output = TiedLinear(self, bias=output_bias)
        else:
            self.output = nn.Linear(layer_size, output_vocabulary, bias=output_bias)
        nn.init.normal_(self.output.weight)
        module: Any = self  # torch gives the next line no types
        module.register_state_dict_post_hook(part_storages)

    def forward(
        self, inputs: Tensor, state: Any = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        """Score the next token at every step.

        Args:
            inputs: tokens, integers [B, T] in 0..input_vocabulary-1.
            state: the layer's state from an earlier call; None begins anew.
            lengths: int64 [B]; a model is causal, so that up to them logits are the same without.
                Beyond them the layer's output is 0; with the longest sequence first the kernels
                leave out what is over.
        Returns:
            logits [B, T, V] and the layer's state.
        Raises:
            DTypeError, ShapeError: `inputs` is not such a tensor of tokens; of one on a GPU the
                values are not looked at.
        Warns:
            RoomWarning: as a `MemoryRNN`; `unbounded.models.with_room` gives a model that drops
                nothing.
        """
        hidden, state = self.hidden(inputs, state, lengths)
        if self.dropout:
            hidden = F.dropout(hidden, self.dropout, self.training)
        return self.logits(hidden), state

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits [..., V] of what `hidden` returns, [..., O]."""
        if isinstance(self.output, TiedLinear) and self.embedding is not None:
            # This object's own: a replica of nn.DataParallel has an embedding of its own.
            weight = self.embedding.weight
            if weight.is_meta and not hidden.is_meta:
                raise DeviceError(
                    f"embedding: expected weights on {hidden.device}, got those on meta. Give "
                    "accelerate preload_module_classes=['SequenceModel']: an output with tied "
                    "embeddings has no weights of its own to load."
                )
            result: Tensor = self.output(hidden, weight)
        else:
            result = self.output(hidden)
        return result

    def hidden(
        self, inputs: Tensor, state: Any = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        """What the logits are made of, [B, T, O], and the state; as `forward`."""
        inputs = check_tokens(inputs, self.input_vocabulary)
        if self.read_only_token is not None and isinstance(self.layer, MemoryRNN):
            answers = inputs == self.read_only_token
            return run_phases(self.layer, self.embed(inputs), answers, state, lengths)
        if self._looks_up:
            return run_symbols(self.layer, inputs, state, lengths)
        result: tuple[Tensor, Any] = self.layer(self.embed(inputs), state, lengths)
        return result

    @property
    def one_hot(self) -> bool:
        """Whether exactly one of the layer's inputs is 1 at each step, and all others are 0."""
        return self.embedding is None and self.input_bits is None

    @property
    def _looks_up(self) -> bool:
        """Whether one-hot symbols are so many that a look-up costs less than a product."""
        weight = input_weight(self.layer) if self.one_hot else None
        return weight is not None and self.input_vocabulary > len(weight)

    def embed(self, inputs: Tensor) -> Tensor:
        """What the layer sees of tokens [B, T]: their embeddings, one-hot, or their bits."""
        if self.input_bits is not None:
            return bit_inputs(
                inputs, self.input_vocabulary, self.input_bits, self.output.weight.dtype
            )
        if self.embedding is None:
            one_hot = F.one_hot(inputs, self.input_vocabulary)
            return one_hot.to(self.output.weight.dtype)
        embedded: Tensor = self.embedding(inputs)
        return embedded


class TiedLinear(nn.Module):
    """Logits by the vectors of an embedding: y = E x + b; the matrix is the embedding's parameter.

    Args:
        model: whose `embedding` [V, D] it is, also another that takes its place later.
        bias: whether there is b [V].
    Source: Press & Wolf 2017, arXiv:1608.05859; Inan et al. 2017, arXiv:1611.01462.
    """

    bias: nn.Parameter | None

    def __init__(self, model: SequenceModel, *, bias: bool) -> None:
        super().__init__()
        # Not a module of this one: its parameter has one name in files and optimizers.
        object.__setattr__(self, "_model", model)
        self.register_parameter("bias", None)
        weight = self.weight
        if bias:
            self.bias = nn.Parameter(weight.new_zeros(len(weight)))
        self.reset_parameters()

    @property
    def weight(self) -> Tensor:
        """The embedding's, [V, D]."""
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
        """Draw matrix and bias as torch.nn.Linear draws its own."""
        bound = 1 / math.sqrt(self.weight.shape[1])
        nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Tensor, weight: Tensor | None = None) -> Tensor:
        """Map x [..., D] to logits [..., V].

        Args:
            weight: the matrix [V, D]; None takes that of the model this was made for.
        """
        return F.linear(x, self.weight if weight is None else self._checked(weight), self.bias)


def tie_faults(
    inputs: int, outputs: int, embedding_size: int | None, layer_size: int | None = None
) -> list[str]:
    """Why input and output cannot have the same embeddings, a line or none.

    Args:
        inputs, outputs: of the vocabularies. layer_size: None where it is not known yet.
    """
    if embedding_size is None:
        return ["tied_embeddings: one-hot symbols have no embeddings; give embedding_size"]
    if inputs != outputs:
        return [
            f"tied_embeddings: needs one vocabulary, got {inputs} symbols to read and {outputs} to "
            "say"
        ]
    if layer_size not in (None, embedding_size):
        return [
            f"tied_embeddings: logits are made of {layer_size} numbers and embeddings have "
            f"{embedding_size}; give embedding_size {layer_size}"
        ]
    return []


def dropout_faults(dropout: float) -> list[str]:
    """What is wrong with the option `dropout`, a line or none."""
    is_number = isinstance(dropout, int | float) and not isinstance(dropout, bool)
    if is_number and 0 <= dropout < 1:
        return []
    return [f"dropout: expected a number in [0, 1), got {dropout!r}"]
