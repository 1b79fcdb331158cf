"""Documentation: links resolve, names of code exist, and the glossary is sorted and complete."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
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
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        there = (path.parent / file).resolve() if file else path
        if not there.exists() or (anchor and there.suffix == ".md" and anchor not in anchors(there)):
            found.append(target)
    return found


def names(text):
    """Dotted names of taut's code, as in `taut.play.simulate.simulate` or `taut.simulate(...)`."""
    return set(re.findall(r"`(taut(?:\.\w+)+)", text))


def exists(name):
    """Whether a dotted name is a module, or an attribute of one, or an attribute of that."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            if not hasattr(value, part) and part not in getattr(value, "__dataclass_fields__", ()):
                return False
            value = getattr(value, part, None)
        return True
    return False


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
    assert broken_links(page, "[a](missing.md) [b](glossary.md#nothing) [c](glossary.md) [d](#noise)") == [
        "missing.md",
        "glossary.md#nothing",
    ]
    assert not exists("taut.play.simulate.simulated")
    assert not exists("taut.referee")
    assert exists("taut.Player.observe")
    assert exists("taut.Constants.radius")  # a field without a default has no class attribute
    assert files("`src/taut/cli.py` and `src/taut/gone.py`") == {"src/taut/cli.py", "src/taut/gone.py"}


def test_the_glossary_is_sorted_and_linked_from_every_page():
    terms = re.findall(r"^\*\*(.+?)\.\*\*", (ROOT / "docs" / "glossary.md").read_text(), re.M)
    assert terms == sorted(terms, key=str.lower)
    assert len(terms) == len(set(terms))
    for word in ("beta", "clipped", "error bound", "excess", "hindsight", "pull-back", "scale-aware", "Slater point"):
        assert word in terms
    for path in PAGES:
        if path.name not in ("CHANGELOG.md", "glossary.md"):
            assert "glossary.md" in path.read_text(), path.name
