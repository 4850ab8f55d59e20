"""Make the table of details that change a result: python docs/make_details.py.

The papers leave details open: initial weights, batches by length, how a rate falls. The committed
runs of results/ are compared in pairs of settings that differ in one such detail and in nothing
else that reaches a weight. The comparisons go to results/details/, and the strongest one of each
detail to docs/reproducing/details.md. Nothing is trained.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any

from unbounded.experiments.tables.measures import measures
from unbounded.experiments.tables.runs_file import read_runs_file

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"
OUT = RESULTS / "details"
PAGE = ROOT / "docs" / "reproducing" / "details.md"
BEGIN, END = "<!-- details: python docs/make_details.py -->", "<!-- end of details -->"
COMMAND = "python docs/make_details.py"
#: Rows of the page.
MOST_ROWS = 10

#: Files of runs in results/ that are compared.
FILES = (
    "deleu2016/runs",
    "exact/runs",
    "graves2014/runs",
    "grefenstette2015/runs",
    "grefenstette2015-long/runs",
    "grefenstette2015-long/beginnings",
    "grefenstette2015-long/precision",
    "grefenstette2015-long/rates",
    "grefenstette2015-small/runs",
    "joulin2015/runs",
    "joulin2015-choices/runs",
    "joulin2015-halving/runs",
    "joulin2015-lists/runs",
    "joulin2015-paper/runs",
    "joulin2015-parts/runs",
    "yang2016/runs",
)

#: Fields of a config that reach no weight of the trained model.
UNRELATED = (
    "id",
    "seed",
    "evaluation",
    "hardening",
    "hardware.data",
    "hardware.device",
    "hardware.threads",
    "hardware.backend",
    "training.accuracy_every",
    "training.accuracy_count",
    "training.checkpoint_every",
    "training.keep_checkpoints",
)
#: Fields that only end a training.
ENDS = ("training.batches", "training.patience", "training.stop")
#: Fields that count batches.
IN_BATCHES = (
    "training.batches",
    "training.report_every",
    "training.curriculum.every",
    "training.plateau.every",
    "training.plateau.hold",
)

#: Output symbols of each task whose loss is compared: a loss is a share of that of guessing.
SYMBOLS = {
    "copy": 129,
    "reversal": 129,
    "bigram_flip": 129,
    "svo_sov": 101,
    "gender": 108,
    "penn_treebank": 10_000,
}
#: Column of a metric set that is compared, its title, and whether it is a perplexity.
MEASURES = {
    "sequences": ("test_exact_match", "exact match, {lengths}", False),
    "lengths": ("percent", "percent of the lengths {lengths}", False),
    "perplexity": ("test", "test perplexity", True),
    "answers": ("exact_match_2x", "exact match, {lengths}", False),
    "membership": ("test", "AUC, {lengths}", False),
}
TRAINING = "training perplexity"
TITLES = {
    "copy": "copy",
    "reversal": "reversal",
    "bigram_flip": "bigram flip",
    "svo_sov": "SVO to SOV",
    "gender": "gender",
    "penn_treebank": "Penn Treebank",
    "anbn": "a^n b^n",
    "anbncn": "a^n b^n c^n",
    "anbncndn": "a^n b^n c^n d^n",
    "anb2n": "a^n b^2n",
    "anbmc_sum": "a^n b^m c^(n+m)",
}


@dataclass(frozen=True)
class Detail:
    """A detail that a paper leaves open.

    Fields:
        title: its name in the table.
        fields: the fields of a config that it consists of.
        texts: the values as text, in the order of the table; other values follow as they are.
        only: prefix of the results that are compared; empty for all.
        in_sequences: whether what counts batches is compared in sequences.
    """

    title: str
    fields: tuple[str, ...]
    texts: Mapping[tuple[str, ...], str]
    only: str = ""
    in_sequences: bool = False


NONE = "null"
DETAILS = (
    Detail(
        "initial output embeddings",
        ("model.output_initialization",),
        {
            ('"normal"',): "N(0, 1)",
            ('"torch"',): "uniform in 1/sqrt(units)",
            ('"glorot"',): "Glorot",
        },
    ),
    Detail(
        "initial weights of words",
        ("model.symbol_initialization",),
        {('"as_model"',): "as all weights", ('"sums"',): "small", ('"normal"',): "N(0, 1)"},
    ),
    Detail("length bucketing", ("training.length_bucketing",), {("1",): "none", ("10",): "of 10"}),
    Detail(
        "cooldown of the rate",
        ("training.schedule.name", "training.schedule.batches"),
        {('"constant"', NONE): "constant", ('"cooldown"', "10000"): "to 0 in 10 000 batches"},
    ),
    Detail("initial pop bias", ("model.memory.pop_bias",), {(NONE,): "-1", ("-2.0",): "-2"}),
    Detail("initial push bias", ("model.memory.push_bias",), {(NONE,): "0", ("3.0",): "3"}),
    Detail(
        "initial biases of the deque",
        ("model.memory.name", "model.memory.pop_bias"),
        {
            ('"deque"', NONE): "pops -1",
            ('"quiet_deque"', "-2.0"): "pops -2, bottom push -3",
        },
    ),
    Detail(
        "epsilon of RMSProp",
        ("training.optimizer.eps",),
        {(NONE,): "1e-4", ("1e-06",): "1e-6", ("1e-08",): "1e-8"},
    ),
    Detail(
        "learning rate of the paper's grid",
        ("training.learning_rate",),
        {},
        only="grefenstette2015",
    ),
    Detail(
        "lengths of training sentences",
        ("task.length_distribution",),
        {(NONE,): "as the grammar draws", ('"uniform"',): "uniform"},
    ),
    Detail(
        "clipping",
        ("training.clip", "training.clip_by"),
        {
            ("15.0", '"value"'): "elements at 15",
            ("50.0", '"norm"'): "norm at 50",
            ("0.25", '"norm"'): "norm at 0.25",
            ("1.0", '"norm"'): "norm at 1",
        },
    ),
    Detail(
        "strips of text a batch", ("training.batch_size",), {("20",): "20", ("40",): "40"}, "joulin"
    ),
    Detail(
        "when the rate is halved",
        ("training.plateau.threshold", "training.plateau.least"),
        {
            (NONE, "0.001"): "no better, to 1e-3",
            ("0.003", NONE): "better by less than 0.3 %, to 1e-5",
        },
    ),
    Detail(
        "sequences between two empty memories",
        ("task.sequences",),
        {("1000",): "1000", ("100",): "100"},
        in_sequences=True,
    ),
    Detail("empty cells of a list", ("model.memory.empty",), {(NONE,): "-1", ("0",): "0"}),
    Detail("NO-OP", ("model.memory.noop",), {("false",): "without", ("true",): "with"}),
    Detail(
        "cells read of a list",
        ("model.memory.depth",),
        {(NONE,): "2", ("1",): "1", ("5",): "5"},
        "joulin",
    ),
    Detail(
        "read vector in the logits",
        ("model.output_read_vector",),
        {("false",): "no", ("true",): "yes"},
        only="yang",
    ),
    Detail(
        "precision of float32 products",
        ("hardware.matmul_precision",),
        {(NONE,): "float32", ('"medium"',): "bfloat16"},
    ),
)


@dataclass(frozen=True)
class Run:
    """A committed run.

    Fields:
        name: its run folder. source: its file in results/. report: its report.
        fields: its config's related fields -> values as JSON.
    """

    name: str
    source: str
    report: Mapping[str, Any]
    fields: Mapping[str, str]

    @property
    def used_budget(self) -> bool:
        """Whether the training ended with its budget, and not by a rule."""
        return str(self.report["batches"]) == self.fields["training.batches"]

    def perplexity_after(self, batch: int) -> float | None:
        """Training perplexity of the report at a batch; None without one."""
        if self.report["batches"] == batch:
            return float(self.report["perplexity_train"])
        curve = self.report.get("curves", {}).get("perplexity", ())
        return next((float(value) for at, value in curve if at == batch), None)


def flat(config: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """The fields of a config by their paths, with values as JSON; null stands for no field."""
    if isinstance(config, dict):
        for name, value in config.items():
            yield from flat(value, f"{path}.{name}" if path else name)
    elif config is not None:
        yield path, json.dumps(config)


def related(config: Mapping[str, Any]) -> dict[str, str]:
    """The fields of a config that a trained model depends on; defaults are left out."""
    fields = {field: value for field, value in flat(config) if not below(field, UNRELATED)}
    if fields.get("model.controller.num_layers", "1") == "1":
        fields.pop("model.controller.skip_input", None)  # an input to further layers
    if fields.get("model.memory.pop_bias") == "-1.0":
        del fields["model.memory.pop_bias"]
    return fields


def below(field: str, paths: Sequence[str]) -> bool:
    """Whether a field is one of these paths or below one."""
    return any(field == path or field.startswith(f"{path}.") for path in paths)


@cache
def runs() -> tuple[Run, ...]:
    """Every run once, in the order of the files."""
    known: dict[str, Run] = {}
    for file in FILES:
        for name, report in read_runs_file(RESULTS / f"{file}.jsonl.xz").items():
            known.setdefault(name, Run(name, file, report, related(report["config"])))
    return tuple(known.values())


def rest(run: Run, detail: Detail, without: Sequence[str] = ()) -> frozenset[tuple[str, str]]:
    """The fields of a run that must agree in a comparison."""
    return frozenset(
        (field, value)
        for field, value in counted(run, detail).items()
        if field not in detail.fields and not below(field, without)
    )


def counted(run: Run, detail: Detail) -> dict[str, str]:
    """The fields of a run; what counts batches counts their sequences where the detail says so."""
    if not detail.in_sequences:
        return dict(run.fields)
    sequences = int(run.fields.get("task.sequences", "0"))
    return {
        field: str(int(value) * sequences) if field in IN_BATCHES and value.isdigit() else value
        for field, value in run.fields.items()
    }


def value_of(run: Run, detail: Detail) -> tuple[str, ...]:
    """A run's values of a detail's fields, as JSON."""
    return tuple(run.fields.get(field, NONE) for field in detail.fields)


def one_a_seed(group: Sequence[Run]) -> list[Run]:
    """Of runs that differ in their budget alone, the longest of each seed."""
    longest: dict[int, Run] = {}
    for run in sorted(group, key=lambda run: (-run.report["batches"], run.name)):
        longest.setdefault(run.report["seed"], run)
    return [longest[seed] for seed in sorted(longest)]


def same_end(sides: Sequence[Sequence[Run]], detail: Detail) -> bool:
    """Whether the ends of the trainings make no difference to what is measured at the end.

    A run that used its whole budget under a loose stop rule would have under a strict one.
    """
    stop = "training.stop.perplexity"
    ends = {
        frozenset((f, v) for f, v in counted(run, detail).items() if below(f, ENDS) and f != stop)
        for side in sides
        for run in side
    }
    if len(ends) > 1:
        return False
    thresholds = [{float(run.fields.get(stop, "1.001")) for run in side} for side in sides]
    strictest = min(min(values) for values in thresholds)
    return all(
        float(run.fields.get(stop, "1.001")) == strictest or run.used_budget
        for side in sides
        for run in side
    )


def last_common(sides: Sequence[Sequence[Run]]) -> int | None:
    """The last batch at which every run has a training perplexity."""
    every = [run for side in sides for run in side]
    candidates: set[int] = set()
    for run in every:
        candidates |= {run.report["batches"]}
        candidates |= {at for at, _ in run.report.get("curves", {}).get("perplexity", ())}
    common = [
        batch
        for batch in candidates
        if all(run.perplexity_after(batch) is not None for run in every)
    ]
    return max(common, default=None)


def side_row(side: Sequence[Run], values: Sequence[float], after: int | None) -> dict[str, Any]:
    """One side of a comparison; without a count of solved seeds in the middle of a training."""
    successes = [run.report["success"] for run in side]
    return {
        "seeds": [run.report["seed"] for run in side],
        "values": list(values),
        "median": median(values),
        "solved": None if None in successes or after is not None else sum(successes),
        "batches": after or median(run.report["batches"] for run in side),
        "runs": sorted({run.source for run in side}),
        "setting": side[0].name.rpartition("-seed")[0],
    }


def row(
    detail: Detail,
    sides: tuple[list[Run], list[Run]],
    metric: str,
    is_perplexity: bool,
    measure: Callable[[Run], float | None],
    after: int | None = None,
) -> dict[str, Any] | None:
    """One comparison by one metric; None if a run lacks it."""
    measured = [[measure(run) for run in side] for side in sides]
    numbers = [[number for number in side if number is not None] for side in measured]
    if numbers != measured:
        return None
    task = sides[0][0].report["task"]
    first, second = (median(side) for side in numbers)
    if is_perplexity:
        effect = (math.log(first) - math.log(second)) / math.log(SYMBOLS[task])
    else:
        effect = (second - first) / (100 if metric.startswith("percent") else 1)
    units = sides[0][0].report["config"]["model"]["hidden_size"]
    return {
        "detail": detail.title,
        "task": task,
        "model": sides[0][0].report["model"],
        "units": units,
        "metric": metric,
        "after_batches": after,
        "choices": [text_of(detail, value_of(side[0], detail)) for side in sides],
        "sides": [
            side_row(side, values, after) for side, values in zip(sides, numbers, strict=True)
        ],
        "effect": round(effect, 4),
        "both": dict(rest(sides[0][0], detail)),
    }


def text_of(detail: Detail, value: tuple[str, ...]) -> str:
    """The values of a detail as the table shows them."""
    return detail.texts.get(value, ", ".join(value))


def rank(detail: Detail, value: tuple[str, ...]) -> tuple[int, list[float], tuple[str, ...]]:
    """The order of a detail's values: as listed, then numbers by size."""
    known = list(detail.texts)
    if value in known:
        return known.index(value), [], value
    numbers = [float(part) for part in value if part.replace(".", "").replace("e-", "").isdigit()]
    return len(known), numbers, value


def pairs(detail: Detail, without: Sequence[str]) -> Iterator[tuple[list[Run], list[Run]]]:
    """Pairs of groups of runs that differ in the detail alone, apart from these fields.

    They have a seed in common.
    """
    settings: dict[frozenset[tuple[str, str]], dict[tuple[str, ...], list[Run]]] = {}
    for run in runs():
        if not run.source.startswith(detail.only):
            continue
        groups = settings.setdefault(rest(run, detail, without), {})
        groups.setdefault(value_of(run, detail), []).append(run)
    for groups in settings.values():
        values = sorted(groups, key=lambda value: rank(detail, value))
        if detail.texts:
            values = [value for value in values if value in detail.texts]
        for first, second in combinations(values, 2):
            sides = one_a_seed(groups[first]), one_a_seed(groups[second])
            seeds = [{run.report["seed"] for run in side} for side in sides]
            if seeds[0] & seeds[1]:
                yield sides


def comparisons(detail: Detail) -> list[dict[str, Any]]:
    """Every comparison of a detail, by each metric, the strongest first.

    At the end of the trainings where these end alike. Otherwise, at a constant rate, after as many
    batches: until then two runs whose budgets differ are the same.
    """
    rows: list[dict[str, Any] | None] = []
    at_end: set[tuple[Any, ...]] = set()

    def key(sides: tuple[list[Run], list[Run]]) -> tuple[Any, ...]:
        return (
            *(value_of(side[0], detail) for side in sides),
            rest(sides[0][0], detail, ENDS),
        )

    for sides in pairs(detail, ("training.stop.perplexity",)):
        if not same_end(sides, detail):
            continue
        report = sides[0][0].report
        if report["metric_set"] not in MEASURES:
            continue
        column, title, is_perplexity = MEASURES[report["metric_set"]]
        lengths = measures(report).lengths
        metric = title.format(lengths=lengths)

        def at_test(run: Run, column: str = column) -> float | None:
            return measures(run.report).values[column]

        found = row(detail, sides, metric, is_perplexity, at_test)
        if found is None:
            continue
        at_end.add(key(sides))
        rows.append(found)
        if report["metric_set"] == "sequences":
            rows.append(
                row(detail, sides, TRAINING, True, lambda run: run.report["perplexity_train"])
            )
    for sides in pairs(detail, ENDS):
        report, fields = sides[0][0].report, sides[0][0].fields
        constant = fields["training.schedule.name"] == '"constant"'
        if report["metric_set"] != "sequences" or not constant or key(sides) in at_end:
            continue
        if "training.schedule.name" in detail.fields:
            continue
        batch = last_common(sides)
        if batch is not None:

            def then(run: Run, batch: int = batch) -> float | None:
                return run.perplexity_after(batch)

            rows.append(row(detail, sides, TRAINING, True, then, batch))
    kept = [each for each in rows if each is not None]
    return sorted(
        kept,
        key=lambda each: (
            -abs(each["effect"]),
            each["task"],
            each["model"],
            each["metric"],
            each["sides"][0]["setting"],
            each["sides"][1]["setting"],
        ),
    )


#: Fields that tell apart a detail's comparisons on one task and model, as the table names them.
CONTEXT = {
    "model.output_initialization": "output embeddings",
    "training.schedule.name": "rate",
    "training.learning_rate": "rate",
    "training.length_bucketing": "bucketing",
    "training.optimizer.name": "optimizer",
    "training.optimizer.eps": "epsilon",
    "training.optimizer.momentum": "momentum",
    "model.memory.gates": "gates",
    "hardware.matmul_precision": "products",
    "model.memory.pop_bias": "pop bias",
}


def with_context(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with what tells them apart from others of the same task and model."""
    for each in rows:
        alike = [other["both"] for other in rows if same_cell(each, other)]
        each["where"] = ", ".join(
            f"{title} {each['both'].get(field, 'default').strip(chr(34))}"
            for field, title in CONTEXT.items()
            if len({other.get(field) for other in alike}) > 1
        )
    for each in rows:
        del each["both"]
    return rows


def same_cell(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two comparisons have the same task, model and units."""
    return all(one[name] == other[name] for name in ("task", "model", "units"))


@cache
def table() -> dict[str, Any]:
    """All comparisons, with the strongest of each detail."""
    named = {detail.title: with_context(comparisons(detail)) for detail in DETAILS}
    return {
        "command": COMMAND,
        "files": list(FILES),
        "details": [
            {
                "detail": title,
                "rows": len(rows),
                "better": sum(each["effect"] > 0.01 for each in rows),
                "worse": sum(each["effect"] < -0.01 for each in rows),
            }
            for title, rows in named.items()
        ],
        "rows": [each for rows in named.values() for each in rows],
    }


def number(value: float, metric: str) -> str:
    """A number with the digits of its metric."""
    if metric.startswith("percent"):
        return f"{value:.0f}"
    if "perplexity" in metric:
        return f"{value:.1f}" if value >= 10 else f"{value:.3f}"
    return f"{value:.2f}"


def side_text(side: Mapping[str, Any], metric: str) -> str:
    """Median, least and greatest of a side, its seeds, and how many of them are solved."""
    values = [number(value, metric) for value in sorted(side["values"])]
    spread = f" ({values[0]} to {values[-1]})" if len(values) > 1 else ""
    solved = "" if side["solved"] is None else f", {side['solved']} solved"
    seeds = f"{len(values)} seed{'s' if len(values) > 1 else ''}{solved}"
    return f"{number(side['median'], metric)}{spread}; {seeds}"


def cells(each: Mapping[str, Any]) -> tuple[str, ...]:
    """A comparison as cells of a table."""
    after = each["after_batches"]
    at = f" after {after} batches" if after else ""
    task = TITLES.get(each["task"], each["task"].replace("_", " "))
    where = f" ({each['where']})" if each["where"] else ""
    first, second = each["sides"]
    return (
        each["detail"],
        f"{task}, {each['model']}, {each['units']} units{where}",
        f"{each['metric']}{at}",
        f"{each['choices'][0]}: {side_text(first, each['metric'])}",
        f"{each['choices'][1]}: {side_text(second, each['metric'])}",
        f"{each['effect']:+.2f}",
    )


HEAD = ("detail", "task, model", "metric", "one choice", "another choice", "effect")


def lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as lines of Markdown."""
    return [f"| {' | '.join(row)} |" for row in rows]


def strongest(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The strongest comparison of each detail, the strongest first."""
    first: dict[str, dict[str, Any]] = {}
    for each in data["rows"]:
        first.setdefault(each["detail"], each)
    return sorted(first.values(), key=lambda each: -abs(each["effect"]))


def page_table(data: Mapping[str, Any]) -> str:
    """The table of the page: the details with the strongest effects, and all their comparisons."""
    counts = {each["detail"]: each for each in data["details"]}
    rows = [(*HEAD, "all rows: better, worse, of"), ("---",) * (len(HEAD) + 1)]
    for each in strongest(data)[:MOST_ROWS]:
        count = counts[each["detail"]]
        rows.append(
            (
                *cells(each),
                f"{count['better']}, {count['worse']}, {count['rows']}",
            )
        )
    return "\n".join(lines(rows))


def markdown(data: Mapping[str, Any]) -> str:
    """Every comparison as Markdown."""
    text = [
        "# Details that change a result",
        "",
        f"Made by `{COMMAND}` from the committed runs. Each row compares settings that differ in "
        "one detail. The effect is the difference of the medians, second minus first, as a share "
        "of the metric's range: exact match and AUC from 0 to 1, percent from 0 to 100, loss from "
        "0 to that of guessing. It is positive where the second choice is better.",
        "",
    ]
    for each in data["details"]:
        own = [row for row in data["rows"] if row["detail"] == each["detail"]]
        text += [
            f"## {each['detail'][0].upper()}{each['detail'][1:]}",
            "",
            f"Rows: {each['rows']}. The second choice is better by more than 0.01 in "
            f"{each['better']}, worse in {each['worse']}.",
            "",
            *lines([HEAD[1:], ("---",) * (len(HEAD) - 1), *(cells(row)[1:] for row in own)]),
            "",
        ]
    return "\n".join(text)


def json_of(data: Mapping[str, Any]) -> str:
    """The table as JSON, a comparison a line."""
    rows = ",\n".join(json.dumps(each) for each in data["rows"])
    head = json.dumps({name: value for name, value in data.items() if name != "rows"}, indent=1)
    return f'{head[:-2]},\n "rows": [\n{rows}\n]\n}}'


def filled(page: str, data: Mapping[str, Any]) -> str:
    """The page with its table replaced."""
    before, after = page.split(BEGIN)[0], page.split(END)[1]
    return f"{before}{BEGIN}\n{page_table(data)}\n{END}{after}"


def main() -> int:
    """Write the table, and fill the page."""
    data = table()
    OUT.mkdir(exist_ok=True)
    (OUT / "table.json").write_text(json_of(data) + "\n", encoding="utf-8")
    (OUT / "table.md").write_text(markdown(data), encoding="utf-8")
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), data), encoding="utf-8")
    for path in (OUT / "table.json", OUT / "table.md", PAGE):
        print(path.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
