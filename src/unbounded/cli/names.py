"""What can be chosen by name, as text: nothing that needs torch is imported to list it."""

from __future__ import annotations

from typing import Final

#: By kind: each name with what it is, the first line of the docstring of what it stands for.
NAMES: Final[dict[str, dict[str, str]]] = {
    "tasks": {
        "copy": "Say the source again: a_1 ... a_k to a_1 ... a_k.",
        "reversal": "Say the source backwards: a_1 ... a_k to a_k ... a_1.",
        "bigram_flip": "Swap the two symbols of each pair: a_1 a_2 a_3 a_4 ... to a_2 a_1 "
        "a_4 a_3 ...",
        "svo_sov": "Move the verb: subject-verb-object to subject-object-verb, with "
        "relative clauses.",
        "gender": "Put English nouns into German, where the article shows the gender.",
        "pairs": "Say the target of a source: pairs of your own, from a file (--data FILE).",
        "answer_copy": "Say the source again, fed only the end symbol while answering.",
        "answer_reverse": "Say the source backwards, fed only the end symbol while answering.",
        "answer_bigram_flip": "Swap the two symbols of each of k pairs, fed only the end symbol "
        "while answering.",
        "answer_odd_first": "Say the first, third, fifth ... of 2k symbols, then the others.",
        "answer_double": "Say twice a number of k digits in k + 1 digits, the lowest digit first.",
        "answer_addition": "Add two numbers of k digits that come in turns, the lowest digits "
        "first.",
        "answer_repeat_copy": "Say symbols N times over, N being the number of marks before them.",
        "answer_priority_sort": "Sort k symbols by the number of marks before each.",
        "programs": "Say what a small program prints, its last digit first.",
        "small_loops": "Say what a program of small loops alone prints, its last digit first.",
        "anbn": "Count: a^n b^n, one after the other.",
        "anbncn": "Count twice: a^n b^n c^n.",
        "anbncndn": "Count three times: a^n b^n c^n d^n.",
        "anb2n": "Count in steps: a^n b^(2n).",
        "anbmc_sum": "Add in unary: a^n b^m c^(n+m); lengths are n + m.",
        "anbmc_product": "Multiply in unary: a^n b^m c^(n m); lengths are n + m.",
        "anbmcndm": "Count two crossed: a^n b^m c^n d^m; lengths are n + m.",
        "memorization": 'Say it backwards: n symbols, "=", the symbols from the last to the first.',
        "binary_addition": "Add in binary: 101+1=011. with the sum's lowest digit first; "
        "lengths are digits in all.",
        "dyck_prefixes": "Say at each bracket whether all brackets so far are balanced.",
        "dyck": "Say whether a balanced word is a Dyck word; its length is n of 2n symbols.",
        "ntm_copy": "Say bit vectors again, after a delimiter.",
        "repeat_copy": "Say bit vectors again as often as a number says, and then the end.",
        "associative_recall": "Say the item that came after the one asked for; an item is "
        "three bit vectors.",
        "penn_treebank": "Predict the next word of Penn Treebank; the project ships no text.",
        "text": "Predict the next word of a text of your own, from a folder (--data FOLDER).",
    },
    "memories": {
        "none": "No memory: the controller alone, or a deep LSTM.",
        "stack": "A stack of vectors whose pushes and pops have a strength between 0 and 1.",
        "queue": "A queue of vectors whose pushes and pops have a strength between 0 and 1.",
        "deque": "A double-ended queue of vectors whose pushes and pops have a "
        "strength between 0 and 1.",
        "quiet_deque": "A deque whose bottom is pushed little at first, so that copying "
        "can be learned.",
        "superposition_stack": "Stacks of numbers; every cell is the mean of what PUSH, POP and "
        "NO-OP would leave there.",
        "superposition_list": "Lists of numbers over all integer places; HEAD stays in the "
        "middle and the list moves.",
        "turing_tape": "N locations of M numbers with R read heads and W write heads, all of "
        "them soft.",
        "lie_access": "Rows of a key, a value and a strength; heads move over the keys by "
        "actions of a Lie group.",
    },
    "controllers": {
        "lstm": "An LSTM cell with one bias a gate, which is what the paper's "
        "parameter counts need.",
        "gru": "A GRU cell with the two biases of torch.nn.GRU.",
        "elman": "A simple recurrent network, or with `recurrent=False` a feed-forward layer.",
        "srcn": "Hidden units h and context units s, each of which is a slowly decaying sum "
        "of the inputs.",
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
        "constant": "",
        "linear": "",
        "tail": "",
    },
    "papers": {
        "grefenstette2015": "Learning to Transduce with Unbounded Memory (Neural Stack, Queue, "
        "DeQue)",
        "joulin2015": "Inferring Algorithmic Patterns with Stack-Augmented Recurrent Nets "
        "(Stack RNN)",
        "deleu2016": "Learning Operations on a Stack with Neural Turing Machines (Dyck words)",
        "graves2014": "Neural Turing Machines (copy, repeat copy, associative recall)",
        "yang2016": "Lie Access Neural Turing Machine (permutations, arithmetic, programs, words)",
        "matrix": "Every memory on every algorithmic task at one budget (of no paper)",
        "exact": "Networks made right at a hundred times the training length (of no paper)",
    },
}
