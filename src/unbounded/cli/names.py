"""Names of tasks, memories and other choices, as text, so that torch need not be imported."""

from __future__ import annotations

from typing import Final

#: For each kind, the names with the first line of their docstrings.
NAMES: Final[dict[str, dict[str, str]]] = {
    "tasks": {
        "copy": "Copy the source: a_1 ... a_k to a_1 ... a_k.",
        "reversal": "Reverse the source: a_1 ... a_k to a_k ... a_1.",
        "bigram_flip": "Swap the two symbols of each pair: a_1 a_2 a_3 a_4 ... to a_2 a_1 a_4 a_3 "
        "...",
        "svo_sov": "Move the verb: subject-verb-object to subject-object-verb, with relative "
        "clauses.",
        "gender": "Translate English nouns to German, where the article shows the gender.",
        "pairs": "Map sources to targets, for your own pairs from a file (--data FILE).",
        "answer_copy": "Copy the source; only the end symbol is fed while answering.",
        "answer_reverse": "Reverse the source; only the end symbol is fed while answering.",
        "answer_bigram_flip": "Swap the two symbols of each of k pairs; only the end symbol is "
        "fed while answering.",
        "answer_odd_first": "Output the first, third, fifth ... of 2k symbols, then the other "
        "symbols.",
        "answer_double": "Double a number of k digits. The answer has k + 1 digits, the lowest "
        "digit first.",
        "answer_addition": "Add two numbers of k digits. The digits alternate between them, the "
        "lowest digits first.",
        "answer_repeat_copy": "Copy symbols N times; N is the number of marks before the symbols.",
        "answer_priority_sort": "Sort k symbols by the number of marks before each symbol.",
        "programs": "Output what a small program prints, its last digit first.",
        "small_loops": "Output what a program with only small loops prints, its last digit first.",
        "anbn": "Count: sequences a^n b^n, one after the other.",
        "anbncn": "Count twice: a^n b^n c^n.",
        "anbncndn": "Count three times: a^n b^n c^n d^n.",
        "anb2n": "Count in steps: a^n b^(2n).",
        "anbmc_sum": "Add in unary: a^n b^m c^(n+m); lengths are n + m.",
        "anbmc_product": "Multiply in unary: a^n b^m c^(n m); lengths are n + m.",
        "anbmcndm": "Count two crossed: a^n b^m c^n d^m; lengths are n + m.",
        "memorization": 'Reverse: n symbols, "=", the symbols from the last to the first.',
        "binary_addition": "Add in binary: 101+1=011. with the sum's lowest digit first; lengths "
        "are digits in all.",
        "dyck_prefixes": "Label whether each prefix of a bracket string is balanced.",
        "dyck": "Classify balanced words as Dyck words or not. A word of length n has 2n symbols.",
        "ntm_copy": "Copy bit vectors after a delimiter.",
        "repeat_copy": "Copy bit vectors a given number of times, and then output the end symbol.",
        "associative_recall": "Recall the item that came after the queried one; an item is three "
        "bit vectors.",
        "vector_priority_sort": "Output the bit vectors of highest priority, in the order of their "
        "priorities.",
        "dynamic_ngrams": "Predict bits of an N-gram source that is new in each sequence.",
        "penn_treebank": "Predict the next word of Penn Treebank. The project does not distribute "
        "the text.",
        "text": "Predict the next word of your own text, from a folder (--data FOLDER).",
        "even_pairs": "Decide whether the number of neighbours that differ is odd.",
        "modular_arithmetic": "Compute digits and operators modulo 5, where * binds more strongly.",
        "parity_check": "Decide whether the number of ones is odd.",
        "cycle_navigation": "Move on a cycle of five places, and output the last place.",
        "modular_arithmetic_brackets": "Compute an expression with brackets modulo 5.",
        "reverse_string": "Reverse a string of bits, without feedback.",
        "solve_equation": "Find the digit x of an equation with brackets modulo 5.",
        "stack_manipulation": "Push and pop according to the source, and output the final stack.",
        "duplicate_string": "Output a string of bits twice.",
        "missing_duplicate_string": "Output the symbol that is hidden in a doubled string.",
        "odds_first": "Output the first, third, fifth ... bit, then the other bits.",
        "chomsky_binary_addition": "Add two binary numbers of any lengths, the lowest bit first.",
        "binary_multiplication": "Multiply two binary numbers, the lowest bit first.",
        "compute_sqrt": "Output the floored square root of a binary number.",
        "bucket_sort": "Sort a string of five symbols.",
        "word_problem": "Output the product of each prefix of a string of group elements.",
        "next_parity": "Predict the token after a string of bits, which is the parity of the "
        "string.",
        "next_cycle_navigation": "Predict the token after moves on a cycle of five places, which "
        "is the last place.",
        "next_modular_arithmetic": "Predict the token after digits and operators, which is the "
        "value modulo 5.",
        "flare": "Recognise the strings of a formal language.",
        "stack_language": "Predict the strings of a language that needs a stack, or more.",
        "mqar": "Recall the values of keys that appear again among other symbols.",
    },
    "memories": {
        "none": "No memory: the controller alone, or a deep LSTM.",
        "stack": "A stack of vectors whose pushes and pops have a strength between 0 and 1.",
        "queue": "A queue of vectors whose pushes and pops have a strength between 0 and 1.",
        "deque": "A double-ended queue of vectors whose pushes and pops have a strength between 0 "
        "and 1.",
        "quiet_deque": "A deque whose initial bias makes pushes at the bottom weak, so that it can "
        "learn copying.",
        "superposition_stack": "Stacks of numbers or vectors. Each cell is the mean of the "
        "results of PUSH, POP and NO-OP.",
        "superposition_list": "Lists over all integer places; HEAD stays in the middle and the "
        "list moves.",
        "turing_tape": "N locations of M numbers with R read heads and W write heads, all of them "
        "soft.",
        "rolling_tape": "K rings of N cells of W numbers, which move under a fixed head.",
        "nondeterministic_stack": "A stack in all states that a weighted pushdown automaton can "
        "reach.",
        "dnc": "N slots of M numbers. One head allocates and writes slots, and R heads read and "
        "free them.",
        "lie_access": "Rows with key, value and strength. Heads move over the keys by actions of "
        "a Lie group.",
        "ram": "Rows with key, value and strength, read by the inner product of keys. No head "
        "moves.",
    },
    "controllers": {
        "lstm": "An LSTM cell with one bias per gate, as in the paper's parameter counts.",
        "gru": "A GRU cell with the two biases of torch.nn.GRU.",
        "elman": "A simple recurrent network, or a feed-forward layer with `recurrent=False`.",
        "srcn": "Hidden units h and context units s, each of which is a slowly decaying sum of the "
        "inputs.",
        "transformer": "A Transformer whose steps attend to themselves and earlier steps, or "
        "optionally to all.",
        "deltanet": "A linear memory with one matrix per head, in which the delta rule replaces a "
        "key's value.",
        "deltaproduct": "A DeltaNet that applies several steps of the delta rule to its matrices "
        "for each input.",
    },
    "stop_rules": {
        "solved": "Stop when `count` new validation sequences are correct at each of `times` "
        "checks in a row.",
        "converged": "Stop when training perplexity has stayed at or below a bound for several "
        "reports.",
        "budget": "Stop only when the budget is used up.",
    },
    "early_aborts": {
        "none": "Never abort a run early.",
        "perplexity": "Stop if training perplexity is still high at some batch, because early "
        "failure is cheaper.",
    },
    "curricula": {
        "none": "Use all lengths of the training range in each batch.",
        "growing": "Start with the shortest length, and add the next length after every `every` "
        "batches.",
        "doubling": "Start with short lengths, and double the longest length whenever the loss is "
        "low enough.",
        "one_length": "Draw one length for all sequences of a batch, uniformly.",
    },
    "plateaus": {
        "none": "The learning rate does not depend on validation.",
        "halve": "Keeps a backup of the best weights and lowers the learning rate.",
    },
    "temperature_noises": {
        "none": "Keep the original inverse temperature of the gates in every step.",
        "doubling": "Sharpens a model's gates and its controller's units during a gradient step.",
    },
    "hardenings": {
        "none": "Keep the trained model as it is.",
        "gradual": "Hardening after training: the memory's gates are driven to 0 or 1.",
    },
    "optimizers": {
        "rmsprop": "",
        "adam": "",
        "sgd": "",
        "adagrad": "",
        "adadelta": "",
        "adafactor": "",
        "adamax": "",
        "adamw": "",
        "asgd": "",
        "nadam": "",
        "radam": "",
        "rprop": "",
    },
    "schedules": {
        "constant": "Keep the learning rate constant.",
        "linear": "Let the learning rate decay linearly, to 0 at the end of the budget.",
        "cooldown": "Keep the learning rate constant until the run would stop, then let it decay "
        "linearly to 0.",
        "decay": "Keep the learning rate constant at first, then multiply it by a factor "
        "repeatedly.",
    },
    "papers": {
        "grefenstette2015": "Learning to Transduce with Unbounded Memory (Neural Stack, Queue, "
        "DeQue)",
        "joulin2015": "Inferring Algorithmic Patterns with Stack-Augmented Recurrent Nets (Stack "
        "RNN)",
        "deleu2016": "Learning Operations on a Stack with Neural Turing Machines (Dyck words)",
        "graves2014": "Neural Turing Machines (copy, repeat copy, associative recall)",
        "yang2016": "Lie Access Neural Turing Machine (permutations, arithmetic, programs, words)",
        "chomsky15": "Neural Networks and the Chomsky Hierarchy (fifteen tasks), with every memory",
        "flare18": "Training Neural Networks as Recognizers of Formal Languages, with every memory",
        "known": "Memories of later papers on tasks they are known for (VRNS, DNC, DeltaProduct)",
        "matrix": "Every memory on every algorithmic task at one budget (of no paper)",
        "exact": "Networks hardened to be correct at 100 times the training length (of no paper)",
    },
}

#: The tasks by family. Each task occurs once.
FAMILIES: Final[dict[str, tuple[str, ...]]] = {
    "sources and targets (Grefenstette et al. 2015)": (
        "copy",
        "reversal",
        "bigram_flip",
        "svo_sov",
        "gender",
    ),
    "answers without feedback (Yang 2016; Yang & Rush 2017)": (
        "answer_copy",
        "answer_reverse",
        "answer_bigram_flip",
        "answer_odd_first",
        "answer_double",
        "answer_addition",
        "answer_repeat_copy",
        "answer_priority_sort",
    ),
    "programs (Zaremba & Sutskever 2014)": ("programs", "small_loops"),
    "streams (Joulin & Mikolov 2015)": (
        "anbn",
        "anbncn",
        "anbncndn",
        "anb2n",
        "anbmc_sum",
        "anbmc_product",
        "anbmcndm",
        "memorization",
        "binary_addition",
        "penn_treebank",
    ),
    "brackets (Deleu & Dureau 2016)": ("dyck_prefixes", "dyck"),
    "bits (Graves et al. 2014)": (
        "ntm_copy",
        "repeat_copy",
        "associative_recall",
        "vector_priority_sort",
        "dynamic_ngrams",
    ),
    "the Chomsky hierarchy (Delétang et al. 2023)": (
        "even_pairs",
        "modular_arithmetic",
        "parity_check",
        "cycle_navigation",
        "modular_arithmetic_brackets",
        "reverse_string",
        "solve_equation",
        "stack_manipulation",
        "duplicate_string",
        "missing_duplicate_string",
        "odds_first",
        "chomsky_binary_addition",
        "binary_multiplication",
        "compute_sqrt",
        "bucket_sort",
    ),
    "state tracking (Merrill et al. 2024; Beck et al. 2024)": (
        "word_problem",
        "next_parity",
        "next_cycle_navigation",
        "next_modular_arithmetic",
    ),
    "recognition (Butoi et al. 2025)": ("flare",),
    "language modelling (DuSell & Chiang 2020, 2023)": ("stack_language",),
    "associative recall (Arora et al. 2023)": ("mqar",),
    "your own data": ("pairs", "text"),
}

#: The options of a config whose value is a component, by kind.
PLACES: Final = {
    "tasks": "task",
    "memories": "model.memory",
    "controllers": "model.controller",
    "optimizers": "training.optimizer",
    "schedules": "training.schedule",
    "stop_rules": "training.stop",
    "early_aborts": "training.early_abort",
    "temperature_noises": "training.temperature_noise",
    "curricula": "training.curriculum",
    "plateaus": "training.plateau",
    "hardenings": "hardening",
}
