"""Tutorials, the start page and the guides run as they are printed, and the notebooks are clean."""

import json
import re
from pathlib import Path

import jax
import matplotlib
import pytest
from website.execute import Session, notebook_cells
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


@pytest.mark.parametrize("name", TUTORIALS)
def test_a_tutorial_runs(name, tmp_path):
    path = DOCS / "tutorials" / f"{name}.ipynb"
    session, outputs = Session(tmp_path / f"{name}.md"), []
    for kind, source in notebook_cells(path):
        if kind == "code":
            outputs += session.run(source)
    assert outputs
    assert not any("EXCEEDED" in part for part in outputs)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_runs(name, tmp_path):
    blocks = re.findall(r"^```python\n(.*?)^```$", (DOCS / name).read_text(), re.S | re.M)
    assert blocks
    session = Session(tmp_path / "page.md")
    for block in blocks:
        session.run(block)


def test_notebooks_hold_no_outputs_and_begin_with_a_title():
    found = sorted(path.stem for path in (DOCS / "tutorials").glob("*.ipynb"))
    assert found == sorted(TUTORIALS)
    for name in found:
        cells = json.loads((DOCS / "tutorials" / f"{name}.ipynb").read_text())["cells"]
        assert "".join(cells[0]["source"]).startswith("# ")
        assert all(not cell.get("outputs") and not cell.get("execution_count") for cell in cells)


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
