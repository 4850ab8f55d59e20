"""Build the pages of the gallery, one for each memory, from the data in docs/gallery.

    python docs/make_gallery.py [FOLDER]

Pages go to docs/gallery, or to FOLDER; they are not committed. Data of a new page is added by
`unbounded explore RUN --export PAGE` and `python docs/make_gallery.py --add PAGE`.
"""

from __future__ import annotations

import json
import lzma
import re
import sys
from pathlib import Path

from unbounded.explorer.page import html, write_page
from unbounded.explorer.task_data import no_rule, rule_of
from unbounded.tasks import make_task

GALLERY = Path(__file__).parent / "gallery"
_DATA_OF_PAGE = re.compile(
    r'<script type="application/json" id="unbounded-data">(.*?)</script>', re.DOTALL
)


def build(folder: Path) -> list[Path]:
    """Write each page of the gallery to a folder."""
    paths = []
    for path in sorted(GALLERY.glob("*.json.xz")):
        data = json.loads(lzma.decompress(path.read_bytes()))
        for run in data["runs"]:
            task = make_task(run["task"]["name"])
            rule = rule_of(task)
            run["task"] |= {"rule": rule, "no_rule": "" if rule else no_rule(task)}
        paths.append(folder / f"{path.name.removesuffix('.json.xz')}.html")
        write_page(paths[-1], html(data["runs"], data["title"]))
    return paths


def add(page: Path) -> None:
    """Keep the data of a page of `unbounded explore` for the gallery."""
    match = _DATA_OF_PAGE.search(page.read_text(encoding="utf-8"))
    if match is None:
        raise SystemExit(f"{page} is no page of `unbounded explore`")
    data = json.dumps(json.loads(match[1])).encode("utf-8")
    (GALLERY / f"{page.stem}.json.xz").write_bytes(lzma.compress(data))


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--add":
        add(Path(sys.argv[2]))
    elif any(argument.startswith("-") for argument in sys.argv[1:]) or len(sys.argv) > 2:
        raise SystemExit(__doc__)
    else:
        print(*build(Path(sys.argv[1]) if sys.argv[1:] else GALLERY), sep="\n")
