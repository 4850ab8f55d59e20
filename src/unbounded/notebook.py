"""Show a model or a run in a notebook, by the explorer's page.

Models and runs are above the explorer in the folder order. Only this module imports it for them,
when something is shown.
"""

from __future__ import annotations

from html import escape
from typing import Any


def shown(thing: Any) -> str:
    """The HTML of a model or a `train_run` result in a notebook; it does not raise.

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
