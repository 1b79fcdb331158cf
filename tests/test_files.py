"""Classes in files: a user's and ours of the same name are kept apart."""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import taut
from small_games import BALL, GAME, targets
from taut import files
from taut.engine import register_dataclass
from taut.learners.schedules import Constant, Schedule
from taut.problem.domains import domain_from_dict


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    """Classes made by one test are unknown to the next."""
    monkeypatch.setattr(files, "_classes", list(files._classes))


def learner(name, module="lab", base=taut.ClippedOGD):
    """A user's learner: takes steps of twice the length."""

    def step(self, state, round):
        once = base.step(self, state, round)
        return once._replace(x=round.project(2 * once.x - state.x))

    body = {"__module__": module, "__qualname__": name, "step": step}
    return register_dataclass(dataclass(frozen=True)(type(name, (base,), body)))


def test_a_users_class_does_not_shadow_ours(tmp_path):
    theirs = learner("ClippedOGD")
    assert theirs is not taut.ClippedOGD
    for number, made in enumerate((taut.ClippedOGD(0.1, 5.0), theirs(0.1, 5.0))):
        run = taut.simulate(made, GAME, targets())
        run.save(tmp_path / f"{number}.nc")
        loaded = taut.Run.load(tmp_path / f"{number}.nc")
        assert type(loaded.learner) is type(made)
        assert loaded.learner == made
        player = taut.Player(made, GAME)
        player.observe(targets()[0])
        player.save(tmp_path / f"{number}.npz")
        again = taut.Player.load(tmp_path / f"{number}.npz", GAME)
        assert type(again.learner) is type(made)
        assert again.decision.tolist() == player.decision.tolist()
    for number, other in ((0, theirs), (1, taut.ClippedOGD)):
        with pytest.raises(ValueError, match="learner: got ClippedOGD"):
            taut.Player.load(tmp_path / f"{number}.npz", GAME, other(0.1, 5.0))


def test_nor_do_a_users_schedule_and_domain():
    @register_dataclass
    @dataclass(frozen=True)
    class Halved(Schedule):
        value: Any

        def __call__(self, t, dtype):
            return np.asarray(self.value / 2, dtype)

    Halved.__qualname__ = Halved.__name__ = "Constant"
    Half = type(taut.Simplex)("Simplex", (taut.Simplex,), {"__module__": "lab"}, leaves=("total",))
    for step in (Halved(0.1), Constant(0.1)):
        loaded = files.unpack(files.pack(taut.ClippedOGD(step, 5.0)))
        assert type(loaded.eta) is type(step)
    for domain in (Half(3), taut.Simplex(3), taut.Product(Half(2), taut.Ball(1.0, shape=1))):
        loaded = domain_from_dict(json.loads(json.dumps(domain.to_dict())))
        assert type(loaded) is type(domain)
        assert loaded.to_dict() == domain.to_dict()
    assert type(domain_from_dict(taut.Product(Half(2)).to_dict()).parts[0]) is Half


def test_ours_keep_their_bare_names():
    packed = files.pack(taut.ClippedOGD(0.1, 5.0))
    assert packed == {
        "kind": "ClippedOGD",
        "fields": {"eta": {"kind": "Constant", "fields": {"value": 0.1}}, "sigma": 5.0},
    }
    assert BALL.to_dict()["kind"] == "Ball"


@pytest.mark.parametrize("called", ["__main__:Mirror", "lab:Mirror"])
def test_files_of_scripts_load(called):
    mirror = learner("Mirror")
    packed = files.pack(mirror(0.1, 5.0))
    assert packed["kind"] == "lab:Mirror"
    assert type(files.unpack(packed | {"kind": called})) is mirror
    assert files.same([packed], [packed | {"kind": called}])
    assert not files.same(packed, files.pack(mirror(0.2, 5.0)) | {"kind": called})
    newer = learner("Mirror")  # defined again, as in a notebook
    assert type(files.unpack(packed)) is newer


def test_a_script_that_is_imported_later_and_one_that_is_run_later():
    script = learner("Mirror", "__main__")
    packed = files.pack(script(0.1, 5.0))
    assert type(files.unpack(packed | {"kind": "lab:Mirror"})) is script
    assert files.same(packed, packed | {"kind": "lab:Mirror"})
    own = learner("ClippedOGD", "__main__")
    packed = files.pack(own(0.1, 5.0))
    files._classes.remove(("parameters", own))
    with pytest.raises(
        ValueError,
        match=r"file: got a learner of kind '__main__:ClippedOGD'; expected one of .*ClippedOGD",
    ):
        files.unpack(packed)


def test_names_that_say_too_little_are_refused():
    packed = files.pack(learner("Mirror")(0.1, 5.0))
    learner("Mirror", "studio")
    with pytest.raises(
        ValueError,
        match="the class name '__main__:Mirror', which could be lab:Mirror or studio:Mirror",
    ):
        files.unpack(packed | {"kind": "__main__:Mirror"})
    with pytest.raises(ValueError, match="file: got a learner of kind 'attic:Mirror'"):
        files.unpack(packed | {"kind": "attic:Mirror"})
    # a learner is no domain
    with pytest.raises(ValueError, match="kind: got 'lab:Mirror'; expected one of 'AffineBox'"):
        domain_from_dict({"kind": "lab:Mirror"})
