"""README: its Python runs as printed, and its table is the registry."""

import re
from pathlib import Path

import matplotlib

import taut
from taut.cli.main import learners_markdown
from taut.learners.registry import FAMILIES

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_python_blocks_run_as_printed(capsys, monkeypatch, tmp_path):
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README, re.S)
    assert blocks
    assert len(blocks[0].strip().splitlines()) <= 18
    names = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "peak violation" in printed
    assert "EXCEEDED" not in printed
    (conclusion,) = re.findall(r"^> (Holds: .*)$", README, re.M)  # quoted as it is printed
    assert conclusion in " ".join(printed.split())
    assert all(number in printed for number in ("2636", "2071", "171.6", "27.08", "0.008"))
    known = names["problem"].with_constants(taut.Constants(error_bound=1.0))
    rows = taut.simulate(known, names["costs"], seeds=10).certificate().rows
    (sharper,) = (row for row in rows if row.quantity == "violation")
    assert not sharper.trivial
    assert f"the bound is {sharper.bound:.0f}." in README


def test_the_table_of_learners_is_the_registry():
    table = README.split("<!-- learners: begin -->\n")[1].split("\n<!-- learners: end -->")[0]
    assert table == learners_markdown(card for family in FAMILIES for card in family.CARDS), (
        "run make readme"
    )
    assert (
        "O(T^(-b/3)) if there is one smooth fixed constraint" in table
    )  # growth is shown with its conditions
