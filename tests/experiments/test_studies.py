from __future__ import annotations

import re
from importlib.resources import files

import pytest

from tests.experiments.made_up import TINY, tiny_study
from unbounded.errors import ChoiceError, ConfigError
from unbounded.experiments.config import plain_yaml
from unbounded.experiments.config.check import check_all
from unbounded.experiments.trials.paper_studies import load_study, make_study
from unbounded.experiments.trials.selection import select


def test_the_laptop_study_is_every_task_with_five_models_and_three_seeds():
    study = load_study("grefenstette2015", "laptop")
    assert len(study.cells) == 5 * 5
    assert {trial.config.seed for trial in study.trials} >= {0, 1, 2}
    assert len({trial.name for trial in study.trials}) == len(study.trials)


def test_the_paper_study_is_the_full_grid():
    study = load_study("grefenstette2015", "paper")
    assert len(study.cells) == 5 * 7
    assert len(study.trials) == 5 * 7 * 2 * 5 * 2 * 3
    rates = {trial.config.training.learning_rate for trial in study.trials}
    assert rates == {5e-3, 1e-3, 5e-4, 1e-4, 5e-5}
    assert {trial.config.model.hidden_size for trial in study.trials} == {256, 512}
    assert {trial.config.model.output_initialization for trial in study.trials} == {
        "normal",
        "torch",
    }
    models = [trial.config.model for trial in study.trials]
    without = [model for model in models if model.memory["name"] == "none"]
    layers = {model.controller.get("num_layers", 1) for model in without}
    assert layers == {1, 2, 4, 8}


#: The studies of each paper; the second ones take long.
STUDIES = {
    "known": ("laptop", ""),
    "exact": ("laptop", ""),
    "grefenstette2015": ("laptop small long unrestricted padded deque sizes deep", "paper"),
    "matrix": ("laptop", ""),
    "deleu2016": ("laptop program locations brackets", "paper"),
    "chomsky15": ("hardened", "laptop"),
    "flare18": ("hardened", "laptop"),
    "yang2016": ("laptop groups grid lstm", "paper"),
    "graves2014": ("laptop", "paper sort"),
    "joulin2015": ("laptop parts lists empty halving choices", "paper"),
}


def test_every_study_is_checked():
    for paper, names in STUDIES.items():
        text = files("unbounded.experiments.studies").joinpath(f"{paper}.yaml").read_text("utf-8")
        data = plain_yaml.load(text)
        assert set(data) >= {*" ".join(names).split()}
        # The table continues this paragraph.
        assert all(study["about"].endswith(".") for study in data.values())
    folder = files("unbounded.experiments.studies").iterdir()
    assert {each.name for each in folder if each.name.endswith("yaml")} == {
        f"{paper}.yaml" for paper in STUDIES
    }


@pytest.mark.parametrize(
    ("paper", "name"),
    [
        pytest.param(paper, name, marks=marks)
        for paper, names in STUDIES.items()
        for names, marks in zip(names, ((), pytest.mark.slow), strict=True)
        for name in names.split()
    ],
)
def test_no_trial_has_an_error(paper, name):
    trials = load_study(paper, name).trials
    check_all(trial.config for trial in trials if not trial.lacks_data)
    assert len({trial.key for trial in trials}) == len(trials)
    trained = [trial.name for trial in trials if trial.phase != "hardened"]
    assert len({*trained}) == len(trained)
    assert {*trained} >= {trial.name for trial in trials}  # hardened runs are the same runs


@pytest.mark.parametrize("paper", ["chomsky15", "flare18"])
def test_no_task_and_no_model_of_a_benchmark_has_an_error(paper):
    """Each in one cell at least: their tasks take long to make."""
    cells = {(trial.task, trial.model): trial for trial in load_study(paper, "laptop").trials}
    tasks, models = (list(dict.fromkeys(names)) for names in zip(*cells, strict=True))
    places = range(max(len(tasks), len(models)))
    own = [cells[tasks[k % len(tasks)], models[k % len(models)]] for k in places]
    check_all(trial.config for trial in own)


@pytest.mark.parametrize(
    "name", ["laptop", "long", "unrestricted", "padded", "deque", "sizes", "deep"]
)
def test_no_trial_ends_by_an_accuracy(name):
    for trial in load_study("grefenstette2015", name).trials:
        assert trial.config.training.stop["name"] in ("converged", "budget")
        assert trial.config.training.batch_size == 10
        assert trial.config.training.clip == 1.0
        assert trial.config.hardware.threads == 1


def test_the_studies_of_open_choices_of_the_paper():
    """Lengths as the grammars draw them, padded draws, the deque, 512 units, deep LSTMs."""
    unrestricted = load_study("grefenstette2015", "unrestricted").trials
    lengths = {
        trial.task: (trial.config.task["train_lengths"], trial.config.evaluation["lengths"])
        for trial in unrestricted
    }
    # The few long sentences are learned last.
    assert {trial.config.training.stop["perplexity"] for trial in unrestricted} == {1.0001}
    assert lengths == {
        "svo_sov_unrestricted": ("3:128", ["3:128", "8:64", "65:128"]),
        "gender_unrestricted": ("5:128", ["5:128", "8:64", "65:128"]),
    }
    padded = load_study("grefenstette2015", "padded").trials
    assert {(trial.model, trial.config.task["odd_lengths"]) for trial in padded} == {
        *((model, "padded") for model in ("lstm-1", "stack", "queue", "deque")),
        ("queue", "unpaired"),
    }
    deques = [trial.config for trial in load_study("grefenstette2015", "deque").trials]
    differing = [
        (c.model.hidden_size, c.training.clip_by, c.model.output_initialization) for c in deques
    ]
    assert differing == [
        (512, "norm", "normal"),
        (256, "value", "normal"),
        (256, "norm", "small_normal"),
        (256, "norm", "normal"),
    ]
    biases = [config.model.memory.get("bottom_pop_bias") for config in deques]
    assert biases == [None, None, None, -1.0]
    sizes = load_study("grefenstette2015", "sizes").trials
    rates = [5e-3, 1e-3, 5e-4, 1e-4, 5e-5]
    assert [t.config.training.learning_rate for t in sizes] == rates * 6
    assert {t.config.model.hidden_size for t in sizes} == {512}
    outputs = {t.cell: t.config.model.output_initialization for t in sizes}
    assert {cell for cell, output in outputs.items() if output == "torch"} == {
        "copy/lstm-1",
        "copy/stack",
        "reversal/lstm-1",
    }
    # Together with long, every task has every depth.
    cells = {
        *load_study("grefenstette2015", "deep").cells,
        *load_study("grefenstette2015", "long").cells,
    }
    tasks = ("copy", "reversal", "bigram_flip", "svo_sov", "gender")
    assert cells >= {f"{task}/lstm-{layers}" for task in tasks for layers in (1, 2, 4, 8)}


def test_a_cell_has_settings_of_its_own():
    data = {**TINY, "cells": {"copy/queue": {"batches": 6, "learning_rates": [0.1, 0.2]}}}
    trials = make_study("grefenstette2015", "tiny", data).trials
    own = [trial.config.training for trial in trials if trial.cell == "copy/queue"]
    assert {(t.batches, t.learning_rate) for t in own} == {(6, 0.1), (6, 0.2)}
    others = {t.config.training.batches for t in trials if t.cell != "copy/queue"}
    assert others == {TINY["batches"]}


def test_a_cell_has_several_grids():
    grids = [{"learning_rates": [0.1, 0.2]}, {"output_initializations": ["torch"], "seeds": [3]}]
    data = {**TINY, "cells": {"copy/queue": {"grids": grids}}}
    trials = make_study("grefenstette2015", "tiny", data).trials
    own = [trial.config for trial in trials if trial.cell == "copy/queue"]
    seeds, rate = TINY["seeds"], TINY["learning_rates"][0]
    assert [(c.training.learning_rate, c.model.output_initialization, c.seed) for c in own] == [
        *((each, "normal", seed) for each in (0.1, 0.2) for seed in seeds),
        (rate, "torch", 3),
    ]
    for wrong, message in [
        ([{"batches": 3}], "study 'tiny', cell 'copy/queue': unknown field 'batches' in grids"),
        (
            [{"seeds": []}],
            "cell 'copy/queue', grids: seeds: expected a list of one or more, got []",
        ),
        ([{"output_initializations": "torch"}], "expected a list of one or more, got 'torch'"),
        ([{}, {}], "copy/queue/"),
        ([], "grids: expected a list of one or more mappings from fields to lists, got []"),
        ({"seeds": [1]}, "grids: expected a list of one or more"),
        ([3], "grids: expected a list of one or more"),
        (None, "grids: expected a list of one or more"),
    ]:
        data["cells"]["copy/queue"]["grids"] = wrong
        with pytest.raises(ConfigError, match=re.escape(message)):
            make_study("grefenstette2015", "tiny", data)
    with pytest.raises(ConfigError, match="study 'tiny': seeds: expected a list of one or more"):
        make_study("grefenstette2015", "tiny", {**TINY, "seeds": []})


def test_all_errors_of_a_study_are_reported_together():
    data = {**TINY, "models": ["queue", "lstn-1"], "batchs": 3}
    data["cells"] = {"copy/stac": {}, "copy/queue": {"batch": 3}}
    del data["seeds"]
    with pytest.raises(ConfigError) as caught:
        make_study("grefenstette2015", "tiny", data)
    text = str(caught.value)
    assert "'copy/stac' under cells" in text
    assert "seeds is missing" in text
    assert "unknown field 'batchs'" in text
    assert "unknown field 'batch' of cell 'copy/queue'" in text
    assert "unknown model 'lstn-1'" in text


def test_only_a_task_a_model_or_a_cell():
    study = tiny_study()
    assert select(study, None) == study.trials
    assert {trial.task for trial in select(study, "copy")} == {"copy"}
    assert {trial.model for trial in select(study, "queue")} == {"queue"}
    assert {trial.cell for trial in select(study, "copy/queue")} == {"copy/queue"}
    # A name may be shortened to a beginning that no other name has; a full name is no beginning.
    assert select(study, "cop/que") == select(study, "copy/queue")
    assert select(study, "lst") == select(study, "lstm-1")
    chomsky = load_study("chomsky15", "laptop")
    assert {trial.cell for trial in select(chomsky, "parity/lstm")} == {"parity_check/lstm"}
    arithmetic = {trial.task for trial in select(chomsky, "modular_arithmetic")}
    assert arithmetic == {"modular_arithmetic"}
    both = "modular_arithmetic/lstm or modular_arithmetic_brackets/lstm"
    with pytest.raises(ConfigError, match=f"'mod/ls' may mean {both}; give more of it"):
        select(chomsky, "mod/ls")
    # Not every task of a study has every model.
    graves = load_study("graves2014", "laptop")
    cells = {trial.cell for trial in select(graves, "associativ/ntm-")}
    assert cells == {"associative_recall/ntm-moving"}
    for shortened in ("copy/", "/queue", "x", "copy/q/"):
        with pytest.raises(ChoiceError, match="unknown part of study"):
            select(study, shortened)
    with pytest.raises(ChoiceError, match="Did you mean 'copy/queue'"):
        select(study, "copy/quue")
    with pytest.raises(ChoiceError, match=r"tasks: copy\n  models: lstm-1, queue$"):
        select(study, "everything")
    with pytest.raises(ChoiceError, match=r"unknown study 'labtop'\. Did you mean 'laptop'"):
        load_study("grefenstette2015", "labtop")


def test_a_part_of_a_study_is_chosen_by_fields_of_its_configs():
    study = load_study("joulin2015", "paper")
    some = select(study, "anbn/lstm", ["model.hidden_size=50,100", "seed=1,3"])
    assert {(each.config.model.hidden_size, each.config.seed) for each in some} == {
        (50, 1), (50, 3), (100, 1), (100, 3)
    }  # fmt: skip
    assert len(some) == 8  # with one layer and with two
    one = select(study, "anbn/lstm", ["model.hidden_size=50", "model.controller.num_layers=null"])
    assert len(one) == 10
    assert len(select(study, "anbn/rnn", ["model.controller.num_layers=null"])) == 30
    assert len(select(study, "anbn/rnn", "training.learning_rate=1e-1")) == 30
    lengths = "evaluation.lengths=['2:60', '100:100', '200:200', '500:500', '1000:1000']"
    assert len(select(study, "anbn/rnn", [lengths])) == 30
    with pytest.raises(ConfigError, match=r"num_layers=1; model.controller.num_layers is null, 2"):
        select(study, "anbn/lstm", ["model.controller.num_layers=1"])
    study = load_study("joulin2015", "laptop")  # fewer runs for the statements on all of them
    with pytest.raises(ChoiceError, match=r"Did you mean 'model.hidden_size'"):
        select(study, None, ["model.hiden_size=50"])
    with pytest.raises(ConfigError, match="no trial has seed=77; seed is"):
        select(study, None, ["seed=77"])
    with pytest.raises(ConfigError, match="expected FIELD=VALUE"):
        select(study, None, ["seed"])
    with pytest.raises(ConfigError, match="no trial has seed=true; seed is 1, 2, 3"):
        select(study, None, ["seed=true"])
    for broken in ("seed=[1", "seed=@", "seed='1"):
        with pytest.raises(ConfigError, match="is not a value"):
            select(study, None, [broken])
    with pytest.raises(ConfigError, match="data: penn_treebank needs the folder of its corpus"):
        select(study, None, ["task=penn_treebank"])
