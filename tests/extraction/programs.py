"""An extracted program, which runs without this library and without torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from unbounded.extraction import Extraction, program_of
from unbounded.models import MemoryModel
from unbounded.tasks import Batch


def assert_program_equals(
    extraction: Extraction, model: MemoryModel, strings: Batch, path: Path
) -> None:
    """Check that program and network have the same outputs at the judged steps."""
    path.write_text(program_of(extraction.automaton, "a machine", extraction.shortest))
    logits, _ = model(strings.inputs)
    output = (logits[..., 0] > 0).long() if logits.shape[-1] == 1 else logits.argmax(-1)
    for row, length in enumerate(strings.lengths.tolist()):
        arguments = [f"#{token}" for token in strings.inputs[row, :length].tolist()]
        command = [sys.executable, "-I", "-S", str(path), *arguments]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
        outputs = [line.split("\t")[-1] for line in ran.stdout.splitlines()]
        for place in strings.mask[row].nonzero()[:, 0].tolist():
            assert outputs[place] == extraction.automaton.outputs[int(output[row, place])]
