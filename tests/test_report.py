"""The report: one page, complete, self-contained, and fit for a phone; and the pipeline that ends
in it."""

import base64
import html
import json
import re
import shutil

import pytest

import chromium
import stored
from taut.paper import figures, reproduce
from taut.paper.figures import GALLERY, pictures
from taut.paper.report import write_report


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files of all experiments, stand-ins for the figures, and the page."""
    folder = tmp_path_factory.mktemp("reproduction")
    stored.write(folder)
    stored.draw(folder)
    write_report(folder)
    return folder


@pytest.fixture(scope="module")
def page(folder):
    return (folder / "report.html").read_text("utf-8")


def test_the_page_holds_everything(folder, page):
    text = html.unescape(page)
    for one in json.loads((folder / "claims.json").read_text())["claims"]:
        assert f'id="claim-{one["id"]}"' in page
        assert one["criterion"] in text
    assert "Of 4 claims, 1 holds, 1 holds in part, 1 is not asymptotic yet and 1 fails." in text
    assert (
        text.index("Of 4 claims")
        < text.index('id="figure-1-trajectories"')
        < text.index("What was run</h2>")
    )
    for word in (
        "scale-aware",
        "Our-strong",
        "ball, box",
        "<dt>e</dt>",
        "<dt>\u03b2</dt>",
    ):  # explained
        assert word in text.split("<h2>What was run</h2>")[1].split("</dl>")[0]
    assert "same verdict under other choices" in text
    assert "survives" not in text
    for word in (
        "\u2713 holds",
        "\u2026 not asymptotic yet",
        "\u25d0 holds in part",
        "\u2717 fails",
    ):  # a mark and a word, not colour alone
        assert word in text
    for picture, data in pictures(folder):
        assert f"{picture.title}.</strong> {picture.caption.format(**data.attrs)}" in text
    assert "\u03b7 = 0.1235" in text  # parameters, rounded
    assert "toy: radius" in text
    assert "python 3.11" in text
    assert "Quick run" in text
    assert "&lt;b&gt;follows&lt;/b&gt; &amp; stays" in page  # text is text, whatever it contains


def test_the_page_needs_nothing_but_itself(page):
    assert not re.findall(r"(?:src|href|srcset)=[\"'](?!data:|#)", page)
    assert "url(" not in page
    assert "<script" not in page
    embedded = re.findall(r"data:image/png;base64,([^\"]+)", page)
    assert len(embedded) == 2 * len(GALLERY)
    assert all(base64.b64decode(one).startswith(b"\x89PNG") for one in embedded)


def test_a_page_without_figures_says_so(tmp_path):
    stored.write(tmp_path, ("dispatch",))
    page = write_report(tmp_path).read_text("utf-8")
    assert "No figures have been drawn." in page


def test_a_folder_without_claims_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"folder: got .*, without claims.json"):
        write_report(tmp_path)


PROBE = """
window.addEventListener("load", () => {
  const images = [...document.images];
  parent.postMessage(JSON.stringify({
    width: window.innerWidth,
    page: document.documentElement.scrollWidth,
    images: images.length,
    broken: images.filter(image => !image.complete || image.naturalWidth === 0).length,
    tall: images.filter(image => image.naturalHeight > image.naturalWidth).length,
    text: document.body.innerText.length,
  }), "*");
});
"""
# the page's own: it may fetch nothing
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def browse(page, width, folder):
    """What the browser makes of a page that may run the probe, but still may fetch nothing."""
    assert page.count(POLICY) == 1
    return chromium.browse_framed(
        page.replace(POLICY, f"{POLICY}; script-src 'unsafe-inline'"), PROBE, width, folder
    )


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1200])
def test_the_page_renders_on_a_phone_and_on_a_desk(page, tmp_path, width):
    seen, console = browse(page, width, tmp_path)
    assert seen["width"] == width
    assert seen["page"] <= width
    assert (seen["images"], seen["broken"]) == (len(GALLERY), 0)
    assert seen["tall"] == (
        len(GALLERY) if width == 390 else 0
    )  # stacked panels on the phone alone
    assert seen["text"] > 2000
    assert console == []


@pytest.mark.browser
def test_the_browser_test_sees_what_it_looks_for(folder, tmp_path):
    shutil.copy(folder / "figures" / "figure-1-trajectories.png", tmp_path / "there.png")
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    planted = (
        '<img src="there.png"><div style="width: '
        '900px">wide</div><script>console.error("planted")</script>'
    )
    seen, console = browse(f"<!DOCTYPE html>{policy}<body>{planted}</body>", 390, tmp_path)
    assert seen["page"] > 390
    assert (seen["images"], seen["broken"]) == (1, 1)  # fetching it is not allowed
    assert any("there.png" in one for one in console)
    assert any("planted" in one for one in console)


@pytest.fixture
def staged(monkeypatch):
    """The pipeline with stored results in place of simulations; returns the calls."""
    calls = []

    def stand_in(names, folder, options, progress):
        calls.append((tuple(names), options, progress))
        return stored.write(folder, ("dispatch",))

    def draw_all(folder):
        calls.append(folder)
        return stored.draw(folder)

    monkeypatch.setattr(reproduce, "reproduce", stand_in)
    monkeypatch.setattr(figures, "draw_all", draw_all)
    return calls


def test_the_pipeline_runs_draws_reports_and_tells(staged, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    result = reproduce.run_all(
        "all", tmp_path, quick=True, seeds=3, demand=("file.csv",), quiet=False
    )
    (names, options, progress), drawn = staged
    assert drawn == tmp_path
    assert names == ("toy", "doubly-stochastic", "dispatch", "theory")
    assert (options.quick, options.seeds, options.demand, progress) == (
        True,
        3,
        ("file.csv",),
        True,
    )
    assert result["report"] == str(tmp_path / "report.html")
    assert [one["id"] for one in result["claims"]] == ["one", "two", "three", "four"]
    *claims, counts, path = capsys.readouterr().out.splitlines()
    assert [line[0] for line in claims] == ["+", "~", "-", "?"]
    assert claims[1].startswith("~ holds in part ")
    assert "It oscillates." in "".join(claims)
    assert counts.startswith("4 claims: holds 1, holds in part 1, not asymptotic yet 1, fails 1 (")
    assert path == str(tmp_path / "report.html")


def test_the_pipeline_can_be_quiet_and_take_one_experiment(staged, tmp_path, capsys):
    reproduce.run_all("dispatch", tmp_path, quick=False, seeds=2, demand=(), quiet=True)
    assert staged[0][0] == ("dispatch",)
    assert staged[0][2] is True  # progress goes to standard error
    assert capsys.readouterr() == ("", "")
    with pytest.raises(ValueError, match="experiment: got 'everything'"):
        reproduce.run_all("everything", tmp_path, False, 2, (), True)
