"""What to learn: samplers, vocabularies and batches. A task knows no model."""

from unbounded.tasks.addition import BinaryAddition
from unbounded.tasks.batch import Batch, pieces
from unbounded.tasks.counting import Counting
from unbounded.tasks.derivation import GrammarPairs
from unbounded.tasks.grammar import Grammar, Rule, WordClass
from unbounded.tasks.grammars import GENDER, SVO_SOV
from unbounded.tasks.lengths import LengthRange
from unbounded.tasks.memorization import Memorization
from unbounded.tasks.penn_treebank import PennTreebank
from unbounded.tasks.randomness import SPLITS, Stream
from unbounded.tasks.registry import TASKS, make_task
from unbounded.tasks.streams import JudgedStreams, Sequences, SequenceSource, StreamTask
from unbounded.tasks.symbols import RandomSymbols
from unbounded.tasks.task import Example, Task
from unbounded.tasks.transduction import Pairs, PairSource, Prompt, TransductionTask

__all__ = [
    "GENDER",
    "SPLITS",
    "SVO_SOV",
    "TASKS",
    "Batch",
    "BinaryAddition",
    "Counting",
    "Example",
    "Grammar",
    "GrammarPairs",
    "JudgedStreams",
    "LengthRange",
    "Memorization",
    "PairSource",
    "Pairs",
    "PennTreebank",
    "Prompt",
    "RandomSymbols",
    "Rule",
    "SequenceSource",
    "Sequences",
    "Stream",
    "StreamTask",
    "Task",
    "TransductionTask",
    "WordClass",
    "make_task",
    "pieces",
]
