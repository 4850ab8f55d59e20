"""What to learn: samplers, vocabularies and batches. A task knows no model."""

from unbounded.tasks.batch import Batch
from unbounded.tasks.lengths import LengthRange
from unbounded.tasks.randomness import SPLITS, Stream
from unbounded.tasks.registry import TASKS, make_task
from unbounded.tasks.symbols import RandomSymbols
from unbounded.tasks.task import Example, Task
from unbounded.tasks.transduction import Pairs, PairSource, Prompt, TransductionTask

__all__ = [
    "SPLITS",
    "TASKS",
    "Batch",
    "Example",
    "LengthRange",
    "PairSource",
    "Pairs",
    "Prompt",
    "RandomSymbols",
    "Stream",
    "Task",
    "TransductionTask",
    "make_task",
]
