"""What the site consists of: pages of the repository, executed notebooks, generated pages, and the
order they come in."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import taut
from taut.learners import LEARNERS

from . import learners
from .chart import decision_chart
from .equations import mark
from .execute import execute_notebook, execute_page
from .pictures import adaptive
from .prose import with_formulas

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
TUTORIALS = (
    "first-game",
    "comparing",
    "certificate",
    "live-player",
    "cvxpy-models",
    "noisy-constraints",
    "your-own-learner",
)
GUIDES = (
    "choosing",
    "constants",
    "changing",
    "memory",
    "checkpoints",
    "fleets",
    "production",
    "advice",
    "troubleshooting",
)
GUIDE_PAGES = ("feedback.md", "performance.md", "modelling.md", "architecture.md")
PLACED = ("start.md", "theory.md", "arena.md", "glossary.md", "learners.md")
"""Pages with a place of their own. All other pages of the repository are guides."""
MODULES = {
    "problems": (
        "taut.Problem",
        "taut.Constants",
        "taut.Domain",
        "taut.Ball",
        "taut.Box",
        "taut.L1Ball",
        "taut.Simplex",
        "taut.Product",
        "taut.AffineBox",
        "taut.Blocks",
        "taut.Spectral",
        "taut.from_cvxpy",
        "taut.recourse",
        "taut.previous",
        "taut.max_of",
        "taut.log_sum_exp",
        "taut.squared",
        "taut.tightened",
        "taut.smoothed",
        "taut.rescaled",
        "taut.steady",
        "taut.NoFeasibleDecision",
    ),
    "playing": (
        "taut.simulate",
        "taut.simulate_all",
        "taut.sweep",
        "taut.Cell",
        "taut.Sweep",
        "taut.Run",
        "taut.Player",
        "taut.Fleet",
        "taut.DaskFleet",
        "taut.Limits",
        "taut.Event",
        "taut.adversary",
        "taut.FullInformation",
        "taut.Noisy",
        "taut.Delayed",
        "taut.Batched",
        "taut.Bandit",
        "taut.metrics",
    ),
    "judging": (
        "taut.certify",
        "taut.Certificate",
        "taut.hindsight",
        "taut.Hindsight",
        "taut.compare",
        "taut.Comparison",
        "taut.rates",
        "taut.recommend",
    ),
    "methods": (
        "taut.learner",
        "taut.Learner",
        "taut.learner_dataclass",
        "taut.register_learner",
        "taut.Card",
        "taut.Growth",
        "taut.Guarantee",
        "taut.Setting",
        "taut.HalfSpace",
        "taut.ClippedOGD",
        "taut.SaddlePoint",
        "taut.ProjectedOGD",
        "taut.DriftPlusPenalty",
        "taut.Doubling",
        "taut.Advised",
        "taut.Averaged",
        "taut.DelayTolerant",
        "taut.OnePoint",
        "taut.TwoPoint",
    ),
    "bounds": ("taut.bounds",),
    "testing": ("taut.testing",),
}


def guide_pages() -> list[str]:
    """Return the guides in their order: those that are listed above, then what else is in the
    folder of documentation."""
    listed = [f"guides/{name}.md" for name in GUIDES]
    others = [f"guides/{path.name}" for path in sorted((DOCS / "guides").glob("*.md"))]
    top = [path.name for path in sorted(DOCS.glob("*.md")) if path.name not in PLACED]
    ordered = [*listed, *others, *GUIDE_PAGES[:-1], *top]
    ordered.remove(GUIDE_PAGES[-1])
    return [*dict.fromkeys(ordered), GUIDE_PAGES[-1]]


def reference_pages() -> dict[str, tuple[str, ...]]:
    """Return the pages of the reference with their names. Public names that no page lists are on a
    page of their own."""
    listed = {name for names in MODULES.values() for name in names}
    further = tuple(
        f"taut.{name}"
        for name in taut.__all__
        if f"taut.{name}" not in listed
        and callable(getattr(taut, name))
        and not name.startswith("_")
    )
    return MODULES | ({"further names": further} if further else {})


def assemble(target: Path, small: bool) -> list[Any]:
    """Write all pages into a folder and return the navigation. A small site has every kind of page,
    but few of each."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for picture in DOCS.glob("*.[ps][nv]g"):
        shutil.copy(picture, target / picture.name)
    report = _report(target, small)
    _write(target / "index.md", _landing())
    _copied(target, "start.md", execute=True)
    _copied(target, "theory.md")
    _copied(target, "arena.md")
    _copied(target, "glossary.md")
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
    for name in guide_pages():
        _copied(target, name, execute=not small)
    cards = list(LEARNERS.values())
    cards = (
        [card for card in cards if card.name in ("clipped-ogd", "half-space")] if small else cards
    )
    (target / "learners").mkdir()
    _write(target / "learners" / "index.md", learners.overview(cards))
    for card in cards:
        _write(
            target / "learners" / f"{card.name}.md",
            learners.page(card, target / "learners", draw=not small),
        )
    (target / "reference").mkdir()
    modules = {name: MODULES[name] for name in ("playing",)} if small else reference_pages()
    for title, names in modules.items():
        body = "\n\n".join(f"::: {name}" for name in names)
        _write(
            target / "reference" / f"{title.replace(' ', '-')}.md",
            f"# {title.capitalize()}\n\n{body}\n",
        )
    _write(target / "reproduction.md", _reproduction(target, report))
    return [
        {"Home": "index.md"},
        {"Start": "start.md"},
        {"Tutorials": [f"tutorials/{name}.md" for name in TUTORIALS]},
        {"Guides": guide_pages()},
        {"Learners": ["learners/index.md", *(f"learners/{card.name}.md" for card in cards)]},
        {"Arena": "arena.md"},
        {"Theory": "theory.md"},
        {"Reference": [f"reference/{title.replace(' ', '-')}.md" for title in modules]},
        {"Reproduction": "reproduction.md"},
        {"Glossary": ["glossary.md", "contributing.md", "changelog.md", "security.md"]},
    ]


def _copied(target: Path, name: str, execute: bool = False) -> None:
    page = target / name
    page.parent.mkdir(exist_ok=True)
    text = _rewritten((DOCS / name).read_text())
    text = re.sub(r"(!\[[^\]]*\]\((?!chart)(?:\w+\.png|\w+\.svg)\))", r"\1{ .wide }", text)
    _write(page, execute_page(text, page) if execute else text)


def _write(path: Path, text: str) -> None:
    path.write_text(mark(text))


def _rewritten(text: str) -> str:
    """Return a page of the repository with its links changed to those of the site."""
    text = re.sub(
        r"\]\((?:\.\./)?(CONTRIBUTING|CHANGELOG|SECURITY)\.md",
        lambda m: f"]({m[1].lower()}.md",
        text,
    )
    text = re.sub(r"\]\((?:\.\./)?README\.md(?:#[\w-]*)?\)", "](index.md)", text)
    text = re.sub(r"\]\(docs/", "](", text)
    text = re.sub(r"\]\(learners\.md\)", "](learners/index.md)", text)
    text = re.sub(r"\]\(((?:\.\./)?tutorials/[\w-]+)\.ipynb\)", r"](\1.md)", text)
    return re.sub(
        r"\[([^\]]+)\]\((?:\.\./)*(?:examples|src|tests|benchmarks|LICENSE|CITATION)[^)]*\)",
        r"`\1`",
        text,
    )


def _landing() -> str:
    """Return the landing page: what taut is, with its picture, the first example, and the table of
    speeds."""
    readme = _rewritten((ROOT / "README.md").read_text())
    first = readme.split("\n## ")[0].partition("\n\n")[2].split("```")[0].strip()
    example = re.search(r"```python\n.*?```", readme, re.S)
    speed = _speed_table()
    assert example is not None
    return (
        "\n\n".join(
            [
                "# taut",
                with_formulas(first),
                "[Start here](start.md){ .md-button .md-button--primary } [Choose a "
                "learner](guides/choosing.md){ .md-button }",
                "## A first example",
                example.group(0),
                "[The next ten minutes](start.md) explain what it prints.",
                "## Speed",
                "Nanoseconds per round of one simulation, and the ratio to hand-written C "
                "(medians of one run).",
                speed,
                "[Performance](performance.md) has all figures of one run and says how they are "
                "measured.",
            ]
        )
        + "\n"
    )


SPEED_COLUMNS = ("toy", "doubly stochastic 10x10", "dispatch", "logistic d=100 m=20")
SPEED_ROWS = ("C", "taut, one stream", "taut, 10 seeds", "NumPy", "CVXPY, one projection per round")


def _speed_table() -> str:
    """Return a small part of the table "Nanoseconds per round" of the performance page."""
    text = (DOCS / "performance.md").read_text()
    table = text.split("### Nanoseconds per round")[1].split("\n### ")[0]
    rows = [
        [cell.strip() for cell in row.strip("|").split("|")]
        for row in re.findall(r"^\|.*\|$", table, re.M)
    ]
    columns = [rows[0].index(name) for name in SPEED_COLUMNS]
    found = {row[0]: [re.sub(r" \+-\d+%", "", row[i]) for i in columns] for row in rows[2:]}
    lines = ["| | " + " | ".join(SPEED_COLUMNS) + " |", "|---" * (len(columns) + 1) + "|"]
    return (
        "\n".join([*lines, *(f"| {name} | {' | '.join(found[name])} |" for name in SPEED_ROWS)])
        + "\n"
    )


FIGURES = {
    "trajectories.png": (
        "figure-1-trajectories",
        "Decisions over the rounds, figure 1 of the paper",
    ),
    "doubly-stochastic.png": (
        "figure-2-doubly-stochastic",
        "Doubly stochastic matrices: violations and regret against the number of rounds",
    ),
    "dispatch.png": ("figure-3-dispatch-scale-aware", "Economic dispatch with scale-aware steps"),
    "theory.png": ("theory-clipped", "Measured growth with bounds dashed, for five values of beta"),
    "frontier.png": (
        "beyond-the-paper",
        "All learners on the three experiments of the paper: mean loss against violation",
    ),
}
"""Pictures of the repository, the figures of the reproduction that show the same, and their
captions."""


VERDICTS = ("holds", "not asymptotic yet", "holds in part", "fails")


def _report(target: Path, small: bool) -> Path | None:
    """Return the folder of the reproduction; it is run now if there are no results yet. A small
    site goes without it."""
    folder = ROOT / "reproduction"
    if not all((folder / name).is_file() for name in ("claims.json", "report.html")):
        if small:
            return None
        from taut.paper.pipeline import run_all

        run_all("all", folder, quiet=True)
    (target / "figures").mkdir()
    for name, _ in FIGURES.values():
        for ending in (".png", "-narrow.png"):
            shutil.copy(folder / "figures" / f"{name}{ending}", target / "figures")
    return folder


def _picture(report: Path | None, up: str, name: str, text: str) -> str:
    """Return a figure of the reproduction, for wide and for narrow screens; without results, the
    picture of the repository."""
    if report is None:
        return f"![{text}]({name}){{ .wide }}"
    figure = f"{up}figures/{FIGURES[name][0]}"
    return adaptive(f"{figure}.png", f"{figure}-narrow.png", text)


def _reproduction(target: Path, report: Path | None) -> str:
    """Return the page of the reproduction: the verdicts, a link to the report, and its most
    important figures."""
    lines = [
        "# Reproduction",
        "",
        '`make reproduce` runs the three experiments of Yuan & Lamperski, "Online convex optimization for cumulative '
        'constraints" (NeurIPS 2018), draws every figure, and judges each claim of the paper by a computed criterion. Claims '
        "that fail are reported as failed. Terms are explained in the [glossary](glossary.md).",
        "",
    ]
    if report is not None:
        shutil.copy(report / "report.html", target / "report.html")
        claims = json.loads((report / "claims.json").read_text())["claims"]
        verdicts = Counter(one["verdict"] for one in claims)
        counts = ", ".join(f'"{word}" {verdicts[word]}' for word in VERDICTS if word in verdicts)
        lines += [
            "[Open the full report](report.html){ .md-button .md-button--primary }",
            "",
            "The report has all figures, the criterion of each claim and what the paper leaves "
            f"open. Verdicts of the {len(claims)} claims: {counts}.",
            "",
            "| claim | verdict |",
            "|---|---|",
        ]
        rows = ((one["claim"].replace("|", "/"), one["verdict"]) for one in claims)
        lines += [f"| {with_formulas(claim)} | {verdict} |" for claim, verdict in rows] + [""]
    for name, (_, text) in FIGURES.items():
        lines += [_picture(report, "../", name, text), "", f"*{text}.*", ""]
    return "\n".join(lines)
