"""Advice for the members of a fleet: each plays what a player with the same advice plays."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import taut
from taut.fleet.on_dask import Part

BOX = taut.Box(-1.0, 1.0, shape=2)
IDS = ["a", "b", "c", "d"]


def loss(x, z, previous):
    return 0.5 * jnp.sum((x - z["target"]) ** 2) + 0.1 * jnp.sum(jnp.abs(x - previous))


def capacity(x, z, previous):
    return jnp.stack([x[0] + x[1] - z["capacity"], x[0] - previous[0] - z["rate"]])


CAPPED = taut.Problem(loss, lambda x: x[0] - 2 * x[1] - 0.3, BOX, previous=True, announced=capacity)
RATE = {"rate": np.array([0.2, 0.4, 0.6, 0.8])}


def advice_of(rng, count):
    """Advice of each member, in the form of fleets and of players, often infeasible. The second
    adviser is the forecast."""
    rows = rng.uniform(-2, 2, (count, 2))
    gone = rng.uniform(size=count) < 0.3
    lists = [None if without else one for one, without in zip(rows, gone, strict=True)]
    return np.ma.array(rows, mask=np.repeat(gone[:, None], 2, axis=1)), lists


@pytest.fixture(scope="module")
def learner():
    return taut.Advised(taut.HalfSpace.adaptive(BOX, memory=3), advisers=2)


def test_members_with_advice_equal_players(learner, tmp_path):
    """Announced constraints with data, ramps, forecasts, missing advice, skipped rounds and a
    restart."""
    room = 1e-12
    fleet = compared_with_players(learner, tmp_path, room)
    assert fleet.totals().violation[:, 1:].max() <= room  # announced constraints hold
    rows = {row.quantity: row for row in fleet.certificate("b").rows}
    assert rows["regret to adviser 1"].holds


def test_members_with_advice_equal_players_in_single_precision():
    """Advice and skipped rounds alone: what they compute with is tested with other fleets."""
    problem = taut.Problem(lambda x, z: jnp.sum((x - z) ** 2), lambda x: x[0] - 0.5, BOX)
    learner = taut.Advised(taut.ClippedOGD(0.3, 5.0), advisers=2)
    rng = np.random.default_rng(5)
    with jax.enable_x64(False):
        fleet = taut.Fleet(learner, problem, IDS)
        players = [taut.Player(learner, problem) for _ in IDS]
        for _ in range(4):
            rows, z = rng.uniform(-1, 1, (4, 2, 2)), rng.normal(size=(4, 2))
            gone = rng.uniform(size=(4, 2)) < 0.3
            rows = np.ma.array(rows, mask=np.repeat(gone[..., None], 2, axis=2))
            decisions = fleet.decisions(advice=rows)
            assert decisions.dtype == np.float32
            for i, player in enumerate(players):
                own = [None if g else r for g, r in zip(gone[i], rows[i].data, strict=True)]
                np.testing.assert_allclose(decisions[i], player.decide(advice=own), atol=1e-5)
                player.observe(z[i])
            assert fleet.observe(None, z) == {}


def compared_with_players(learner, tmp_path, room):
    rng = np.random.default_rng(5)
    fleet = taut.Fleet(learner, CAPPED, IDS, RATE, announced_count=2)
    players = {each: taut.Player(learner, CAPPED, announced_count=2) for each in IDS}
    for t in range(7):
        ids = [each for each in IDS if t < 2 or rng.uniform() < 0.7]
        z = {
            "target": rng.normal(size=(len(ids), 2)),
            "capacity": rng.uniform(-0.3, 1, len(ids)),
        }
        known = {"capacity": z["capacity"]}
        rows, lists = advice_of(rng, len(ids))
        predicted = z["target"] + 0.1
        assert fleet.announce(ids, known) == {}
        forecast = "last" if t == 6 else {"target": predicted, **known}
        decisions = fleet.decisions(ids, advice=lists if t == 3 else rows, forecast=forecast)
        np.testing.assert_array_equal(fleet.decisions(ids), decisions)
        weights = fleet.weights(ids)
        for i, each in enumerate(ids):
            own = {"rate": RATE["rate"][IDS.index(each)]}
            row = {name: array[i] for name, array in z.items()} | own
            player = players[each]
            player.announce({"capacity": row["capacity"], **own})
            own = "last" if t == 6 else row | {"target": predicted[i]}
            x = player.decide(advice=lists[i], forecast=own)
            np.testing.assert_allclose(decisions[i], x, rtol=0, atol=room)
            now = player.weights[player.round]
            np.testing.assert_allclose(weights[i], now, rtol=0, atol=room)
            if t == 4 and i == 0:
                player.skip()
            else:
                player.observe(row)
        if t == 4:
            fleet.skip(ids[:1])
            ids = ids[1:]
            z = {name: array[1:] for name, array in z.items()}
        assert fleet.observe(ids, z) == {}
        if t == 5:
            fleet.save(tmp_path)
            fleet = taut.Fleet.load(tmp_path, CAPPED, learner)
            for each, player in players.items():
                players[each] = taut.Player.from_bytes(player.to_bytes(), CAPPED)
    totals = fleet.totals()
    for i, player in enumerate(players.values()):
        np.testing.assert_allclose(totals.loss[i], player.totals.loss, rtol=room)
        np.testing.assert_allclose(totals.violation[i], player.totals.violation, atol=room)
    return fleet


def test_data_that_differ_from_the_announced_ones_are_refused_for_their_member(learner):
    fleet = taut.Fleet(learner, CAPPED, IDS, RATE, announced_count=2)
    z = {"target": np.zeros((4, 2)), "capacity": np.full(4, 0.3)}
    fleet.announce(None, {"capacity": z["capacity"]})
    before = fleet.decisions()
    with pytest.warns(RuntimeWarning, match="refused the members 'a'"):
        fleet.announce(["a"], {"capacity": [np.nan]})
    np.testing.assert_array_equal(fleet.decisions(), before)
    said = fleet.decisions(advice=[[[0.1, 0.1], None]] * 4)
    assert np.isfinite(said).all()  # the bad announcement is not used later
    other = {**z, "capacity": np.array([0.3, 0.9, 0.3, 0.3])}
    with pytest.warns(RuntimeWarning, match="as was announced"):
        refused = fleet.observe(None, other)
    assert refused == {"b": "z['capacity']: got 0.9; expected 0.3, as was announced"}
    assert fleet.rounds().tolist() == [2, 1, 2, 2]


@pytest.fixture
def follower():
    """Members that follow a number, with one adviser and nothing announced."""
    problem = taut.Problem(
        lambda x, z: (x[0] - z) ** 2 + x[1] ** 2,
        lambda x: x[0] - 0.5,
        BOX,
        coordinate_names=["power", "other"],
    )
    return taut.Fleet(taut.Advised(taut.HalfSpace.adaptive(BOX, memory=3)), problem, IDS)


def test_advice_that_is_not_finite_is_refused_for_its_member_alone(follower):
    told = pd.DataFrame(0.25, index=IDS, columns=["other", "power"])
    told.loc["b"] = np.nan  # missing
    told.loc["c", "power"] = np.inf
    with pytest.warns(RuntimeWarning, match=r"refused the members 'c'.*advice: got a value"):
        decisions = follower.decisions(advice=told)
    np.testing.assert_allclose(decisions, [[0.125, 0.125], [0, 0], [0, 0], [0.125, 0.125]])
    assert follower.weights().tolist() == [[0.5, 0.5], [1, 0], [1, 0], [0.5, 0.5]]
    assert list(follower.to_dataframe("weights")) == ["weight[learner]", "weight[adviser 1]"]
    with pytest.warns(RuntimeWarning, match=r"'d'.*forecast: got a value that is not finite"):
        decisions = follower.decisions(forecast=np.array([0.3, 0.3, 0.3, np.nan]))
    np.testing.assert_allclose(decisions[:3, 0], 0.15, atol=1e-3)
    follower.decisions(["d"], advice=[[0.25, 0.25]])
    np.testing.assert_allclose(decisions[3], [0.125, 0.125])  # as it was
    assert follower.observe(None, np.full(4, 0.3)) == {}
    assert follower.weights()[0, 1] > 0.5


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"advice": np.ones((4, 3))}, r"advice: got shape \(4, 3\); expected \(4, 2\)"),
        ({"advice": [[1.0, 1.0]]}, "advice: got 1 entries; expected one for each of 4 members"),
        ({"advice": [[1.0], None, None, None]}, r"advice\[0\]: got shape \(1,\); expected \(2,\)"),
        ({"advice": {"power": np.ones(3)}}, "advice: got arrays of shape"),
        ({"advice": np.full((4, 2), "x")}, "advice: got values of type"),
        ({"forecast": "lasst"}, "forecast: got 'lasst'"),
        (
            {"forecast": np.ones(4), "advice": np.ones((4, 2))},
            "advice: got advice beside a forecast, whose decision is that of the only adviser",
        ),
        ({"forecast": np.ones(3)}, "forecast: z: got an array of shape"),
    ],
)
def test_bad_advice_changes_nothing(follower, given, message):
    before = [array.tobytes() for array in follower._members.arrays.values()]
    with pytest.raises((TypeError, ValueError), match=message):
        follower.decisions(**given)
    assert [array.tobytes() for array in follower._members.arrays.values()] == before


def test_advice_that_a_worker_lost_is_asked_for_again(follower, tmp_path):
    """A part that is taken over by another worker has not begun the round of advised members."""
    given = True, str(tmp_path), follower.learner, follower.problem
    part = Part(*given, (["a", "b"], None, {}))
    told, now = np.full((2, 1, 2), 0.25), np.ones(2, int)
    well, (decisions, refused) = part.call("advised", ["a", "b"], told, None)
    assert (well, refused) == (True, {})
    np.testing.assert_allclose(decisions, 0.125)
    taken_over, advised = Part(*given, None), np.array([True, False])
    well, (refused, due) = taken_over.call(
        "observe", ["a", "b"], np.full(2, 0.3), None, now, advised
    )
    assert well
    assert list(refused) == ["a"]
    assert refused["a"].startswith("advice: it was lost with a worker")
    assert due.tolist() == [1, 2]
    taken_over.call("advised", ["a"], told[:1], None)
    _, (refused, due) = taken_over.call(
        "observe", ["a"], np.full(1, 0.3), None, now[:1], advised[:1]
    )
    assert refused == {}
    assert due.tolist() == [2]


def test_advice_needs_advisers():
    problem = taut.Problem(lambda x, z: z @ x, lambda x: x[0], BOX)
    fleet = taut.Fleet("half-space", problem, IDS)
    with pytest.raises(TypeError, match="advice: got advice for HalfSpace"):
        fleet.decisions(advice=np.zeros((4, 2)))
    with pytest.raises(TypeError, match="weights: HalfSpace has no advisers"):
        fleet.weights()
