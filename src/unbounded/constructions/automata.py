"""Constructed networks for finite automata, and for stacks and queues that answer without feedback.

The tasks are from Delétang et al. 2023, arXiv:2207.02098, Merrill et al. 2024, arXiv:2404.08819,
and Butoi et al. 2025, arXiv:2411.07107. The networks are not from these papers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from unbounded.constructions.assembly import LOGIT, ONE, Terms, Unit, assemble, either, is_on
from unbounded.constructions.counting import on_stacks
from unbounded.constructions.guessing import unmarked_reversal
from unbounded.errors import ConfigError
from unbounded.models.memory_model import MemoryModel
from unbounded.tasks import QuestionTask, Recognition, WordProblem, make_task
from unbounded.tasks.chomsky import MODULUS
from unbounded.tasks.languages import Counted
from unbounded.tasks.questions import ANSWER

#: Greatest number of states of an automaton.
_MOST_STATES = 10_000


def automaton(
    inputs: Sequence[str],
    start: Hashable,
    step: Callable[[Any, int], Any],
    outputs: Callable[[Any, int], Sequence[float]],
    count: int,
) -> MemoryModel:
    """Build a network that runs a finite automaton.

    The memory of the network, a stack, stays empty.

    For each state and input there is a unit, which is on if the input is read in this state. The
    units of the previous step determine the current state.

    Args:
        inputs: the input symbols.
        start: the state before the first symbol.
        step: state, symbol -> the next state; None for the dead state, which is never left.
        outputs: state, symbol -> a number for each logit at that step.
        count: number of logits.
    Raises:
        ConfigError: there are too many states.
    """
    numbers: dict[Hashable, int] = {start: 0}
    waiting, edges = [start], []
    while waiting:
        state = waiting.pop()
        for symbol in range(len(inputs)):
            after = step(state, symbol)
            edges.append((state, symbol, after))
            if after is not None and after not in numbers:
                numbers[after] = len(numbers)
                waiting.append(after)
        if len(numbers) > _MOST_STATES:
            raise ConfigError("automaton: too many states for a network")
    names = {(state, symbol): f"{numbers[state]}:{symbol}" for state, symbol, _ in edges}
    leading: dict[Hashable, list[str]] = {state: [] for state in numbers}
    for state, symbol, after in edges:
        if after is not None:
            leading[after].append(names[state, symbol])
    units: dict[str, Unit] = {}
    logits: list[dict[str, float]] = [{} for _ in range(count)]
    for state, symbol, _ in edges:
        name = names[state, symbol]
        terms = {f"x:{inputs[symbol]}": 1.0, **dict.fromkeys(leading[state], 1.0)}
        # ONE is 0 only at the first step, which is in the first state.
        first = state == start
        units[name] = Unit({**terms, ONE: -1.0} if first else terms, above=0.5 if first else 1.5)
        for logit, value in zip(logits, outputs(state, symbol), strict=True):
            if value:
                logit[name] = value
    heads: dict[str, list[Terms]] = {"value": [{}], "push": [{ONE: -1.0}], "pop": [{ONE: -1.0}]}
    return assemble(inputs, {"name": "stack", "width": 1}, units, heads, logits)


def _question(
    name: str,
    step: Callable[[Any, int], Any],
    answer: Callable[[Any], int],
    start: Hashable,
    rule: str | None = None,
) -> MemoryModel:
    """An automaton whose state at the answer token determines the answer.

    Args:
        name: of the task.
        step: state, source symbol -> the next state; None for the dead state.
        answer: state at the answer token -> the number of the answer.
        start: the first state.
        rule: the task that numbers the symbols; None for the same. `name` may have more symbols.
    """
    task, numbered = make_task(name), make_task(rule or name)
    assert isinstance(task, QuestionTask)
    assert isinstance(numbered, QuestionTask)
    sources, answers = len(numbered.source_vocabulary), numbered.output_vocabulary

    def outputs(state: Any, symbol: int) -> list[float]:
        if symbol != task.answer_token:
            return [0.0] * len(task.output_vocabulary)
        return [float(output == answers[answer(state)]) for output in task.output_vocabulary]

    return automaton(
        task.input_vocabulary,
        start,
        lambda state, symbol: step(state, symbol) if symbol < sources else None,
        outputs,
        len(task.output_vocabulary),
    )


def even_pairs() -> MemoryModel:
    """Remember the first and the last bit."""
    return _question(
        "even_pairs",
        lambda state, bit: (bit if state is _NOTHING else state[0], bit),
        lambda state: 0 if state is _NOTHING else state[0] ^ state[1],
        _NOTHING,
    )


_NOTHING = ()


def parity_check(task: str = "parity_check") -> MemoryModel:
    """Remember the parity.

    In missing_duplicate_string each bit of w w occurs twice, so the parity is the hidden bit.

    Args:
        task: parity_check, next_parity or missing_duplicate_string.
    """
    return _question(
        task, lambda state, symbol: state ^ (symbol == 1), lambda state: int(state), False
    )


def cycle_navigation(task: str = "cycle_navigation") -> MemoryModel:
    """Remember the place.

    Args:
        task: cycle_navigation or next_cycle_navigation.
    """
    return _question(
        task,
        lambda place, move: (place + move - 1) % MODULUS,
        lambda place: int(place),
        0,
        "cycle_navigation",
    )


def modular_arithmetic(task: str = "modular_arithmetic") -> MemoryModel:
    """Remember the sum, the product that is added to it, and the last operator.

    Args:
        task: modular_arithmetic or next_modular_arithmetic.
    """

    def step(state: Any, symbol: int) -> Any:
        total, product, operator = state
        if operator is None:
            # A product continues at *, and is added to the sum at + and -.
            if symbol == MODULUS + 2:
                return (total, product, symbol)
            is_operator = symbol >= MODULUS
            return ((total + product) % MODULUS, 0, symbol) if is_operator else None
        if symbol >= MODULUS:
            return None
        if operator == MODULUS + 2:
            return (total, product * symbol % MODULUS, None)
        return (total, (symbol if operator == MODULUS else -symbol) % MODULUS, None)

    return _question(
        task,
        step,
        lambda state: (state[0] + state[1]) % MODULUS,
        (0, 0, MODULUS),
        "modular_arithmetic",
    )


def word_problem(group: str = "S3") -> MemoryModel:
    """Remember the product.

    Args:
        group: as for the task; a unit for each two elements makes large groups slow.
    Raises:
        ConfigError: there is no such group.
    """
    task = make_task("word_problem", group=group)
    assert isinstance(task, WordProblem)
    table, size = task.table, len(task.input_vocabulary)

    def outputs(state: Any, symbol: int) -> list[float]:
        return [float(place == table[state, symbol]) for place in range(size)]

    return automaton(
        task.input_vocabulary, 0, lambda state, symbol: int(table[state, symbol]), outputs, size
    )


def flare(language: str = "parity") -> MemoryModel:
    """Recognise a language of FLaRe: a regular one by its automaton, or w w^R.

    Args:
        language: one of the seven regular ones, or unmarked_reversal (see `unmarked_reversal`).
    Raises:
        ConfigError: there is no such language, or no network for it.
    """
    if language == "unmarked_reversal":
        return unmarked_reversal()
    task = make_task("flare", language=language)
    assert isinstance(task, Recognition)
    machine = task.language
    if not isinstance(machine, Counted) or language == "majority":
        raise ConfigError(f"flare: {language} is not regular, so it has no finite automaton")

    def step(state: Any, symbol: int) -> Any:
        """Symbol 0 is <s>, which comes first."""
        if state is None or (symbol == 0) != (state == "begin"):
            return None
        return machine.start if symbol == 0 else machine.step(state, symbol - 1)

    def outputs(state: Any, symbol: int) -> list[float]:
        after = step(state, symbol)
        return [2.0 if after is not None and machine.ends(after) else 0.0]

    model = automaton(task.input_vocabulary, "begin", step, outputs, 1)
    _subtract_one(model)
    return model


def _subtract_one(model: MemoryModel) -> None:
    """Make the logit negative if no unit adds to it. ONE is the last unit."""
    model.sequence.output.weight[0, -1] = -LOGIT


def reverse_string() -> MemoryModel:
    """Push each bit; at each answer token output the top and pop it."""
    return _stack_answers("reverse_string", {"0": 0, "1": 1}, [], {})


def stack_manipulation() -> MemoryModel:
    """Push and pop according to the source; at each answer token output the top and pop it."""
    pushed = {"0": 0, "1": 1, "push0": 0, "push1": 1}
    return _stack_answers("stack_manipulation", pushed, ["pop"], {2: {ONE: 0.5}})


def duplicate_string() -> MemoryModel:
    """Push each bit into a queue; at each answer token output the front and push it again."""
    task = make_task("duplicate_string")
    asked = f"x:{ANSWER}"
    units = {"asked": Unit({asked: 1.0})}
    for bit in (0, 1):
        units[f"push{bit}"] = Unit({f"x:{bit}": 2.0, asked: 1.0, f"r:{bit}": 1.0}, above=1.5)
        units[f"say{bit}"] = Unit({asked: 1.0, f"r:{bit}": 1.0}, above=1.5)
    heads: dict[str, list[Terms]] = {
        "value": [{"push0": 1.0}, {"push1": 1.0}],
        "push": [{ONE: 1.0}],
        "pop": [is_on("asked")],
    }
    logits: list[Terms] = [{"say0": 1.0}, {"say1": 1.0}]
    return assemble(task.input_vocabulary, {"name": "queue", "width": 2}, units, heads, logits)


def odds_first(variant: str = "paper") -> MemoryModel:
    """Answer one half of the symbols, then the other, with a queue of pairs.

    Every second symbol is pushed, together with the symbol before it. At each answer token, the
    pair in front gives its second symbol and is popped. Its first symbol is pushed again, and waits
    for its turn behind all pairs. A symbol that no other follows waits in the controller.

    Args:
        variant: as for the task: the odd symbols are pushed in "paper", the even ones in "code".
    Raises:
        ChoiceError: there is no such variant.
    """
    task = make_task("odds_first", variant=variant)
    bits, asked = (0, 1), f"x:{ANSWER}"
    some = either([f"x:{bit}" for bit in bits])
    pushed, waits = ("odd", "even") if variant == "paper" else ("even", "odd")
    units = {"asked": Unit({asked: 1.0}), "odd": Unit({**some, "odd": -1.0})}
    for bit in bits:
        symbol = f"x:{bit}"
        units[f"odd{bit}"] = Unit({symbol: 1.0, "odd": -1.0})
        units[f"even{bit}"] = Unit({symbol: 1.0, "odd": 1.0}, above=1.5)
        units[f"last{bit}"] = Unit({asked: 1.0, f"{waits}{bit}": 1.0, f"last{bit}": 1.0}, above=1.5)
        units[f"earlier{bit}"] = Unit({**some, f"{waits}{bit}": 1.0}, above=1.5)
        units[f"again{bit}"] = Unit({asked: 1.0, "r:0": 1.0, "r:1": 1.0, f"r:{2 + bit}": 1.0}, 2.5)
    # First the second symbol of a pair, then a first symbol, then the last symbol.
    sign = {1: 1.0, 0: -1.0}
    units["say1"] = Unit(
        {f"r:{bit}": 4.0 * sign[bit] for bit in bits}
        | {f"r:{2 + bit}": 2.0 * sign[bit] for bit in bits}
        | {f"{name}{bit}": sign[bit] for name in (waits, "last") for bit in bits}
    )
    heads: dict[str, list[Terms]] = {
        "value": [
            *({f"{pushed}{bit}": 1.0} for bit in bits),
            *({f"earlier{bit}": 1.0, f"again{bit}": 1.0} for bit in bits),
        ],
        "push": [{ONE: -1.0} | {f"{name}{bit}": 2.0 for name in (pushed, "again") for bit in bits}],
        "pop": [is_on("asked")],
    }
    logits: list[Terms] = [{ONE: 0.5}, {"say1": 1.0}]
    return assemble(task.input_vocabulary, {"name": "queue", "width": 4}, units, heads, logits)


def bucket_sort() -> MemoryModel:
    """Count each symbol on its own stack; the answer pops from the first non-empty stack."""
    task = make_task("bucket_sort")
    asked = f"x:{ANSWER}"
    units = {f"push{k}": Unit({f"x:{k}": 1.0}) for k in range(MODULUS)}
    for k in range(MODULUS):
        # The read vector of a stack is 1, or -1 if the stack is empty.
        earlier = {f"r:{2 * other}": -1.0 for other in range(k)}
        units[f"first{k}"] = Unit(
            {asked: k + 2.0, f"r:{2 * k}": 1.0, **earlier}, above=2.0 * k + 2.0
        )
    stacks = [(f"push{k}", f"first{k}") for k in range(MODULUS)]
    logits: list[Terms] = [{f"first{k}": 1.0} for k in range(MODULUS)]
    return on_stacks(task.input_vocabulary, units, stacks, logits)


def _stack_answers(
    name: str, pushed: dict[str, int], popping: list[str], others: dict[int, Terms]
) -> MemoryModel:
    """A stack of bits whose top is the answer.

    Args:
        name: of the task.
        pushed: input symbols that push a bit.
        popping: input symbols that pop.
        others: number of a logit -> its sum of units, for logits after the first two.
    """
    task = make_task(name)
    asked = f"x:{ANSWER}"
    units = {
        "pushing": Unit(either([f"x:{symbol}" for symbol in pushed])),
        "popping": Unit(either([asked, *(f"x:{symbol}" for symbol in popping)])),
    }
    for bit in (0, 1):
        units[f"push{bit}"] = Unit(
            either([f"x:{symbol}" for symbol, own in pushed.items() if own == bit])
        )
        units[f"say{bit}"] = Unit({asked: 1.0, f"r:{bit}": 1.0}, above=1.5)
    heads: dict[str, list[Terms]] = {
        "value": [{"push0": 1.0}, {"push1": 1.0}],
        "push": [is_on("pushing")],
        "pop": [is_on("popping")],
    }
    logits: list[Terms] = [{"say0": 1.0}, {"say1": 1.0}]
    logits += [others[place] for place in sorted(others)]
    return assemble(task.input_vocabulary, {"name": "stack", "width": 2}, units, heads, logits)
