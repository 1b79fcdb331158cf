"""Print the lowest declared version of every dependency, as requirements for pip.

Run: python -m drills.versions
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).parent.parent / "pyproject.toml"
INDIRECT = ("pyparsing<3.3",)
"""Dependencies of dependencies: Matplotlib 3.9 works with later versions of pyparsing, but warns,
and tests refuse warnings."""


def lowest() -> list[str]:
    """Return one requirement `name==version` per dependency, those of development included."""
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    declared = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    found = []
    for requirement in declared:
        match = re.fullmatch(
            r"([A-Za-z0-9_.\-\[\]]+)>=([0-9.]+)", requirement.split(";")[0].strip()
        )
        if match is None:
            raise ValueError(
                f"pyproject.toml: {requirement!r} has no lowest version; expected name>=version"
            )
        name, version = match.groups()
        found.append(f"{name}=={version}")
        if name == "jax":
            found.append(f"jaxlib=={version}")
    return [*found, *INDIRECT]


if __name__ == "__main__":
    print("\n".join(lowest()))
