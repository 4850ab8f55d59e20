"""The table of a study, published and measured values side by side, as Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from unbounded.evaluation.metric_sets import MetricSet, metric_set_of
from unbounded.experiments.config.schema import ModelConfig, RunConfig
from unbounded.experiments.tables.automata import Automata, automata_grid
from unbounded.experiments.tables.markdown import grid
from unbounded.experiments.tables.matrix import MATRIX_LEGEND, matrix_grid
from unbounded.experiments.tables.published import Published
from unbounded.experiments.tables.results import Measured
from unbounded.experiments.tables.table_data import (
    BASELINE,
    Cells,
    baseline,
    command,
    median_batches,
    median_minutes,
    progress,
)
from unbounded.experiments.tables.verified import Verified, verified_grid
from unbounded.experiments.trials.studies import Study

NOT_RUN = "not run"
#: The heading of the last part, which has a line for each run.
EVERY_RUN = "## Every run"


_CHOICE = """\
"best run" is the run of least {selection_metric} over settings and seeds{why}. "median {shown}",
"spread" (least to greatest){solved} are over the seeds of the setting whose median
{selection_metric} is least; so are batches and minutes (one thread), as medians.{more} Nothing was
chosen by a number of the test split."""

_OUTPUTS = """\
"output weights" is how output embeddings begin: "normal" as N(0, 1), "torch" as torch.nn.Linear
draws its own, "sums" as in the authors' program, "glorot" as Glorot's uniform numbers."""

_SYMBOLS = """\
"symbol weights" is how the columns that symbols choose begin: "as_model" as the model's others (of
embeddings, as N(0, 1)), "sums" as in the authors' program, "normal" as N(0, 1)."""

#: The headings of how output embeddings begin, and the weights of symbols.
OUTPUTS, SYMBOLS = "output weights", "symbol weights"
#: Settings that have a column where a grid has them: its heading, and what it says of a config.
_SETTINGS: dict[str, Callable[[RunConfig], str]] = {
    "clip": lambda config: f"{config.training.clip:g}",
    "batch size": lambda config: str(config.training.batch_size),
    SYMBOLS: lambda config: config.model.symbol_initialization,
    OUTPUTS: lambda config: config.model.output_initialization,
}

_MEMORY = """\
"memory" is the mean of what the memory is told to do, on validation sequences of the lengths of
the test: while a sequence is read, and while it is answered (docs/formats.md, `memory_use`)."""


_PRODUCTS = """\
"products" is the precision that those in float32 were asked for with
(`torch.set_float32_matmul_precision`): of medium precision they are of bfloat16 numbers, of high of
two for each, where the processor has such products."""


def table_markdown(
    study: Study,
    published: Published,
    cells: Cells,
    verified: Verified | None = None,
    automata: Automata | None = None,
    shown: Collection[str] | None = None,
) -> str:
    """The table as text that a browser of repositories shows; below it what was found of runs.

    Args:
        study, published, cells: of the whole table.
        verified, automata: of its runs; None where the study has none.
        shown: the cells whose rows and columns are shown, without a line for each run; None shows
            all of it.
    """
    asked = {cell: cells[cell] for cell in cells if shown is None or cell in shown}
    is_whole = len(asked) == len(cells)
    own_study = replace(study, trials=tuple(each for each in study.trials if each.cell in asked))
    names = {trial.name for trial in own_study.trials}
    finished, trials = progress(own_study, asked)
    parts = [
        f"# {study.paper}, study {study.name}",
        f"{study.about[:1].upper()}{study.about[1:]}. {len(finished)} of {len(trials)} runs are "
        "finished.",
        f"Published values: {published.source}. Made by `{command(study)}`.",
    ]
    differ = _differing(asked)
    for table in published.tables:
        own = [cell for cell in asked if cell.split("/")[0] in table.tasks]
        if own:
            parts += [f"## {table.title}" if table.title else ""]
            if not table.metric_set:
                parts += [matrix_grid(own, published, cells), MATRIX_LEGEND]
                continue
            metric_set = metric_set_of(table.metric_set)
            parts += [_cells_grid(metric_set, own, published, cells, differ), _legend(metric_set)]
    notes = [
        f"* {_titles(f'{each.task}/{each.model}', published)}, {each.column.replace('_', ' ')}: "
        f"the paper contradicts itself, {each.used:.2f} or {each.other:.2f} ({each.note})."
        for each in published.contradictions
        if is_whole or f"{each.task}/{each.model}" in asked
    ]
    notes += [f"* {note}" for note in published.notes if is_whole]
    parts += ["\n".join(notes)]
    if verified is not None:
        own_verified = [(trial, found) for trial, found in verified if trial.name in names]
        parts += ["## Verified", verified_grid(own_verified, published)]
    if automata is not None:
        own_automata = [(trial, found) for trial, found in automata if trial.name in names]
        parts += ["## Machines", automata_grid(own_automata, published)]
    parts += [_OUTPUTS] if OUTPUTS in differ else []
    parts += [_SYMBOLS] if SYMBOLS in differ else []
    if shown is not None:
        return "\n\n".join(part for part in parts if part) + "\n"
    parts += [EVERY_RUN]
    runs = [run for summary in cells.values() if summary for run in summary.runs]
    if any(run.measures.memory for run in runs):
        parts.append(_MEMORY)
    if any(run.precision != "highest" for run in runs):
        parts.append(_PRODUCTS)
    metric_sets = dict.fromkeys(run.measures.metric_set for run in runs)
    parts += [_runs_grid(name, runs, published, differ) for name in metric_sets]
    if not runs:
        parts.append("None is finished.")
    return "\n\n".join(part for part in parts if part) + "\n"


def _cells_grid(
    metric_set: MetricSet,
    own: Sequence[str],
    published: Published,
    cells: Cells,
    differ: Sequence[str],
) -> str:
    header = ["task", "model"]
    printed = _printed_groups(metric_set, own, published)
    header += [f"published {group}" for group in printed]
    header += [f"best run {group}" for group in metric_set.groups]
    header += [f"median {metric_set.shown}", f"spread of {metric_set.spread[1]}"]
    header += ["solved"] if metric_set.success else []
    header += ["batches", "minutes", *_settings_header(differ)]
    header += ["1-layer LSTM then"] if metric_set.baseline else []
    width = len(header)
    rows = [_cell_row(metric_set, cell, width, printed, published, cells, differ) for cell in own]
    return grid(header, rows)


def _printed_groups(metric_set: MetricSet, own: Sequence[str], published: Published) -> list[str]:
    """The groups of which a paper prints a number for any of these cells; all, if it has none."""
    pairs = [cell.split("/") for cell in own]
    values = [published.values.get(task, {}).get(model) or {} for task, model in pairs]
    groups = [
        group
        for group, columns in metric_set.groups.items()
        if any(each.get(column) is not None for each in values for column in columns)
    ]
    return groups or list(metric_set.groups)


def _cell_row(
    metric_set: MetricSet,
    cell: str,
    width: int,
    groups: Sequence[str],
    published: Published,
    cells: Cells,
    differ: Sequence[str],
) -> tuple[str, ...]:
    task, model = cell.split("/")
    printed = published.values.get(task, {}).get(model)
    row = [published.tasks.get(task, task), published.models[model].title]
    row += [_group(metric_set, printed, group) if printed else "none" for group in groups]
    summary = cells[cell]
    if summary is None:
        return (*row, *[NOT_RUN] * (width - len(row)))
    best = summary.best.measures.values
    over = {column: summary.over_seeds(column) for column in metric_set.columns}
    middle = {column: values[0] for column, values in over.items()}
    column = metric_set.spread[0]
    ends = [_number(value, metric_set.columns[column]) for value in over[column][1:]]
    row += [_group(metric_set, best, group) for group in metric_set.groups]
    row += [
        _group(metric_set, middle, metric_set.shown),
        "–" if None in over[column] else "–".join(ends),
    ]
    if metric_set.success:
        row += [f"{summary.solved} of {len(summary.chosen)}"]
    row += [f"{median_batches(summary)}", f"{median_minutes(summary):.0f}"]
    config = summary.chosen[0].trial.config
    row += _settings(config, differ)
    if metric_set.baseline:
        row += [_baseline_text(cell, cells)]
    return tuple(row)


def _differing(cells: Cells) -> list[str]:
    """The columns of _SETTINGS that are needed: of what differs within a cell.

    How output embeddings begin is said where models of a task differ in it, too.
    """
    values: dict[tuple[str, str], set[str]] = {}
    for cell, summary in cells.items():
        for run in summary.runs if summary is not None else ():
            for name, text in _SETTINGS.items():
                group = run.trial.task if name == OUTPUTS else cell
                values.setdefault((name, group), set()).add(text(run.trial.config))
    differ = {name for (name, _), texts in values.items() if len(texts) > 1}
    return [name for name in _SETTINGS if name in differ]


def _settings_header(differ: Sequence[str]) -> list[str]:
    """Of the columns that say by which settings of a cell's grid a run was trained."""
    return ["units", "learning rate", *differ]


def _settings(config: RunConfig, differ: Sequence[str]) -> list[str]:
    """The columns of `_settings_header`."""
    more = [_SETTINGS[name](config) for name in differ]
    return [_units(config.model), f"{config.training.learning_rate:g}", *more]


def _units(model: ModelConfig) -> str:
    """Units of the controller: 256, or 2 x 100 of two layers."""
    layers = model.controller.get("num_layers", 1)
    return f"{model.hidden_size}" if layers == 1 else f"{layers} x {model.hidden_size}"


def _runs_grid(
    name: str, runs: Sequence[Measured], published: Published, differ: Sequence[str]
) -> str:
    metric_set = metric_set_of(name)
    header = ["run", *_settings_header(differ), "seed", "batches", "minutes"]
    header += [metric_set.selection_metric_heading, *metric_set.groups]
    header += ["longer"] if metric_set.longer else []
    own = [run for run in runs if run.measures.metric_set == name]
    told = any(run.measures.memory for run in own)
    header += ["memory"] if told else []
    differ_in_precision = any(run.precision != "highest" for run in own)
    header += ["products"] if differ_in_precision else []
    rows = []
    for run in own:
        numbers, config = run.measures, run.trial.config
        row = [_titles(run.trial.cell, published), *_settings(config, differ)]
        row += [str(config.seed), str(run.batches)]
        # Of a machine there is no loss of training.
        known = run.trial.phase == "trained" or not metric_set.selection_metric.startswith(
            "training"
        )
        row += [f"{run.minutes:.1f}", f"{numbers.selection_metric:.4f}" if known else "–"]
        row += [_group(metric_set, numbers.values, group, 1) for group in metric_set.groups]
        if metric_set.longer:
            digits = metric_set.columns[metric_set.spread[0]] + 1
            longer = (
                f"{lengths}: {' / '.join(f'{value:.{digits}f}' for value in values)}"
                for lengths, values in numbers.longer.items()
            )
            row += [", ".join(longer) or "none"]
        row += [numbers.memory or "–"] if told else []
        row += [run.precision] if differ_in_precision else []
        rows.append([*row, run.stopped])
    return grid([*header, "ended"], rows)


def _legend(metric_set: MetricSet) -> str:
    counted = ""
    if metric_set.success:
        counted = f' and "solved" (how many seeds have {metric_set.solved})'
    choice = _CHOICE.format(
        selection_metric=metric_set.selection_metric,
        why=metric_set.why,
        shown=metric_set.shown,
        solved=counted,
        more=metric_set.baseline,
    )
    return textwrap.fill(f"{metric_set.legend} {choice}", 100)


def _baseline_text(cell: str, cells: Cells) -> str:
    if cell.endswith(f"/{BASELINE}"):
        return "itself"
    value = baseline(cell, cells)
    return NOT_RUN if value is None else f"{value:.2f}"


def _group(
    metric_set: MetricSet, values: Mapping[str, float | None], group: str, more: int = 0
) -> str:
    """The columns of a group, `more` digits longer."""
    return " / ".join(
        _number(values[column], metric_set.columns[column] + more)
        for column in metric_set.groups[group]
    )


def _number(value: float | None, digits: int) -> str:
    """A number, or a dash where there is none."""
    return "–" if value is None else f"{value:.{digits}f}"


def _titles(cell: str, published: Published) -> str:
    task, model = cell.split("/")
    return f"{published.tasks.get(task, task)}, {published.models[model].title}"
