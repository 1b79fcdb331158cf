"""The documentation site: it builds without warnings, links resolve, mathematics is rendered, and
browsers show it well."""

import functools
import http.server
import json
import re
import shutil
import threading
from pathlib import Path

import jax
import pytest
from website import check, equations, pages, search
from website.learners import _meanings, _paragraphs, _source, overview
from website.pages import DOCS, PLACED, guide_pages, reference_pages
from website.prose import with_formulas

import chromium
import taut

ROOT = Path(__file__).parent.parent


# Equations.


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("lambda_t = [g(x_t)]_+ / (sigma eta_t)", r"\lambda _t &= [g(x_t)]_+ / (\sigma  \eta _t)"),
        ("H_t = {u : v_t <= 0}", r"H_t &= \{u : v_t \le  0\}"),
        (
            "x_{t+1} = Pi_B( x_t - eta_t df_t(x_t) )",
            r"x_{t+1} &= \Pi _B( x_t - \eta _t \nabla f_t(x_t) )",
        ),
        ("eta_t = R / sqrt(t)", r"\eta _t &= R / \sqrt{t}"),
        ("Q_t = sqrt(2 (1 + Q_{t-1}))", r"Q_t &= \sqrt{2 (1 + Q_{t-1})}"),
    ],
)
def test_ascii_becomes_latex(text, expected):
    assert to_rows(text) == expected


def to_rows(text):
    return (
        equations.to_latex([text]).removeprefix(r"\begin{aligned}").removesuffix(r"\end{aligned}")
    )


def test_mathematics_is_marked_outside_code():
    text = equations.mark("a $x^2$ `$y$` and\n```\n$z$\n```\n$$ w $$ costs $5 and $6")
    assert (
        '<span class="tex">x&#94;2</span>' in text
    )  # Markdown must not see signs that mean something to it
    assert "`$y$`" in text
    assert "```\n$z$\n```" in text
    assert '<div class="tex">w</div>' in text
    assert "costs $5 and $6" in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "H_t contains every decision (with margin rho), so",
            r"$H_t$ contains every decision (with margin $\rho$), so",
        ),
        ("G_b bounds |g|, D is the diameter", "$G_b$ bounds $|g|$, $D$ is the diameter"),
        ("The scales are b_f = 1 / (2 G_f D) and", "The scales are $b_f = 1 / (2 G_f D)$ and"),
        (
            "steps on V f_t + Phi'(Q_t) [g_t]_+, where",
            r"steps on $V f_t + \Phi '(Q_t) [g_t]_+$, where",
        ),
        ("constraints A x <= b.", r"constraints $A x \le  b$."),
        (
            "A cut is a set: see `cuts.py` and [a_b](c_d.md).",
            "A cut is a set: see `cuts.py` and [a_b](c_d.md).",
        ),
        ("regret is O(T^max(beta, 1-beta)).", r"regret is $O(T^{\max (\beta , 1-\beta )})$."),
        ("m constraint values, 1 projection", "$m$ constraint values, 1 projection"),
        ("eta_t = 1 / (2 alpha_t (1 + t))", r"$\eta _t = 1 / (2 \alpha _t (1 + t))$"),
    ],
)
def test_formulas_in_sentences_become_latex(text, expected):
    assert with_formulas(text) == expected


# The site, with few pages of each kind.


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("mkdocs")
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed: the site needs it to fetch KaTeX")
    from website.__main__ import build

    folder = tmp_path_factory.mktemp("site")
    jax.config.update("jax_numpy_rank_promotion", "allow")  # as for a user
    try:
        problems = build(folder / "site", folder / "work", small=True)
    finally:
        jax.config.update("jax_numpy_rank_promotion", "raise")
    assert problems == []
    return folder / "site"


def test_pages_are_there_and_mathematics_is_rendered(site):
    start = (site / "start" / "index.html").read_text()
    assert 'class="katex"' in (site / "theory" / "index.html").read_text()
    assert "Run: 10 seeds x 2000 rounds" in start  # code was executed
    assert (site / "assets" / "katex" / "fonts").is_dir()
    for page in (
        "index.html",
        "learners/half-space/index.html",
        "reference/playing/index.html",
        "glossary/index.html",
    ):
        text = (site / page).read_text()
        assert 'class="tex"' not in text
        assert "cdn" not in re.sub(r"<code.*?</code>", "", text, flags=re.S).lower()


def test_every_page_and_every_public_name_has_a_place():
    guides = guide_pages()
    assert len(guides) == len(set(guides))
    everywhere = {
        path.relative_to(DOCS).as_posix()
        for path in (*DOCS.glob("*.md"), *DOCS.glob("guides/*.md"))
    }
    assert {*guides, *PLACED} == everywhere
    names = [name for page in reference_pages().values() for name in page]
    assert len(names) == len(set(names))
    public = {f"taut.{name}" for name in taut.__all__ if callable(getattr(taut, name))}
    assert public - {"taut.LEARNERS"} <= set(names)


def test_the_report_is_made_if_there_is_none(tmp_path, monkeypatch):
    def made(experiment, folder, quiet):
        assert (experiment, quiet) == ("all", True)
        (folder / "figures").mkdir(parents=True)
        for name, _ in pages.FIGURES.values():
            for ending in (".png", "-narrow.png"):
                (folder / "figures" / f"{name}{ending}").write_bytes(b"")
        (folder / "report.html").write_text("<p>report</p>")
        claims = [
            {"claim": "Regret is O(T^max(beta, 1-beta)).", "verdict": "holds"},
            {"claim": "Left | right", "verdict": "fails"},
        ]
        (folder / "claims.json").write_text(json.dumps({"claims": claims}))

    monkeypatch.setattr(pages, "ROOT", tmp_path)
    monkeypatch.setattr("taut.paper.reproduce.run_all", made)
    assert pages._report(tmp_path / "site", small=True) is None
    (tmp_path / "site").mkdir()
    report = pages._report(tmp_path / "site", small=False)
    text = pages._reproduction(tmp_path / "site", report)
    assert 'claims: "holds" 1, "fails" 1.' in text
    assert "| Left / right | fails |" in text
    assert (tmp_path / "site" / "report.html").read_text() == "<p>report</p>"
    assert '<img src="../figures/theory-clipped.png"' in text
    assert (tmp_path / "site" / "figures" / "theory-clipped-narrow.png").exists()


def test_the_pages_of_learners_say_what_options_mean_and_the_table_can_be_filtered():
    meanings = _meanings(taut.LEARNERS["half-space"])
    assert "number of kept cuts" in meanings["memory"]
    text = overview([taut.LEARNERS["half-space"], taut.LEARNERS["two-point"]])
    assert 'class="filter"' in text
    assert "values only" in text
    assert "no horizon" in text


def test_the_check_of_links_sees_what_it_looks_for(tmp_path):
    (tmp_path / "a.html").write_text(
        '<a href="b.html#x">1</a><a href="c.html">2</a><img src="https://cdn.example/x.png">'
    )
    (tmp_path / "b.html").write_text('<p id="y">')
    assert check.problems(tmp_path) == [
        "a.html: b.html#x has no such anchor",
        "a.html: c.html does not exist",
        "a.html: loads something from another host",
    ]


def test_the_equations_of_all_learners_are_understood(site):
    folder = equations.katex(ROOT / ".site" / "vendor")
    blocks = {}
    for card in taut.LEARNERS.values():
        for kind, text in _paragraphs(_source(card).__doc__ or ""):
            if kind == "equations":
                blocks[text] = card.name
    results = equations.rendered(
        [(equations.to_latex(text.splitlines()), True) for text in blocks], folder
    )
    assert len(blocks) > 5
    assert [
        name for name, result in zip(blocks.values(), results, strict=True) if result is None
    ] == []


def test_a_search_for_a_learner_finds_its_page_first(site):
    names = [name for name in pages.FEW if name != "a-ogd"]  # words such as "a" are left out
    found = search.hits(site, [*names, "certificate", "problem", "qqqqqq"])
    for name in names:
        assert found[name][0] == f"learners/{name}/"
    assert found["certificate"][0] == "tutorials/certificate/"
    assert found["problem"]
    assert found["qqqqqq"] == []
    assert search.problems(site) == []


SHOWN = (
    "/",
    "/start/",
    "/gallery/",
    "/learners/",
    "/learners/clipped-ogd/",
    "/guides/choosing/",
    "/reference/playing/",
    "/theory/",
)
WIDTHS = (390, 1280)
PATIENCE = 150
"""Seconds that the browser has for loading all pages and for searching; usually it needs few."""

FRAMES = """<!DOCTYPE html><body style="margin:0"><img src="/wait" alt="">{frames}
<script>
const frames = [...document.querySelectorAll("iframe")];
const seen = frame => {{
  const page = frame.contentDocument, width = Number(frame.width), images = [...page.images];
  const wide = [...page.querySelectorAll("main *")].filter(one => {{
    const box = one.getBoundingClientRect();
    if (box.right <= width + 1 || box.width === 0) return false;
    for (let up = one; up; up = up.parentElement)
      if (["auto", "scroll", "hidden", "clip"].includes(getComputedStyle(up).overflowX)) return false;
    return true;
  }});
  return {{
    page: page.documentElement.scrollWidth, wide: wide.length, text: page.body.innerText.length,
    broken: images.filter(one => one.complete && !one.naturalWidth).length,
    found: page.querySelectorAll(".md-search-result__item").length,
    first: (page.querySelector(".md-search-result__link") || {{}}).href || "",
  }};
}};
const search = () => {{
  const page = frames[0].contentDocument, field = page.querySelector(".md-search__input");
  page.querySelector("#__search").checked || page.querySelector("#__search").click();
  field.focus();
  field.value = "a-ogd";
  for (const name of ["focus", "input", "keyup"]) field.dispatchEvent(new Event(name, {{bubbles: true}}));
}};
const begun = Date.now();
const complete = one => one.contentDocument && one.contentDocument.readyState === "complete";
let answered = 0;  // how often results were there: they are put in order after they come
const look = () => {{
  if (complete(frames[0])) search();
  const all = frames.map(frame => frame.contentDocument && frame.contentDocument.body ? seen(frame) : {{found: 0}});
  answered += all[0].found > 0;
  if ((answered > 1 && frames.every(complete)) || Date.now() - begun > {patience}) {{
    document.body.dataset.probe = JSON.stringify(all);
    fetch("/done");
  }} else setTimeout(look, 500);
}};
setTimeout(look, 1000);
</script></body>"""


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves the site; an image at /wait is answered after /done, so that the browser does not stop
    before the probe."""

    def do_GET(self):
        if self.path == "/wait":
            self.server.done.wait(PATIENCE + 10)
        if self.path == "/done":
            self.server.done.set()
        if self.path in ("/wait", "/done"):
            self.send_response(204)
            self.end_headers()
        else:
            super().do_GET()

    def log_message(self, *words):
        pass


def browse(folder, frames, profile, patience=PATIENCE):
    """Show pages in frames of given widths; return what is seen in each, and what the console
    says."""
    chromium.require()
    shown = "".join(
        f'<iframe src="{page}" width="{width}" height="900"></iframe>' for page, width in frames
    )
    (folder / "frames.html").write_text(FRAMES.format(frames=shown, patience=patience * 1000))
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Handler, directory=str(folder))
    )
    server.done = threading.Event()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}/frames.html"
    try:
        return chromium.browse(address, profile)
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.browser
def test_pages_fit_a_phone_and_a_desk_and_search_works(site, tmp_path):
    frames = [(page, width) for page in SHOWN for width in WIDTHS]
    seen, console = browse(site, frames, tmp_path)
    assert console == []
    for (page, width), one in zip(frames, seen, strict=True):
        assert one["page"] <= width, page
        assert (one["wide"], one["broken"]) == (0, 0), page
        assert one["text"] > 500, page
    assert seen[0]["found"] > 2
    assert "/learners/a-ogd/" in seen[0]["first"]


@pytest.mark.browser
def test_the_browser_test_sees_what_it_looks_for(tmp_path):
    planted = (
        '<main><div style="width:900px">wide</div><img '
        'src="gone.png"></main><script>console.error("planted")</script>'
    )
    search = '<input id="__search" type="checkbox"><input class="md-search__input">'
    (tmp_path / "bad.html").write_text(f"<!DOCTYPE html><body>{planted}{search}</body>")
    ((one,), console) = browse(tmp_path, [("bad.html", 390)], tmp_path / "profile", patience=2)
    assert one["page"] > 390
    assert one["wide"] == 1
    assert one["broken"] == 1
    assert any("planted" in line for line in console)
