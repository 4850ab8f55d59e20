from __future__ import annotations

import math
import re

import pytest

from tests.docs.pages import ROOT
from unbounded.evaluation import METRIC_SETS
from unbounded.experiments.tables.published import PAPERS, published
from unbounded.experiments.tables.reproduce import write_table
from unbounded.experiments.tables.results import with_ids
from unbounded.experiments.tables.runs_file import RUNS, VERIFIED, read_runs_file
from unbounded.experiments.trials.paper_studies import load_study
from unbounded.tasks import TASKS


def lstm(inputs: int, hidden: int) -> int:
    return 4 * hidden * (inputs + hidden) + 4 * hidden


def parameters(model: str, hidden: int) -> int:
    """The formulas that fit the published counts; embeddings and softmax are not counted."""
    if model.startswith("lstm-"):
        layers = int(model.removeprefix("lstm-"))
        return lstm(64, hidden) + (layers - 1) * lstm(64 + hidden, hidden)
    ends = 2 if model == "deque" else 1
    heads = ends * (2 * (hidden + 1) + 256 * (hidden + 1))
    return lstm(64 + 256 * ends, hidden) + heads + 64 * (hidden + 1)


#: Rows of Grefenstette's Table 3; the others of that file are added here.
THE_PAPERS = {"lstm-1", "lstm-2", "lstm-4", "lstm-8", "stack", "queue", "deque"}


def test_every_cell_of_table_3_exists():
    paper = published("grefenstette2015")
    assert set(paper.values) == set(paper.tasks)
    named = {task: paper.components.get(task, {"name": task})["name"] for task in paper.tasks}
    assert set(named.values()) == set(TASKS) & set(paper.tasks)
    # Other forms of a task have the same published values.
    assert all(paper.values[task] == paper.values[name] for task, name in named.items())
    assert all(
        "(added here)" in paper.models[name].title for name in set(paper.models) - THE_PAPERS
    )
    for models in paper.values.values():
        assert set(models) == THE_PAPERS
        for values in models.values():
            assert tuple(values) == tuple(METRIC_SETS["sequences"].columns)
            assert all(0 <= value <= 1 for value in values.values())


def test_parameter_counts_agree_with_their_formulas():
    paper = published("grefenstette2015")
    table = paper.parameters
    assert set(table) == THE_PAPERS
    for model, sizes in table.items():
        for hidden, printed in sizes.items():
            # Two digits are printed, and two of them (9.1e5, 7.8e6) look truncated.
            assert parameters(model, hidden) == pytest.approx(printed, rel=0.016), (model, hidden)


@pytest.mark.parametrize(
    ("task", "model", "values"),
    [
        ("copy", "lstm-1", (0.62, 0.87, 0.00, 0.38)),
        ("copy", "stack", (0.89, 0.94, 0.00, 0.22)),
        ("reversal", "lstm-8", (0.95, 0.98, 0.04, 0.13)),
        ("bigram_flip", "deque", (0.55, 0.94, 0.53, 0.98)),
        ("svo_sov", "lstm-4", (0.97, 0.99, 0.97, 0.99)),
        ("gender", "lstm-8", (0.98, 0.99, 0.99, 0.99)),
        ("gender", "stack", (0.93, 0.97, 0.93, 0.97)),
    ],
)
def test_some_cells_to_the_digit(task, model, values):
    cell = published("grefenstette2015").values[task][model]
    assert tuple(cell.values()) == values


def test_the_contradiction_of_the_paper_is_flagged():
    paper = published("grefenstette2015")
    (contradiction,) = paper.contradictions
    cell = paper.values[contradiction.task][contradiction.model]
    assert (contradiction.task, contradiction.model) == ("reversal", "queue")
    assert cell[contradiction.column] == contradiction.used == 0.01
    assert contradiction.other == 0.07


#: The laptop study of each paper, and its other finished studies with separate folders.
COMMITTED = [
    *((paper, "laptop", paper) for paper in PAPERS),
    *((paper, study, f"{paper}-{study}") for paper, study in (
        ("grefenstette2015", "small"), ("grefenstette2015", "long"), ("grefenstette2015", "padded"),
        ("grefenstette2015", "unrestricted"),
        ("joulin2015", "paper"), ("joulin2015", "parts"), ("joulin2015", "lists"),
        ("joulin2015", "halving"), ("joulin2015", "choices"),
        ("deleu2016", "locations"), ("deleu2016", "brackets"), ("yang2016", "groups"),
        ("chomsky15", "hardened"), ("flare18", "hardened"),
    )),
]  # fmt: skip


@pytest.mark.parametrize(
    ("paper", "study", "place"),
    [
        pytest.param(
            *each, marks=pytest.mark.slow if each[0] == "joulin2015" and each[1] != "laptop" else ()
        )
        for each in COMMITTED
    ],
)
def test_the_committed_table_is_that_of_its_reports(paper, study, place, tmp_path):
    results = ROOT / "results" / place
    for name in (RUNS, VERIFIED, "automata"):
        (tmp_path / name).symlink_to(results / name)
    _, written = write_table(load_study(paper, study), tmp_path)
    hint = f"write it again: unbounded reproduce {paper} --study {study} --table-only"
    for path in written:
        assert path.read_bytes() == (results / path.name).read_bytes(), hint


#: The models of Table 4 as reports and as the page call them.
MODELS = {
    "elman-1": "RNN",
    "lstm-1": "LSTM",
    "superposition_stack-elman": "Stack RNN",
    "srcn-1": "SRCN",
}


def treebank_reports(study: str) -> dict[str, dict]:
    """The reports of a study's four models, under the names of the page."""
    results = ROOT / f"results/joulin2015-{study}"
    runs = read_runs_file(results / RUNS).values()
    own = [report for report in runs if report["task"] == "penn_treebank"]
    reports = {MODELS[report["model"]]: report for report in own}
    assert len(own) == len(reports) == len(MODELS)
    return reports


def notebook_from(mark: str) -> str:
    """The page on Penn Treebank, from a mark on."""
    page = (ROOT / "docs/notebook/joulin2015_penn_treebank.md").read_text("utf-8")
    return page[page.index(mark) :]


@pytest.mark.parametrize("study", ["paper", "halving"])
def test_the_pages_table_of_learning_rates_equals_the_reports(study):
    page = notebook_from(f"--study {study}")
    header, _, *lines = page[page.index("| rate | RNN |") :].split("\n\n", 1)[0].splitlines()
    names = [name.strip() for name in header.strip("|").split("|")][1:]
    printed: dict[str, dict[float, tuple[float, int]]] = {name: {} for name in names}
    for line in lines:
        rate, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not re.fullmatch(r"[0-9.]+", rate):  # rows that summarize several rates
            continue
        for name, cell in zip(names, cells, strict=True):
            nats, epochs = cell.rstrip(")").split(" (")
            printed[name][float(rate)] = (float(nats), int(epochs))
    by_model = {name: report["curves"] for name, report in treebank_reports(study).items()}
    assert set(by_model) == set(names)
    for name, rates in printed.items():
        curves = by_model[name]
        begins = [batch for batch, _ in curves["learning_rate"]]
        ends = [*begins[1:], len(curves["validation"]) + 1]
        assert len(rates) == 7
        for (begin, rate), end in zip(curves["learning_rate"][:7], ends, strict=False):
            nats = min(math.log(look) for at, look in curves["validation"] if begin <= at < end)
            assert rates[rate] == (pytest.approx(nats, abs=1e-3), end - begin), (name, rate)


def test_treebank_runs_with_halvings_have_converged():
    """The last three epochs gain 0.003 to 0.15 percent of perplexity, less from one to the next."""
    reports = treebank_reports("halving")
    for name, report in reports.items():
        looks = [look for _, look in report["curves"]["validation"]]
        gains = [1 - looks[-n] / min(looks[:-n]) for n in (3, 2, 1)]
        assert gains == sorted(gains, reverse=True), name
        assert 0.00003 < gains[2] < gains[0] < 0.0015, name


@pytest.mark.parametrize(
    ("number", "study", "measure"),
    [(0, "halving", math.log), (1, "paper", math.log), (2, "halving", float), (3, "paper", float)],
)
def test_the_pages_converged_epochs_equal_the_reports(number, study, measure):
    """In nats and in perplexity, by 0.3 percent an epoch."""
    sentence = notebook_from("**Converged**").split(". ", 1)[0]
    counts = re.findall(r"(\d+) (?:epochs )?\(([^)]+)\)", sentence)
    assert len(counts) == 4 * len(MODELS)
    epochs = {name: int(count) for count, name in counts[4 * number : 4 * number + 4]}
    measured = {}
    for name, report in treebank_reports(study).items():
        looks = [measure(look) for _, look in report["curves"]["validation"]]
        still = 0
        while looks[-1 - still] >= (1 - 0.003) * min(looks[: -1 - still]):
            still += 1
        assert len(looks) - still > report["curves"]["learning_rate"][1][0], "the rate had fallen"
        measured[name] = still
    assert epochs == measured
    assert min(measured.values()) >= 3


def test_the_pages_table_of_two_epochs_equals_the_reports():
    table = notebook_from("| changed | RNN |").split("\n\n", 1)[0]
    header, _, *lines = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()
    ]
    printed = {
        (line[0], name): text
        for line in lines
        for name, text in zip(header[1:], line[1:], strict=True)
    }
    usual = {
        trial.model: trial.config
        for trial in load_study("joulin2015", "laptop", "corpus").trials
        if trial.task == "penn_treebank"
    }
    for model, rate in {"rnn-tanh": 0.003, "lstm": 20.0}.items():  # the first of two
        usual[model].training.learning_rate = rate
    changes = {
        "half the rate": ("training", "learning_rate", lambda rate: rate / 2),
        "twice the rate": ("training", "learning_rate", lambda rate: rate * 2),
        "a quarter of the clip (LSTM: four times)": (
            "training",
            "clip",
            lambda clip: 0.25 if clip == 1 else 1,
        ),
        "40 streams": ("training", "batch_size", lambda _: 40),
        "words from N(0, 1)": (
            "model",
            "symbol_initialization",
            lambda name: "normal" if name == "as_model" else "as_model",
        ),
    }
    found = dict.fromkeys(printed, "not run")
    reports = read_runs_file(ROOT / "results/joulin2015-choices" / RUNS)
    choices = load_study("joulin2015", "choices", "corpus").trials
    for trial in with_ids(choices, ROOT / "results/joulin2015-choices"):
        if trial.name not in reports:
            continue
        report = reports[trial.name]
        nats = math.log(report["curves"]["validation"][-1][1])
        own = usual[trial.model]
        fields = {(part, field) for part, field, _ in changes.values()}
        differ = {
            (part, field, getattr(getattr(trial.config, part), field))
            for part, field in fields
            if getattr(getattr(trial.config, part), field) != getattr(getattr(own, part), field)
        }
        places = [
            name
            for name, (part, field, change) in changes.items()
            if differ == {(part, field, change(getattr(getattr(own, part), field)))}
        ]
        assert len(places) == (1 if differ else 0), trial.name
        place = places[0] if places else "as there"
        found[place, MODELS[report["model"]]] = f"{nats:.3f}"
    assert found == printed
