"""Build the site: python -m website [--small] [--only PAGE] [--no-execute] [--out site]. Warnings, broken links and code that
fails are errors."""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import jax
import yaml

jax.config.update("jax_enable_x64", True)

from . import check, equations, search  # noqa: E402
from .pages import ROOT, assemble  # noqa: E402

HERE = Path(__file__).parent


class _Count(logging.Handler):
    """Collect warnings of MkDocs and its plugins."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the message."""
        self.lines.append(record.getMessage())


def build(
    out: Path,
    work: Path,
    small: bool = False,
    only: Sequence[str] = (),
    execute: bool = True,
) -> list[str]:
    """Build the site and return what is wrong with it; an empty list means that it can be
    published."""
    from mkdocs.commands.build import build as mkdocs_build
    from mkdocs.config import load_config

    katex = equations.katex(ROOT / ".site" / "vendor")
    source = work / "pages"
    navigation = assemble(source, small, only, execute)
    assets = source / "assets"
    (assets / "katex").mkdir(parents=True)
    shutil.copy(katex / "dist" / "katex.min.css", assets / "katex")
    shutil.copytree(
        katex / "dist" / "fonts",
        assets / "katex" / "fonts",
        ignore=shutil.ignore_patterns("*.ttf", "*.woff"),
    )
    for name in ("taut.css", "taut.js"):
        shutil.copy(HERE / name, assets)
    settings = yaml.safe_load((HERE / "mkdocs.yml").read_text())
    settings |= {
        "docs_dir": str(source),
        "site_dir": str(out),
        "nav": navigation,
        "plugins": [
            {"search": {"separator": search.SEPARATOR}},
            {
                "mkdocstrings": {
                    "handlers": {
                        "python": {
                            "paths": [str(ROOT / "src")],
                            "options": {
                                "docstring_style": "google",
                                "show_source": False,
                                "show_root_heading": True,
                                "show_root_full_path": False,
                                "heading_level": 2,
                                "members_order": "source",
                                "filters": ["!^_"],
                                "separate_signature": True,
                                "show_signature_annotations": True,
                                "docstring_options": {
                                    "warn_unknown_params": False,
                                    "warn_missing_types": False,
                                },
                                "show_if_no_docstring": False,
                                "docstring_section_style": "list",
                                "allow_inspection": False,
                            },
                        }
                    }
                }
            },
        ],
    }
    path = work / "mkdocs.yml"
    path.write_text(yaml.safe_dump(settings))
    counted = _Count()
    logging.getLogger("mkdocs").addHandler(counted)
    try:
        mkdocs_build(load_config(str(path), strict=False))
    finally:
        logging.getLogger("mkdocs").removeHandler(counted)
    failed = equations.render_site(out, katex)
    return [
        *counted.lines,
        *(f"KaTeX does not understand {one}" for one in failed),
        *check.problems(out),
        *search.problems(out),
    ]


def main() -> int:
    """Build from the command line."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--small", action="store_true", help="few pages of each kind")
    words.add_argument(
        "--only", action="append", default=[], help="run the code of pages with this in their name"
    )
    words.add_argument("--no-execute", action="store_true", help="run no code and draw no figure")
    words.add_argument("--out", type=Path, default=ROOT / "site")
    asked = words.parse_args()
    problems = build(
        asked.out.resolve(),
        ROOT / ".site" / ("small" if asked.small else "full"),
        asked.small,
        asked.only,
        not asked.no_execute,
    )
    for line in problems:
        print(line, file=sys.stderr)
    print(
        f"{'not published, ' if problems else ''}{len(list(asked.out.rglob('*.html')))} pages in "
        f"{asked.out}"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
