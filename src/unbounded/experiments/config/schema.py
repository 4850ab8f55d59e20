"""The config of a run as dataclasses. Their Args are the help texts of `unbounded train`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from unbounded.options import field_errors


@dataclass
class ModelConfig:
    """The model: the keywords of `unbounded.models.MemoryModel`.

    Args:
        memory: its name, or none; options: --model.memory.OPTION VALUE (see `unbounded list NAME`).
        controller: its name; options: --model.controller.OPTION VALUE.
        hidden_size: units of the controller or of each LSTM layer.
        embedding_size: size of the embeddings; null for one-hot symbols.
        readout_size: with a memory, size of a tanh layer between controller and logits; null for
            none.
        output_bias: whether the logits have a bias.
        dropout: share of the logits' inputs to drop in training, in [0, 1). Training losses are
            measured with dropout.
        tied_embeddings: use the input embedding as output matrix. Both need the same vocabulary,
            and the logits' input has size embedding_size.
        output_read_vector: with a memory, feed the read vector of a step to the logits of the same
            step.
        learn_initial_state: make the controller's initial state a parameter.
        initialization: of the layer: glorot, torch (PyTorch's own), sums (Joulin & Mikolov), or
            glorot_parts (Deleu & Dureau).
        output_initialization: of the output embedding: normal for N(0, 1), torch, sums or glorot.
        symbol_initialization: of the columns of one-hot symbols: as_model, sums, or normal for
            N(0, 1). Of embeddings: as_model, which is N(0, 1), or sums.
        input_bits: with embedding_size null, number of low bits of a symbol's number that are an
            input each; the bits above them form one numeric input. 0 for one numeric input only,
            null for one-hot.
        map_initial_state: make each learned number of the initial state the sum of two parameters,
            as in the program of Yang & Rush 2017.
        answer_writes: on tasks with a constant input while answering, whether the memory is written
            then: true, false, or null for false if the memory supports it.
    """

    memory: dict[str, Any] = field(default_factory=lambda: {"name": "queue"})
    controller: dict[str, Any] = field(default_factory=lambda: {"name": "lstm"})
    hidden_size: int = 256
    embedding_size: int | None = 64
    readout_size: int | None = 64
    output_bias: bool = True
    dropout: float = 0.0
    tied_embeddings: bool = False
    output_read_vector: bool = False
    learn_initial_state: bool = True
    initialization: str = "glorot"
    output_initialization: str = "normal"
    symbol_initialization: str = "as_model"
    input_bits: int | None = None
    map_initial_state: bool = False
    answer_writes: bool | None = True


@dataclass
class TrainingConfig:
    """How the model is trained.

    Args:
        optimizer: rmsprop, adam, sgd or another (see `unbounded list`).
        optimizer_options: further arguments of the optimizer (momentum, weight_decay, betas), as
            --training.optimizer_options.OPTION VALUE.
        learning_rate: learning rate, above 0.
        epsilon: number added to a step's denominator; null for 1e-4 (rmsprop) or torch's default.
        schedule: constant; linear, which falls to 0 at the end of the budget; or cooldown, which
            is constant until the run would stop (solved, stalled, or the budget almost used up)
            and then falls linearly to 0.
        cooldown_batches: batches of a cooldown's fall, at most half of the budget.
        batch_size: sequences per batch, over all processes; on streams and texts, number of
            parallel streams.
        length_bucketing: number of batches whose examples are sorted by length and regrouped, to
            reduce padding; 1 for none.
        batches: budget in batches.
        symbols: budget in input symbols; null for none.
        minutes: budget in minutes of training; null for none.
        clip: maximum of the gradient's norm or elements, see clip_by.
        clip_by: norm to clip the norm, value to clip each element.
        precision: no for 32 bit throughout; bf16 or fp16 for mixed precision.
        stop: solved (validation sequences correct), converged (low training perplexity on all
            lengths), or budget.
        patience: stop after this many batches without a lower training perplexity at the same
            longest length; 0 for never; a multiple of report_every.
        lengths: training range such as 8:64; null for the task's own.
        validation_lengths: length range of the stop rule; null for the task's test range, or on
            streams for the training range.
        validate_every: batches between checks of the stop rule "solved".
        validation_count: sequences that must be correct, in two checks in a row.
        validation_share: least share of these that must be correct, in (0, 1]; also of the ten that
            are checked first.
        report_every: batches over which training perplexity is averaged.
        accuracy_every: batches between accuracies on fresh sequences of both ranges; 0 for none.
        accuracy_count: sequences per range for these accuracies.
        checkpoint_every: batches between checkpoints; there is also one every five minutes.
        keep_checkpoints: number of newest checkpoints to keep; `unbounded explore --course` shows
            them.
        converged_perplexity: perplexity limit of the stop rule "converged".
        converged_reports: reports in a row at or below that limit.
        early_abort_after: batches after which a run without progress is stopped and reported as
            failed; 0 for never; a multiple of report_every.
        early_abort_perplexity: training perplexity above which a run has made no progress, on the
            lengths reached so far.
        prediction_clip: clip predicted probabilities in the loss to this and 1 minus this; 0 for
            none. For tasks with yes/no labels or bits.
        label_smoothing: share of each target that is spread over all symbols; 0 for none. Correct
            outputs then still have a gradient, which may make memory actions more exact
            (docs/reproducing/yang2016.md). Reported losses exclude it.
        temperature_noise: in each gradient step, multiply the logits of the gates (push, pop,
            action, ...) by a power of two, drawn from 1 to this number; 1 for none. A network that
            is correct at every factor is nearly a hardened model.
        temperature_noise_units: the same for the inputs of the controller's units, with a factor of
            its own. It prevents units from storing values that fade or drift.
        temperature_noise_below: training loss in nats per token, since the last report, below which
            the greatest factor so far, initially 1, doubles. A network that has not learned its
            task cannot learn it with noise. At ten times this loss the factor halves.
        chunk_steps: steps per chunk of a stream, the reach of truncated BPTT; null for the whole.
        update: chunk for one gradient step per chunk; per_symbol for one after each symbol, as in
            the authors' program of the Stack RNN.
        reduction: of the loss over the tokens of a step: mean or sum.
        curriculum: none; growing, from the shortest length; doubling, which doubles the longest
            length when the loss is low; or one_length, where all sequences of a batch have the same
            length.
        curriculum_every: batches after which a growing curriculum adds the next length.
        curriculum_below: nats per token, since the last report, at which a doubling one doubles.
        curriculum_first: longest length of the first batches; null for the shortest length. Values
            outside the training range are clipped to it.
        plateau_every: batches between checks of the validation loss; 0 for none. Without an
            improvement, the learning rate falls and the best weights are restored.
        plateau_hold: batches at the start in which the learning rate does not fall.
        plateau_factor: factor on the learning rate at each fall.
        plateau_least: learning rate below which the run stops.
        plateau_patience: checks without an improvement after which the learning rate falls.
        plateau_window: number of earlier checks whose best value is compared; the learning rate
            falls if a check is worse. 0 compares with the best of all checks.
        plateau_threshold: relative improvement over the best value that keeps the learning rate,
            from 0 to 0.5. Weights with a smaller improvement are also kept as the best.
        plateau_restore: restore the best weights when the learning rate falls. They are always
            restored at the end.
        plateau_measure: loss, or errors for the share of incorrect validation symbols.
    """

    optimizer: str = "rmsprop"
    optimizer_options: dict[str, Any] = field(default_factory=dict)
    learning_rate: float = 1e-3
    epsilon: float | None = None
    schedule: str = "constant"
    cooldown_batches: int = 500
    batch_size: int = 10
    length_bucketing: int = 1
    batches: int = 20000
    symbols: int | None = None
    minutes: float | None = None
    clip: float = 1.0
    clip_by: str = "norm"
    precision: str = "no"
    stop: str = "solved"
    patience: int = 0
    lengths: str | None = None
    validation_lengths: str | None = None
    validate_every: int = 100
    validation_count: int = 1000
    validation_share: float = 1.0
    report_every: int = 100
    accuracy_every: int = 1000
    accuracy_count: int = 1000
    checkpoint_every: int = 500
    keep_checkpoints: int = 2
    converged_perplexity: float = 1.001
    converged_reports: int = 3
    early_abort_after: int = 0
    early_abort_perplexity: float = 1.2
    prediction_clip: float = 0.0
    label_smoothing: float = 0.0
    temperature_noise: int = 1
    temperature_noise_units: int = 1
    temperature_noise_below: float = 1e-3
    chunk_steps: int | None = None
    update: str = "chunk"
    reduction: str = "mean"
    curriculum: str = "none"
    curriculum_every: int = 1
    curriculum_below: float = 1e-4
    curriculum_first: int | None = None
    plateau_every: int = 0
    plateau_hold: int = 0
    plateau_factor: float = 0.5
    plateau_least: float = 1e-5
    plateau_patience: int = 1
    plateau_window: int = 0
    plateau_threshold: float = 0.0
    plateau_restore: bool = True
    plateau_measure: str = "loss"


@dataclass
class HardeningConfig:
    """Hardening after training: the memory's gates are driven to 0 or 1.

    Args:
        batches: budget of fine-tuning in batches; 0 for no hardening.
        every: batches between two increases of the gates' inverse temperature.
        factor: factor of each increase, above 1.
        saturated: certainty that every gate must reach, below 1.
        settle: stop after this many checks in a row with a validation error of the hardened model
            of at most 0.001; 0 continues until all gates are saturated.
        enough: stop at this validation error of both model and hardened model (nats per determined
            symbol, or share of incorrect sequences); null for no such stop.
        patience: give up after this many checks in a row without a clearly better hardened model; 0
            for never.
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

    batches: int = 0
    every: int = 5
    factor: float = 1.25
    saturated: float = 0.999
    settle: int = 0
    enough: float | None = None
    patience: int = 0
    tolerance: float = 0.03
    cool: int = 0
    validation_count: int | None = None
    far: int = 0
    optimizer: str | None = None
    learning_rate: float | None = None
    remove: bool = True
    most_removals: int = 200


@dataclass
class EvaluationConfig:
    """The final scores on the test split.

    Args:
        count: sequences per range; on streams per n; on Dyck words per band.
        symbols: on pairs, maximum number of symbols per range, counted at its greatest length, so
            that ranges of long sequences have fewer than `count`; null for no limit.
        lengths: ranges such as 65:128; null for the training range, the test range and 129:256, or
            on streams for the test range.
        multiples: on pairs, further single lengths, as multiples of the longest training length;
            null for none.
        every: on streams, the step between two n of a range; on Dyck words, lengths per band.
        streams: parallel streams that share the sequences of one n; on a text, parallel strips.
        carry_state: carry memory and input from one n to the next, as in the authors' program.
    """

    count: int = 1000
    symbols: int | None = None
    lengths: list[str] | None = None
    multiples: list[int] | None = None
    every: int = 1
    streams: int = 1
    carry_state: bool = False


@dataclass
class HardwareConfig:
    """Where the run executes; not part of the run's identity.

    Args:
        device: auto, cpu or cuda.
        threads: threads per process; null to leave them unchanged.
        backend: auto, reference, or cpu or cuda (the fused kernels of that device, or an error).
        matmul_precision: of float32 products: highest, high or medium, as in
            torch.set_float32_matmul_precision; null to leave it unchanged. cuDNN's LSTMs follow it.
        data: file or folder of the task's data, the task's option of the same name.
    """

    device: str = "auto"
    threads: int | None = None
    backend: str = "auto"
    matmul_precision: str | None = None
    data: str | None = None


@dataclass
class RunConfig:
    """The config of one run.

    Args:
        task: task name; `unbounded list` shows the tasks.
        task_options: options of the task.
        seed: seed of the initial weights and the data.
        model: the model.
        training: how the model is trained.
        hardening: hardening after training, for memories with gates.
        evaluation: the final scores.
        hardware: where the run executes.
    """

    task: str = "copy"
    task_options: dict[str, Any] = field(default_factory=dict)
    seed: int = 1
    model: ModelConfig = field(default_factory=ModelConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    hardening: HardeningConfig = field(default_factory=HardeningConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    hardware: HardwareConfig = field(default_factory=HardwareConfig)


def to_dict(config: RunConfig) -> dict[str, Any]:
    """The config as plain data."""
    return dataclasses.asdict(config)


def from_dict(data: Mapping[str, Any]) -> RunConfig:
    """The config from plain data; inverse of `to_dict`.

    Raises:
        TypeError: the data are invalid; the message lists the errors.
    """
    needed = [item.name for item in dataclasses.fields(RunConfig)]
    missing = [name for name in needed if name not in data]
    if missing:
        raise TypeError(f"it has no {', '.join(missing)}")
    for name in needed[1:]:
        if name != "seed" and not isinstance(data[name], Mapping):
            raise TypeError(f"{name}: expected options, got {data[name]!r:.80}")
    config = RunConfig(
        task=data["task"],
        task_options=dict(data["task_options"]),
        seed=data["seed"],
        model=ModelConfig(**data["model"]),
        training=TrainingConfig(**data["training"]),
        hardening=HardeningConfig(**data["hardening"]),
        evaluation=EvaluationConfig(**data["evaluation"]),
        hardware=HardwareConfig(**data["hardware"]),
    )
    errors = field_errors(config)
    errors += [
        f"model.{part}: expected a name in it, got {options!r:.80}"
        for part, options in (
            ("memory", config.model.memory),
            ("controller", config.model.controller),
        )
        if isinstance(options, dict) and not isinstance(options.get("name"), str)
    ]
    if errors:
        raise TypeError("; ".join(errors))
    return config
