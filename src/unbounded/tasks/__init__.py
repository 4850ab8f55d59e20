"""Tasks: samplers, vocabularies and batches. Tasks do not depend on models."""

from unbounded.tasks.algorithmic import BinaryAddition, Counting, Memorization
from unbounded.tasks.associative_queries import AssociativeQueries
from unbounded.tasks.batch import Batch, chunks
from unbounded.tasks.bit_tasks import AssociativeRecall, BitCopy, BitTask, RepeatCopy
from unbounded.tasks.derivation import GrammarPairs
from unbounded.tasks.dyck import DyckMembership, DyckPrefixes
from unbounded.tasks.dynamic_ngrams import DynamicNGrams, optimal_probabilities
from unbounded.tasks.grammar import GENDER, SVO_SOV, Grammar, Rule, WordClass
from unbounded.tasks.lengths import LengthRange
from unbounded.tasks.pair_file import FilePairs
from unbounded.tasks.penn_treebank import read_penn_treebank
from unbounded.tasks.program_task import Program, ProgramTask, check_program
from unbounded.tasks.questions import QuestionSource, QuestionTask
from unbounded.tasks.randomness import SPLITS, Stream
from unbounded.tasks.recognition import Recognition
from unbounded.tasks.registry import TASKS, make_task, task_factory
from unbounded.tasks.stack_languages import LanguageModel
from unbounded.tasks.state_tracking import WordProblem
from unbounded.tasks.streams import JudgedStreams, Sequences, SequenceSource, StreamTask
from unbounded.tasks.symbols import Added, Doubled, PrioritySort, RandomSymbols, RepeatedSymbols
from unbounded.tasks.task import LAYOUTS, Example, Task
from unbounded.tasks.text import TextTask, read_text
from unbounded.tasks.transduction import Pairs, PairSource, Prompt, TransductionTask

__all__ = [
    "GENDER",
    "LAYOUTS",
    "SPLITS",
    "SVO_SOV",
    "TASKS",
    "Added",
    "AssociativeQueries",
    "AssociativeRecall",
    "Batch",
    "BinaryAddition",
    "BitCopy",
    "BitTask",
    "Counting",
    "Doubled",
    "DyckMembership",
    "DyckPrefixes",
    "DynamicNGrams",
    "Example",
    "FilePairs",
    "Grammar",
    "GrammarPairs",
    "JudgedStreams",
    "LanguageModel",
    "LengthRange",
    "Memorization",
    "PairSource",
    "Pairs",
    "PrioritySort",
    "Program",
    "ProgramTask",
    "Prompt",
    "QuestionSource",
    "QuestionTask",
    "RandomSymbols",
    "Recognition",
    "RepeatCopy",
    "RepeatedSymbols",
    "Rule",
    "SequenceSource",
    "Sequences",
    "Stream",
    "StreamTask",
    "Task",
    "TextTask",
    "TransductionTask",
    "WordClass",
    "WordProblem",
    "check_program",
    "chunks",
    "make_task",
    "optimal_probabilities",
    "read_penn_treebank",
    "read_text",
    "task_factory",
]
