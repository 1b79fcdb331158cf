"""README: its Python runs as printed, and its table is the registry."""

import re
from pathlib import Path

import matplotlib

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
    (verdict,) = re.findall(r"^> (half-space, .* Holds: .*)$", README, re.M)  # as it is printed
    assert verdict in " ".join(printed.split())
    rows = names["run"].certificate().rows
    assert not any(row.trivial for row in rows)


def test_the_table_of_learners_is_the_registry():
    table = README.split("<!-- learners: begin -->\n")[1].split("\n<!-- learners: end -->")[0]
    assert table == learners_markdown(card for family in FAMILIES for card in family.CARDS), (
        "run make readme"
    )
    assert (
        "O(T^(-b/3)) if there is one smooth fixed constraint" in table
    )  # growth is shown with its conditions
