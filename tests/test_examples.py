"""Examples and the modelling guide run as they are printed; each example ends in a figure."""

import importlib.util
import re
from pathlib import Path

import jax
import numpy as np
import pytest
from website.gallery import ENTRIES, picture

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
SHORTER = {
    "ad_budget": {"HOURS": 24 * 10},
    "conversions": {"DAYS": 120, "SEEDS": 2},
    "fairness": {"ROUNDS": 1024, "SEEDS": 1},
    "prices": {"DAYS": 400, "SEEDS": 2},
    "portfolio": {"DAYS": 240},
    "dispatch": {},
    "ramps": {"DAYS": 2},
    "battery": {"DAYS": 3},
    "the_line": {"ROUNDS": 600},
    "break_it": {"ROUNDS": 300},
    "battery_live": {"STEPS": 96},
    "coverage": {"DAYS": 80},
}


@pytest.fixture(autouse=True, scope="module")
def compile_quickly():
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def loaded(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    return example


def test_the_examples_are_there():
    assert [path.stem for path in EXAMPLES] == sorted(SHORTER)


def test_every_example_has_a_place_in_the_gallery():
    shown = sorted(Path(entry.file).stem for entry in ENTRIES)
    assert shown == sorted([*SHORTER, "microgrid", "pacing"])
    for entry in ENTRIES:
        assert entry.teaches.endswith((".", "?")), entry.title
        if picture(entry).is_file():
            assert picture(entry).stat().st_size < 300_000


def test_budgets_are_kept_after_a_jump_of_the_traffic(tmp_path, capsys, monkeypatch):
    example = loaded(ROOT / "examples" / "pacing" / "pacing.py")
    for name, value in {"CAMPAIGNS": 120, "HOURS": 40, "JUMP": 20}.items():
        monkeypatch.setattr(example, name, value)
    hours = example.main(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    assert hours["median"].iloc[20] > 1.5 * hours["median"].iloc[19]
    assert hours["above"].iloc[-5:].max() < 0.5 * hours["above"].iloc[20]


def test_a_microgrid_trusts_its_controller_until_it_breaks(tmp_path, capsys, monkeypatch):
    example = loaded(ROOT / "examples" / "microgrid" / "microgrid.py")
    for name, value in {"ROUNDS": 48, "BROKEN": 12, "ABSURD": 10}.items():
        monkeypatch.setattr(example, name, value)
    steps = example.main(tmp_path / "figure.png")
    printed = capsys.readouterr().out
    assert "z['demand']: got 10000 in round 11; expected at most 60" in printed
    assert "EXCEEDED" not in printed
    assert (tmp_path / "figure.png").stat().st_size > 20_000
    assert steps["weight"].iloc[30:36].min() > 0.6
    assert steps["weight"].iloc[-1] < 0.3
    moved = np.abs(np.diff(steps[["gas", "diesel", "level"]], axis=0))
    assert (moved <= example.RAMP + 1e-9).all()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_ends_in_a_figure(path, tmp_path, capsys, monkeypatch):
    example = loaded(path)
    for name, value in SHORTER[path.stem].items():
        monkeypatch.setattr(example, name, value)
    figure = tmp_path / "figure.png"
    found = example.main(figure)
    printed = capsys.readouterr().out
    assert "peak violation" in printed  # the certificate
    assert "EXCEEDED" not in printed
    assert "REFUTED" not in printed
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert figure.stat().st_size > 20_000
    if path.stem == "ramps":  # they hold exactly, and would not by themselves
        enforced, free = printed.splitlines()[:2]
        assert "of the ramps 0;" in enforced
        assert "of the ramps 0;" not in free
    if path.stem == "break_it":
        assert found["half-space"] < min(found["bound"], 0.5 * found["clipped-ogd"])
    if path.stem == "coverage":
        assert found["learned"] > 0.9 > found["fixed"]
    if path.stem == "fairness":
        assert found["averaged rows"] < 1.02 * found["exact constraint"]
        assert found["clipped batches"] > 1.03 * found["exact constraint"]


def test_the_modelling_guide_runs_as_printed(capsys):
    text = (ROOT / "docs" / "modelling.md").read_text()
    names = {}
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len(blocks) == 9
    for block in blocks:
        exec(compile(block, "docs/modelling.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "REFUTED" not in printed
    assert "EXCEEDED" not in printed
    assert "are not played: Sum(flows, 1, False) == 1" in printed  # the notes
    assert not names["problem"].constants.estimated
    assert names["certificate"].holds
    assert not names["certificate"].refuted
    assert (
        printed.count("do not prove convexity")
        == printed.count("is infinite")
        == printed.count("an unbounded")
        == 1
    )
    decision = names["player"].decision
    assert set(decision) == {"slope", "offset"}
    assert decision["slope"] == pytest.approx([1.0, -0.5], abs=0.25)
    assert decision["offset"] == pytest.approx(0.5, abs=0.25)
    assert names["run"].loss.mean() < 2  # of the ramped generators; 1.5 for the best fixed decision
    assert names["dispatch"].recourse_values([4, 3], {"demand": 12.0})["units"] == pytest.approx(
        [2, 2, 1], abs=1e-6
    )
    assert names["market"].recourse_values(4.0, {"wind": 1.0})["short"] == pytest.approx(3.0)
