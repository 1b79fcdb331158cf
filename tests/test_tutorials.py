"""Tutorials, the start page and the guides run as they are printed, and the notebooks are stored
with their outputs."""

import json
import re
from pathlib import Path

import jax
import matplotlib
import matplotlib.pyplot
import numpy as np
import pytest
from website.execute import Session
from website.notebooks import checksum
from website.pages import TUTORIALS, guide_pages

matplotlib.use("Agg")
DOCS = Path(__file__).parent.parent / "docs"
PAGES = ["start.md", *(name for name in guide_pages() if name.startswith("guides/"))]


@pytest.fixture(autouse=True, scope="module")
def compile_quickly():
    jax.config.update("jax_disable_most_optimizations", True)
    rank = jax.config.jax_numpy_rank_promotion
    jax.config.update("jax_numpy_rank_promotion", "allow")  # as for a user
    yield
    jax.config.update("jax_numpy_rank_promotion", rank)
    jax.config.update("jax_disable_most_optimizations", False)


def printed_in(cell):
    """Return the words that a stored cell prints and shows as text."""
    parts = [part.get("text") or part["data"].get("text/plain", ()) for part in cell["outputs"]]
    return [word for part in parts for word in "".join(part).split() if word != "<Figure>"]


def same(word, other):
    """Whether two printed words agree. Numbers may differ by 10 %: estimates from two values per
    round amplify rounding, and the tests compile without optimisation."""
    texts = [re.sub(r"[^\d.eE+-]", "", one) for one in (word, other)]
    try:
        numbers = [float(text.rstrip(".")) for text in texts]
    except ValueError:
        return word == other
    return np.isclose(*numbers, rtol=0.1, atol=1e-6)


@pytest.mark.parametrize("name", TUTORIALS)
def test_a_tutorial_prints_what_is_stored(name, tmp_path):
    path = DOCS / "tutorials" / f"{name}.ipynb"
    session = Session(tmp_path / f"{name}.md")
    for cell in json.loads(path.read_text())["cells"]:
        if cell["cell_type"] != "code":
            continue
        source = "".join(cell["source"])
        printed, value = session.execute(source)
        figures = matplotlib.pyplot.get_fignums()
        shown = repr(value) if session.shows(value, source, bool(figures)) else ""
        matplotlib.pyplot.close("all")
        words, stored = f"{printed} {shown}".split(), printed_in(cell)
        assert "EXCEEDED" not in printed
        assert len(words) == len(stored), (words, stored)
        differing = [pair for pair in zip(words, stored, strict=True) if not same(*pair)]
        assert differing == [], f"run python -m website.notebooks {name}"


@pytest.mark.parametrize("name", PAGES)
def test_a_page_runs(name, tmp_path):
    blocks = re.findall(r"^```python\n(.*?)^```$", (DOCS / name).read_text(), re.S | re.M)
    assert blocks
    session = Session(tmp_path / "page.md")
    for block in blocks:
        session.run(block)


def test_notebooks_are_stored_with_the_outputs_of_their_code():
    """GitHub shows the stored outputs; `python -m website.notebooks` writes them again."""
    stored = sorted(path.stem for path in (DOCS / "tutorials").glob("*.ipynb"))
    assert stored == sorted(TUTORIALS)
    for number, name in enumerate(TUTORIALS, 1):
        path = DOCS / "tutorials" / f"{name}.ipynb"
        assert path.stat().st_size < 400_000
        notebook = json.loads(path.read_text())
        assert "".join(notebook["cells"][0]["source"]).startswith(f"# {number}. ")
        assert notebook["metadata"]["taut"]["code"] == checksum(path), name
        outputs = [part for cell in notebook["cells"] for part in cell.get("outputs", ())]
        assert any("image/png" in part.get("data", {}) for part in outputs), name
        assert not any(part["output_type"] == "error" for part in outputs)


def test_changed_code_is_noticed(tmp_path):
    path = tmp_path / "first-game.ipynb"
    stored = (DOCS / "tutorials" / path.name).read_text()
    path.write_text(stored.replace("0.5 * (x.sum()", "0.6 * (x.sum()"))
    assert checksum(path) != json.loads(stored)["metadata"]["taut"]["code"]


def test_a_session_shows_what_a_block_prints_returns_and_draws(tmp_path):
    session = Session(tmp_path / "page.md")
    printed, value = session.run("print('<b>')\n1 + 1")
    assert "&lt;b&gt;" in printed
    assert ">2<" in value
    (figure,) = session.run("import matplotlib.pyplot as plt\nplt.subplots()[1]")
    assert (tmp_path / "page-1.png").read_bytes().startswith(b"\x89PNG")
    assert "page-1.png" in figure
    with pytest.raises(ZeroDivisionError):
        session.run("1 / 0")
