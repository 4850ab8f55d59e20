"""The config of a run as dataclasses.

The Args entries of the dataclasses are the help texts of `unbounded train`.

A `Component` field holds a choice: the name of a component and its options. The signature of the
component is the schema of its options (`components.py`).
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

from unbounded.custom_components import NO_MEMORY, part_of
from unbounded.errors import ConfigError, did_you_mean
from unbounded.options import (
    Count,
    CountOrNone,
    Positive,
    Range,
    Rate,
    field_errors,
    field_kinds,
    fits,
)

#: A choice as data: {"name": "cooldown", "batches": 300}. A string NAME is short for {"name":
#: NAME}.
Component = Annotated[dict[str, Any], "component"]


Size = Annotated[int, Range(1, 1_000_000)]


def named(name: str) -> Callable[[], dict[str, Any]]:
    """Make the default factory of a field; its value is a component without options."""
    return lambda: {"name": name}


def is_component(kind: Any) -> bool:
    """Whether a field of this type holds a component."""
    return "component" in getattr(kind, "__metadata__", ())


def name_components(config: Any) -> None:
    """Replace each component given only by its name by {"name": NAME}."""
    for name, kind in field_kinds(type(config)).items():
        if is_component(kind) and isinstance(getattr(config, name), str):
            setattr(config, name, part_of(getattr(config, name)))


@dataclass
class ModelConfig:
    """The model: the keywords of `unbounded.models.MemoryModel`.

    Args:
        memory: its name, or none; options: --model.memory.OPTION VALUE (see `unbounded list NAME`).
        controller: its name; options: --model.controller.OPTION VALUE. Without a memory it is
            always recurrent.
        hidden_size: units of the controller, or of each layer of an LSTM or network of blocks.
        embedding_size: size of the embeddings; null for one-hot symbols.
        readout_size: with a memory, size of a tanh layer between controller and logits; null for no
            such layer.
        output_bias: whether the logits have a bias.
        dropout: share of the logits' inputs to drop in training, in [0, 1). Training losses are
            measured with dropout.
        tied_embeddings: use the input embedding as output matrix. Both need the same vocabulary,
            and the logits' input has size embedding_size.
        output_read_vector: with a memory, feed the read vector of a step to the logits of the same
            step.
        learn_initial_state: make the controller's initial state a parameter. It has no effect on a
            Transformer, DeltaNet or DeltaProduct.
        initialization: of the layer: glorot, torch (PyTorch's own), sums (Joulin & Mikolov), or
            glorot_parts (Deleu & Dureau).
        output_initialization: of the output embedding: normal for N(0, 1), small_normal for
            N(0, 0.3^2), torch, sums or glorot.
        symbol_initialization: of the columns of one-hot symbols: as_model, sums, or normal for
            N(0, 1). Of embeddings: as_model, which is N(0, 1), or sums.
        input_bits: with embedding_size null, this many low bits of a symbol's number are one input
            each, and the higher bits form one numeric input. 0 for the numeric input only, null for
            one-hot.
        input_number: the numeric input unchanged (plain), or as a fraction in [-1, 1) (fraction).
        map_initial_state: make each learned number of the initial state the sum of two parameters,
            as in the program of Yang & Rush 2017.
        answer_writes: on tasks with a constant input while answering, whether the memory is written
            then: true, false, or null for false if the memory supports it.
    """

    memory: Component = field(default_factory=named("queue"))
    controller: Component = field(default_factory=named("lstm"))
    hidden_size: Size = 256
    embedding_size: Size | None = 64
    readout_size: Size | None = 64
    output_bias: bool = True
    dropout: float = 0.0
    tied_embeddings: bool = False
    output_read_vector: bool = False
    learn_initial_state: bool = True
    initialization: str = "glorot"
    output_initialization: str = "normal"
    symbol_initialization: str = "as_model"
    input_bits: int | None = None
    input_number: str = "plain"
    map_initial_state: bool = False
    answer_writes: bool | None = True

    def __post_init__(self) -> None:
        name_components(self)


def effective(model: ModelConfig) -> ModelConfig:
    """The model; if it has no memory, options that need a memory are left out."""
    memory: Any = model.memory
    parts: tuple[Any, ...] = (memory, model.controller)
    # The check of the config reports sections that are not mappings.
    if not all(isinstance(part, Mapping) for part in parts) or memory.get("name") != NO_MEMORY:
        return model
    controller = {name: value for name, value in model.controller.items() if name != "recurrent"}
    return dataclasses.replace(
        model, controller=controller, readout_size=None, output_read_vector=False
    )


@dataclass
class TrainingConfig:
    """How the model is trained.

    Args:
        optimizer: rmsprop, adam, sgd or another (see `unbounded list`); options: those of
            torch.optim, such as momentum, weight_decay, betas and eps.
        learning_rate: learning rate, above 0.
        schedule: constant; linear, which falls to 0 at the end of the budget; cooldown, or decay.
            cooldown is constant until the run would stop (solved, stalled, or the budget almost
            used up) and then falls linearly to 0. decay is constant first and is then multiplied by
            a factor at regular batches.
        batch_size: sequences per batch, over all processes; on streams and texts, number of
            parallel streams.
        length_bucketing: number of batches whose examples are sorted by length and regrouped, to
            reduce padding; 1 for no bucketing.
        batches: budget in batches.
        symbols: budget in input symbols; null for no such limit.
        minutes: budget in minutes of training; null for no such limit.
        clip: maximum of the gradient's norm or elements, see clip_by.
        clip_by: norm to clip the norm, value to clip each element.
        precision: no for 32 bit throughout; bf16 or fp16 for mixed precision.
        stop: solved (validation sequences correct), converged (low training perplexity on all
            lengths), or budget.
        patience: stop after this many batches without a lower training perplexity at the same
            longest length; 0 for never; a multiple of report_every.
        early_abort: none, or perplexity to stop a run without progress early and report it as
            failed.
        lengths: training range such as 8:64; null for the task's own.
        validation_lengths: length range of the stop rule; null for the task's test range, or on
            streams for the training range.
        validation_count: sequences of a validation.
        report_every: batches over which training perplexity is averaged.
        accuracy_every: batches between accuracies on fresh sequences of both ranges; 0 for no
            accuracies.
        accuracy_count: sequences per range for these accuracies.
        checkpoint_every: batches between checkpoints; there is also one every five minutes.
        keep_checkpoints: number of newest checkpoints to keep; `unbounded explore --course` shows
            them.
        label_smoothing: share of each target that is spread over all symbols; 0 for no smoothing.
            Correct outputs then still have a gradient, which may make memory actions more exact
            (docs/notebook/yang2016.md). Reported losses exclude it.
        temperature_noise: none; or doubling, which multiplies the logits of the gates (push, pop,
            action, ...) in each gradient step by a random power of two. A network that is correct
            at every factor is nearly a hardened model.
        chunk_steps: steps per chunk of a stream, the reach of truncated BPTT; null for the whole.
        update: chunk for one gradient step per chunk; per_symbol for one after each symbol, as in
            the authors' program of the Stack RNN.
        reduction: of the loss over the tokens of a step: mean or sum.
        curriculum: none; growing, from the shortest length; doubling, which doubles the longest
            length when the loss is low; or one_length, where all sequences of a batch have the same
            length.
        plateau: none; or halve, which lowers the learning rate and restores the best weights
            when validation stops improving.
    """

    optimizer: Component = field(default_factory=named("rmsprop"))
    learning_rate: Rate = 1e-3
    schedule: Component = field(default_factory=named("constant"))
    batch_size: Annotated[int, Range(1, 1_000_000)] = 10
    length_bucketing: Annotated[int, Range(1, 10_000)] = 1
    batches: Count = 20000
    symbols: Annotated[int, Range(1)] | None = None
    minutes: Positive | None = None
    clip: Positive = 1.0
    clip_by: Literal["norm", "value"] = "norm"
    precision: Literal["no", "bf16", "fp16"] = "no"
    stop: Component = field(default_factory=named("solved"))
    patience: CountOrNone = 0
    early_abort: Component = field(default_factory=named("none"))
    lengths: str | None = None
    validation_lengths: str | None = None
    validation_count: Count = 1000
    report_every: Count = 100
    accuracy_every: CountOrNone = 1000
    accuracy_count: Count = 1000
    checkpoint_every: Count = 500
    keep_checkpoints: Count = 2
    label_smoothing: Annotated[float, Range(0, 0.5)] = 0.0
    temperature_noise: Component = field(default_factory=named("none"))
    chunk_steps: Annotated[int, Range(1)] | None = None
    update: Literal["chunk", "per_symbol"] = "chunk"
    reduction: Literal["mean", "sum"] = "mean"
    curriculum: Component = field(default_factory=named("none"))
    plateau: Component = field(default_factory=named("none"))

    def __post_init__(self) -> None:
        name_components(self)


@dataclass
class HardeningConfig:
    """Hardening after training: the memory's gates are driven to 0 or 1.

    Args:
        batches: budget of fine-tuning in batches.
        every: batches between two increases of the gates' inverse temperature.
        factor: factor of each increase, above 1.
        saturated: certainty that every gate must reach, below 1.
        settle: stop after this many checks in a row with a validation error of the hardened model
            of at most 0.001; 0 continues until all gates are saturated.
        enough: stop if the validation errors of model and hardened model are at most this number
            (nats per determined symbol, or share of incorrect sequences). null for no such stop.
        patience: give up after this many checks in a row without a clearly better hardened model; 0
            for never.
        logit_noise: offset of random sign on the logits of the gates in each gradient step. The
            offset is this number times the amount by which sharpening has increased a logit of 1. 0
            for no noise. Every gate then keeps a distance from its threshold, also after pairs of
            symbols that are rare in training. Not for superposition stacks and lists, whose heads
            have no biases.
        tolerance: largest accepted increase of the validation error, as a share of sequences; above
            it, hardening goes back and takes smaller steps.
        cool: length of the final cooling, in multiples of `every` batches. The inverse temperature
            is constant and the learning rate falls.
        validation_count: validation sequences; null for as many as in training.
        far: also validate the hardened model at this multiple of the longest training length, on a
            tenth as many sequences; 0 to 1000, 0 for none. Not for texts.
        optimizer: of the fine-tuning; null for the optimizer of training.
        learning_rate: of the fine-tuning; null for a tenth of that of training, on streams a fifth.
        remove: remove superposition stacks and lists that the validation sequences do not need.
        most_removals: maximum number of subsets that are tried for removal.
    """

    batches: Count = 600
    every: Count = 5
    factor: Annotated[float, Range(1, 1e6, above=True)] = 1.25
    saturated: Annotated[float, Range(0.5, 0.999999, above=True)] = 0.999
    settle: CountOrNone = 0
    enough: Annotated[float, Range(0, 1e3)] | None = None
    patience: CountOrNone = 0
    logit_noise: Annotated[float, Range(0, 1e3)] = 0.0
    tolerance: Annotated[float, Range(0, 1)] = 0.03
    cool: CountOrNone = 0
    validation_count: Count | None = None
    far: Annotated[int, Range(0, 1000)] = 0
    optimizer: str | None = None
    learning_rate: Rate | None = None
    remove: bool = True
    most_removals: Count = 200


@dataclass
class EvaluationConfig:
    """The final scores on the test split. A task has only the options that its metric set uses.

    Args:
        count: sequences per range; on streams per n; on Dyck words per band.
        symbols: on pairs, maximum number of symbols per range, counted at its greatest length, so
            that ranges of long sequences have fewer than `count`; null for no limit.
        lengths: ranges such as 65:128; null for the training range, the test range and 129:256, or
            on streams for the test range.
        multiples: on pairs, further single lengths, as multiples of the longest training length;
            null for none.
        every: on streams, the step between two n of a range; on Dyck words, lengths per band; where
            each length has a number of its own, the step between two lengths. A range that has no
            more lengths than this step has all of them scored, except on streams.
        streams: parallel streams that share the sequences of one n; on a text, parallel strips.
        carry_state: carry memory and input from one n to the next, as in the authors' program. A
            memory that grows is emptied.
        memory: memory options for sequences longer than in training, such as more slots. They may
            change no parameter. With null, the memory stays as in training.
    """

    count: Count = 1000
    symbols: Annotated[int, Range(1)] | None = None
    lengths: list[str] | None = None
    multiples: list[Annotated[int, Range(1, 10_000)]] | None = None
    every: Annotated[int, Range(1)] = 1
    streams: Annotated[int, Range(1)] = 1
    carry_state: bool = False
    memory: dict[str, Any] | None = None


@dataclass
class HardwareConfig:
    """The hardware that executes the run; it is not part of the run's identity.

    Args:
        device: auto, cpu or cuda.
        threads: threads per process; null to leave them unchanged.
        backend: auto, reference, or cpu or cuda (the fused kernels of that device, or an error).
        matmul_precision: of float32 products: highest, high or medium, as in
            torch.set_float32_matmul_precision; null to leave it unchanged. cuDNN's LSTMs follow it.
        data: file or folder of the task's data, the task's option of the same name.
    """

    device: Literal["auto", "cpu", "cuda"] = "auto"
    threads: Annotated[int, Range(1, 4096)] | None = None
    backend: Literal["auto", "reference", "cpu", "cuda"] = "auto"
    matmul_precision: Literal["highest", "high", "medium"] | None = None
    data: str | None = None


@dataclass
class RunConfig:
    """The config of one run.

    Args:
        task: task name; `unbounded list` shows the tasks. Options: --task.OPTION VALUE.
        id: name of the run's folder; null for TASK-MODEL-HASH-seedN.
        seed: seed of the initial weights and the data.
        model: the model.
        training: how the model is trained.
        hardening: none; or gradual, to harden the model after training, for memories with gates.
        evaluation: the final scores.
        hardware: where the run executes.
    """

    task: Component = field(default_factory=named("copy"))
    id: str | None = None
    seed: Annotated[int, Range(0, 2**63 - 1)] = 1
    model: ModelConfig = field(default_factory=ModelConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    hardening: Component = field(default_factory=named("none"))
    evaluation: dict[str, Any] = field(default_factory=dict)
    hardware: HardwareConfig = field(default_factory=HardwareConfig)

    def __post_init__(self) -> None:
        name_components(self)


#: The sections of a config.
SECTIONS: Final[dict[str, type[Any]]] = {
    "model": ModelConfig,
    "training": TrainingConfig,
    "evaluation": EvaluationConfig,
    "hardware": HardwareConfig,
}
#: The sections that a `RunConfig` holds as dataclasses. The task's metric set determines which
#: options of evaluation are valid.
_TYPED: Final = {name: kind for name, kind in SECTIONS.items() if name != "evaluation"}


def kind_of(name: str) -> Any:
    """The annotated type of an option that the config itself defines; None for other options."""
    section, _, option = name.rpartition(".")
    owner = SECTIONS.get(section) if section else RunConfig
    return None if owner is None else field_kinds(owner).get(option)


def is_entry(name: str) -> bool:
    """Whether an option is an entry of one that holds a mapping, as evaluation.memory.slots is."""
    place = name.rpartition(".")[0]
    return place not in SECTIONS and fits({}, kind_of(place))


def all_options() -> list[str]:
    """The dotted names of all options of a config. A component is one option."""
    return [
        option
        for name in field_kinds(RunConfig)
        for option in (
            [f"{name}.{own}" for own in field_kinds(SECTIONS[name])] if name in SECTIONS else [name]
        )
    ]


def to_dict(config: RunConfig) -> dict[str, Any]:
    """The config as plain data."""
    return dataclasses.asdict(config)


def from_dict(data: Mapping[str, Any]) -> RunConfig:
    """Build a config from plain data. This function is the inverse of `to_dict`.

    Raises:
        ConfigError: a section or an option is unknown, missing or of the wrong type; lists all
            errors.
    """
    errors = unknown_options(data)
    errors += [
        f"it has no {item.name}" for item in dataclasses.fields(RunConfig) if item.name not in data
    ]
    if errors:
        raise ConfigError(errors)
    config = unchecked(data)
    errors = field_errors(config)
    errors += [
        f"{where}{name}: expected a name in it, got {part!r:.80}"
        for where, owner in (("", config), ("model.", config.model), ("training.", config.training))
        for name, kind in field_kinds(type(owner)).items()
        if is_component(kind) and isinstance(part := getattr(owner, name), dict)
        if not isinstance(part.get("name"), str)
    ]
    if errors:
        raise ConfigError(errors)
    return config


def unchecked(data: Mapping[str, Any]) -> RunConfig:
    """Build a config from plain data without type checks. Unknown options are left out."""
    sections = {
        name: kind(**_known(data[name], kind))
        for name, kind in _TYPED.items()
        if isinstance(data.get(name), Mapping)
    }
    own = {name: value for name, value in _known(data, RunConfig).items() if name not in _TYPED}
    return RunConfig(**copy.deepcopy(own), **sections)


def unknown_options(data: Mapping[str, Any]) -> list[str]:
    """One line for each unknown option of a config, and for each section without options."""
    return _unknown(data, RunConfig, "")


def _known(data: Mapping[str, Any], kind: type) -> dict[str, Any]:
    names = {item.name for item in dataclasses.fields(kind)}
    return {name: value for name, value in data.items() if name in names}


def _unknown(data: Mapping[str, Any], kind: type, where: str) -> list[str]:
    """One line for each unknown option of a section, and for each section without options."""
    errors: list[str] = []
    names = [item.name for item in dataclasses.fields(kind)]
    for name, value in data.items():
        if name not in names:
            what = f"{where.rstrip('.') or 'a config'} has no option {name!r}"
            errors.append(f"{what}.{did_you_mean(name, names)} Valid: {', '.join(names)}.")
        elif not where and name in _TYPED:
            if isinstance(value, Mapping):
                errors += _unknown(value, _TYPED[name], f"{name}.")
            else:
                errors.append(f"{name}: expected options, got {value!r:.80}")
    return errors
