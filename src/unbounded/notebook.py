"""How a model or a run shows itself in a notebook: by the explorer's page.

Both are above the explorer in the order of the folders. They name it here alone, beside the
folders, and it is imported when something is shown.
"""

from __future__ import annotations

from html import escape
from typing import Any


def shown(thing: Any) -> str:
    """What a notebook shows of a model or of what `train_run` returned; it does not raise.

    Args:
        thing: as `unbounded.explore` takes it.
    Returns:
        an iframe with the page in it and a still picture for where scripts are stripped; where the
        page cannot show the thing, its text and one line that says why.
    """
    from unbounded.errors import UnboundedError
    from unbounded.explorer.notebook import explore

    try:
        return explore(thing)._repr_html_()
    except UnboundedError as error:
        return f"<pre>{escape(repr(thing))}</pre><p>No page of it: {escape(str(error))}</p>"
