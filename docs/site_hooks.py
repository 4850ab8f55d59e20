"""Hooks of the documentation site (mkdocs.yml): pages from signatures, notebooks and results.

Links in docs/ are relative to the repository, so that they work in a checkout too. The site
contains the files of the repository that a page links to and that a reader can open, such as the
tables of results/. A link to any other file becomes its path.
"""

from __future__ import annotations

import importlib
import json
import posixpath
import re
import runpy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
#: Files outside of docs/ that are part of the site.
_OUTSIDE = (
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "benchmarks/README.md",
    "results/*.md",
    "results/*/*.md",
    "results/*/figures/*.svg",
    "results/*/figures/*.gif",
    "results/exact/automata/*/automaton.svg",
)
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
_IMAGE = re.compile(r'<img src="([^"]+)"')
_FENCE = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
_EXPLORER = re.compile(r"<!-- explorer: (\w+) -->")
#: Modules of the API page, in the order of the layers.
_MODULES = (
    "unbounded",
    "unbounded.memories",
    "unbounded.rnn",
    "unbounded.models",
    "unbounded.tasks",
    "unbounded.training",
    "unbounded.evaluation",
    "unbounded.verification",
    "unbounded.extraction",
    "unbounded.constructions",
    "unbounded.figures",
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages, the gallery and the files outside of docs/."""
    pages = {
        "reference/tasks.md": tasks_page(),
        "reference/config.md": config_page(),
        "reference/components.md": components_page(),
        "reference/api.md": api_page(),
    }
    for path in sorted((ROOT / "docs" / "tutorials").glob("*.ipynb")):
        pages[f"tutorials/{path.stem}.md"] = tutorial_page(path)
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    for pattern in _OUTSIDE:
        for path in sorted(ROOT.glob(pattern)):
            name = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, name, abs_src_path=str(path)))
    with TemporaryDirectory() as folder:
        for path in runpy.run_path(str(ROOT / "docs" / "make_gallery.py"))["build"](Path(folder)):
            content = path.read_bytes()
            files.append(File.generated(config, f"gallery/{path.name}", content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Adapt the links of a page to the site, and embed the explorer where a page asks for it."""
    if page.file.src_uri.startswith(("results/", "notebook/")):
        page.meta["search"] = {"exclude": True}
    parts = _FENCE.split(markdown)
    parts[::2] = [_adapted(part, page.file.src_uri, files) for part in parts[::2]]
    return "".join(parts)


def _adapted(text: str, page: str, files: Files) -> str:
    def target(link: str) -> str | None:
        path, mark, anchor = link.partition("#")
        if "://" in link or not path:
            return link
        # The page's path in the repository: pages of docs/ are at the root of the site.
        own = page if (ROOT / page).is_file() else f"docs/{page}"
        name = posixpath.normpath(posixpath.join(posixpath.dirname(own), path))
        name = "index.md" if name == "README.md" else name.removeprefix("docs/")
        if name.endswith(".ipynb") and not page.startswith("tutorials/"):
            name = f"{name.removesuffix('.ipynb')}.md"
        if files.get_file_from_path(name) is None:
            return None
        return posixpath.relpath(name, posixpath.dirname(page) or ".") + mark + anchor

    def link(match: re.Match[str]) -> str:
        to = target(match[3])
        return match[2] if to is None else f"{match[1]}[{match[2]}]({to})"

    def explorer(match: re.Match[str]) -> str:
        up = "../" * page.count("/")
        source = f"{up}gallery/{match[1]}.html"
        return (
            f'<iframe src="{source}" title="The explorer" loading="lazy" width="100%" '
            f'height="640" style="border: 1px solid #8886"></iframe>\n\n'
            f"[Open it in a window of its own]({source})"
        )

    if page == "gallery/README.md":
        text = re.sub(r"^\| (\w+\.html) \|", r"| [\1](\1) |", text, flags=re.MULTILINE)
    text = _LINK.sub(link, text)
    text = _IMAGE.sub(lambda match: f'<img src="{_image(match[1], page)}"', text)
    return _EXPLORER.sub(explorer, text)


def _image(source: str, page: str) -> str:
    """An image's path on the site, relative to the page's HTML file."""
    own = page if (ROOT / page).is_file() else f"docs/{page}"
    name = posixpath.normpath(posixpath.join(posixpath.dirname(own), source))
    return posixpath.relpath(name.removeprefix("docs/"), posixpath.dirname(page) or ".")


def tasks_page() -> str:
    """The tasks with their options, as `unbounded list` shows them."""
    from unbounded.cli.list_ import names

    head = (
        "# Tasks\n\nThis page is generated from the signatures of the tasks. "
        "`unbounded train NAME` trains on a task, and `unbounded sample NAME` shows examples. "
        "Options have the form `--task.OPTION VALUE`.\n"
    )
    tasks = names()["tasks"]
    return head + "".join(_component("tasks", name, text) for name, text in tasks.items())


def components_page() -> str:
    """The components of every place but the task, with their options."""
    from unbounded.cli.list_ import names
    from unbounded.cli.names import PLACES

    lines = [
        "# Components\n\nThis page is generated from the signatures of the components. "
        "`unbounded list NAME` shows the same in a terminal. "
        "[Configuration](../configuration.md) says how to select a component.\n"
    ]
    for kind, entries in names().items():
        if kind in PLACES and kind != "tasks":
            lines.append(f"\n## {kind.replace('_', ' ').capitalize()}\n")
            lines.append(f"\nOptions have the form `--{PLACES[kind]}.OPTION VALUE`.\n")
            lines += [_component(kind, name, text, "###") for name, text in entries.items()]
    return "".join(lines)


def _component(kind: str, name: str, text: str, level: str = "##") -> str:
    from unbounded.cli.list_ import PLACES, _explanations, _remark, options

    meanings = _explanations(kind, name)
    rows = [
        (f"`{option}`", _value(value), meanings.get(option, ""))
        for option, value in options(name)[PLACES[kind]].items()
    ]
    remark = _remark(kind, name)
    parts = [f"\n{level} {name}\n\n{_cell(text)}\n", _table(("option", "default", "meaning"), rows)]
    return "".join([*parts, f"\n{remark}\n" if remark else ""])


def config_page() -> str:
    """The fields of a config's sections, from its dataclasses."""
    from docstring_parser import parse

    from unbounded.experiments.config import schema

    lines = [
        "# Training and model options\n\nThis page is generated from the dataclasses of a run's "
        "config. `unbounded train --help` shows the same options. A preset changes many of the "
        "defaults; `unbounded train TASK --print_config` prints the result. The names of "
        "[components](components.md) have options of their own.\n"
    ]
    sections = {
        "": schema.RunConfig,
        "model": schema.ModelConfig,
        "training": schema.TrainingConfig,
        "evaluation": schema.EvaluationConfig,
        "hardware": schema.HardwareConfig,
    }
    for section, kind in sections.items():
        made, docstring = kind(), parse(kind.__doc__ or "")
        rows = [
            (f"`--{section}.{option}`".replace("--.", "--"), _value(default), argument)
            for option, default, argument in (
                (part.arg_name, getattr(made, part.arg_name), part.description or "")
                for part in docstring.params
            )
            if option not in sections
        ]
        lines.append(f"\n## {(section or 'run').capitalize()}\n\n{docstring.short_description}\n")
        lines.append(_table(("option", "default", "meaning"), rows))
    return "".join(lines)


def api_page() -> str:
    """A reference of every public name; those with a page of their own are named with a link."""
    pages = sorted((ROOT / "docs" / "memories").glob("*.md"))
    elsewhere = {
        name: page.name
        for page in pages
        for name in re.findall(r"^::: unbounded\.(\w+)$", page.read_text("utf-8"), re.MULTILINE)
    }
    lines = ["# API\n\nEvery public name, by module. Memories have pages of their own.\n"]
    done: set[int] = set()
    for path in _MODULES:
        module = importlib.import_module(path)
        lines.append(f"\n## {path}\n\n{(module.__doc__ or '').splitlines()[0]}\n\n")
        for name in sorted(module.__all__):
            value = getattr(module, name)
            if name in elsewhere:
                lines.append(f"- [`{name}`](../memories/{elsewhere[name]})\n")
            elif id(value) not in done and not name.startswith("__"):
                lines.append(f"\n::: {path}.{name}\n")
                done.add(id(value))
    return "".join(lines)


def tutorial_page(path: Path) -> str:
    """A notebook as a page, without outputs, which a reader makes."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
    parts.append(f"[Download the notebook]({path.name})")
    return "\n\n".join(parts) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, dict) and set(value) == {"name"}:
        value = value["name"]
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    if not rows:
        return "\nIt has no options.\n"
    lines = [head, ("---",) * len(head), *(tuple(map(_cell, row)) for row in rows)]
    return "\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(text: str) -> str:
    """A text as a cell of a table: on one line, without marks that Markdown would read."""
    text = " ".join(text.split())
    return text if text.startswith("`") else re.sub(r"([|*_<\[])", r"\\\1", text)
