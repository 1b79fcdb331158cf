"""The interactive page: one file without network, which sorts, filters and draws in a browser, on a
desk and on a phone."""

import json
import re

import made_results
import pytest

import chromium
from taut.arena import STREAMS, results
from taut.arena.report import payload, write_page
from taut.arena.score import board, leaderboard


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return made_results.write(tmp_path_factory.mktemp("arena"))


@pytest.fixture(scope="module")
def page(folder):
    return write_page(folder).read_text("utf-8")


def test_the_page_is_one_file_that_fetches_nothing(page, folder):
    assert "default-src 'none'" in page
    assert not re.findall(
        r"(?:src|href)\s*=|https?://(?!www\.w3\.org/2000/svg)|fetch\(|@import", page
    )
    assert len(page) < 500_000
    told = payload(folder)
    assert told["streams"][0]["name"] == "toy"
    assert json.loads(json.dumps(told, allow_nan=False)) == told


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
  const told = { width: innerWidth, page: document.documentElement.scrollWidth, general: rows("leaders") };
  told.byViolation = sort(4);
  told.backwards = sort(4);
  set("setting", "strongly convex"); told.filtered = rows("leaders"); set("setting", "general");
  set("variant", "tuned"); told.tuned = rows("leaders"); set("variant", "theory");
  told.panels = [...document.querySelectorAll("#overview .panel b")].map(e => e.textContent);
  told.fronts = count("#overview .walk"); document.querySelectorAll("#overview .panel")[1].click();
  told.clicked = document.getElementById("stream").value; set("stream", "toy");
  set("stream", "polytope"); told.lines = rows("lines"); told.about = text("about");
  told.front = [...document.querySelectorAll("#lines tr.front")].map(tr => tr.dataset.name);
  told.points = count("#pareto circle"); told.before = count("#curves polyline"); told.bands = count("#curves polygon");
  told.facts = [...document.querySelectorAll("#facts li")].map(e => e.textContent);
  document.querySelector('#lines tr[data-name="mine"]').click(); told.after = count("#curves polyline");
  const point = document.querySelector('#pareto circle[data-name="mine"]'), tip = document.getElementById("tip");
  point.dispatchEvent(new PointerEvent("pointermove", { clientX: 300, clientY: 300 }));
  told.tip = getComputedStyle(tip).visibility === "visible" ? tip.textContent : "";
  told.inside = tip.getBoundingClientRect().right <= innerWidth;
  point.dispatchEvent(new PointerEvent("pointerleave")); told.gone = getComputedStyle(tip).visibility;
  told.wide = document.documentElement.scrollWidth; told.summary = text("summary"); told.left = text("left");
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
    assert [(row[0], row[1]) for row in seen["general"]] == [
        ("" if one.rank is None else str(one.rank), one.learner) for one in expected
    ]
    for row, one in zip(seen["general"], expected, strict=True):
        score, half = (float(part) for part in row[2].split(" ± "))
        assert score == pytest.approx(
            one.score.mean, rel=1e-3
        )  # the page has five digits and shows four
        assert half == pytest.approx(one.score.high - one.score.mean, rel=0.06)  # two digits
        assert float(row[3]) == pytest.approx(one.regret, rel=5e-3, abs=1e-9)  # three digits
    assert seen["byViolation"][:3] == ["half-space", "clipped-ogd", "mine"]
    assert seen["backwards"][:3] == ["mine", "clipped-ogd", "half-space"]
    assert all(row[5] == "1 of 1" for row in seen["filtered"])
    assert len(seen["filtered"]) == 4
    tuned = {row[1]: float(row[2].split()[0]) for row in seen["tuned"]}
    assert tuned["half-space"] == pytest.approx(expected[0].score.mean / 2, rel=1e-3)
    assert {row[1] for row in seen["lines"]} == {"half-space", "clipped-ogd", "mine"}
    assert seen["front"] == ["half-space", "clipped-ogd"]
    assert seen["points"] == 3
    assert (seen["before"], seen["after"]) == (2, 3)
    assert seen["bands"] == 2  # intervals over seeds
    assert (seen["panels"], seen["fronts"], seen["clicked"]) == (["toy", "polytope"], 2, "polytope")
    assert {"3streams", "4learners", f"{len(stored)}cells", "0bounds exceeded"} <= set(
        seen["facts"]
    )
    assert seen["tip"].startswith("mine")
    assert seen["inside"]
    assert seen["gone"] == "hidden"
    assert "64 fixed half-spaces" in seen["about"]
    assert seen["about"].startswith("Linear losses")
    assert "No bound was exceeded" in seen["summary"]
    assert "the constraints are not affine" in seen["left"]


@pytest.mark.browser
def test_the_browser_test_sees_what_it_looks_for(page, tmp_path):
    planted = page.replace(
        "draw();\n</script>", 'draw(); console.error("planted");\n</script>'
    ).replace(".wide { overflow-x: auto;", ".wide { overflow-x: visible;")
    seen, console = chromium.browse_framed(planted, PROBE, 390, tmp_path)
    assert any("planted" in one for one in console)
    assert seen["page"] > 390
