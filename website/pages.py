"""What the site consists of: pages of the repository, executed notebooks, generated pages, and the order they come in."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

from taut.learners import LEARNERS

from . import learners
from .chart import decision_chart
from .equations import mark
from .execute import execute_notebook, execute_page

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
TUTORIALS = (
    "first-game",
    "live-player",
    "your-own-learner",
    "comparing",
    "cvxpy-models",
    "noisy-constraints",
    "certificate",
)
GUIDES = ("choosing", "constants", "checkpoints", "troubleshooting")
GUIDE_PAGES = ("performance.md", "modelling.md", "architecture.md")
MODULES = {
    "problems": ("taut.Problem", "taut.Constants", "taut.Ball", "taut.Box", "taut.L1Ball", "taut.Simplex", "taut.Product",
                 "taut.from_cvxpy", "taut.max_of", "taut.log_sum_exp", "taut.squared", "taut.tightened", "taut.smoothed"),
    "playing": ("taut.simulate", "taut.simulate_all", "taut.sweep", "taut.Cell", "taut.Sweep", "taut.Run", "taut.Player",
                "taut.metrics"),
    "judging": ("taut.certify", "taut.Certificate", "taut.hindsight", "taut.Hindsight", "taut.compare", "taut.Comparison",
                "taut.rates", "taut.recommend"),
    "methods": ("taut.learner", "taut.Learner", "taut.learner_dataclass", "taut.register_learner", "taut.Card", "taut.Growth",
                "taut.Guarantee", "taut.Setting"),
    "bounds": ("taut.bounds",),
    "testing": ("taut.testing",),
}  # fmt: skip


def assemble(target: Path, small: bool) -> list[Any]:
    """Write all pages into a folder and return the navigation. A small site has every kind of page, but few of each."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for picture in DOCS.glob("*.[ps][nv]g"):
        shutil.copy(picture, target / picture.name)
    _write(target / "index.md", _landing())
    _copied(target, "start.md", execute=True)
    _copied(target, "theory.md")
    _copied(target, "glossary.md")
    for name in ("performance.md", "architecture.md"):
        _copied(target, name)
    _copied(target, "modelling.md", execute=not small)
    for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"):
        _write(target / name.lower(), _rewritten((ROOT / name).read_text()))
    (target / "tutorials").mkdir()
    for name in TUTORIALS:
        source = DOCS / "tutorials" / f"{name}.ipynb"
        page = target / "tutorials" / f"{name}.md"
        shutil.copy(source, page.with_suffix(".ipynb"))
        _write(page, execute_notebook(source, page, run=not small))
    (target / "guides").mkdir()
    (target / "guides" / "chart.svg").write_text(decision_chart())
    for name in GUIDES:
        _copied(target, f"guides/{name}.md", execute=not small)
    cards = list(LEARNERS.values())
    cards = [card for card in cards if card.name in ("clipped-ogd", "half-space")] if small else cards
    (target / "learners").mkdir()
    _write(target / "learners" / "index.md", learners.overview(cards))
    for card in cards:
        _write(target / "learners" / f"{card.name}.md", learners.page(card, target / "learners", draw=not small))
    (target / "reference").mkdir()
    modules = {name: MODULES[name] for name in ("playing",)} if small else MODULES
    for title, names in modules.items():
        body = "\n\n".join(f"::: {name}" for name in names)
        _write(target / "reference" / f"{title}.md", f"# {title.capitalize()}\n\n{body}\n")
    _write(target / "reproduction.md", _reproduction(target))
    return [
        {"Home": "index.md"},
        {"Start": "start.md"},
        {"Tutorials": [f"tutorials/{name}.md" for name in TUTORIALS]},
        {"Guides": [*(f"guides/{name}.md" for name in GUIDES), *GUIDE_PAGES]},
        {"Learners": ["learners/index.md", *(f"learners/{card.name}.md" for card in cards)]},
        {"Theory": "theory.md"},
        {"Reference": [f"reference/{title}.md" for title in modules]},
        {"Reproduction": "reproduction.md"},
        {"Glossary": ["glossary.md", "contributing.md", "changelog.md", "security.md"]},
    ]


def _copied(target: Path, name: str, execute: bool = False) -> None:
    page = target / name
    page.parent.mkdir(exist_ok=True)
    text = _rewritten((DOCS / name).read_text())
    _write(page, execute_page(text, page) if execute else text)


def _write(path: Path, text: str) -> None:
    path.write_text(mark(text))


def _rewritten(text: str) -> str:
    """Return a page of the repository with its links changed to those of the site."""
    text = re.sub(r"\]\((?:\.\./)?(CONTRIBUTING|CHANGELOG|SECURITY)\.md", lambda m: f"]({m[1].lower()}.md", text)
    text = re.sub(r"\]\((?:\.\./)?README\.md(?:#[\w-]*)?\)", "](index.md)", text)
    text = re.sub(r"\]\(docs/", "](", text)
    text = re.sub(r"\]\(((?:\.\./)?tutorials/[\w-]+)\.ipynb\)", r"](\1.md)", text)
    return re.sub(r"\[([^\]]+)\]\((?:\.\./)?(?:examples|src|tests|benchmarks|LICENSE|CITATION)[^)]*\)", r"`\1`", text)


def _landing() -> str:
    """Return the landing page: what taut is, the first example, the dispatch figure and the table of speeds."""
    readme = _rewritten((ROOT / "README.md").read_text())
    first = readme.split("\n## ")[0].partition("\n\n")[2].split("```")[0].strip()
    example = re.search(r"```python\n.*?```", readme, re.S)
    speed = _speed_table()
    assert example is not None
    return "\n\n".join([
        "# taut", first,
        "[Start here](start.md){ .md-button .md-button--primary } [Choose a learner](guides/choosing.md){ .md-button }",
        "![Economic dispatch: earlier methods exceed the emission cap, Clipped-OGD hardly does](dispatch.png)",
        "*Economic dispatch under an emission cap. Earlier methods exceed the cap; Clipped-OGD hardly does. The figure is drawn by "
        "`make reproduce` ([reproduction](reproduction.md)).*",
        "## A first example", example.group(0), "[The next ten minutes](start.md) explain what it prints.",
        "## Speed", speed, "[Performance](performance.md) has all figures of one run and says how they are measured.",
    ]) + "\n"  # fmt: skip


def _speed_table() -> str:
    """Return the table of the performance page that compares taut with its alternatives."""
    text = (DOCS / "performance.md").read_text()
    for table in re.findall(r"(?:^\|.*\|\n)+", text, re.M):
        if "NumPy" in table and re.search(r"\d", table) and "benchmarks." not in table:
            return str(table)
    return ""


def _reproduction(target: Path) -> str:
    """Return the page of the reproduction; with the verdicts and the report if `make reproduce` has been run."""
    lines = [
        "# Reproduction", "",
        "`make reproduce` runs the three experiments of Yuan & Lamperski, \"Online convex optimization for cumulative "
        "constraints\" (NeurIPS 2018), draws every figure, and judges each claim of the paper by a computed criterion. Claims "
        "that fail are reported as failed. Terms are explained in the [glossary](glossary.md).", "",
    ]  # fmt: skip
    stored = ROOT / "reproduction"
    if (stored / "claims.json").is_file() and (stored / "report.html").is_file():
        shutil.copy(stored / "report.html", target / "report.html")
        claims = json.loads((stored / "claims.json").read_text())["claims"]
        lines += ["[Open the full report](report.html)", "", "| claim | verdict |", "|---|---|"]
        rows = ((one["claim"].replace("|", "/"), one["verdict"]) for one in claims)
        lines += [f"| {claim} | {verdict} |" for claim, verdict in rows] + [""]
    for picture, text in (
        ("trajectories.png", "Decisions over the rounds, figure 1 of the paper"),
        ("doubly-stochastic.png", "Doubly stochastic matrices: violations and regret against T"),
        ("dispatch.png", "Economic dispatch with scale-aware steps"),
        ("theory.png", "Measured growth with bounds dashed, for five values of beta"),
    ):
        lines += [f"![{text}]({picture})", "", f"*{text}.*", ""]
    return "\n".join(lines)
