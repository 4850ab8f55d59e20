"""Show a model or a run in a notebook, by the explorer's page.

In the order of folders, models and runs come before the explorer. Only this module imports the
explorer for them, when something is shown.
"""

from __future__ import annotations

from html import escape
from typing import Any


def shown(thing: Any) -> str:
    """The HTML of a model or a `train_run` result in a notebook. This function raises no errors.

    Args:
        thing: an argument of `unbounded.explore`.
    Returns:
        An iframe with the page, and a still picture for viewers that strip scripts. If the page
        cannot show the thing, its text and one line with the reason.
    """
    from unbounded.errors import UnboundedError
    from unbounded.explorer.notebook import explore

    try:
        return explore(thing)._repr_html_()
    except UnboundedError as error:
        return f"<pre>{escape(repr(thing))}</pre><p>Not shown: {escape(str(error))}</p>"
