"""README: its Python runs as printed, its numbers are printed, and the table of all learners is the
registry."""

import re
from math import isclose
from pathlib import Path

import matplotlib
from website.figures import data_of

from taut.cli.main import learners_markdown
from taut.learners.registry import FAMILIES

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
LEARNERS = (ROOT / "docs" / "learners.md").read_text()


def alike(words, others):
    """Whether two printed lines agree; numbers may differ by 5 %, because README is printed in
    32 bits, in which errors of rounding add up to a small violation."""

    def number(word):
        return float(word.rstrip(",.")) if re.fullmatch(r"-?[\d.]+[,.]?", word) else None

    return len(words) == len(others) and all(
        one == other
        or (
            None not in (number(one), number(other))
            and isclose(number(one), number(other), rel_tol=0.05)
        )
        for one, other in zip(words, others, strict=True)
    )


def test_python_blocks_run_as_printed(capsys, monkeypatch, tmp_path):
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README, re.S)
    assert blocks
    assert len([line for line in blocks[0].splitlines() if line]) == 6
    names = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "peak violation" in printed
    assert "EXCEEDED" not in printed
    (shown,) = re.findall(r"```text\n(half-space, .*?) \.\.\.\n```", README, re.S)
    lines = [line.split() for line in printed.splitlines()]
    for line in filter(str.strip, shown.splitlines()):
        assert any(alike(line.split(), other) for other in lines), line
    assert len(re.findall(r"^(?:regret|clipped violation) ", shown, re.M)) == 2
    rows = names["run"].certificate().rows
    assert not any(row.trivial for row in rows)


def test_the_first_screen_and_the_length():
    first = README.split("\n## ")[0]
    for text in ("docs/line.png", "pip install .", "make reproduce", "make test", "```python"):
        assert text in first
    assert len(README.splitlines()) <= 130
    lengths = [
        len(block.strip().splitlines())
        for block in re.findall(r"```python\n(.*?)```", README, re.S)
    ]
    assert lengths[1:] == [4, 4, 6]  # a controller, a fleet, a model in CVXPY


def test_every_number_is_printed_by_a_command():
    line, verdicts = data_of("line"), data_of("verdicts")
    assert f"The best fixed plan costs {line['best cost']:.1f}\n" in README
    counts = [
        verdicts.get(name, 0) for name in ("holds", "holds in part", "not asymptotic yet", "fails")
    ]
    assert (
        f"{sum(counts)} claims: {counts[0]} hold, {counts[1]} hold in part, {counts[2]} are not asymptotic yet"
        in README
    )
    assert f"but falling), and {counts[3]} fail" in README
    prose = re.sub(
        r"```.*?```|`.*?`|<picture>.*?</picture>|\]\(.*?\)|^\|[^\n]*$",
        "",
        README,
        flags=re.S | re.M,
    )
    numbers = set(re.findall(r"\d+(?:\.\d+)?", prose))
    known = {f"{line['best cost']:.1f}", str(sum(counts)), *map(str, counts)}
    assert numbers >= known
    assert numbers <= known | {"0", "2018", "2.0"}, "a number that no command prints"


def test_the_table_of_learners_is_the_registry():
    table = LEARNERS.split("<!-- learners: begin -->\n")[1].split("\n<!-- learners: end -->")[0]
    assert table == learners_markdown(card for family in FAMILIES for card in family.CARDS), (
        "run make readme"
    )
    assert (
        "O(T^(-b/3)) if there is one smooth fixed constraint" in table
    )  # growth is shown with its conditions


def test_the_rates_of_the_short_table_are_those_of_the_cards():
    rows = re.findall(r"\| `([\w-]+)`(?: \(default\))? \| (.*?) \| (.*?) \|$", README, re.M)
    assert len(rows) == 5
    for name, regret, violation in rows:
        (line,) = re.findall(rf"^\| `{name}` \| (.*)$", LEARNERS, re.M)
        cells = [
            cell.replace("T^max(b,1-b)", "sqrt T").replace("1-b/2", "3/4")
            for cell in line.split(" | ")
        ]
        assert cells[1].startswith(regret), name
        assert name == "half-space" or f"clipped {violation}" in cells[2], name
