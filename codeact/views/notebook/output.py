"""The one output of a cell that shows a run, replaced as it goes."""

from __future__ import annotations

import uuid
from typing import Any

WIDGET = "application/vnd.jupyter.widget-view+json"


class Output:
    """Static HTML, shown when it is first put; meanwhile, it may have a widget around it."""

    def __init__(self) -> None:
        self._id = uuid.uuid4().hex
        self._shown = False
        self._around: Any = None
        self._inner: Any = None

    def put(self, html: str) -> None:
        if self._inner is not None:
            self._inner.value = html
        else:
            self._show({"text/html": html})

    def surround(self, html: str, *below: Any) -> None:
        """Shows HTML with widgets below it, until `bare`. What front ends do not know as a widget stays HTML."""
        from ipywidgets import HTML, VBox

        self._inner = HTML(html)
        self._around = VBox([self._inner, *below])
        self._show({"text/html": html, WIDGET: self._around._repr_mimebundle_()[WIDGET]})

    def bare(self, html: str) -> None:
        """HTML alone again."""
        around, self._around, self._inner = self._around, None, None
        self._show({"text/html": html})
        if around is not None:
            around.close()
            for child in around.children:
                child.close()

    def _show(self, data: dict[str, Any]) -> None:
        from IPython.display import display

        data = {"text/plain": "(a run of codeact)", **data}
        display(data, raw=True, display_id=self._id, update=self._shown)  # type: ignore[no-untyped-call]
        self._shown = True
