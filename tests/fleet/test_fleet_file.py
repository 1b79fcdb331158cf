"""Fleets in folders and bytes: incremental, atomic, checked."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut import storage
from taut.fleet import file as fleet_file

PRICES = taut.Problem(
    lambda x, z: z["cost"] @ x, lambda x, z: z["floor"] - jnp.sum(x), taut.Box(0.0, 1.0, shape=2)
)
CLIPPED = taut.ClippedOGD(0.3, 5.0)


def made(ids):
    return taut.Fleet(CLIPPED, PRICES, ids, {"floor": np.linspace(0.2, 0.8, len(ids))})


def observe(fleet, ids=None, seed=0):
    n = len(fleet.ids if ids is None else ids)
    fleet.observe(ids, {"cost": np.random.default_rng(seed).normal(size=(n, 2))})


def same(a, b):
    slots = [each._members.slots(None) for each in (a, b)]
    return (
        a.ids == b.ids
        and all(
            np.array_equal(one[slots[0]], other[slots[1]])
            for one, other in zip(a._state, b._state, strict=True)
        )
        and np.array_equal(a.parameters()["floor"], b.parameters()["floor"])
    )


@pytest.mark.parametrize("ids", [["a", "ü", "c c", ""], [3, -1, 2**40]])
def test_goes_on_where_it_stopped(tmp_path, ids):
    fleet = made(ids)
    observe(fleet)
    fleet.save(tmp_path / "f")
    others = [
        taut.Fleet.load(tmp_path / "f", PRICES, CLIPPED),
        taut.Fleet.from_bytes(fleet.to_bytes(), PRICES),
    ]
    assert all(same(fleet, other) for other in others)
    for each in (fleet, *others):
        observe(each, ids[:2], seed=1)
    assert all(same(fleet, other) for other in others)


def test_writes_what_changed_and_all_now_and_then(tmp_path, monkeypatch):
    monkeypatch.setattr(fleet_file, "SLACK", 4)
    monkeypatch.setattr(fleet_file, "PART", 8)
    fleet = made(list(range(20)))
    fleet.save(tmp_path)
    assert [part for part in rows_in(tmp_path)] == [8, 8, 4]
    observe(fleet, [3, 5])
    fleet.save(tmp_path)
    assert rows_in(tmp_path)[3:] == [2]
    fleet.leave([0, 5])
    fleet.join([30, 0], {"floor": [0.5, 0.6]})
    fleet.save(tmp_path)
    assert rows_in(tmp_path)[3:] == [2, 2]
    loaded = taut.Fleet.load(tmp_path, PRICES)
    assert same(fleet, loaded)
    assert loaded.ids[-2:] == [30, 0]
    assert 5 not in loaded
    fleet.leave([30])
    fleet.save(tmp_path)
    assert rows_in(tmp_path)[3:] == [2, 2, 0]
    loaded = taut.Fleet.load(tmp_path, PRICES)
    observe(loaded)
    loaded.save(tmp_path)  # goes on in the same folder: more rows than 2 x 19 + 4, so all anew
    assert rows_in(tmp_path) == [8, 8, 3]
    assert same(loaded, taut.Fleet.load(tmp_path, PRICES))
    observe(fleet, [3])
    fleet.save(tmp_path)  # another fleet saved here since: everything is written
    assert rows_in(tmp_path) == [8, 8, 3]
    assert same(fleet, taut.Fleet.load(tmp_path, PRICES))


def rows_in(folder):
    about = json.loads(storage.read_arrays(folder / "fleet.npz")[1]["about"].tobytes())
    assert sorted(about["parts"]) == sorted(path.name for path in folder.glob("members-*"))
    return [len(storage.read_arrays(folder / part)[1]["ids/numbers"]) for part in about["parts"]]


def test_refuses_other_fleets(tmp_path):
    fleet = made(["a"])
    fleet.save(tmp_path)
    other = taut.Problem(PRICES.loss, lambda x, z: z["floor"] - x[0], taut.Box(0.0, 2.0, shape=2))
    with pytest.raises(ValueError, match="problem: got the domain"):
        taut.Fleet.load(tmp_path, other)
    with pytest.raises(ValueError, match="learner: got"):
        taut.Fleet.load(tmp_path, PRICES, taut.ClippedOGD(0.1, 5.0))
    with pytest.raises(FileNotFoundError, match=r"without fleet\.npz"):
        taut.Fleet.load(tmp_path / "none", PRICES)
    with pytest.raises(ValueError, match="content: got 3 bytes, damaged or foreign"):
        taut.Fleet.from_bytes(b"abc", PRICES)
    with pytest.raises(ValueError, match="a file; expected a folder"):
        fleet.save(tmp_path / "fleet.npz")


def test_refuses_another_loss_or_another_capacity(tmp_path):
    fleet = made(["a", "b"])
    observe(fleet)
    fleet.save(tmp_path)

    def cheaper(x, z):
        return 0.9 * PRICES.loss(x, z)

    def derated(x, z):
        return PRICES.constraints.values(x, z) + 0.25

    lossless = taut.Problem(cheaper, PRICES.constraints, PRICES.domain)
    smaller = taut.Problem(PRICES.loss, derated, PRICES.domain)
    for other, what in ((lossless, "loss: got a function"), (smaller, "constraints: got a func")):
        with pytest.raises(ValueError, match=what):
            taut.Fleet.load(tmp_path, other)
        with pytest.raises(ValueError, match=what):
            taut.Fleet.from_bytes(fleet.to_bytes(), other)
    assert same(fleet, taut.Fleet.load(tmp_path, PRICES))


def test_notices_damage(tmp_path):
    """A changed byte in any file is an error that names a file, never another fleet."""
    fleet = made(["a", "b"])
    observe(fleet)
    fleet.save(tmp_path)
    rng = np.random.default_rng(0)
    for path in sorted(tmp_path.glob("*.npz")):
        content = path.read_bytes()
        for _ in range(10):
            at = int(rng.integers(len(content)))
            path.write_bytes(content[:at] + bytes([content[at] ^ 255]) + content[at + 1 :])
            try:
                assert same(fleet, taut.Fleet.load(tmp_path, PRICES))
            except ValueError as error:
                assert "damaged" in str(error)  # noqa: PT017  some bytes are not looked at
        path.write_bytes(content)
    assert same(fleet, taut.Fleet.load(tmp_path, PRICES))
