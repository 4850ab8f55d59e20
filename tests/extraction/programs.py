"""An extracted program, which runs without this library and without torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from unbounded.extraction import Extraction, program_of
from unbounded.models import MemoryModel
from unbounded.tasks import Batch


def assert_program_equals(
    extraction: Extraction, model: MemoryModel, words: Batch, path: Path
) -> None:
    """Check that the program says at the judged steps of words what the network says."""
    path.write_text(program_of(extraction.automaton, "a machine", extraction.shortest))
    logits, _ = model(words.inputs)
    says = (logits[..., 0] > 0).long() if logits.shape[-1] == 1 else logits.argmax(-1)
    for row, length in enumerate(words.lengths.tolist()):
        arguments = [f"#{token}" for token in words.inputs[row, :length].tolist()]
        command = [sys.executable, "-I", "-S", str(path), *arguments]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
        outputs = [line.split("\t")[-1] for line in ran.stdout.splitlines()]
        for place in words.mask[row].nonzero()[:, 0].tolist():
            assert outputs[place] == extraction.automaton.outputs[int(says[row, place])]
