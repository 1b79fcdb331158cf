"""Print how many megabytes the core and each extra take on the disk.

Run: python -m benchmarks.install [--page]; with --page the table of docs/guides/installing.md is
written again. Sizes are those of the files of the installed packages of this environment; packages
that are not installed are named.
"""

from __future__ import annotations

import argparse
import re
import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "guides" / "installing.md"
SHOWN = ("cvxpy", "files", "cluster", "adapters", "arena", "docs")


def megabytes(name: str) -> float:
    """Return the size of the files of an installed package."""
    files = metadata.distribution(name).files or ()
    sizes = (Path(str(file.locate())) for file in files)
    return sum(path.stat().st_size for path in sizes if path.is_file()) / 1e6


def closure(requirements: list[str]) -> tuple[dict[str, float], set[str]]:
    """Return all packages that requirements bring, with their sizes, and those that are missing."""
    found: dict[str, float] = {}
    missing: set[str] = set()
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        wanted = waiting.pop()
        name = re.sub(r"[-_.]+", "-", wanted.name).lower()
        if name in found or name in missing or name == "taut":
            continue
        try:
            found[name] = megabytes(name)
        except metadata.PackageNotFoundError:
            missing.add(name)
            continue
        for text in metadata.distribution(name).requires or ():
            inner = Requirement(text)
            if inner.marker is None or inner.marker.evaluate({"extra": ""}):
                waiting.append(inner)
    return found, missing


def table() -> str:
    """Return the table: each part, its megabytes, and its largest packages."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    core, _ = closure(project["dependencies"])
    lines = ["| part | MB on the disk | largest packages |", "|---|---:|---|"]
    lines.append(f"| core | {sum(core.values()):.0f} | {_largest(core, 5)} |")
    for extra in SHOWN:
        added, missing = closure(project["optional-dependencies"][extra])
        new = {name: size for name, size in added.items() if name not in core}
        without = f"; not installed here: {', '.join(sorted(missing))}" if missing else ""
        lines.append(f"| `{extra}` | + {sum(new.values()):.0f} | {_largest(new, 3)}{without} |")
    jaxlib = metadata.version("jaxlib")
    head = f"Written by `python -m benchmarks.install --page` with jaxlib {jaxlib}."
    return "\n".join([head, "", *lines])


def _largest(sizes: dict[str, float], count: int) -> str:
    largest = sorted(sizes, key=lambda name: -sizes[name])[:count]
    return ", ".join(f"{name} {sizes[name]:.0f}" for name in largest)


def main() -> None:
    """Print the table, and write it into the page if that is asked for."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--page", action="store_true")
    made = table()
    print(made)
    if words.parse_args().page:
        text = PAGE.read_text()
        head, rest = text.split("<!-- sizes: begin -->")
        tail = rest.split("<!-- sizes: end -->")[1]
        PAGE.write_text(f"{head}<!-- sizes: begin -->\n{made}\n<!-- sizes: end -->{tail}")


if __name__ == "__main__":
    main()
