"""Writes the pages of docs/gallery again, with the page that is built now and the data they hold.

    python docs/make_gallery.py

The runs themselves are not needed. What a page says about its task is made anew.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from unbounded.explorer.page import html, write_page
from unbounded.explorer.rule_data import no_rule, rule_of
from unbounded.tasks import make_task

_DATA = re.compile(r'<script type="application/json" id="unbounded-data">(.*?)</script>')


def main() -> None:
    """Write each page of the gallery again."""
    for path in sorted((Path(__file__).parent / "gallery").glob("*.html")):
        found = _DATA.search(path.read_text(encoding="utf-8"))
        if found is None:
            raise SystemExit(f"{path} is no page of `unbounded explore`")
        data = json.loads(found[1])
        for run in data["runs"]:
            task = make_task(run["task"]["name"])
            rule = rule_of(task)
            run["task"] |= {"rule": rule, "no_rule": "" if rule else no_rule(task)}
        write_page(path, html(data["runs"], data["title"]))
        print(path)


if __name__ == "__main__":
    main()
