"""A run as typed data. These classes stop here and in the command line."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from unbounded.experiments.config.upgrade import upgraded_config
from unbounded.options import field_errors


@dataclass
class ModelConfig:
    """The model: the keywords of `unbounded.models.MemoryModel`.

    Args:
        memory: its name, or none; then --model.memory.OPTION VALUE (see `unbounded list NAME`).
        controller: its name; then --model.controller.OPTION VALUE.
        hidden_size: units of the controller or of each LSTM layer.
        embedding_size: size of the embeddings, null for one-hot symbols.
        readout_size: size of a tanh layer between controller and logits, beside a memory; null for
            none.
        output_bias: whether the logits have a bias.
        dropout: share of what the logits are made of that is dropped in training, in [0, 1); the
            losses of training are measured with it.
        tied_embeddings: the output matrix is the input embedding, of one vocabulary; what the
            logits are made of has embedding_size numbers then.
        output_reading: what is read at a step reaches the logits of the same step, beside a memory.
        learn_initial_state: the controller's first state is a parameter.
        initialization: of the layer: glorot, torch for PyTorch's own, sums for those of Joulin &
            Mikolov, or glorot_parts for those of Deleu & Dureau.
        output_initialization: of the output embedding: normal for N(0, 1), torch, sums or glorot.
        symbol_initialization: of the columns of one-hot symbols: as_model, sums, or normal for
            N(0, 1); of embeddings, which are N(0, 1) at as_model, or sums.
        input_bits: with embedding_size null, the low so many bits of a symbol's number are an input
            each, what is above them one more, a number; 0 for the number alone, null for one-hot.
        map_initial_state: each learned number of the first state is the sum of two, as in the
            program of Yang & Rush 2017.
        answer_writes: on tasks that are fed one symbol while answering, whether the memory is
            written then: true, false, or null for false where the memory can.
    """

    memory: dict[str, Any] = field(default_factory=lambda: {"name": "queue"})
    controller: dict[str, Any] = field(default_factory=lambda: {"name": "lstm"})
    hidden_size: int = 256
    embedding_size: int | None = 64
    readout_size: int | None = 64
    output_bias: bool = True
    dropout: float = 0.0
    tied_embeddings: bool = False
    output_reading: bool = False
    learn_initial_state: bool = True
    initialization: str = "glorot"
    output_initialization: str = "normal"
    symbol_initialization: str = "as_model"
    input_bits: int | None = None
    map_initial_state: bool = False
    answer_writes: bool | None = True


@dataclass
class TrainingConfig:
    """How it is trained.

    Args:
        optimizer: rmsprop, adam, sgd or another (see `unbounded list`).
        optimizer_options: --training.optimizer_options.OPTION VALUE for the optimizer's own
            (momentum, weight_decay, betas), by its signature.
        learning_rate: above 0.
        epsilon: added to the denominator of a step; null for 1e-4 (rmsprop) or torch's own.
        schedule: constant; linear to fall to 0 at the end of the budget; or tail to stay until the
            run would be over (learned, stalled, or the budget all but used up), and then fall to 0.
        tail_batches: batches over which a tail falls; half of the budget at most.
        batch_size: sequences a batch, over all processes; of streams and texts, how many run in
            parallel.
        deal: batches whose examples are sorted by length and dealt again, so that little is
            padding; 1 for none.
        batches: budget in batches.
        symbols: budget in input symbols, null for none.
        minutes: budget in minutes of training, null for none.
        clip: bound on the gradient.
        clip_by: what is bounded: its norm, or the value of each element.
        precision: 32 bit throughout (no), or bf16 or fp16 mixed.
        stop: solved (validation sequences right), converged (training perplexity low on all
            lengths), or budget.
        patience: batches without a lower training perplexity, on lengths to the same longest one,
            after which progress has stopped and the run is over, 0 for never; a multiple of
            report_every.
        lengths: training range such as 8:64, null for the task's own.
        validation_lengths: range of the stop rule, null for the task's test range, or on streams
            for the training range.
        validate_every: batches between looks of the stop rule "solved".
        validation_count: sequences that must be right, twice in a row.
        validation_share: share of these that must be right at least, in (0, 1]; of the ten that are
            looked at first, too. 1 waits for all.
        report_every: batches over which training perplexity is averaged.
        accuracy_every: batches between accuracies on fresh sequences of both ranges, 0 for none.
        accuracy_count: sequences a range for these.
        checkpoint_every: batches between checkpoints; there is one after five minutes too.
        keep_checkpoints: how many of the newest stay; all of a run show its course.
        converged_perplexity: bound of the stop rule "converged".
        converged_reports: reports in a row at or below that bound.
        give_up_after: batches after which a run that got nowhere is ended and reported as failed, 0
            for never; a multiple of report_every.
        give_up_perplexity: training perplexity above which it got nowhere, on the lengths that it
            has come to.
        prediction_clip: in the loss, chances that yes is said are cut to this and 1 less this; 0
            for no cut. For tasks of yes and no, or of bits.
        label_smoothing: share of each target that is spread over all that could be said, 0 for
            none. What is right has a gradient still, which may make a memory's way more exact
            (docs/reproducing/yang2016.md). Losses that are reported are without it.
        random_sharpness: in each gradient step what decides (push and pop, actions, gates) is
            multiplied by a power of two that is drawn from 1 to this one, for the time of the step;
            1 for none. A network that is right at all of them is nearly a discrete machine.
        random_sharpness_units: the same of what the controller's units sum up, by a factor drawn
            apart, so that nothing is kept in them that fades or drifts.
        random_sharpness_below: nats a token since the last report below which the greatest factor
            so far, 1 at first, doubles: what has not learned its task cannot learn it so. At ten
            times as much it halves.
        piece_steps: steps of a piece of a stream, the reach of truncated BPTT; null for the whole.
        update: piece for a gradient step after each piece, or symbol for one after each symbol,
            as in the authors' program of the Stack RNN.
        average: whether the loss of a step is the mean over what counts in it, or the sum.
        curriculum: none, growing to begin with the shortest length, doubling to double the longest
            where the loss is low, or one_length for one that all sequences of a batch have.
        curriculum_every: batches after which a growing one adds the next length.
        curriculum_below: nats a token since the last report at which a doubling one doubles.
        curriculum_first: longest length of the first batches, null for the shortest there is; what
            lies beside the range of training stands for its nearer end.
        plateau_every: batches between looks at the validation loss, 0 for none; where it is no
            better, the learning rate falls and the best weights come back.
        plateau_hold: batches at the beginning during which nothing falls.
        plateau_factor: what the learning rate is multiplied by.
        plateau_least: learning rate below which the run is over.
        plateau_patience: looks without a better one after which it falls.
        plateau_window: 0, or with the best of how many looks before one is compared; the rate
            falls when it is worse.
        plateau_threshold: share of the best value by which a look must be better for the rate to
            stay, from 0 to 0.5; weights that are better by less are kept all the same.
        plateau_restore: whether the best weights come back when the rate falls; they do at the end.
        plateau_measure: loss, or errors for the share of validation symbols that are wrong.
    """

    optimizer: str = "rmsprop"
    optimizer_options: dict[str, Any] = field(default_factory=dict)
    learning_rate: float = 1e-3
    epsilon: float | None = None
    schedule: str = "constant"
    tail_batches: int = 500
    batch_size: int = 10
    deal: int = 1
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
    give_up_after: int = 0
    give_up_perplexity: float = 1.2
    prediction_clip: float = 0.0
    label_smoothing: float = 0.0
    random_sharpness: int = 1
    random_sharpness_units: int = 1
    random_sharpness_below: float = 1e-3
    piece_steps: int | None = None
    update: str = "piece"
    average: bool = True
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
class RoundingConfig:
    """Rounding of a trained model, by hardening: its decisions are made wholly or not at all.

    Args:
        batches: budget of fine-tuning, 0 for no rounding.
        every: batches between two sharpenings of what decides.
        factor: of each sharpening, above 1.
        decided: certainty that every decision must have in the end.
        settle: sharpenings in a row after which the discrete machine does as well as the model on
            validation, and it is over; 0 goes on until all is decided.
        enough: what validation may say against model and machine (nats per determined symbol, or
            the share of sequences that are wrong) with which it is over; null goes on.
        patience: sharpenings in a row without a clearly better discrete machine after which it is
            given up; 0 never.
        tolerance: how much worse on validation, as a share of sequences, a model may be on the way
            before it goes back and takes smaller steps.
        cool: times `every` batches at the end, or at the end of the budget, in which nothing is
            sharpened and the rate falls.
        validation_count: sequences of that validation, null for as many as in training.
        far: at how many times the longest length of training the discrete machine is validated
            too, on a tenth as many sequences; 0 for not, 1000 at the most. A text has no such
            lengths.
        optimizer: of the fine-tuning, null for that of training.
        learning_rate: of the fine-tuning, null for a tenth of that of training, of streams a fifth.
        remove: whether stacks and lists in superposition are removed that the validation sequences
            do not need.
        most_removals: subsets of them that are tried at the most.
    """

    batches: int = 0
    every: int = 5
    factor: float = 1.25
    decided: float = 0.999
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
    """The table at the end, on the test split.

    Args:
        count: sequences a range, or of streams for each n, or of Dyck words for each band.
        symbols: of pairs, most symbols of a range, counted at its greatest length: a range of long
            sequences has fewer than `count`; null for no such limit.
        lengths: ranges such as 65:128; null for the training range, the test range and 129:256,
            or on streams for the test range.
        multiples: of pairs, beside these ranges, single lengths that are so many times the longest
            of training; null for none.
        every: of streams, the step from one n of a range to the next; of Dyck words, lengths of
            a band.
        streams: parallel streams that share the sequences of one n; of a text, parallel strips.
        carry: whether memory and input go on from one n to the next, as in the authors' program.
    """

    count: int = 1000
    symbols: int | None = None
    lengths: list[str] | None = None
    multiples: list[int] | None = None
    every: int = 1
    streams: int = 1
    carry: bool = False


@dataclass
class MachineConfig:
    """Where it runs; not part of what the run is.

    Args:
        device: auto, cpu or cuda.
        threads: threads of one process, null to leave them as they are.
        backend: auto, reference, or cpu or cuda (the fused kernels of that device, or an error).
        matmul_precision: of products in float32: highest, high or medium, as of
            torch.set_float32_matmul_precision; null to leave it as it is. cuDNN's LSTMs follow it.
        data: file or folder of the task's data, for its option of that name.
    """

    device: str = "auto"
    threads: int | None = None
    backend: str = "auto"
    matmul_precision: str | None = None
    data: str | None = None


@dataclass
class RunConfig:
    """One run.

    Args:
        task: what to learn; `unbounded list` shows the tasks.
        task_options: options of the task.
        seed: of the initial weights and of the data.
        model: the model.
        training: how it is trained.
        rounding: the hardening after training, of a memory that decides.
        evaluation: the table at the end.
        machine: where it runs.
    """

    task: str = "copy"
    task_options: dict[str, Any] = field(default_factory=dict)
    seed: int = 1
    model: ModelConfig = field(default_factory=ModelConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    rounding: RoundingConfig = field(default_factory=RoundingConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    machine: MachineConfig = field(default_factory=MachineConfig)


def to_dict(config: RunConfig) -> dict[str, Any]:
    """The config as plain data."""
    return dataclasses.asdict(config)


def from_dict(data: Mapping[str, Any]) -> RunConfig:
    """The config that `to_dict` turned into `data`, also as older versions wrote it.

    Raises:
        TypeError: the data has another form; the message says what it lacks.
    """
    # Runs from before there was rounding have none.
    needed = [each.name for each in dataclasses.fields(RunConfig) if each.name != "rounding"]
    missing = [name for name in needed if name not in data]
    if missing:
        raise TypeError(f"it has no {', '.join(missing)}")
    for name in needed[1:]:
        if name != "seed" and not isinstance(data[name], Mapping):
            raise TypeError(f"{name}: expected options, got {data[name]!r:.80}")
    data = upgraded_config(data)
    config = RunConfig(
        task=data["task"],
        task_options=dict(data["task_options"]),
        seed=data["seed"],
        model=ModelConfig(**data["model"]),
        training=TrainingConfig(**data["training"]),
        rounding=RoundingConfig(**data.get("rounding", {})),
        evaluation=EvaluationConfig(**data["evaluation"]),
        machine=MachineConfig(**data["machine"]),
    )
    faults = field_errors(config)
    faults += [
        f"model.{part}: expected a name in it, got {options!r:.80}"
        for part, options in (
            ("memory", config.model.memory),
            ("controller", config.model.controller),
        )
        if isinstance(options, dict) and not isinstance(options.get("name"), str)
    ]
    if faults:
        raise TypeError("; ".join(faults))
    return config
