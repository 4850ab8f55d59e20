"""A study as a data frame, as files of other formats, as a plot and as a page."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import unbounded
from tests.studies.made_up import run
from unbounded.errors import ConfigError, LabError
from unbounded.experiments.tables.measures import Measures
from unbounded.experiments.trials.study_file import make_study_file
from unbounded.studies import StudyFolder, frame, study_runs
from unbounded.studies.page import write_study_page
from unbounded.studies.plot import draw_study, is_share
from unbounded.studies.study_table import Table, table_of


def test_a_study_is_a_data_frame(finished: Any) -> None:
    pytest.importorskip("pandas")
    _, folder = finished
    data = unbounded.studies.load(folder.path)
    assert len(data) == 8
    columns = ["run", "task", "model.memory", "model.hidden_size", "seed", "state", "batches",
               "minutes", "percent", "selection_metric", "success", "error"]  # fmt: skip
    assert list(data.columns) == columns
    assert sorted(data["seed"].unique()) == [0, 1]
    assert data.groupby("model.memory")["percent"].count().to_dict() == {
        "none": 4, "superposition_stack": 4,
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["csv", "parquet", "latex", "md"])
def test_tables_in_every_format(finished: Any, tmp_path: Path, kind: str) -> None:
    if kind in ("csv", "parquet"):
        pytest.importorskip("pandas")
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    own, folder = finished
    runs = study_runs(folder)
    copy = StudyFolder(tmp_path, folder.runs)
    written = frame.write_tables(kind, table_of(own, runs), runs, copy)
    text = written[0].read_bytes()
    assert text
    if kind == "latex":
        assert rb"4 & 2/2 & 0/2" in text
        assert rb"hidden\_size" in text
        assert text.count(rb"\\") == 5
    if kind in ("csv", "parquet"):
        import pandas as pd

        read = pd.read_csv if kind == "csv" else pd.read_parquet
        assert [len(read(path)) for path in written] == [4, 8]


def test_latex_escapes_special_characters() -> None:
    text = frame.latex(Table(("a_b", "c"), (("50 % & {x}", "\\~^$#"),), ()))
    assert r"a\_b & c \\" in text
    assert r"50 \% \& \{x\}" in text
    assert r"\textbackslash{}\textasciitilde{}\textasciicircum{}\$\#" in text


def test_the_error_for_a_missing_package_names_the_extra() -> None:
    with pytest.raises(LabError, match=r"pip install 'unbounded\[tables\]'"):
        frame.need("no_such_package", "tables")


def test_a_plot_of_any_metric_against_any_axis(finished: Any, tmp_path: Path) -> None:
    own, folder = finished
    runs = study_runs(folder)
    (path,) = draw_study(own, runs, tmp_path, metric="selection_metric", against="hidden_size")
    text = path.read_text()
    assert path.name == "selection_metric_by_hidden_size.svg"
    assert "memory none" in text
    assert "memory superposition_stack" in text
    (path,) = draw_study(own, runs, tmp_path, metric="success", against="memory", by=[])
    assert "success rate" in path.read_text()
    with pytest.raises(ConfigError, match="against: 'hiden_size' is no axis"):
        draw_study(own, runs, tmp_path, metric="percent", against="hiden_size")
    with pytest.raises(ConfigError, match="unknown metric 'percnt'"):
        draw_study(own, runs, tmp_path, metric="percnt")
    with pytest.raises(ConfigError, match="no finished run has percent"):
        draw_study(own, [], tmp_path, metric="percent")


def test_a_plot_of_nothing_explains_why(tmp_path: Path) -> None:
    data = {"preset": "copy", "axes": {"model.memory": ["stack", "queue"]}}
    own = make_study_file("made-up", data)
    runs = [run({"model.memory": "stack"}, test=None, roles={"1:8": "train", "9:16": "longer"})]
    for metric in ("test_exact_match", "success"):
        with pytest.raises(ConfigError) as caught:
            draw_study(own, runs, tmp_path, metric=metric)
        assert f"plot: no finished run has {metric} and model.memory." in str(caught.value)
        assert "1:8 (train), 9:16 (longer)" in str(caught.value)
    with pytest.raises(ConfigError, match='The role "longer" is for other ranges'):
        draw_study(own, [run({"model.memory": "stack"}, roles={"1:8": "train"})], tmp_path,
                   metric="longer_exact_match")  # fmt: skip


def test_shares_have_bounds() -> None:
    runs = [run({"model.memory": "stack"})]
    area = [replace(runs[0], numbers=Measures("membership", {}))]
    bits = [replace(runs[0], numbers=Measures("bits", {}))]
    assert is_share("test_exact_match", runs)
    assert is_share("longer", area)
    assert not is_share("longer", bits)
    assert not is_share("follows", area)
    assert not is_share("selection_metric", runs)
    assert not is_share("test_scaled_accuracy", runs)


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.data, self.sources, self._in_data = "", list[str](), False

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        named = dict(attributes)
        self._in_data = named.get("id") == "data"
        self.sources += [value for name, value in attributes if name in ("src", "href") and value]

    def handle_data(self, data: str) -> None:
        if self._in_data:
            self.data += data
            self._in_data = False


def test_the_page_has_every_run_and_needs_no_other_file(finished: Any, tmp_path: Path) -> None:
    own, folder = finished
    runs = study_runs(folder)
    copy = StudyFolder(tmp_path, folder.runs)
    failed = run({"model.memory": "</script><b>", "model.hidden_size": 4})
    write_study_page(own, [*runs, failed], copy)
    parser = _Parser()
    text = copy.page_file.read_text()
    parser.feed(text)
    data = json.loads(parser.data)
    assert len(data["runs"]) == 9
    assert parser.sources == []
    assert data["columns"][:4] == ["memory", "hidden_size", "seed", "state"]
    assert data["runs"][0]["cells"][:4] == ["superposition_stack", 4, 0, "finished"]
    assert data["runs"][0]["curve"][-1][0] == 2
    assert data["runs"][0]["command"].startswith("unbounded explore ")
    assert "</script><b>" not in text


def test_the_page_links_to_existing_explorer_pages(finished: Any, tmp_path: Path) -> None:
    own, folder = finished
    runs = study_runs(folder)
    copied = StudyFolder(tmp_path / "tiny")
    (copied.runs / runs[0].name).mkdir(parents=True)
    (copied.runs / runs[0].name / "explore.html").touch()
    write_study_page(own, runs, copied)
    (link,) = re.findall(r'"explorer":"([^"]+)"', copied.page_file.read_text())
    assert (copied.path / link).is_file()


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_script_of_the_page_is_javascript(finished: Any, tmp_path: Path) -> None:
    own, folder = finished
    copy = StudyFolder(tmp_path, folder.runs)
    write_study_page(own, study_runs(folder), copy)
    script = copy.page_file.read_text().split("<script>")[1].split("</script>")[0]
    (tmp_path / "page.js").write_text(script)
    subprocess.run(["node", "--check", str(tmp_path / "page.js")], check=True)


def test_a_study_without_axes_has_no_plot(tmp_path: Path) -> None:
    own = make_study_file("one", {"preset": "copy", "seeds": "0:3"})
    with pytest.raises(ConfigError, match="the study has no axis"):
        draw_study(own, [], tmp_path, metric="percent")
