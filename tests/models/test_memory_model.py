"""MemoryModel: sizes of the papers, any memory, saving, streams, bad input."""

from __future__ import annotations

import json
import math
import re

import pytest
import torch

import unbounded as ub
from tests.constructions import stream_model
from tests.tolerances import assert_close
from unbounded.memories import MEMORIES
from unbounded.models import MemoryModel
from unbounded.models.model_parts import memory_errors

#: Weight counts: U + R + V for d symbols and m units, A + D + P for the stacks.
SIZES = [
    ({}, 2160),
    ({"noop": True}, 2160 + 400),
    ({"recurrent": True}, 2160 + 1600),
    ({"hidden_size": 20, "count": 2, "depth": 1}, 40 + 40 + 80 + 40 + 40),
    ({"memory": "superposition_list", "count": 5}, 80 + 80 + 5 * 40 * 3 + 200 + 400),
    ({"memory": "none", "recurrent": True}, 80 + 80 + 1600),
    ({"memory": "none", "controller": "lstm", "hidden_size": 50}, 4 * 50 * 52 + 200 + 100),
    (
        {"memory": "none", "controller": "lstm", "hidden_size": 50, "layers": 2},
        4 * 50 * 52 + 200 + 4 * 50 * 100 + 200 + 100,
    ),
    # A, B, P, R, then U and V of the output.
    ({"memory": "none", "controller": "srcn"}, 80 + 80 + 40 * 40 + 40 * 40 + 80 + 80),
    (
        {"memory": "none", "controller": "srcn", "hidden_size": 30, "context_size": 10},
        60 + 20 + 300 + 900 + 60 + 20,
    ),
]


@pytest.mark.parametrize(("options", "size"), SIZES)
def test_sizes(options, size):
    model = stream_model(vocabulary=2, **options)
    assert sum(p.numel() for p in model.parameters() if p.requires_grad) == size


@pytest.mark.parametrize("options", [options for options, _ in SIZES] + [{"controller": "gru"}])
def test_chunks_with_carried_state_equal_one_call(options, tmp_path):
    torch.manual_seed(0)
    model = stream_model(vocabulary=2, backend="reference", **options)
    tokens = torch.randint(2, (3, 11), generator=torch.Generator().manual_seed(1))
    full, _ = model(tokens)
    chunks, state = [], None
    for chunk in tokens.split(4, dim=1):
        logits, state = model(chunk, ub.detach_state(state) if state is not None else None)
        chunks.append(logits)
    assert_close(torch.cat(chunks, dim=1), full, "logits")
    ragged, _ = model(tokens, lengths=torch.tensor([11, 4, 1]))
    assert_close(ragged[1, :4], full[1, :4], "logits of a shorter one")
    model.save_pretrained(tmp_path)
    assert torch.equal(MemoryModel.from_pretrained(tmp_path)(tokens)[0], full)


def test_the_plain_network_is_equation_1():
    torch.manual_seed(0)
    model = stream_model(vocabulary=3, memory="none", recurrent=True, hidden_size=4).double()
    tokens = torch.tensor([[0, 2, 1]])
    logits, _ = model(tokens)
    u, r = model.sequence.layer.controller.weight_ih, model.sequence.layer.controller.weight_hh
    h = torch.zeros(4, dtype=torch.float64)
    for t, token in enumerate(tokens[0].tolist()):
        h = torch.sigmoid(u[:, token] + r @ h)
        assert_close(logits[0, t], model.sequence.output.weight @ h, f"step {t}")


@pytest.mark.parametrize("controller", ["lstm", "gru", "elman"])
@pytest.mark.parametrize("memory", ["none", *MEMORIES])
@pytest.mark.parametrize("embedding_size", [None, 3])
def test_any_memory_goes_with_any_controller_and_input(memory, controller, embedding_size):
    model = MemoryModel(
        inputs=5,
        outputs=4,
        memory=memory,
        controller=controller,
        hidden_size=6,
        embedding_size=embedding_size,
        readout_size=None if memory == "none" else 2,
        learn_initial_state=True,
    )
    logits, _ = model(torch.randint(5, (2, 7)))
    assert logits.shape == (2, 7, 4)
    logits.sum().backward()
    learned = [name for name, _ in model.named_parameters() if "initial" in name]
    assert learned
    again = MemoryModel(**json.loads(json.dumps(model.config)))
    again.load_state_dict(model.state_dict())


def test_required_sizes_default_to_the_controllers_width():
    def memory_of(memory):
        return MemoryModel(inputs=2, outputs=2, memory=memory, hidden_size=6).sequence.layer.memory

    assert memory_of("queue").width == 6
    assert memory_of({"name": "queue", "width": 9}).width == 9
    assert memory_of("superposition_list").count == 10


BAD = [
    ({"memory": "quue"}, "unknown memory 'quue'. Did you mean 'queue'?"),
    ({"memory": {"name": "queue", "widht": 3}}, "has no option 'widht'. Did you mean 'width'?"),
    ({"memory": {"name": "queue", "width": "3"}}, "width: expected an integer, got '3'"),
    ({"memory": {"name": "queue", "pop_bias": math.nan}}, "pop_bias: expected a finite number"),
    ({"memory": "heaps.Heap"}, "memory 'heaps.Heap' is a custom component of package heaps."),
    ({"memory": {"name": "none", "width": 3}}, "memory 'none' has no option 'width'"),
    ({"memory": "none", "readout_size": 3}, "readout_size: a layer without a memory"),
    ({"controller": "rnn"}, "unknown controller 'rnn'"),
    ({"controller": {"lstm"}}, "unknown controller {'lstm'}. Did you mean 'lstm'"),
    ({"controller": ["gru"], "memory": "none"}, "unknown controller ['gru']"),
    ({"controller": {"name": "lstm", "num_layers": 2}}, "'lstm' has no option 'num_layers'"),
    ({"controller": "srcn"}, "srcn: expected no memory, got 'queue'; give"),
    ({"controller": "deltanett"}, "unknown controller 'deltanett'. Did you mean 'deltanet'?"),
    ({"memory": "none", "controller": "scrn"}, "Did you mean 'srcn'?"),
    ({"memory": "none", "controller": {"name": "elman", "recurrent": False}}, "recurrent: without"),
    ({"controller": {"name": "elman", "activation": "tan"}}, "Did you mean 'tanh'?"),
    ({"embedding_size": 3, "symbol_initialization": "normal"}, "embeddings are drawn from N(0, 1)"),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_bad_input(options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        MemoryModel(inputs=2, outputs=2, **options)


def test_errors_of_a_component_are_collected():
    part = {"name": "superposition_stack", "count": "x", "noop": 3, "depht": 2}
    assert len(memory_errors(part, 4)) == 3
    part = {"name": "superposition_stack", "depth": 9, "capacity": 3, "overflow": "drop_bottom"}
    assert memory_errors(part, 4) == ["capacity: expected an integer >= depth = 9 or None, got 3"]
