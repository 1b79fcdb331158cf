"""Numbers of README and the documentation: every result comes from a command of this repository.

A number that looks like a result needs a source in its section: the marks between which a command
writes, the name of the command that prints it, or the name of the test that computes it. In a
notebook, its outputs are the source. Numbers that were chosen, such as horizons, sizes and targets,
need no source; the ones that look like results are listed here.
"""

import importlib.util
import json
import re
from functools import cache
from pathlib import Path

import pytest
from typer.main import get_command

from taut.cli.main import app

ROOT = Path(__file__).parent.parent
PAGES = (
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
)
NOTEBOOKS = sorted((ROOT / "docs" / "tutorials").glob("*.ipynb"))
RESULT = re.compile(
    r"(?<![\w.,^])(?:"
    r"\d[\d,]*\.\d+(?:e[+-]?\d+)?(?!\.?\d)"  # decimals, but not versions such as 0.8.1
    r"|\d[\d,]*(?=\s*%|\s(?:times|ns|µs|us|ms|s|MB|GB|microseconds|seconds|minutes|hours)\b)"
    r"|\d{1,3}(?:,\d{3})+|\d{3,}"
    r")(?![\w^{])"
)
COUNTED = re.compile(
    r"\s(?:(?:small|random|new|kept) )?(?:budgets|cells|claims|coefficients|constraints|games|members"
    r"|numbers|problems|programs|rounds|seeds|workers)\b"
)
"""What follows a number that says how much was computed, and not what came out."""
COMMAND = re.compile(
    r"`(python -m (?:benchmarks|drills|website)[^`]*|python examples/[^`]*"
    r"|taut (?:arena|bench|reproduce)[^`]*|make (?:arena|bench|drill|fuzz|mutants|reproduce)[^`]*"
    r"|tests/[\w/]+\.py)`"
)
"""What measures or tests something."""
CHOSEN = {
    "docs/deprecation.md": ("Before 1.0", "a minor version (0.2, 0.3)"),
    "docs/guides/constants.md": ("all violations grow by 1,000",),
    "docs/guides/fast.md": ("1,032, 8,200 or 32,776", "128 per problem"),
    "docs/guides/fleets.md": ("blocks of 16, 256 or 2,048",),
    "docs/guides/production.md": ("about 200 lines",),
    "docs/modelling.md": ("to 200)",),
    "docs/speed-notes.md": (
        "gains at least 1.2 times somewhere and loses 5 % nowhere",
        "versions of JAX in which they were tested (0.10)",
        "1000 x 100 matrix",
        "Set it to 1024",
    ),
    "docs/sweeps.md": ("for 30 seconds",),
    "docs/theory.md": ("a cost of 10,000 among costs of 1",),
}
"""Numbers that were chosen although they look like results."""
HIDDEN = (
    r"^```.*?^```",
    r"\$\$.*?\$\$",
    r"\$[^$\n]+\$",
    r"`[^`\n]*`",
    r"(?:\[(?:arXiv )?\d{4}\.\d{5})?\]\([^)]*\)",
    r"</?[a-z!][^>\n]*>",
    r"^#[^\n]*",
    r"\b(?:Python|JAX|Apache|version)[ -]\d[\d.]*",
    r"\b(?:19|20)\d\d\b",
)
"""Code, mathematics, links, headings, versions and years: patterns of what has no results."""


def prose(text):
    """Return a page with spaces in the place of everything that has no results."""
    for pattern in HIDDEN:
        text = re.sub(
            pattern, lambda match: re.sub(r"[^\n]", " ", match.group()), text, flags=re.S | re.M
        )
    return text


def sections(text):
    """Return (start, end) of each section, from a heading to the next one."""
    visible = re.sub(
        r"^```.*?^```", lambda match: "`" * len(match.group()), text, flags=re.S | re.M
    )
    starts = [match.start() for match in re.finditer(r"^#+ ", visible, re.M)]
    return list(zip([0, *starts], [*starts, len(text)], strict=True))


def results(text, chosen=()):
    """Return the places of all numbers of a text that look like results."""
    visible = prose(text)
    allowed = [match.span() for one in chosen for match in re.finditer(re.escape(one), text)]
    return [
        match
        for match in RESULT.finditer(visible)
        if not COUNTED.match(visible, match.end())
        and not any(start <= match.start() < end for start, end in allowed)
    ]


def without_source(text, chosen=()):
    """Return (line, number) of all results of a page that have no source in their section."""
    written = [
        match.span()
        for match in re.finditer(r"<!-- (\w+): begin -->.*?<!-- \1: end -->", text, re.S)
    ]
    measured = [span for span in sections(text) if COMMAND.search(text, *span)]
    code = {
        span: "".join(re.findall(r"^```python\n.*?^```", text[slice(*span)], re.S | re.M))
        for span in sections(text)
    }
    return [
        (text.count("\n", 0, match.start()) + 1, match.group())
        for match in results(text, chosen)
        if not any(start <= match.start() < end for start, end in (*written, *measured))
        and not any(
            start <= match.start() < end and match.group() in lines
            for (start, end), lines in code.items()
        )
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_result_has_a_source(page):
    name, text = page.relative_to(ROOT).as_posix(), page.read_text()
    chosen = CHOSEN.get(name, ())
    assert [one for one in chosen if one not in text] == []
    found = [f"{name}:{line}: {number}" for line, number in without_source(text, chosen)]
    assert found == [], "name the command that prints it in the same section, or delete it"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_results_in_notebooks_are_printed_there(path):
    cells = json.loads(path.read_text())["cells"]
    printed = json.dumps(
        [(cell["source"], cell["outputs"]) for cell in cells if cell["cell_type"] == "code"]
    )
    for cell in cells:
        if cell["cell_type"] == "markdown":
            text = "".join(cell["source"])
            numbers = {match.group() for match in results(text)}
            assert {one for one in numbers if one not in printed} == set(), text


@pytest.mark.parametrize(
    "text",
    [
        "A round takes 3.25 microseconds.",
        "It violates by 12,345 at the end.",
        "| toy | 562 |",
        "It is 40 times as fast, in 12 ms.",
        "The loss is 7 % larger.",
        "# One\nMeasured with `make bench`.\n\n# Two\nRegret is 142.",
    ],
)
def test_a_number_that_was_typed_in_is_noticed(text):
    assert without_source(text)


@pytest.mark.parametrize(
    "text",
    [
        "Measured with `python -m benchmarks.speed`: a round takes 3.25 microseconds.",
        "<!-- limits: begin -->\n| toy | 562.5 |\n<!-- limits: end -->",
        "10,000 rounds with 100 seeds, in 2018, as in [2310.18955](https://arxiv.org/abs/2310.18955)",
        "It leaves 0.2:\n\n```python\nstart = 0.2\n```\n",
        "The bound is $12.5 G_f D$ for JAX 0.8.1 and `life=1024`.",
    ],
)
def test_numbers_with_a_source_and_chosen_numbers_pass(text):
    assert without_source(text) == []


# Commands that pages name.


@cache
def targets():
    """The targets of the Makefile."""
    return set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.M))


def fault(command):
    """Return what is wrong with a command, or nothing."""
    words = command.split()
    options = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)} - {"-m"}
    if words[0] == "make":
        return "" if words[1] in targets() else "no such target"
    if words[0] == "taut":
        group = get_command(app)
        for word in words[1:]:
            group = getattr(group, "commands", {}).get(word, group)
        known = {name for one in group.params for name in one.opts} | {"--help"}
        there = words[1] in get_command(app).commands
        return "" if there and options <= known else "no such command or option"
    if words[:2] == ["python", "-m"]:
        spec = importlib.util.find_spec(words[2])
        if spec is None:
            return "no such module"
        path = Path(spec.origin)
        path = path.with_name("__main__.py") if path.stem == "__init__" else path
        missing = {one for one in options if f'"{one}"' not in path.read_text()}
        return f"no option {', '.join(sorted(missing))}" if missing else ""
    file = words[0] if words[0].startswith("tests/") else words[1]
    return "" if (ROOT / file).is_file() else "no such file"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_that_pages_name_exist(page):
    commands = COMMAND.findall(page.read_text())
    assert {one: fault(one) for one in commands if fault(one)} == {}


def test_commands_that_do_not_exist_are_noticed():
    for command in (
        "python -m benchmarks.speeds",
        "python -m benchmarks.limits --pages",
        "make benchmark",
        "taut arena run --fast",
        "python examples/the_lines.py",
        "tests/learners/test_half_spaces.py",
    ):
        assert fault(command), command
