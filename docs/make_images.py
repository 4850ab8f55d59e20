"""Make the pictures and the tables of the pages: python docs/make_images.py RUN.

RUN is the folder of a trained run, e.g. the one `unbounded train copy` names at its end. Its trace
and metrics become docs/images/memory and docs/images/convergence; the worked example of Figure 1a
comes from carrying out its three instructions, and the pictures of actions from a counter whose
weights tests/constructions has. The tables in docs/reproducing/ are filled from the file of runs in
each folder of results/. Without RUN the first two pictures are not made.
"""

from __future__ import annotations

import functools
import json
import math
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch

import unbounded as ub
from unbounded.evaluation import ActionRow, action_rows, read_symbols, score_lengths
from unbounded.experiments.run.run_folder import RunFolder
from unbounded.experiments.tables.published import published
from unbounded.experiments.tables.results import read_results
from unbounded.experiments.tables.table_data import run_json, summaries, table_json
from unbounded.experiments.trials.paper_studies import load_study
from unbounded.figures import (
    draw_action_table,
    draw_actions,
    draw_convergence,
    draw_lengths,
    draw_memory,
    draw_worked_example,
    read_curves,
)
from unbounded.models import discretized, sharpen
from unbounded.rnn.recurrence import Recorder
from unbounded.tasks import LengthRange, StreamTask, make_task

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
PAGES = ROOT / "docs" / "reproducing"
RESULTS = ROOT / "results"
BEGIN, END = "<!-- {paper}: python docs/make_images.py -->", "<!-- end of {paper} -->"
#: Columns of the table of lengths mastered.
MASTERED = ("rnn", "lstm", "list-rnn", "stack-rnn", "stack-rnn-hardened")
#: A row of the results here, and the place of each published value in it.
OURS = "the same with R, temperature noise (added here)"
SHARPENED = (None, None, None, "stack-rnn-sharpened", "stack-rnn-sharpened-hardened")
FARTHEST = "1000:1000"
#: The model whose published value is the best of many restarts, and the study that has as many.
BEST_OF, BEST_OF_STUDY = "lstm", "paper"
#: Tasks, the memories of their presets, and columns of the table of words far longer.
MEMORIES_OF = {
    **dict.fromkeys(("copy", "svo_sov", "gender", "bigram_flip"), "Queue-LSTM"),
    "reversal": "Stack-LSTM",
}
FAR = ("8:64", "65:128", "129:256", "640:640", "6400:6400")
#: Ranges of the table of sentences without a restriction of length, beside all lengths.
RESTRICTED = ("8:64", "65:128")
#: Runs of a cell of it that need no word.
RESTARTS = 5

#: The sum of the picture of a trained adder, the lowest digit of its result first.
ADDED = "100100+1110=010011."

# Figure 1a of Grefenstette et al. 2015: push and pop strengths of three steps.
PUSH, POP = (0.8, 0.5, 0.9), (0.0, 0.1, 0.9)


def figure1a_trace() -> ub.Trace:
    """Carry out the instructions of Figure 1a and save what the stack did."""
    memory = ub.NeuralStack(width=len(PUSH))
    state = memory.initial_state(1, dtype=torch.float64)
    recorder = Recorder(memory)
    for value, push, pop in zip(torch.eye(len(PUSH), dtype=torch.float64), PUSH, POP, strict=True):
        instruction = memory.Instruction(
            value.unsqueeze(0),
            torch.tensor([push], dtype=torch.float64),
            torch.tensor([pop], dtype=torch.float64),
        )
        read_vector, state = memory.step(state, instruction)
        recorder.record(instruction, read_vector, state)
    lengths = torch.tensor([len(PUSH)])
    symbols = [[f"v{step + 1}" for step in range(len(PUSH))]]
    return ub.Trace("NeuralStack", recorder.arrays(), lengths, symbols)


def counter_images() -> list[Path]:
    """Draw what a counter of a^n b^n does, and how far it counts as its actions saturate."""
    counter = runpy.run_path(str(ROOT / "tests" / "constructions" / "__init__.py"))["counter"]
    task = make_task("anbn", sequences=20)
    assert isinstance(task, StreamTask)
    rows = action_rows(discretized(counter()), task, read_symbols(task, "ab aaaabbbb aabb a"))
    title = "A counter of aⁿbⁿ"
    written = draw_actions(rows, IMAGES, title=title)
    written += draw_action_table(rows, IMAGES, title=title)
    groups = {}
    for inverse_temperature in (0.4, 0.5, 0.6):
        soft = counter()
        sharpen(soft, inverse_temperature)
        groups[f"PUSH and POP of {1 / (1 + math.exp(-9 * inverse_temperature)):.3f}"] = soft
    groups["discretized"] = discretized(counter())
    accuracies = {
        label: [
            {
                score.n: score.accuracy
                for score in score_lengths(model, task, LengthRange(2, 60), seed=0)
            }
        ]
        for label, model in groups.items()
    }
    return written + draw_lengths(accuracies, IMAGES, title=title)


def adder_rows() -> list[ActionRow]:
    """The actions of a trained adder on a sum."""
    run = RunFolder.find(str(RESULTS / "joulin2015" / "adder"))
    model, _ = run.load_model(hardened=True)
    task = make_task("binary_addition")
    return action_rows(model, task, read_symbols(task, ADDED))


def adder_image() -> list[Path]:
    """Draw the actions of a trained adder on a sum, as in Figure 3 of Joulin & Mikolov 2015."""
    return draw_actions(adder_rows(), IMAGES, "adder", title=f"A hardened Stack RNN adds: {ADDED}")


def results_table(table: dict[str, Any]) -> str:
    """The table of transductions: exact match on both ranges, published and measured, by cell.

    Beside it, where the cell ran in study long, what the same has when it goes on.
    """
    path = RESULTS / "grefenstette2015-long" / "table.json"
    longer = {
        (cell["task"], cell["model"]): cell["measured"]
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
    }
    header = (
        "task",
        "model",
        "published, 8–64 / 65–128",
        "measured at 8–64, median",
        "at 65–128, median (least–greatest)",
        "seeds at 1.00",
        "batches",
        "minutes",
        "study long",
        "seeds at 1.00",
        "batches",
    )
    lines = [header, ("---",) * len(header)]
    paper = published("grefenstette2015")
    if not any(cell["measured"] for cell in table["cells"]):
        return f"Not run yet: `{table['command']}` fills this table."
    for cell in table["cells"]:
        measured = cell["measured"]
        if measured is None:
            continue
        long = longer.get((cell["task"], cell["model"]))
        lines.append(
            (
                paper.tasks[cell["task"]],
                paper.models[cell["model"]].title,
                "not published"
                if cell["published"] is None
                else " / ".join(
                    f"{cell['published'][f'{split}_exact_match']:.2f}"
                    for split in ("train", "test")
                ),
                f"{measured['median']['train_exact_match']:.2f}",
                *_spread(measured),
                f"{measured['minutes_median']:.0f}",
                *(_spread(long) if long else ("–",) * 3),
            )
        )
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _spread(measured: dict[str, Any]) -> tuple[str, str, str]:
    """Test coarse of a cell (median, least, greatest), its seeds at 1.00 and its batches."""
    middle, least, greatest = (
        measured[name]["test_exact_match"] for name in ("median", "least", "greatest")
    )
    return (
        f"{middle:.2f} ({least:.2f}–{greatest:.2f})",
        f"{measured['solved']} of {measured['seeds']}",
        str(measured["batches_median"]),
    )


def unrestricted_table(table: dict[str, Any]) -> str:
    """The grammars without a restriction of length: exact match as drawn, and at both ranges.

    Published are the training and the test column of the paper. Cells without a finished run are
    empty.
    """
    paper = published("grefenstette2015")
    ranges = ("as drawn", *RESTRICTED)
    header = ["task", "model", "published, train / test", *ranges, "seeds", "batches"]
    lines = [header, ["---"] * len(header)]
    for cell in table["cells"]:
        known, measured = cell["published"], cell["measured"]
        line = [paper.tasks[cell["task"]], paper.models[cell["model"]].title]
        line += [" / ".join(f"{known[f'{split}_exact_match']:.2f}" for split in ("train", "test"))]
        if measured is None:
            lines.append([*line, *[""] * (len(header) - len(line))])
            continue
        runs = measured["runs"]
        columns = [[float(run["test_exact_match"]) for run in runs]]
        columns += [[float(run["longer"][each][0]) for run in runs] for each in RESTRICTED]
        line += [f"{median(own):.2f} ({min(own):.2f}–{max(own):.2f})" for own in columns]
        lines.append([*line, str(len(runs)), str(measured["batches_median"])])
    done = sum(cell["measured"] is not None for cell in table["cells"])
    text = f"{done} of {len(table['cells'])} cells are trained: `{table['command']}`."
    return "\n".join([text, "", *(f"| {' | '.join(line)} |" for line in lines)])


def padded_table(table: dict[str, Any]) -> str:
    """Bigram flip of all lengths: exact match / prefix accuracy, published and as medians.

    The least and the greatest exact match of several seeds are in brackets. Cells without a
    finished run are empty.
    """
    paper = published("grefenstette2015")
    header = ["task", "model"]
    header += [f"{which}, {at}" for at in FAR[:2] for which in ("published", "measured")]
    header += ["seeds", "batches"]
    lines = [header, ["---"] * len(header)]
    for cell in table["cells"]:
        known, measured = cell["published"], cell["measured"]
        line = [paper.tasks[cell["task"]], paper.models[cell["model"]].title]
        for split in ("train", "test"):
            exact, prefix = f"{split}_exact_match", f"{split}_prefix_accuracy"
            line += [f"{known[exact]:.2f} / {known[prefix]:.2f}", ""]
            if measured is not None:
                values = measured["median"]
                least, greatest = (measured[each][exact] for each in ("least", "greatest"))
                spread = f" ({least:.2f}–{greatest:.2f})" if measured["seeds"] > 1 else ""
                line[-1] = f"{values[exact]:.2f}{spread} / {values[prefix]:.2f}"
        done = measured or {"seeds": "", "batches_median": ""}
        lines.append([*line, str(done["seeds"]), str(done["batches_median"])])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def lengths_table(table: dict[str, Any]) -> str:
    """The table of counting: percent of lengths mastered, median and spread of restarts.

    The last column says how many restarts are correct at n = 1000 after rounding.
    """
    paper = published("joulin2015")
    cells = {(cell["task"], cell["model"]): cell for cell in table["cells"]}
    header = [
        "task",
        *(paper.models[model].title for model in MASTERED),
        "of these correct at n = 1000",
    ]
    lines = [header, ["---"] * len(header)]
    tasks = dict.fromkeys(task for task, _ in cells)
    rows = [
        (task, title, models)
        for task in tasks
        for title, models in ((paper.tasks[task], MASTERED), (OURS, SHARPENED))
    ]
    for task, title, models in rows:
        if not (cells.get((task, models[-1])) or {}).get("measured"):
            continue
        line = [title]
        for model in models:
            cell = cells.get((task, model))  # None: the study leaves it out
            text = _percent(cell["published"], cell["measured"]) if cell else "-"
            if cell and cell["published"] and model == BEST_OF:
                text += f"; best of {_best_of_restarts(task)}"
            line.append(text)
        runs = cells[task, models[-1]]["measured"]["runs"]
        far = [run["longer"][FARTHEST] for run in runs if FARTHEST in run["longer"]]
        right = sum(values == [100.0] for values in far)
        line.append(f"{right} of {len(far)}" if far else "not run")
        lines.append(line)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _best_of_restarts(task: str) -> str:
    """The number of restarts of a task's LSTM in study paper, and the greatest percent of them."""
    values = restarts_of(BEST_OF_STUDY, BEST_OF).get(task)
    return f"{len(values)}: {max(values):.0f}" if values else "all restarts: not run"


@functools.cache
def restarts_of(study: str, model: str) -> dict[str, list[float]]:
    """The percents of all finished restarts of a model in a study of Joulin & Mikolov, by task."""
    chosen = load_study("joulin2015", study)
    trials = [trial for trial in chosen.trials if trial.model == model]
    restarts: dict[str, list[float]] = {}
    for run in read_results(trials, RESULTS / f"joulin2015-{study}").values():
        percent = run.measures.values.get("percent")
        if percent is not None:
            restarts.setdefault(run.trial.task, []).append(percent)
    return restarts


def far_table(table: dict[str, Any]) -> str:
    """The table of strings far longer than in training: accuracies as trained and hardened.

    Each is the median over seeds, with the least where it is another.
    """
    paper = published("exact")
    header = ["task, memory", "seeds", *FAR, "minutes"]
    lines = [header, ["---"] * len(header)]
    for cell in table["cells"]:
        measured, model = cell["measured"], cell["model"]
        task, hardened = cell["task"], model.endswith("-hardened")
        if measured is None or task not in MEMORIES_OF:
            continue
        runs = measured["runs"]
        memory = MEMORIES_OF[task] if model.startswith("own") else "DeQue-LSTM"
        title = "the same, hardened" if hardened else f"{paper.tasks[task]}, {memory}"
        line = [title, str(len(runs))]
        for lengths in FAR:
            values = sorted(
                each for run in runs if (each := _exact_match(run, lengths)) is not None
            )
            if not values:
                line.append("–")
                continue
            middle, least = median(values), values[0]
            spread = "" if f"{least:.2f}" == f"{middle:.2f}" else f" (least {least:.2f})"
            line.append(f"{middle:.2f}{spread}")
        lines.append([*line, f"{median(run['minutes'] for run in runs):.0f}"])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _exact_match(run: dict[str, Any], lengths: str) -> float | None:
    """Words of these lengths that a run has right, as a share; None without a score there."""
    near = {"8:64": "train_exact_match", "65:128": "test_exact_match"}
    if lengths in near:
        return float(run[near[lengths]])
    return float(run["longer"][lengths][0]) if lengths in run["longer"] else None


def _percent(known: dict[str, float] | None, measured: dict[str, Any] | None) -> str:
    text = "not published" if known is None else f"{known['percent']:g}"
    if measured is None:
        return f"{text} / not run"
    middle, least, greatest = (
        measured[name]["percent"] for name in ("median", "least", "greatest")
    )
    runs = len(measured["runs"])
    fewer = "" if runs == RESTARTS else f", {runs} run{'s' if runs > 1 else ''}"
    return f"{text} / {middle:.0f} ({least:.0f}–{greatest:.0f}{fewer})"


#: How the table of each folder of results is written, a paper's laptop study or PAPER-STUDY.
TABLES = {
    "exact": far_table,
    "grefenstette2015": results_table,
    "grefenstette2015-unrestricted": unrestricted_table,
    "grefenstette2015-padded": padded_table,
    "joulin2015": lengths_table,
}


def table_of(name: str) -> dict[str, Any]:
    """The table of a folder of results from its file of runs, with the numbers of each run."""
    paper, _, other = name.partition("-")
    study = load_study(paper, other or "laptop")
    cells = summaries(study, read_results(study.trials, RESULTS / name))
    table = table_json(study, published(paper), cells)
    for cell in table["cells"]:
        summary = cells[f"{cell['task']}/{cell['model']}"]
        if summary is not None:
            cell["measured"]["runs"] = [run_json(run) for run in summary.runs]
    return table


def filled(page: str, paper: str, table: dict[str, Any]) -> str:
    """A page with the table between its paper's marks replaced."""
    begin, end = BEGIN.format(paper=paper), END.format(paper=paper)
    before, rest = page.split(begin)
    _, after = rest.split(end)
    return f"{before}{begin}\n{TABLES[paper](table)}\n{end}{after}"


def main(arguments: Sequence[str]) -> int:
    """Make what can be made, name it, and say what was left as it is."""
    written: list[Path] = []
    written += draw_worked_example(figure1a_trace(), IMAGES)
    written += counter_images()
    written += adder_image()
    if arguments:
        run = Path(arguments[0])
        example = ub.load_trace(run / "traces" / "example.json")
        written += draw_memory(example, IMAGES, title="A trained Queue-LSTM copies a word")
        written += draw_convergence({"this run": [read_curves(run)]}, IMAGES, title="Copy")
    for name in TABLES:
        page = PAGES / f"{name.partition('-')[0]}.md"
        text = filled(page.read_text(encoding="utf-8"), name, table_of(name))
        page.write_text(text, encoding="utf-8")
        written.append(page)
    for path in written:
        print(path.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
