"""Check a built site: every link and asset exists, and nothing is loaded from another host."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

LINK = re.compile(r"""(?:href|src|srcset)=["']?([^"'\s>]+)""")
LOADED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(?:https?:)?//"""
    r"""|<link\b[^>]*rel=["']?stylesheet[^>]*href=["']?(?:https?:)?//"""
)


def problems(site: Path) -> list[str]:
    """Return one line per broken link, missing anchor, or asset from another host."""
    pages = {page: page.read_text() for page in site.rglob("*.html")}
    anchors = {
        page: set(re.findall(r"""\b(?:id|name)=["']?([^"'\s>]+)""", text))
        for page, text in pages.items()
    }
    found = []
    for page, text in pages.items():
        if LOADED.search(text):
            found.append(f"{page.relative_to(site)}: loads something from another host")
        base = site if page.name == "404.html" else page.parent
        body = re.sub(r"<(pre|code)\b.*?</\1>", "", text, flags=re.S)
        for target in LINK.findall(body):
            parts = urlsplit(target)
            if parts.scheme or parts.netloc or target.startswith(("data:", "#__")):
                continue
            path = unquote(parts.path)
            there = (
                page
                if not path
                else (site / path.lstrip("/") if path.startswith("/") else base / path).resolve()
            )
            there = there / "index.html" if there.is_dir() else there
            if not there.exists():
                found.append(f"{page.relative_to(site)}: {target} does not exist")
            elif (
                parts.fragment
                and there in anchors
                and unquote(parts.fragment) not in anchors[there]
            ):
                found.append(f"{page.relative_to(site)}: {target} has no such anchor")
    return sorted(set(found))
