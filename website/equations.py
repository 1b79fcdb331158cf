"""Equations as docstrings write them (ASCII), converted to LaTeX; and LaTeX rendered by KaTeX when
the site is built.

No JavaScript is needed to read the mathematics: pages hold the finished HTML and MathML.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

KATEX = "0.19.1"
GREEK = [
    "alpha",
    "beta",
    "gamma",
    "delta",
    "epsilon",
    "eta",
    "theta",
    "kappa",
    "lambda",
    "mu",
    "nu",
    "xi",
    "rho",
    "sigma",
    "tau",
    "phi",
    "psi",
    "omega",
    "Pi",
    "Phi",
    "Psi",
    "Lambda",
    "Delta",
]
FUNCTIONS = {
    "max": r"\max",
    "min": r"\min",
    "argmin": r"\arg\min",
    "argmax": r"\arg\max",
    "log": r"\log",
    "exp": r"\exp",
    "sum": r"\sum",
    "prod": r"\prod",
    "inf": r"\inf",
    "sign": r"\operatorname{sign}",
}
SIGNS = (
    ("<=", r"\le "),
    (">=", r"\ge "),
    ("<-", r"\leftarrow "),
    ("->", r"\to "),
    ("...", r"\dots "),
    ("||", r"\|"),
    (".(", r" \cdot ("),
    ("*", r"\cdot "),
    (" in ", r" \in "),
    ("~", r"\propto "),
    (" .. ", r" \dots "),
    ("#", r"\#"),
    ("%", r"\%"),
    ("&", r"\&"),
)
RENDER = """
const katex = require(process.argv[1]);
const items = JSON.parse(require('fs').readFileSync(0, 'utf8'));
console.log(JSON.stringify(items.map(([tex, displayMode]) => {
  try { return katex.renderToString(tex, {displayMode, throwOnError: true, strict: 'ignore'}); }
  catch (error) { return null; }
})));
"""


def to_latex(lines: list[str]) -> str:
    """Return lines of ASCII mathematics as one aligned block."""
    rows = []
    for one in lines:
        left, equals, right = one.strip().partition(" = ")
        rows.append(f"{line(left)} &= {line(right)}" if equals else f"& {line(one.strip())}")
    return r"\begin{aligned}" + r" \\ ".join(rows) + r"\end{aligned}"


def growth(text: str) -> str:
    """Return an order of growth, such as T^max(b,1-b), as LaTeX."""
    return rf"O({line(text)})"


def line(text: str) -> str:
    """Return one formula, written in ASCII, as LaTeX."""
    text = re.sub(r"\s{2,}", r" \\qquad ", text)
    text = _roots(text)
    text = re.sub(r"\blog2\(", r"\\log_2(", text)
    text = re.sub(r"sqrt ([A-Za-z]\b)", r"\\sqrt{\1}", text)
    text = re.sub(r"\^\(([^()]*)\)", r"^{\1}", text)
    text = re.sub(r"\^(max|min)(\([^()]*\))", r"^{\1\2}", text)
    text = re.sub(r"(?<![_^\\t}])\{", r"\\{", text)
    text = _close_braces(text)
    for ascii_, tex in SIGNS:
        text = text.replace(ascii_, tex)
    text = re.sub(r"\bd(?=[fg](?:_|\b))", r"\\nabla ", text)
    return re.sub(r"(?<!\\)(?<![A-Za-z])[A-Za-z](?:[A-Za-z-]*[A-Za-z])?(?![A-Za-z])", _word, text)


def _roots(text: str) -> str:
    """Return the text with sqrt(...) as LaTeX, however deep the brackets inside are."""
    while (start := text.find("sqrt(")) >= 0:
        depth, end = 1, start + len("sqrt(")
        while depth and end < len(text):
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        text = f"{text[:start]}\\sqrt{{{text[start + 5 : end - 1]}}}{text[end:]}"
    return text


def _word(found: re.Match[str]) -> str:
    word = found.group(0)
    before = found.string[: found.start()]
    if before.endswith("\\") or re.search(r"\\[A-Za-z]*$", before):
        return word
    if word in GREEK:
        return rf"\{word} "
    if word in FUNCTIONS:
        return f"{FUNCTIONS[word]} "
    if len(word) == 1:
        return word
    return rf"{{\text{{{word}}}}}" if before.endswith(("_", "^")) else rf"\text{{ {word} }}"


def _close_braces(text: str) -> str:
    """Escape the closing braces that belong to escaped opening ones."""
    out, kinds = "", []
    for i, letter in enumerate(text):
        if letter == "{":
            kinds.append(i > 0 and text[i - 1] == "\\")
        if letter == "}" and kinds and kinds.pop():
            out += "\\}"
            continue
        out += letter
    return out


def katex(cache: Path) -> Path:
    """Return the folder of KaTeX, fetched once from the npm registry by name."""
    folder = cache / f"katex-{KATEX}"
    if not (folder / "dist" / "katex.min.js").is_file():
        cache.mkdir(parents=True, exist_ok=True)
        if shutil.which("npm") is None:
            raise RuntimeError(
                "npm was not found; the site needs it to fetch KaTeX, which renders the mathematics"
            )
        done = subprocess.run(
            ["npm", "pack", f"katex@{KATEX}", "--silent"],
            cwd=cache,
            check=False,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise RuntimeError(f"npm could not fetch KaTeX: {done.stderr.strip()}")
        with tarfile.open(cache / f"katex-{KATEX}.tgz") as archive:
            archive.extractall(cache / "unpacked", filter="data")
        (cache / "unpacked" / "package").rename(folder)
    return folder


def rendered(items: list[tuple[str, bool]], folder: Path) -> list[str | None]:
    """Return LaTeX as HTML; `None` for what KaTeX does not understand."""
    if not items:
        return []
    script = str((folder / "dist" / "katex.min.js").resolve())
    done = subprocess.run(
        ["node", "-e", RENDER, script],
        input=json.dumps(items),
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[str | None] = json.loads(done.stdout)
    return found


MARK = re.compile(r'<(span|div) class="tex">(.*?)</\1>', re.S)


def mark(text: str) -> str:
    """Mark $...$ and $$...$$ of a Markdown page outside code, to be rendered after the build."""

    def outside(part: str) -> str:
        part = re.sub(
            r"\$\$(.+?)\$\$",
            lambda m: f'\n<div class="tex">{_hidden(m[1].strip())}</div>\n',
            part,
            flags=re.S,
        )
        return re.sub(
            r"(?<![\\$\w])\$(?!\s)([^$`]+?)(?<!\s)\$(?![\w$])",
            lambda m: f'<span class="tex">{_hidden(m[1])}</span>',
            part,
        )

    pieces = re.split(r"(```.*?```|`[^`\n]+`|<pre.*?</pre>)", text, flags=re.S)
    return "".join(piece if i % 2 else outside(piece) for i, piece in enumerate(pieces))


def _hidden(tex: str) -> str:
    """Return LaTeX with all signs as character references, so that Markdown does not take them for
    its own."""
    flat = re.sub(r"\s+", " ", tex)
    return "".join(
        letter if letter.isalnum() or letter == " " else f"&#{ord(letter)};" for letter in flat
    )


def render_site(site: Path, folder: Path) -> list[str]:
    """Render the marked mathematics of all pages; return what KaTeX did not understand."""
    failed: list[str] = []
    for page in site.rglob("*.html"):
        text = page.read_text()
        marks = list(MARK.finditer(text))
        if not marks:
            continue
        sources = [(html.unescape(found[2]), found[1] == "div") for found in marks]
        parts, end = [], 0
        for found, (source, _), result in zip(
            marks, sources, rendered(sources, folder), strict=True
        ):
            if result is None:
                failed.append(f"{page.relative_to(site)}: {source}")
            shown = (
                found[0] if result is None else f'<{found[1]} class="math">{result}</{found[1]}>'
            )
            parts += [text[end : found.start()], shown]
            end = found.end()
        page.write_text("".join([*parts, text[end:]]))
    return failed
