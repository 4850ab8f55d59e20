"""Format the table of a study as Markdown, with published and measured values side by side."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from unbounded.evaluation.metric_sets import MetricSet, metric_set_of
from unbounded.experiments.config.identity import layers_of
from unbounded.experiments.config.schema import ModelConfig, RunConfig
from unbounded.experiments.tables.automata import Automata, automata_grid
from unbounded.experiments.tables.markdown import grid, number_cell
from unbounded.experiments.tables.matrix import MATRIX_LEGEND, matrix_grid, overview_legend
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
from unbounded.experiments.trials.paper_studies import Study

NOT_RUN = "not run"
#: The heading of the table's last part, which has a row for each run.
EVERY_RUN = "## Every run"


_CHOICE = """\
"best run" is the run with the lowest {selection_metric} over all settings and seeds{why}. The
chosen setting is the one with the lowest median {selection_metric} over its seeds. "median
{shown}", "spread" (least to greatest){solved} are over the seeds of this setting. Batches and
minutes (one thread) are medians over the same seeds.{more} No run or setting is chosen by numbers
of the test split."""

_OUTPUTS = """\
"output weights" is the initialization of the output embeddings. "normal" draws from N(0, 1),
"torch" as torch.nn.Linear, "sums" as the authors' program, and "glorot" from Glorot's uniform
distribution."""

_SYMBOLS = """\
"symbol weights" is the initialization of the weights that an input symbol selects. "as_model"
initializes them like the model's other weights (embeddings from N(0, 1)), "sums" as the authors'
program, and "normal" from N(0, 1)."""

#: The headings of two columns: initialization of output embeddings, and of symbol weights.
OUTPUTS, SYMBOLS = "output weights", "symbol weights"
#: Settings that have a column if the grid varies them, each with heading and text of a cell.
_SETTINGS: dict[str, Callable[[RunConfig], str]] = {
    "clip": lambda config: f"{config.training.clip:g}",
    "batch size": lambda config: str(config.training.batch_size),
    SYMBOLS: lambda config: config.model.symbol_initialization,
    OUTPUTS: lambda config: config.model.output_initialization,
    "decay after": lambda config: str(config.training.schedule.get("after", "–")),
}

_MEMORY = """\
"memory" is the mean of the instructions to the memory, on validation sequences of the test lengths.
"reading" covers the steps that read a sequence, and "answering" the steps that answer it. "at every
step" covers all steps of streams and labels (docs/formats.md, `memory_use`)."""

_PRODUCTS = """\
"products" is the requested precision of float32 products (`torch.set_float32_matmul_precision`).
"medium" represents each number by one bfloat16 number, and "high" by two, on processors with such
products."""


def table_markdown(
    study: Study,
    published: Published,
    cells: Cells,
    verified: Verified | None = None,
    automata: Automata | None = None,
    shown: Collection[str] | None = None,
) -> str:
    """The table of a study as Markdown, followed by its verifications, automata and runs.

    Args:
        study, published, cells: the study, its published values, and its measured ones.
        verified, automata: verifications and automata of its runs; None if the study has none.
        shown: cells to show, without a row for each run; None shows everything.
    """
    asked = {cell: cells[cell] for cell in cells if shown is None or cell in shown}
    is_whole = len(asked) == len(cells)
    shown_study = replace(
        study, trials=tuple(trial for trial in study.trials if trial.cell in asked)
    )
    names = {trial.name for trial in shown_study.trials}
    finished, trials = progress(shown_study, asked)
    parts = [
        f"# {study.paper}, study {study.name}",
        f"{study.about} {len(finished)} of {len(trials)} runs are finished.",
        f"Published values: {published.source}. Made by `{command(study)}`.",
    ]
    if published.overview and asked:
        parts += [matrix_grid(list(asked), published, cells), overview_legend(published.overview)]
    differ = _differing(asked)
    for table in published.tables:
        table_cells = [cell for cell in asked if cell.split("/")[0] in table.tasks]
        if table_cells:
            parts += [f"## {table.title}" if table.title else ""]
            if not table.metric_set:
                parts += [matrix_grid(table_cells, published, cells), MATRIX_LEGEND]
                continue
            metric_set = metric_set_of(table.metric_set)
            parts += [_cells_grid(metric_set, table_cells, published, cells, differ)]
            parts += [_legend(metric_set)]
    notes = [
        f"* {_titles(f'{value.task}/{value.model}', published)}, {value.column.replace('_', ' ')}: "
        f"the paper contradicts itself, {value.used:.2f} or {value.other:.2f} ({value.note})."
        for value in published.contradictions
        if is_whole or f"{value.task}/{value.model}" in asked
    ]
    notes += [f"* {note}" for note in published.notes if is_whole]
    parts += ["\n".join(notes)]
    if verified is not None:
        shown_verified = [(trial, data) for trial, data in verified if trial.name in names]
        parts += ["## Verified", verified_grid(shown_verified, published)]
    if automata is not None:
        shown_automata = [(trial, data) for trial, data in automata if trial.name in names]
        parts += ["## Automata", automata_grid(shown_automata, published)]
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
        parts.append("No run is finished.")
    return "\n\n".join(part for part in parts if part) + "\n"


def _cells_grid(
    metric_set: MetricSet,
    shown: Sequence[str],
    published: Published,
    cells: Cells,
    differ: Sequence[str],
) -> str:
    header = ["task", "model"]
    printed = _printed_groups(metric_set, shown, published)
    header += [f"published {group}" for group in printed]
    header += [f"best run {group}" for group in metric_set.groups]
    header += [f"median {metric_set.shown}", f"spread of {metric_set.spread[1]}"]
    header += ["solved"] if metric_set.success else []
    header += ["batches", "minutes", *_settings_header(differ)]
    header += ["1-layer LSTM then"] if metric_set.baseline else []
    width = len(header)
    rows = [_cell_row(metric_set, cell, width, printed, published, cells, differ) for cell in shown]
    return grid(header, rows)


def _printed_groups(metric_set: MetricSet, shown: Sequence[str], published: Published) -> list[str]:
    """The groups for which the paper prints a number in any of these cells; else all groups."""
    pairs = [cell.split("/") for cell in shown]
    values = [published.values.get(task, {}).get(model) or {} for task, model in pairs]
    groups = [
        group
        for group, columns in metric_set.groups.items()
        if any(value.get(column) is not None for value in values for column in columns)
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
    ends = [number_cell(value, metric_set.columns[column]) for value in over[column][1:]]
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
    """The columns in _SETTINGS whose values differ within a cell.

    The initialization of output embeddings is also shown if it differs between models of a task.
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
    """The headings of the settings that a cell's grid may vary."""
    return ["units", "learning rate", *differ]


def _settings(config: RunConfig, differ: Sequence[str]) -> list[str]:
    """The cells of a row under `_settings_header`."""
    more = [_SETTINGS[name](config) for name in differ]
    return [_units(config.model), f"{config.training.learning_rate:g}", *more]


def _units(model: ModelConfig) -> str:
    """Units of the controller, such as "256", or "2 x 100" for two layers."""
    layers = layers_of(model)
    return f"{model.hidden_size}" if layers == 1 else f"{layers} x {model.hidden_size}"


def _runs_grid(
    name: str, runs: Sequence[Measured], published: Published, differ: Sequence[str]
) -> str:
    metric_set = metric_set_of(name)
    header = ["run", *_settings_header(differ), "seed", "batches", "minutes"]
    header += [metric_set.selection_metric_heading, *metric_set.groups]
    header += ["longer"] if metric_set.longer else []
    shown = [run for run in runs if run.measures.metric_set == name]
    has_memory = any(run.measures.memory for run in shown)
    header += ["memory"] if has_memory else []
    has_precision = any(run.precision != "highest" for run in shown)
    header += ["products"] if has_precision else []
    rows = []
    for run in shown:
        numbers, config = run.measures, run.trial.config
        row = [_titles(run.trial.cell, published), *_settings(config, differ)]
        row += [str(config.seed), str(run.batches)]
        # A hardened model has no training loss.
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
        row += [numbers.memory or "–"] if has_memory else []
        row += [run.precision] if has_precision else []
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
    """The numbers of a group's columns, with `more` additional digits."""
    return " / ".join(
        number_cell(values[column], metric_set.columns[column] + more)
        for column in metric_set.groups[group]
    )


def _titles(cell: str, published: Published) -> str:
    task, model = cell.split("/")
    return f"{published.tasks.get(task, task)}, {published.models[model].title}"
