"""Documentation: links resolve, names of code exist and are called as described, and the glossary
is complete."""

import importlib
import inspect
import re
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from website.chart import QUESTIONS

import taut
from taut.play.with_feedback import check_covered

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "guides").glob("*.md")]
)
GENERATED = {"chart.svg", "../learners/index.md"}
"""Links to what `make docs` makes; tests/test_site.py checks them on the site."""
FENCE = re.compile(r"```.*?```", re.S)


def prose(path):
    return FENCE.sub("", path.read_text())


def anchors(path):
    """The anchors that GitHub gives to the headings of a page."""
    heads = re.findall(r"^#+ (.+)$", prose(path), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def broken_links(path, text):
    found = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target) or target in GENERATED:
            continue
        file, _, anchor = target.partition("#")
        there = (path.parent / file).resolve() if file else path
        if not there.exists() or (
            anchor and there.suffix == ".md" and anchor not in anchors(there)
        ):
            found.append(target)
    return found


def names(text):
    """Dotted names of taut's code, as in `taut.play.simulate.simulate` or `taut.simulate(...)`."""
    return set(re.findall(r"`(taut(?:\.\w+)+)", text))


MISSING = object()


def found(name):
    """The module, or the attribute of one, or the attribute of that, which a dotted name means."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            if not hasattr(value, part):
                return None if part in getattr(value, "__dataclass_fields__", ()) else MISSING
            value = getattr(value, part)
        return value
    return MISSING


def exists(name):
    return found(name) is not MISSING


def code_of(name):
    """The code object of a function, method or property; None for anything else."""
    value = found(name)
    value = value.fget if isinstance(value, property) else value
    return getattr(inspect.unwrap(value), "__code__", None) if callable(value) else None


def files(text):
    """Paths of the repository, as in `src/taut/cli.py` or `benchmarks/results/`."""
    found = re.findall(r"`((?:src|tests|docs|examples|benchmarks)/[\w./<>-]*)`", text)
    return {path for path in found if "<" not in path and not path.startswith("benchmarks/results")}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_resolve_and_names_exist(path):
    text = prose(path)
    assert broken_links(path, text) == []
    assert sorted(name for name in names(text) if not exists(name)) == []
    assert sorted(file for file in files(text) if not (ROOT / file).exists()) == []


def test_the_checks_see_what_they_look_for():
    page = ROOT / "docs" / "theory.md"
    assert broken_links(
        page, "[a](missing.md) [b](glossary.md#nothing) [c](glossary.md) [d](#noise)"
    ) == [
        "missing.md",
        "glossary.md#nothing",
    ]
    assert not exists("taut.play.simulate.simulated")
    assert not exists("taut.referee")
    assert exists("taut.Player.observe")
    assert exists("taut.Constants.radius")  # a field without a default has no class attribute
    assert files("`src/taut/cli.py` and `src/taut/gone.py`") == {
        "src/taut/cli.py",
        "src/taut/gone.py",
    }


def test_the_glossary_is_sorted_and_linked_from_every_page():
    terms = re.findall(r"^\*\*(.+?)\.\*\*", (ROOT / "docs" / "glossary.md").read_text(), re.M)
    assert terms == sorted(terms, key=str.lower)
    assert len(terms) == len(set(terms))
    for word in (
        "beta",
        "clipped",
        "error bound",
        "excess",
        "hindsight",
        "pull-back",
        "scale-aware",
        "Slater point",
    ):
        assert word in terms
    for path in PAGES:
        if path.name not in ("CHANGELOG.md", "glossary.md"):
            assert "glossary.md" in path.read_text(), path.name


def entered(call):
    """The code of all Python functions that a call enters."""
    codes = set()
    sys.setprofile(lambda frame, event, _: codes.add(frame.f_code) if event == "call" else None)
    try:
        result = call()
    finally:
        sys.setprofile(None)
    return result, codes


def test_the_architecture_page_describes_what_is_called(tmp_path):
    page = (ROOT / "docs" / "architecture.md").read_text()
    _, *parts = re.split(r"^#{2,3} ", page, flags=re.M)
    sections = {part.splitlines()[0]: part for part in parts}
    problem = taut.Problem(
        lambda x, c: c @ x,
        lambda x: jnp.abs(x).sum() - 1,
        taut.Ball(1.0, shape=2),
        taut.Constants(loss_lipschitz=1.0, constraint_lipschitz=2**0.5, constraint_range=1.0),
    )
    costs = np.random.default_rng(0).uniform(size=(8, 2)) / 2**0.5
    learner = taut.ClippedOGD.tuned(problem.constants, horizon=8)

    def live():
        player = taut.Player(learner, problem)
        player.observe(costs[0])
        return player.decision

    run, simulated = entered(lambda: taut.simulate(learner, problem, costs, chunk=4))
    _, saved = entered(
        lambda: taut.simulate(learner, problem, costs, chunk=4, checkpoint=tmp_path / "run")
    )
    calls = {
        "`taut.simulate(learner, problem, stream)`": simulated | saved,
        "`taut.Player.observe(z)`": entered(live)[1],
        "`run.certificate()`": entered(run.certificate)[1],
    }
    elsewhere = {
        "taut.play.replay.revealed_data",
        "taut.Player.save",
        "taut.Player.certificate",
    }  # described as belonging to other calls
    for title, codes in calls.items():
        named = {name: code_of(name) for name in names(sections[title]) - elsewhere}
        assert sum(code is not None for code in named.values()) >= 5
        assert [
            name for name, code in named.items() if code is not None and code not in codes
        ] == [], title


def test_every_package_says_what_is_inside_and_in_which_order_to_read_it():
    packages = [path.parent for path in (ROOT / "src" / "taut").rglob("__init__.py")]
    assert len(packages) > 10
    for folder in packages:
        name = ".".join(folder.relative_to(ROOT / "src").parts)
        if name != "taut":
            doc = importlib.import_module(name).__doc__
            first = re.search(r"Read `(\w+)`", doc)
            assert first, f"{name}: the docstring should say which module to read first"
            named = set(re.findall(r"`(\w+)[`/]", doc))
            modules = {path.stem for path in folder.iterdir() if path.stem[0] != "_"}
            assert first.group(1) in modules
            assert len(named & modules) >= min(2, len(modules)) or len(modules) < 3, name


def test_the_chart_names_learners_whose_guarantees_cover_noise():
    """The guide names the same ones; taut.simulate would refuse others."""
    (row,) = [learner for question, _, learner in QUESTIONS if "noisy" in question]
    named = re.findall(r"[\w-]+", row.replace(" or ", ", "))
    guide = (ROOT / "docs" / "guides" / "choosing.md").read_text()
    assert f"noisy constraint values to {row}" in guide
    known = taut.Constants(
        radius=1.0,
        loss_lipschitz=1.0,
        constraint_lipschitz=1.0,
        constraint_smoothness=0.0,
        constraint_range=2.0,
        constraint_count=1,
    )
    for name in named:
        learner = taut.learner(name, known, horizon=20, sigma=0.1)
        check_covered(learner, taut.Noisy(values=0.1), unproven=False)


def test_readme_and_the_chart_give_the_same_advice():
    """README names few learners. Those that it advises are where the chart leads to, too."""
    chart = " ".join(learner for _, _, learner in QUESTIONS)
    named = re.findall(r"^\|[^|]*\| `([\w-]+)`", (ROOT / "README.md").read_text(), re.M)
    advised = [name for name in named if name in taut.LEARNERS and name != "clipped-ogd"]
    assert len(advised) >= 4
    assert [name for name in advised if name not in chart] == []
    for name in re.findall(r"[\w]+-[\w-]+", chart.replace("no violation", "")):
        assert name in taut.LEARNERS, name
