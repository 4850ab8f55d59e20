"""A MemoryRNN in the wrappers of large trainings: sharded, and with activation checkpointing."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.utils.checkpoint import checkpoint

import unbounded as ub


def build() -> tuple[ub.MemoryRNN, torch.Tensor]:
    torch.manual_seed(0)
    layer = ub.MemoryRNN(3, 5, ub.NeuralStack(4))
    return layer, torch.randn(6, 2, 3)


def gradients(layer: ub.MemoryRNN) -> dict[str, torch.Tensor]:
    return {name: weight.grad for name, weight in layer.named_parameters()}


@pytest.mark.filterwarnings("ignore:FSDP2-wrapped module")  # the output is a view, as nn.LSTM's is
def test_fully_shard_on_one_process(tmp_path) -> None:
    """FSDP2: output and gradients equal those without it, and a step changes the weights."""
    alone, x = build()
    alone(x)[0].square().sum().backward()
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        mesh = dist.init_device_mesh("cpu", (1,))
        sharded, _ = build()
        fully_shard(sharded, mesh=mesh)
        output, _ = sharded(x)
        torch.testing.assert_close(output, alone(x)[0])
        output.square().sum().backward()
        for name, gradient in gradients(sharded).items():
            full = gradient.full_tensor()
            torch.testing.assert_close(full, gradients(alone)[name], msg=name)
        torch.optim.SGD(sharded.parameters(), lr=0.1).step()
        assert not torch.allclose(sharded(x)[0], output)
    finally:
        dist.destroy_process_group()


def test_activation_checkpointing() -> None:
    """Recomputation in the backward pass gives the same gradients."""
    alone, x = build()
    alone(x)[0].square().sum().backward()
    again, _ = build()
    output = checkpoint(lambda inputs: again(inputs)[0], x, use_reentrant=False)
    output.square().sum().backward()
    for name, gradient in gradients(again).items():
        torch.testing.assert_close(gradient, gradients(alone)[name], rtol=0, atol=0, msg=name)
