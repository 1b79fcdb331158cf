"""Execute the Python in pages and notebooks, and show what each block prints, returns and draws."""

from __future__ import annotations

import ast
import contextlib
import html
import io
import json
import re
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

from .pictures import shown

FENCE = re.compile(r"^```python\n(.*?)^```$", re.S | re.M)


class Session:
    """A namespace in which the blocks of one page run, as in a notebook. Figures are saved beside
    the page."""

    def __init__(self, page: Path) -> None:
        self.page, self.names, self.figures = page, {"__name__": "__main__"}, 0

    def execute(self, code: str) -> tuple[str, Any]:
        """Run a block and return what it prints, and the value of its last expression."""
        tree = ast.parse(code)
        end = tree.body[-1] if tree.body else None
        last = end.value if isinstance(end, ast.Expr) else None
        tree.body = tree.body if last is None else tree.body[:-1]
        printed, value = io.StringIO(), None
        where = str(self.page)
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, where, "exec"), self.names)
            if last is not None:
                value = eval(compile(ast.Expression(last), where, "eval"), self.names)
        return printed.getvalue(), value

    @staticmethod
    def shows(value: Any, code: str, draws: bool) -> bool:
        """Return whether a notebook would show the value below the block."""
        if value is None or code.rstrip().endswith(";"):
            return False
        return not (draws and "Axes" in repr(value))

    def run(self, code: str) -> list[str]:
        """Run a block and return its outputs as parts of a Markdown page."""
        printed, value = self.execute(code)
        parts = [_text(printed)] if printed.strip() else []
        figures = self._figures()
        if self.shows(value, code, bool(figures)):
            parts.append(_shown(value))
        return parts + figures

    def _figures(self) -> list[str]:
        found = []
        for number in plt.get_fignums():
            self.figures += 1
            name = f"{self.page.stem}-{self.figures}.png"
            figure = plt.figure(number)
            figure.savefig(self.page.parent / name, dpi=160, bbox_inches="tight")
            found.append(shown(name, "What the code above draws", figure.get_figwidth()))
        plt.close("all")
        return found


def execute_page(text: str, page: Path) -> str:
    """Return a Markdown page with the outputs of its Python blocks below them."""
    session = Session(page)

    def block(found: re.Match[str]) -> str:
        return "\n\n".join([found.group(0), *session.run(found.group(1))])

    return FENCE.sub(block, text)


def notebook_cells(path: Path) -> list[tuple[str, str]]:
    """Return the cells of a notebook as (kind, source)."""
    return [
        (cell["cell_type"], "".join(cell["source"]))
        for cell in json.loads(path.read_text())["cells"]
    ]


def execute_notebook(path: Path, page: Path, run: bool = True) -> str:
    """Return a notebook as a Markdown page, with the outputs of its code if it is to be run."""
    session, parts = Session(page), []
    for kind, source in notebook_cells(path):
        if kind == "markdown":
            parts.append(source)
        else:
            parts += [f"```python\n{source}\n```", *(session.run(source) if run else [])]
    link = (
        f'<p class="download"><a href="../{path.name}" download>Download this page as a '
        "notebook</a></p>"
    )
    parts.insert(1, link)
    return "\n\n".join(parts) + "\n"


def _shown(value: Any) -> str:
    page = getattr(value, "_repr_html_", None)
    if page is None or page() is None:
        return _text(repr(value))
    joined = re.sub(r"\n\s*", " ", page())
    return f'<div class="output" markdown="0">{joined}</div>'


def _text(text: str) -> str:
    return f'<pre class="output"><code>{html.escape(text.rstrip())}</code></pre>'.replace(
        "\n\n", "\n&#8203;\n"
    )
