"""Reference numbers for the page's arithmetic: float64, every memory and controller.

`python -m tests.explorer.vectors` writes them to explorer/tests/vectors/. test_vectors.py compares
these files with Python, and explorer/tests/vectors.test.ts compares them with the page.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import torch

from unbounded.experiments.config import plain_yaml
from unbounded.explorer.model_data import model_data, model_tensors
from unbounded.explorer.run_data import run_data
from unbounded.explorer.weights import packed_weights
from unbounded.memories import Memory
from unbounded.memories.as_data import memory_data
from unbounded.memories.core import ACTIVATIONS
from unbounded.models import generate
from unbounded.models.memory_model import MemoryModel
from unbounded.models.model_parts import make_memory
from unbounded.tasks import LengthRange, Task, TransductionTask, make_task
from unbounded.training import OBJECTIVES

FOLDER: Final = Path(__file__).parents[2] / "explorer" / "tests" / "vectors"
STEPS: Final = 7

#: Every memory, with the options that use other code.
MEMORIES: Final[dict[str, dict[str, Any]]] = plain_yaml.load("""
stack: {name: stack, width: 3}
queue: {name: queue, width: 3}
deque: {name: deque, width: 2}
stacks of numbers: {name: superposition_stack, count: 2}
stacks with NO-OP: {name: superposition_stack, count: 2, depth: 3, noop: true}
stacks with a floor: {name: superposition_stack, count: 1, capacity: 3, overflow: drop_bottom}
stacks of vectors: {name: superposition_stack, count: 2, noop: true, empty: 0, width: 3,
  activation: tanh}
lists: {name: superposition_list, count: 2, depth: 3}
lists without NO-OP: {name: superposition_list, count: 1, noop: false}
lists with ends: {name: superposition_list, count: 1, capacity: 2, overflow: drop_ends}
lists of zeros: {name: superposition_list, count: 2, capacity: 2, overflow: drop_ends, empty: 0}
lists of vectors: {name: superposition_list, count: 2, width: 2, capacity: 2, overflow: drop_ends}
lists of zeros that grow: {name: superposition_list, count: 1, depth: 3, empty: 0}
tape: {name: turing_tape, slots: 6, width: 3}
tape with heads: {name: turing_tape, slots: 7, width: 3, read_heads: 2, write_heads: 2,
  shift_range: 2}
tape with ends: {name: turing_tape, slots: 5, width: 2, shift: zero, variant: deleu2016,
  reads: before}
rolling tape: {name: rolling_tape, slots: 6, width: 3}
rolling tapes: {name: rolling_tape, slots: 5, width: 2, tapes: 2, variant: code}
slots with links: {name: dnc, slots: 5, width: 3, read_heads: 2}
slots without links: {name: dnc, slots: 4, width: 2, read_heads: 1, links: false}
keys: {name: lie_access, width: 3}
keys with softmax: {name: lie_access, width: 2, weighting: softmax, group: scaling_rotation,
  step: bounded}
keys with a first step: {name: lie_access, width: 2, step: normalised_candidate, initial: learned}
keys on a circle: {name: lie_access, width: 2, group: rotation, step: free}
keys on a sphere: {name: lie_access, width: 2, group: sphere, variant: "2017", initial: learned}
keys with a cap: {name: lie_access, width: 2, key_size: 3, capacity: 3, drop: 2, step: free}
keys with heads: {name: lie_access, width: 2, read_heads: 3, write_heads: 2, initial: learned,
  weighting: softmax}
keys with heads and a cap: {name: lie_access, width: 2, read_heads: 2, write_heads: 2, capacity: 4,
  drop: 3, group: sphere}
keys that turn in four dimensions: {name: lie_access, width: 2, group: rotation, key_size: 4,
  initial: learned, value_activation: relu}
keys that turn and grow: {name: lie_access, width: 2, group: scaling_rotation, key_size: 3,
  step: bounded, gates: hard_sigmoid}
keys on a sphere with a learned bound of angles: {name: lie_access, width: 2,
  group: learned_bound_sphere, initial: learned, action_gate: true, read_heads: 2}
keys on a disk: {name: lie_access, width: 2, group: poincare_disk, initial: learned}
keys on a disk with heads: {name: lie_access, width: 2, group: poincare_disk, read_heads: 2,
  write_heads: 2, weighting: softmax, step: bounded, value_activation: sigmoid}
runs of an automaton: {name: nondeterministic_stack, states: 2, symbols: 2}
runs with vectors: {name: nondeterministic_stack, states: 1, symbols: 2, width: 2, window: 4}
runs with normalized weights: {name: nondeterministic_stack, states: 2, symbols: 1, width: 1,
  normalized: true}
rows by their keys: {name: ram, width: 2, key_size: 3, sharpening: true}
rows by their keys and their neighbours: {name: ram, width: 2, key_size: 2, tape: true,
  initial: learned}
matrices of a DeltaNet: {name: unbounded.memories.baseline_states.DeltaMatrices, layers: 2,
  num_heads: 2, head_size: 3, steps: 1, negative_eigenvalues: false}
matrices of a DeltaProduct: {name: unbounded.memories.baseline_states.DeltaMatrices, layers: 1,
  num_heads: 2, head_size: 2, steps: 3, negative_eigenvalues: true}
attention: {name: unbounded.memories.baseline_states.AttentionWeights, layers: 2, num_heads: 3,
  head_size: 2, positions: 7}
""")

_SIZES: Final[dict[str, Any]] = {"inputs": 5, "outputs": 4, "hidden_size": 6, "embedding_size": 3}
#: Every controller, input, initial state and readout.
MODELS: Final[dict[str, dict[str, Any]]] = plain_yaml.load("""
LSTM with a queue: {memory: {name: queue, width: 3}, learn_initial_state: true}
LSTM with two biases: {memory: {name: stack, width: 2}, controller: {name: lstm, second_bias: true},
  readout_size: 3}
GRU with a deque: {memory: {name: deque, width: 2}, controller: gru, embedding_size: null}
Elman network with stacks: {memory: {name: superposition_stack, count: 2}, controller: {name: elman,
  activation: sigmoid, bias: false}, embedding_size: null, output_bias: false}
feed-forward network with a tape: {memory: {name: turing_tape, slots: 5, width: 3,
  variant: deleu2016, shift: zero, writes_first: true}, controller: {name: elman, activation: relu,
  recurrent: false, second_bias: true}, embedding_size: null, input_bits: 2}
"LSTM with a tape of one location, fed bits and a fraction": {memory: {name: turing_tape, slots: 1,
  width: 3}, embedding_size: null, input_bits: 1, input_number: fraction}
LSTM that only reads while it answers: {memory: {name: lie_access, width: 3, initial: learned},
  learn_initial_state: true, map_initial_state: true, read_only_token: 1}
LSTM whose readings reach the output: {memory: {name: lie_access, width: 3, variant: "2017"},
  output_read_vector: true, readout_size: 4, read_only_token: 1}
tanh network with a tape that is learned: {memory: {name: turing_tape, slots: 5, width: 3,
  initial_cells: learned, initial_weights: learned}, controller: elman}
two LSTM layers: {memory: none, controller: {name: lstm, num_layers: 2}, learn_initial_state: true}
LSTM with a rolling tape: {memory: {name: rolling_tape, slots: 7, width: 3}, length_token: 1}
GRU alone: {memory: none, controller: gru}
LSTM with a nondeterministic stack: {memory: {name: nondeterministic_stack, states: 2, symbols: 2,
  width: 1}}
LSTM with several heads on a disk: {memory: {name: lie_access, width: 3, group: poincare_disk,
  read_heads: 2, write_heads: 2, initial: learned}, read_only_token: 1}
GRU with rows by their keys: {memory: {name: ram, width: 2, key_size: 2, tape: true,
  sharpening: true}, controller: gru}
""")


#: Every way in which a task is laid out: name, options, options of the model.
TASKS: Final[dict[str, list[dict[str, Any]]]] = plain_yaml.load("""
copy: [{symbols: 3}, {memory: {name: queue, width: 3}}]
answer_reverse: [{symbols: 3}, {memory: {name: lie_access, width: 3}, read_only_token: 1}]
programs: [{}, {memory: {name: stack, width: 3}}]
anbn: [{}, {memory: {name: superposition_stack, count: 2}}]
memorization: [{}, {memory: {name: superposition_list, count: 2}}]
dyck: [{kinds: 2}, {memory: {name: turing_tape, slots: 5, width: 3}}]
dyck_prefixes: [{}, {memory: none, controller: gru}]
ntm_copy: [{bits: 2}, {memory: {name: deque, width: 2}, embedding_size: null, input_bits: 2}]
svo_sov: [{}, {memory: none, controller: gru, hidden_size: 2}]
gender: [{}, {memory: none, controller: gru, hidden_size: 2}]
answer_double: [{}, {memory: none, controller: gru}]
answer_addition: [{}, {memory: none, controller: gru}]
answer_repeat_copy: [{symbols: 2, sequence_length: 2}, {memory: none, controller: gru}]
answer_priority_sort: [{symbols: 2}, {memory: none, controller: gru}]
anb2n: [{}, {memory: none, controller: gru}]
anbmc_sum: [{}, {memory: none, controller: gru}]
anbmc_product: [{letters: 4}, {memory: none, controller: gru}]
anbmcndm: [{}, {memory: none, controller: gru}]
binary_addition: [{}, {memory: none, controller: gru}]
dyck of words: [{name: dyck, kinds: 2, labels: word}, {memory: none, controller: gru}]
repeat_copy: [{bits: 2}, {memory: {name: deque, width: 2}, embedding_size: null, input_bits: 2}]
reversal: [{symbols: 2}, {memory: {name: nondeterministic_stack, states: 2, symbols: 2}}]
answer_copy: [{symbols: 3}, {memory: {name: lie_access, width: 2, group: poincare_disk,
  read_heads: 2, write_heads: 2}, read_only_token: 1}]
answer_odd_first: [{symbols: 3}, {memory: {name: ram, width: 2, key_size: 3, tape: true,
  initial: learned}, read_only_token: 1}]
""")


#: The layers without a controller or a memory whose traces the page shows.
BASELINES: Final[dict[str, Any]] = plain_yaml.load("""
deltanet: {name: deltanet, num_layers: 2, num_heads: 2}
deltaproduct: {name: deltaproduct, num_layers: 1, num_heads: 2, householder_steps: 2}
transformer: {name: transformer, num_layers: 2, num_heads: 2}
bidirectional: {name: transformer, num_layers: 1, num_heads: 2, bidirectional: true}
""")


def memory_of(part: dict[str, Any]) -> Memory[Any, Any]:
    return make_memory(part, 4)


def drawn_instructions(memory: Memory[Any, Any], seed: int) -> dict[str, torch.Tensor]:
    """Instructions in the ranges of their heads, [T, ...] each."""
    generator = torch.Generator().manual_seed(seed)
    return {
        head.name: ACTIVATIONS[head.activation](
            1.5 * torch.randn(STEPS, *head.shape, generator=generator, dtype=torch.float64)
        )
        for head in memory.heads
    }


def memory_results(
    memory: Memory[Any, Any], initial: dict[str, Any], instructions: dict[str, Any]
) -> dict[str, Any]:
    """Read vectors [T, R] and the flattened fields of the last state."""
    state = memory.State(*(_batch_of_one(numbers) for numbers in initial.values()))
    given = memory.Instruction(*(_batch_of_one(numbers) for numbers in instructions.values()))
    read_vectors, last = memory.unroll(given, state, backend="reference")
    fields = {
        field.name: tensor.flatten().tolist()
        for field, tensor in zip(memory.state_fields, last, strict=True)
    }
    return {"read_vectors": read_vectors[0].tolist(), "last": fields}


def model_logits(model: MemoryModel, tokens: list[int]) -> list[list[float]]:
    """The logits of each step, in float64."""
    with torch.no_grad():
        logits: list[list[float]] = model(torch.tensor([tokens]))[0][0].tolist()
    return logits


def model_of(options: dict[str, Any], seed: int) -> MemoryModel:
    torch.manual_seed(seed)
    model = MemoryModel(**{**_SIZES, **options}, backend="reference")
    return model.double().requires_grad_(False)


def memory_case(name: str, part: dict[str, Any], seed: int) -> dict[str, Any]:
    memory = memory_of(part)
    torch.manual_seed(seed)
    state = memory.initial_state(1, torch.float64)
    shapes, initial = {}, {}
    for field, tensor in zip(memory.state_fields, state, strict=True):
        shapes[field.name], initial[field.name] = list(tensor[0].shape), tensor[0].tolist()
    instructions = {key: value.tolist() for key, value in drawn_instructions(memory, seed).items()}
    own = {key: np.reshape(numbers, shapes[key]) for key, numbers in initial.items()}
    return {
        "name": name,
        "part": part,
        "memory": memory_data(memory),
        "shapes": shapes,
        "initial": initial,
        "instructions": instructions,
        **memory_results(memory, own, instructions),
    }


def model_case(name: str, options: dict[str, Any], seed: int) -> dict[str, Any]:
    model = model_of(options, seed)
    tokens = [0, 3, 2, 4, 3, 1, 1, 1]
    return {
        "name": name,
        "options": options,
        "model": model_data(model),
        "weights": packed_weights(model_tensors(model), "float64"),
        "tokens": tokens,
        "logits": model_logits(model, tokens),
    }


def task_case(name: str, options: dict[str, Any], model_options: dict[str, Any]) -> dict[str, Any]:
    """A run as stored in a page, and the output at each step of its first samples."""
    task = make_task(**{"name": name, **options})
    sizes = {"inputs": len(task.input_vocabulary), "outputs": len(task.output_vocabulary)}
    model = model_of({**sizes, **model_options}, 3)
    with torch.no_grad():  # so that random logits differ by more than rounding
        model.sequence.output.weight.mul_(8)
    shortest = task.train_lengths.minimum
    lengths = LengthRange(shortest, shortest + 3)
    run = run_data(model, task, name, lengths=lengths, weights="float64")
    run["samples"] = run["samples"][:3]
    return {
        "name": name,
        "run": run,
        "predicted": [output_tokens(model, task, s) for s in run["samples"]],
    }


def output_tokens(model: MemoryModel, task: Task, sample: dict[str, Any]) -> list[int]:
    """The output token of each step, with feedback or with the inputs of the sample."""
    predict = OBJECTIVES[task.objective].predict
    tokens = torch.tensor([sample["inputs"]])
    if not isinstance(task, TransductionTask) or task.layout != "pairs":
        with torch.no_grad():
            predicted: list[int] = predict(model(tokens)[0])[0].tolist()
        return predicted
    prompt = tokens[:, : sample["prompt"]]
    with torch.no_grad():
        before: list[int] = predict(model(prompt)[0])[0, :-1].tolist()
    most = len(sample["inputs"]) - sample["prompt"] + 1
    lengths = torch.tensor([prompt.shape[1]])
    answer = generate(model.sequence, prompt, lengths, task.output_to_input, task.end_token, most)
    return before + answer[0].tolist()


def traced_case() -> dict[str, Any]:
    """A run on a text as stored in a page: traces, and no weights."""
    with TemporaryDirectory() as folder:
        for split in ("train", "valid", "test"):
            (Path(folder) / f"{split}.txt").write_text("a b c d\nb a d c\n" * 12)
        task = make_task("text", data=folder)
        sizes = {"inputs": len(task.input_vocabulary), "outputs": len(task.output_vocabulary)}
        model = model_of({**sizes, "memory": {"name": "superposition_stack", "count": 2}}, 4)
        return run_data(model, task, "a text")


def baseline_case(controller: Any) -> dict[str, Any]:
    """A run of a baseline as stored in a page: two traces of samples, and no weights."""
    task = make_task("copy", symbols=3)
    sizes = {"inputs": len(task.input_vocabulary), "outputs": len(task.output_vocabulary)}
    options = {"hidden_size": 6, "memory": "none", "controller": controller}
    model = model_of({**sizes, **options}, 5)
    run = run_data(model, task, "a baseline", lengths=LengthRange(2, 4))
    return {**run, "traces": run["traces"][:2], "samples": run["samples"][:2]}


def write() -> None:
    memories = [memory_case(*case, seed) for seed, case in enumerate(MEMORIES.items())]
    models = [model_case(*case, seed) for seed, case in enumerate(MODELS.items())]
    tasks = [task_case(name, *options) for name, options in TASKS.items()]
    for name, cases in (("memories", memories), ("models", models), ("tasks", tasks)):
        text = "[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n"
        # JSON has no infinity; both languages read this number as one.
        text = text.replace("-Infinity", "-1e999")
        (FOLDER / f"{name}.json").write_text(text, encoding="utf-8")
    runs = {name: baseline_case(controller) for name, controller in BASELINES.items()}
    (FOLDER / "baselines.json").write_text(json.dumps(runs) + "\n", encoding="utf-8")
    (FOLDER / "traces.json").write_text(json.dumps(traced_case()) + "\n", encoding="utf-8")


def _batch_of_one(numbers: Any) -> torch.Tensor:
    return torch.tensor(np.asarray(numbers), dtype=torch.float64).unsqueeze(0)


if __name__ == "__main__":
    write()
