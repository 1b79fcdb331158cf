"""What the site consists of: pages of the repository, executed notebooks, generated pages, and the
order they come in."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import taut
from taut.learners import LEARNERS

from . import gallery, learners
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
    "guides/installing.md",
    "guides/choosing.md",
    "guides/constants.md",
    "guides/memory.md",
    "guides/changing.md",
    "guides/advice.md",
    "guides/fleets.md",
    "guides/production.md",
    "modelling.md",
    "feedback.md",
    "guides/tables.md",
    "guides/checkpoints.md",
    "sweeps.md",
    "guides/fast.md",
    "guides/troubleshooting.md",
)
"""Pages that answer "how do I", in their order."""
THEORY = ("theory.md", "field.md")
PROJECT = ("performance.md", "speed-notes.md", "architecture.md", "deprecation.md", "glossary.md")
PLACED = ("start.md", "arena.md", "arena-rules.md", "gallery.md", "learners.md", *THEORY, *PROJECT)
"""Pages with a place of their own. All other pages of the repository are guides."""
ROOT_PAGES = ("CONTRIBUTING", "CHANGELOG", "SECURITY", "CODE_OF_CONDUCT")
NOT_RUN = (*THEORY, *PROJECT, "arena.md", "arena-rules.md", "gallery.md", "learners.md")
"""Pages without code that is to be run."""
FEW = ("a-ogd", "clipped-ogd", "half-space", "half-space-strong", "ogd")
"""The learners of a small site; their names have words in common."""
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
        "taut.rescaled",
        "taut.steady",
        "taut.NoFeasibleDecision",
    ),
    "playing": (
        "taut.simulate",
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
    "bounds": tuple(f"taut.bounds.{name}" for name in vars(taut.bounds) if name[0] != "_"),
    "testing": ("taut.testing",),
    "adapters": ("taut.adapters.half_space", "taut.adapters.ConstrainedRegressor"),
}


def guide_pages() -> list[str]:
    """Return the guides in their order: those that are listed above, then what else is in the
    folder of documentation."""
    others = [f"guides/{path.name}" for path in sorted((DOCS / "guides").glob("*.md"))]
    top = [path.name for path in sorted(DOCS.glob("*.md")) if path.name not in PLACED]
    return list(dict.fromkeys([*GUIDES, *others, *top]))


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


def assemble(
    target: Path, small: bool, only: Sequence[str] = (), execute: bool = True
) -> list[Any]:
    """Write all pages into a folder and return the navigation.

    Arguments:
        target: the folder, which is emptied first.
        small: every kind of page, but few of each.
        only: names of pages whose code is run and whose figures are drawn; without any, all are.
        execute: whether code is run at all.
    """
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)

    def runs(name: str) -> bool:
        if not execute or (small and name != "start.md"):
            return False
        return not only or any(word in name for word in only)

    for picture in DOCS.glob("*.[ps][nv]g"):
        shutil.copy(picture, target / picture.name)
    report = _report(target, small or not execute)
    _write(target / "index.md", WIDE + _landing())
    for name in ("start.md", "arena.md", "arena-rules.md", *THEORY, *PROJECT):
        _copied(target, name, execute=name not in NOT_RUN and runs(name))
    _gallery(target)
    for name in ROOT_PAGES:
        _write(target / f"{name.lower()}.md", _rewritten((ROOT / f"{name}.md").read_text()))
    (target / "tutorials").mkdir()
    for name in TUTORIALS:
        source = DOCS / "tutorials" / f"{name}.ipynb"
        page = target / "tutorials" / f"{name}.md"
        shutil.copy(source, page.with_suffix(".ipynb"))
        _write(page, _rewritten(execute_notebook(source, page, run=runs(f"tutorials/{name}"))))
    (target / "guides").mkdir()
    (target / "guides" / "chart.svg").write_text(decision_chart())
    for name in guide_pages():
        _copied(target, name, execute=runs(name))
    cards = list(LEARNERS.values())
    cards = [card for card in cards if card.name in FEW] if small else cards
    (target / "learners").mkdir()
    _write(target / "learners" / "index.md", WIDE + learners.overview(cards))
    for card in cards:
        draw = runs(f"learners/{card.name}")
        _write(
            target / "learners" / f"{card.name}.md",
            learners.page(card, target / "learners", draw=draw),
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
    _arena_board(target)
    return [
        {"Home": "index.md"},
        {"Start": "start.md"},
        {"Gallery": ["gallery/index.md", *(f"gallery/{name}.md" for name in gallery.names())]},
        {"Learn": [f"tutorials/{name}.md" for name in TUTORIALS]},
        {"How-to": guide_pages()},
        {"Arena": ["arena.md", "arena-rules.md"]},
        {"Learners": ["learners/index.md", *(f"learners/{card.name}.md" for card in cards)]},
        {"Theory": list(THEORY)},
        {"Reproduction": "reproduction.md"},
        {"API": [f"reference/{title.replace(' ', '-')}.md" for title in modules]},
        {"Project": [*PROJECT, *(f"{name.lower()}.md" for name in ROOT_PAGES)]},
    ]


def _arena_board(target: Path) -> None:
    """Add the interactive board of the arena, with the numbers that `make arena` has left."""
    from taut.arena.report import page_of

    (target / "arena-board.html").write_text(page_of(DOCS / "arena-board.json.gz"))
    page = target / "arena.md"
    button = "[Open the interactive board](arena-board.html){ .md-button .md-button--primary }"
    text = page.read_text()
    first = text.index("## How it is played")
    page.write_text(f"{text[:first]}{button}\n\n{text[first:]}")


def _gallery(target: Path) -> None:
    """Write the gallery: its overview and a page for each example."""
    folder = target / "gallery"
    folder.mkdir()
    for picture in (DOCS / "gallery").glob("*.[pg][ni][gf]"):
        shutil.copy(picture, folder / picture.name)
    text = _rewritten((DOCS / "gallery.md").read_text())
    text = re.sub(r"<!-- The site.*?-->", gallery.cards(), text)
    _write(folder / "index.md", WIDE + text.replace("](glossary.md)", "](../glossary.md)"))
    for entry, name in zip(gallery.ENTRIES, gallery.names(), strict=True):
        _write(folder / f"{name}.md", gallery.page(entry))


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
        r"\]\(((?:\.\./)*)(CONTRIBUTING|CHANGELOG|SECURITY|CODE_OF_CONDUCT)\.md",
        lambda m: f"]({m[1].removeprefix('../')}{m[2].lower()}.md",
        text,
    )
    text = re.sub(r"\]\((?:\.\./)?README\.md(?:#[\w-]*)?\)", "](index.md)", text)
    text = re.sub(r"\]\(docs/", "](", text)
    text = re.sub(r'(src(?:set)?=")docs/', r"\1", text)
    text = re.sub(r"\]\(learners\.md\)", "](learners/index.md)", text)
    text = re.sub(r"\]\(gallery\.md\)", "](gallery/index.md)", text)
    text = re.sub(r"\]\(((?:\.\./)?(?:tutorials/)?[\w-]+)\.ipynb\)", r"](\1.md)", text)
    return re.sub(
        r"\[([^\]]+)\]\((?:\.\./)*(?:examples|src|tests|benchmarks|LICENSE|CITATION)[^)]*\)",
        r"`\1`",
        text,
    )


WIDE = "---\nhide:\n  - toc\n---\n\n"
"""The head of a page that has no headings, or a wide table: it takes the room of the contents."""


DOORS = """<div class="doors">
<a class="card" href="tutorials/comparing/"><strong>Researcher</strong><span>Compare methods on your data, read
certificates, reproduce the paper, see where the field stands.</span></a>
<a class="card" href="tutorials/live-player/"><strong>Engineer</strong><span>Put a player into a dispatcher, a pacer or an
allocator: restarts, late data, alarms, fleets.</span></a>
<a class="card" href="tutorials/your-own-learner/"><strong>Author of a method</strong><span>Write one file, check it, enter the
arena.</span></a>
</div>
"""


def _landing() -> str:
    """Return the landing page: what taut does, the line, six lines of code with what they print,
    three doors, and the table of speeds."""
    readme = _rewritten((ROOT / "README.md").read_text())
    first = readme.split("\n## ")[0].partition("\n\n")[2].split("```")[0].strip()
    first = re.sub(r"(!\[[^\]]*\]\((?!chart)[\w./-]+\.png\))", r"\1{ .wide }", first)
    blocks = re.findall(r"```(?:python|text)\n.*?```", readme, re.S)
    return (
        "\n\n".join(
            [
                "# taut",
                with_formulas(first),
                "[Install, and your first certificate](start.md){ .md-button .md-button--primary } "
                "[Gallery](gallery/index.md){ .md-button }",
                "## Six lines",
                *blocks[:2],
                "## Three doors",
                DOORS,
                "## Speed",
                "Nanoseconds per round of one simulation, and the ratio to hand-written C "
                "(medians of one run).",
                _speed_table(),
                "[Figures of speed](performance.md) has all figures of one run and says how they "
                "are measured.",
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
}
"""Names of pictures, the figures of the reproduction that they stand for, and their captions."""


VERDICTS = ("holds", "not asymptotic yet", "holds in part", "fails")


def _report(target: Path, small: bool) -> Path | None:
    """Return the folder of the reproduction; it is run now if there are no results yet. A small
    site goes without it."""
    folder = ROOT / "reproduction"
    if not all((folder / name).is_file() for name in ("claims.json", "report.html")):
        if small:
            return None
        from taut.paper.reproduce import run_all

        run_all("all", folder, quiet=True)
    (target / "figures").mkdir()
    for name, _ in FIGURES.values():
        for ending in (".png", "-narrow.png"):
            shutil.copy(folder / "figures" / f"{name}{ending}", target / "figures")
    return folder


def _picture(report: Path | None, up: str, name: str, text: str) -> str:
    """Return a figure of the reproduction, for wide and for narrow screens; without results, what
    it would show."""
    if report is None:
        return f"*{text}.*"
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
