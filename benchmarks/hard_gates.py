"""Which gates of a trained run must stay soft: `python benchmarks/hard_gates.py RUN...`.

Each kind of gate, then all of them, is made hard in the trained model. A row shows the share of
correct sequences of one length, and the share of gates between 0.3 and 0.7 from the fourth step on.
"""

from __future__ import annotations

import argparse
import copy
from importlib import import_module

import torch

from unbounded.experiments.config.check import build_task
from unbounded.experiments.run.run_folder import RunFolder
from unbounded.models.discrete import sequence_model
from unbounded.tasks import LengthRange

#: A factor of a gate's logit that makes the gate 0 or 1.
HARD = 2.0**40


def main() -> None:
    """Print a table for each run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--length", type=int, default=30)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--import", dest="module", help="the module of a custom memory")
    given = parser.parse_args()
    if given.module:
        import_module(given.module)
    for name in given.runs:
        folder = RunFolder.find(name)
        task = build_task(folder.config())
        model = folder.load_model(False)[0].eval()
        batch = task.batch(1, "test", 0, given.count, LengthRange(given.length, given.length))

        def correct(kinds: list[str], model=model, batch=batch) -> float:
            hard = copy.deepcopy(model)
            heads = sequence_model(hard).layer.layers[0].heads
            with torch.no_grad():
                for kind in kinds:
                    rows = heads.rows(kind)
                    heads.weight[rows] *= HARD
                    if heads.bias is not None:
                        heads.bias[rows] *= HARD
                found = hard(batch.inputs)[0].argmax(-1)
            return float(((found == batch.targets) | ~batch.mask).all(1).float().mean())

        network = sequence_model(model)
        gates = [head.name for head in network.layer.memory.heads if head.can_harden]
        with torch.no_grad():
            inputs = network.embed(batch.inputs)
            trace = network.layer(inputs, lengths=batch.lengths, return_trace=True)[2]
        print(f"{folder}\n  {'as trained':<16} correct {correct([]):.2f}")
        for gate in gates:
            values = torch.as_tensor(trace.arrays[f"instruction.{gate}"])[:, 3:]
            soft = float(((values > 0.3) & (values < 0.7)).float().mean())
            print(f"  {gate:<16} correct {correct([gate]):.2f}  soft {soft:.2f}")
        print(f"  {'all':<16} correct {correct(gates):.2f}")


if __name__ == "__main__":
    main()
