"""The interactive page: one file without network, which sorts, filters and draws in a browser, on a
desk and on a phone."""

import json
import re

import made_results
import pytest

import chromium
from taut.arena import STREAMS, results
from taut.arena.report import page_of, write_data, write_page
from taut.arena.report.page import paper_of, payload
from taut.arena.score import board, leaderboard, sensitivity


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return made_results.write(tmp_path_factory.mktemp("arena"))


@pytest.fixture(scope="module")
def page(folder):
    return write_page(folder).read_text("utf-8")


def test_the_page_is_one_file_that_fetches_nothing(page, folder):
    assert "default-src 'none'" in page
    before, rest = page.split('<script type="application/json" id="data">')
    data, after = rest.split("</script>", 1)
    for part in (before, after):  # addresses of papers are in the data, and links follow a click
        assert not re.findall(
            r"(?:src|href)\s*=|https?://(?!www\.w3\.org/2000/svg)|fetch\(|@import", part
        )
    assert "https://arxiv.org/abs/1802.06472" in data
    assert len(page) < 500_000
    told = payload(folder)
    assert told["streams"][0]["name"] == "toy"
    assert json.loads(json.dumps(told, allow_nan=False)) == json.loads(json.dumps(told))


def test_the_documentation_builds_the_same_page_from_a_file(folder, tmp_path):
    file = write_data(folder, tmp_path / "board.json.gz")
    page = write_page(folder, tmp_path / "report.html", site="./")
    assert page_of(file) == page.read_text("utf-8")
    assert write_data(folder, tmp_path / "again.json.gz").read_bytes() == file.read_bytes()


def test_text_from_results_cannot_end_the_script(tmp_path):
    results.write(
        tmp_path,
        made_results.made(
            "toy", "mine", 256, origin="</script><script>alert(1)</script>", parameters="</script>"
        ),
    )
    text = write_page(tmp_path).read_text("utf-8")
    assert text.count("</script>") == 2  # that of the data and that of the program


PROBE = """
addEventListener("load", () => {
  const rows = id => [...document.querySelectorAll(`#${id} tbody tr`)].map(tr => [...tr.cells].map(td => td.textContent));
  const set = (id, value) => { const e = document.getElementById(id); e.value = value; e.onchange(); };
  const sort = i => { document.querySelectorAll("#leaders thead button")[i].click(); return rows("leaders").map(r => r[1]); };
  const text = id => document.getElementById(id).textContent, count = what => document.querySelectorAll(what).length;
  const press = (what, key) => { const e = document.querySelector(what); e.focus(); e.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true })); };
  const told = { width: innerWidth, page: document.documentElement.scrollWidth, headline: rows("leaders") };
  set("shown", "all"); told.general = rows("leaders"); told.ranked = rows("leaders").map(r => r[1]);
  told.bars = [...document.querySelectorAll("#leaders .bar")].map(bar => [...bar.children].map(i => parseFloat(i.style.width)).reduce((x, y) => x + y, 0));
  told.byViolation = sort(6); told.backwards = sort(6); sort(0);
  told.csv = csvText();
  set("board", "strongly convex"); told.filtered = rows("leaders"); told.hash = location.hash; set("board", D.groups[0].title);
  set("variant", "tuned"); told.tuned = rows("leaders"); set("variant", "theory");
  set("rounds", "512"); told.short = rows("leaders"); told.shortHash = location.hash; set("rounds", "longest");
  told.profiles = count("#profile polyline"); told.targets = count("#targets polyline"); told.stems = count("#ranks .stem"); told.costs = count("#cost circle");
  told.panels = [...document.querySelectorAll("#overview .panel b")].map(e => e.textContent);
  told.fronts = count("#overview .walk"); document.querySelectorAll("#overview .panel")[1].click();
  told.clicked = document.getElementById("stream").value; set("stream", "toy");
  set("stream", "polytope"); told.lines = rows("lines"); told.about = text("about");
  told.front = [...document.querySelectorAll("#lines tr.front")].map(tr => tr.dataset.name);
  told.points = count("#pareto circle"); told.named = [...document.querySelectorAll("#pareto circle")].every(e => e.getAttribute("aria-label").startsWith(e.dataset.name) && e.getAttribute("role") === "button");
  told.facts = [...document.querySelectorAll("#facts li")].map(e => e.textContent);
  const mine = '#pareto circle[data-name="mine"]', tip = document.getElementById("tip");
  told.before = count("#curves polyline"); told.bands = count("#curves polygon");
  press(mine, "Enter"); told.after = count("#curves polyline"); told.focused = document.activeElement.dataset.key;
  press(mine, " "); told.again = count("#curves polyline"); told.pressed = document.querySelector(mine).getAttribute("aria-pressed");
  told.keyTip = getComputedStyle(tip).visibility === "visible" ? tip.textContent : ""; document.activeElement.blur();
  const point = document.querySelector(mine);
  point.dispatchEvent(new PointerEvent("pointermove", { clientX: 300, clientY: 300 }));
  told.tip = getComputedStyle(tip).visibility === "visible" ? tip.textContent : "";
  told.inside = tip.getBoundingClientRect().right <= innerWidth;
  point.dispatchEvent(new PointerEvent("pointerleave")); told.gone = getComputedStyle(tip).visibility;
  told.wide = document.documentElement.scrollWidth; told.summary = text("summary"); told.left = text("left"); told.ways = rows("ways"); told.methods = rows("methods");
  parent.postMessage(JSON.stringify(told), "*");
});
"""


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1200])
def test_the_page_works_on_a_phone_and_on_a_desk(page, folder, tmp_path, width):
    seen, console = chromium.browse_framed(page, PROBE, width, tmp_path)
    assert console == []
    assert seen["width"] == width
    assert max(seen["page"], seen["wide"]) <= width
    stored = results.read_all(folder)
    expected = leaderboard([board(stored, STREAMS[name]) for name in ("toy", "polytope")])
    assert [row[1] for row in seen["general"]] == [one.learner for one in expected.standings]
    for row, one in zip(seen["general"], expected.standings, strict=True):
        assert row[0].split(" ")[0] == ("" if one.rank is None else str(one.rank))
        shares = [one.score.mean, one.missed_regret, one.missed_violation, one.missed_both]
        shown = [float(row[i]) for i in (3, 5, 6, 7)]
        assert shown == pytest.approx([100 * share for share in shares], abs=0.06)
        assert sum(shown) == pytest.approx(100, abs=0.2)
    assert seen["bars"] == pytest.approx([100] * 4, abs=0.05)  # the parts are what is ranked
    # "mine" and "poor" are in no family of taut, so that they represent themselves.
    assert len(seen["headline"]) == 4
    assert seen["byViolation"][0] == "half-space"
    assert seen["backwards"][0] == "clipped-ogd"
    lines = seen["csv"].splitlines()
    assert lines[0].startswith("rank,learner,family,hit %")
    assert len(lines) == 5
    assert "board=strongly+convex" in seen["hash"]
    assert "rounds=512" in seen["shortHash"]
    assert [row[-1] for row in seen["filtered"]] == ["1 of 1"] * 4
    short = leaderboard([board(stored, STREAMS[n], horizon=512) for n in ("toy", "polytope")])
    for row in seen["short"]:
        assert float(row[3]) == pytest.approx(100 * short[row[1]].score.mean, abs=0.06)
    best = leaderboard([board(stored, STREAMS[n], tuned=True) for n in ("toy", "polytope")])
    for row in seen["tuned"]:
        assert float(row[3]) == pytest.approx(100 * best[row[1]].score.mean, abs=0.06)
    assert (seen["profiles"], seen["targets"], seen["stems"]) == (4, 4, 3)
    assert seen["costs"] == 3  # times are there, and "poor" is not ranked
    assert {row[1] for row in seen["lines"]} == {"half-space", "clipped-ogd", "mine"}
    assert set(seen["front"]) == {"half-space", "clipped-ogd"}
    assert (seen["points"], seen["named"]) == (3, True)
    # Enter and Space toggle, keep the focus, and show what the pointer shows.
    assert (seen["before"], seen["after"], seen["again"]) == (3, 2, 3)
    assert (seen["focused"], seen["pressed"]) == ("paretomine", "true")
    assert seen["keyTip"].startswith("mine")
    assert seen["bands"] == 3  # intervals over seeds
    assert (seen["panels"], seen["fronts"], seen["clicked"]) == (["toy", "polytope"], 2, "polytope")
    assert {"3streams", "4learners", f"{len(stored)}cells", "0bounds exceeded"} <= set(
        seen["facts"]
    )
    assert seen["tip"].startswith("mine")
    assert seen["inside"]
    assert seen["gone"] == "hidden"
    assert "64 fixed half-spaces" in seen["about"]
    assert "Scored: regret against the best fixed decision" in seen["about"]
    assert "No bound was exceeded" in seen["summary"]
    assert "the constraints are not affine" in seen["left"]
    assert len(seen["ways"]) == len(sensitivity(boards_of_two(stored)))
    assert {row[0] for row in seen["methods"]} == set(made_results.LEARNERS)


def boards_of_two(stored):
    return [board(stored, STREAMS[name]) for name in ("toy", "polytope")]


RECALL = """
addEventListener("load", () => {
  const value = id => document.getElementById(id).value;
  history.replaceState(null, "", "#board=strongly+convex&stream=polytope&rounds=1024&shown=all&learners=mine,nobody&quantity=wrong");
  dispatchEvent(new Event("hashchange"));
  parent.postMessage(JSON.stringify({ board: value("board"), stream: value("stream"), rounds: value("rounds"), quantity: value("quantity"), chosen: [...state.chosen], links: [...document.querySelectorAll("#methods a, #provenance a")].map(a => a.href).sort() }), "*");
});
"""


@pytest.mark.browser
def test_the_address_brings_a_view_back_and_methods_have_links(folder, tmp_path):
    linked = write_page(folder, tmp_path / "linked.html", "https://example.org/taut/").read_text()
    seen, console = chromium.browse_framed(linked, RECALL, 1000, tmp_path)
    assert console == []
    paper, site = "https://arxiv.org/abs/1802.06472", "https://example.org/taut/"
    links = seen.pop("links")
    assert {f"{site}learners/{name}/" for name in ("clipped-ogd", "half-space")} <= set(links)
    assert set(links) - {f"{site}learners/{name}/" for name in ("clipped-ogd", "half-space")} == {
        paper,  # of clipped-ogd, and of the streams toy and toy-strong
        paper_of("Yu, Lee & Lee"),  # of the stream polytope
        f"{site}theory/",  # of half-space
    }  # the others are no learners of taut
    with pytest.raises(ValueError, match="site: got 'javascript:x'"):
        payload(folder, "javascript:x")
    assert seen == {
        "board": "strongly convex",
        "stream": "polytope",
        "rounds": "1024",
        "quantity": "violation",
        "chosen": ["mine"],
    }


@pytest.mark.browser
def test_the_browser_test_sees_what_it_looks_for(page, tmp_path):
    planted = page.replace(
        "draw();\n</script>", 'draw(); console.error("planted");\n</script>'
    ).replace(".wide { overflow-x: auto;", ".wide { overflow-x: visible;")
    seen, console = chromium.browse_framed(planted, PROBE, 390, tmp_path)
    assert any("planted" in one for one in console)
    assert seen["page"] > 390
