"""Fleet: each member computes what a player computes, whoever reports with it."""

import copy
from dataclasses import fields
from functools import partial

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import taut
from small_games import GAME
from subprocesses import run_optimised
from taut.fleet.blocks import _step_of_row, member_key
from taut.fleet.members import hash_of
from taut.play.compile import count_compiled
from taut.play.passes import check_for_kernel
from taut.player.steps import revealed

RNG = np.random.default_rng(7)


def value(x, z):
    return 0.5 * jnp.sum((x - z["target"]) ** 2)


def within_budget(x, z):
    return jnp.stack([z["price"] @ x - z["budget"], -x[0] - z["budget"]])


def with_ramp(x, z, previous):
    return value(x, z) + 0.1 * jnp.sum(jnp.abs(x - previous))


def ramp(x, z, previous):
    return jnp.stack([x[0] - previous[0] - z["rate"], previous[0] - x[0] - z["rate"]])


def capacity(x, z):
    return x[:1] + x[1:] - z["capacity"]


BOX = taut.Box(-1.0, 1.0, shape=2)
PACING = taut.Problem(value, within_budget, BOX)
MEMORY = taut.Problem(with_ramp, within_budget, BOX, previous=True)
RAMP = taut.Problem(with_ramp, within_budget, BOX, previous=True, announced=ramp)
CAPPED = taut.Problem(value, within_budget, BOX, announced=capacity)
CLIPPED = taut.ClippedOGD(0.3, 5.0)
HALF = taut.HalfSpace.adaptive(BOX, memory=4)
NAMES = ("budget", "rate")
SINGLE = 1e-5  # what rounding in 32 bits may change in a few rounds


def parameters_of(ids):
    rows = [np.random.default_rng(hash_of(each)).uniform(0.1, 0.6, 2) for each in ids]
    return dict(zip(NAMES, np.array(rows).reshape(-1, 2).T, strict=True))


def data_of(ids, rng):
    n = len(ids)
    return {
        "target": rng.normal(size=(n, 2)),
        "price": rng.uniform(0.2, 1, (n, 2)),
        "capacity": rng.uniform(-0.5, 1, n),
    }


def row_of(data, i):
    return {name: array[i] for name, array in data.items()}


class Twins:
    """A fleet, and a player for each of its members."""

    def __init__(self, method, problem, ids, options=None, room=1e-12):
        self.method, self.problem, self.options = method, problem, options or {}
        self.room = room
        self.fleet = taut.Fleet(method, problem, ids, parameters_of(ids), count=2, **self.options)
        self.players = {}
        self.add(ids)

    def add(self, ids):
        self.own = getattr(self, "own", {}) | {
            each: {name: column[0] for name, column in parameters_of([each]).items()}
            for each in ids
        }
        self.players |= {
            each: taut.Player(self.method, self.problem, count=2, **self.player_options)
            for each in ids
        }

    @property
    def player_options(self):
        # Ramps depend on parameters, which are data of a player.
        announced = self.problem.announced is not None
        return {"announced_count": 2 if self.problem is RAMP else 1} if announced else {}

    def join(self, ids):
        self.fleet.join(ids, parameters_of(ids))
        self.add(ids)

    def leave(self, ids):
        self.fleet.leave(ids)
        for each in ids:
            del self.players[each]

    def round(self, ids, rng):
        data = data_of(ids, rng)
        if self.problem is CAPPED:
            assert self.fleet.announce(ids, {"capacity": data["capacity"]}) == {}
        decisions = self.fleet.decisions(ids)
        for i, each in enumerate(ids):
            z = row_of(data, i) | self.own[each]
            if self.problem.announced is not None:
                self.players[each].announce(z)
            np.testing.assert_allclose(decisions[i], self.players[each].decision, atol=self.room)
            self.players[each].observe(z)
        assert self.fleet.observe(ids, data) == {}

    def check(self):
        assert self.fleet.ids == list(self.players)
        totals, rounds = self.fleet.totals(), self.fleet.rounds()
        for i, (each, player) in enumerate(self.players.items()):
            assert rounds[i] == player.round
            for entry in fields(totals):
                ours, theirs = (getattr(t, entry.name) for t in (totals[i], player.totals))
                np.testing.assert_allclose(ours, theirs, rtol=self.room, atol=self.room)
            check_extremes(self.fleet.extremes(each), player.extremes, self.room)


def check_extremes(ours, theirs, room=1e-12):
    assert (ours.since, ours.rounds) == (theirs.since, theirs.rounds)
    for name in ("loss_lipschitz", "constraint_lipschitz", "constraint_range", "loss_range"):
        one, other = getattr(ours, name), getattr(theirs, name)
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_allclose(one.value, other.value, rtol=room)
            assert one.round == other.round
            np.testing.assert_allclose(one.decision, other.decision, atol=room)
    np.testing.assert_allclose(ours.constraint_slope, theirs.constraint_slope, rtol=room)
    np.testing.assert_allclose(ours.clipping.numbers, theirs.clipping.numbers, rtol=room, atol=room)


COMBINATIONS = [
    (CLIPPED, PACING),
    (taut.learner("surrogate", GAME, horizon=100), PACING),
    (CLIPPED, MEMORY),
    (HALF, RAMP),
    (HALF, CAPPED),
]


@pytest.mark.parametrize(("method", "problem"), COMBINATIONS)
def test_members_equal_players(method, problem):
    """Several learners x reporting subsets x joins and leaves x previous and announced."""
    rng = np.random.default_rng(3)
    options = {"announced_count": 1} if problem is CAPPED else {}
    twins = Twins(method, problem, ["a", "b", "c", "d", "e"], options)
    twins.round(["a", "b", "c", "d", "e"], rng)
    twins.round(["d", "a"], rng)
    twins.leave(["b", "d"])
    twins.join(["f", "g", "b"])
    compiled = count_compiled()
    for _ in range(4):
        reporting = [each for each in twins.fleet.ids if rng.uniform() < 0.7]
        twins.round(reporting, rng)
    twins.round(list(rng.permutation(twins.fleet.ids)), rng)
    twins.check()
    if problem is not CAPPED:
        assert count_compiled() == compiled


@pytest.fixture(scope="module")
def observed():
    """A fleet of three after two rounds; tests copy its arrays."""
    return played(taut.Fleet(CLIPPED, PACING, ["a", "b", "c"], parameters_of("abc"), count=2))


def played(fleet, rounds=2):
    rng = np.random.default_rng(11)
    for _ in range(rounds):
        assert fleet.observe(None, data_of(fleet.ids, rng)) == {}
    return fleet


@pytest.fixture
def fleet(observed):
    """The same, to be changed: the compiled steps are shared."""
    return played(taut.Fleet(CLIPPED, PACING, ["a", "b", "c"], parameters_of("abc"), count=2))


def rows_of(fleet):
    state = [array[fleet._members.slots(None)].tobytes() for array in fleet._state]
    return [fleet.ids, state, fleet.rounds().tolist(), fleet.skipped().tolist()]


def test_refuses_one_member_by_name(fleet, observed):
    """A number that is not finite is refused for its member alone; nothing else is lost."""
    data = data_of("abc", np.random.default_rng(1))
    observed_alone = data_of("abc", np.random.default_rng(1))
    data["target"][1, 0] = np.nan
    before = fleet.decisions(["b"])
    with pytest.warns(RuntimeWarning, match="'b'"):
        refused = fleet.observe(["a", "b", "c"], data)
    assert list(refused) == ["b"]
    assert refused["b"] == ("z: got a value that is not finite in round 3; expected finite numbers")
    assert fleet.rounds().tolist() == [4, 3, 4]
    np.testing.assert_array_equal(fleet.decisions(["b"]), before)
    other = played(taut.Fleet(CLIPPED, PACING, ["a", "b", "c"], parameters_of("abc"), count=2))
    other.observe(["a", "c"], {name: array[[0, 2]] for name, array in observed_alone.items()})
    assert rows_of(other) == rows_of(fleet)


def test_names_what_is_not_finite():
    """A loss, a gradient or a constraint that is not finite is refused as well."""

    def loss(x, z):
        return jnp.sqrt(x[0] - z) + 0 * x[1]

    fleet = taut.Fleet(CLIPPED, taut.Problem(loss, lambda x: x[0], BOX), [1, 2, 3])
    with pytest.warns(RuntimeWarning, match="2, 3"):
        refused = fleet.observe([1, 2, 3], np.array([-1.0, 0.0, 1.0]))
    assert [text.partition(":")[0] for text in refused.values()] == ["loss gradient", "loss"]
    assert fleet.rounds().tolist() == [2, 1, 1]


def test_refuses_rounds_that_are_not_next(fleet):
    data = data_of("abc", np.random.default_rng(1))
    with pytest.warns(RuntimeWarning, match="'c'"):
        refused = fleet.observe(["a", "b", "c"], data, rounds=[3, 3, 2])
    assert refused == {"c": "rounds: got 2; expected 3, the round that comes next"}
    with pytest.warns(RuntimeWarning, match="'a', 'b'"):
        assert list(fleet.observe(None, data, rounds=3)) == ["a", "b"]
    assert fleet.rounds().tolist() == [4, 4, 4]
    with pytest.raises(TypeError, match="rounds: got"):
        fleet.observe(None, data, rounds=[1.5, 2, 3])


@pytest.mark.parametrize(
    ("ids", "change", "message"),
    [
        (["a", "x"], {}, "ids: got 'x', not in the fleet of 3 members"),
        (["a", "a"], {}, "ids: got 'a' more than once"),
        ("ab", {}, "ids: got 'ab'; expected several ids"),
        (["a", 1], {}, "ids: got ids of type int, str"),
        (["a", "b"], {"budget": np.ones(2)}, "z: got 'budget', which are parameters"),
        (["a", "b"], {"target": np.ones((3, 2))}, "expected a row for each of 2 members"),
        (["a", "b"], {"target": np.ones((2, 5))}, "z: got data of shape"),
        (["a", "b"], {"price": None}, "price"),
    ],
)
def test_refuses_data_that_do_not_fit_and_changes_nothing(fleet, ids, change, message):
    before = rows_of(fleet)
    data = data_of("ab", np.random.default_rng(1)) | change
    with pytest.raises((ValueError, TypeError, KeyError), match=message):
        fleet.observe(ids, data)
    assert rows_of(fleet) == before


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda fleet: fleet.join(["a"], parameters_of("a")), "'a', in the fleet already"),
        (lambda fleet: fleet.join(["d", "d"], parameters_of("dd")), "'d' more than once"),
        (lambda fleet: fleet.join([4], parameters_of([4])), "ids: got 4; expected ids like 'a'"),
        (lambda fleet: fleet.join(["d"]), "parameters: got none; expected budget, rate"),
        (lambda fleet: fleet.join(["d"], {"budget": [1.0]}), "parameters: got budget"),
        (
            lambda fleet: fleet.join(["d"], {"budget": [np.nan], "rate": [1.0]}),
            "not finite for 'd'",
        ),
        (
            lambda fleet: fleet.join(["d"], {"budget": [[1.0]], "rate": [1.0]}),
            "got rows of shape",
        ),
        (
            lambda fleet: fleet.set_parameters(["a"], {"budget": np.array([1 + 2j])}),
            "expected real numbers",
        ),
        (lambda fleet: fleet.leave(["a", "z"]), "'z', not in the fleet"),
        (lambda fleet: fleet.set_parameters(["a"], {"cap": [1.0]}), "parameters: got cap"),
        (lambda fleet: fleet.announce(["a"], {}), "no announced constraints"),
        (lambda fleet: fleet.to_dataframe("rounds"), "what"),
        (
            lambda fleet: fleet.observe(
                None, data_of("abc", np.random.default_rng(0)), rounds=jax.random.key(0)
            ),
            "^rounds: got",
        ),
        (
            lambda _: taut.Fleet(CLIPPED, GAME, [], count=jax.random.key(0)),
            "^count: got",
        ),
    ],
)
def test_refuses_calls_that_do_not_fit_and_changes_nothing(fleet, call, message):
    before = rows_of(fleet)
    with pytest.raises((ValueError, TypeError), match=message):
        call(fleet)
    assert rows_of(fleet) == before


def test_skipped_rounds_are_counted_apart(fleet):
    before = fleet.totals()
    fleet.skip(["b"], reason="no report")
    assert fleet.rounds().tolist() == [3, 4, 3]
    assert fleet.skipped().tolist() == [0, 1, 0]
    np.testing.assert_array_equal(fleet.totals().loss, before.loss)
    assert fleet.observe(["b"], data_of("b", RNG), rounds=4) == {}
    assert fleet.extremes("b").rounds == 4


def test_a_member_that_skipped_is_a_player_that_skipped():
    fleet, player = taut.Fleet(CLIPPED, GAME, ["a"]), taut.Player(CLIPPED, GAME)
    for t, z in enumerate(np.random.default_rng(5).normal(size=(6, 2))):
        if t in (1, 2):
            fleet.skip(["a"])
            player.skip()
        else:
            fleet.observe(["a"], (1 + t) * z[None])
            player.observe((1 + t) * z)
    assert fleet.rounds()[0] == player.round == fleet.player("a").round
    check_extremes(fleet.extremes("a"), player.extremes)
    assert str(fleet.certificate("a")) == str(player.certificate())


def test_copies_and_empty_fleets(fleet, tmp_path):
    again = copy.deepcopy(fleet)
    assert rows_of(again) == rows_of(fleet)
    empty = taut.Fleet(CLIPPED, GAME, [])
    assert empty.observe(None, np.zeros((0, 2))) == {}
    assert empty.decisions().shape == (0, 2)
    assert "0 members" in repr(empty)
    assert empty.to_dataframe("totals").empty
    empty.save(tmp_path)
    assert taut.Fleet.load(tmp_path, GAME).ids == []


def test_a_skipped_decision_is_the_previous_one():
    fleet = taut.Fleet(CLIPPED, MEMORY, ["a"], parameters_of("a"), count=2)
    fleet.observe(["a"], data_of("a", RNG))
    x = fleet.decisions()
    fleet.skip(["a"])
    np.testing.assert_array_equal(fleet._member("a").game.previous, x[0])


def test_whole_numbers_as_parameters_stay_whole():
    fleet = taut.Fleet(CLIPPED, PACING, ["a"], {"budget": [1], "rate": [1.0]}, count=2)
    with pytest.raises(TypeError, match="got values of type float64; expected int64"):
        fleet.set_parameters(["a"], {"budget": [0.5]})


def test_parameters_can_change(fleet):
    fleet.set_parameters(["b"], {"budget": [9.0]})
    assert fleet.parameters(["a", "b"])["budget"][1] == 9.0
    assert fleet.parameters()["rate"].tolist() == parameters_of("abc")["rate"].tolist()


def test_tables_in_and_out():
    """The index of a table names the members; its columns are the entries of the data."""
    prices = taut.Problem(
        lambda x, z: z["cost"] * x[0], lambda x, z: z["floor"] - x, taut.Box(0.0, 1.0, shape=1)
    )
    table = pd.DataFrame({"floor": [0.2, 0.4]}, index=["a", "b"])
    fleet = taut.Fleet(CLIPPED, prices, table.index, table)
    reports = pd.DataFrame({"cost": [1.0, 2.0]}, index=["b", "a"])
    assert fleet.observe(reports) == {}
    assert fleet.observe(["b", "a"], reports) == {}
    with pytest.raises(ValueError, match="the row 'b' at 0; expected 'a'"):
        fleet.observe(["a", "b"], reports)
    totals = fleet.to_dataframe("totals")
    assert totals.index.tolist() == ["a", "b"]
    assert totals["round"].tolist() == [3, 3]
    decisions = fleet.to_dataframe("decisions")
    np.testing.assert_array_equal(decisions.to_numpy(), fleet.decisions())
    assert fleet.to_dataframe("parameters")["floor"].tolist() == [0.2, 0.4]


def test_certificate_of_a_member_is_that_of_a_player(observed):
    rng = np.random.default_rng(11)
    streams = [data_of("abc", rng) for _ in range(2)]
    player = taut.Player(CLIPPED, PACING, count=2)
    own = {name: column[1] for name, column in parameters_of("abc").items()}
    for data in streams:
        player.observe(row_of(data, 1) | own)
    stream = {name: np.stack([data[name][1] for data in streams]) for name in streams[0]}
    whole = stream | {name: np.repeat(column, 2) for name, column in own.items()}
    assert str(observed.certificate("b")) == str(player.certificate())
    ours = observed.certificate("b", stream=stream)
    assert str(ours) == str(player.certificate(stream=whole))
    going_on = observed.player("b")
    for each in (going_on, player):
        each.observe(row_of(streams[0], 1) | own)
    np.testing.assert_allclose(going_on.decision, player.decision, atol=1e-12)


def test_random_members_have_keys_of_their_own():
    """A member draws the numbers of a player with its key, wherever it is in the fleet."""
    bandit = taut.learner("two-point", GAME, horizon=50)
    alone = taut.Fleet(bandit, GAME, ["b"])
    fleet = taut.Fleet(bandit, GAME, ["a", "b", "c"])
    key = member_key(jax.random.key(0), np.array(hash_of("b"), np.uint32))
    player = taut.Player(bandit, GAME, key=key)
    z = np.random.default_rng(2).normal(size=(3, 2))
    for _ in range(3):
        np.testing.assert_allclose(fleet.points(["b"])[0], player.points, atol=1e-12)
        fleet.observe(["c", "b", "a"], z)
        alone.observe(["b"], z[1:2])
        player.observe(z[1])
    np.testing.assert_array_equal(fleet.decisions(["b"]), alone.decisions())
    np.testing.assert_allclose(alone.decisions()[0], player.decision, atol=1e-12)
    assert np.any(fleet.decisions(["a"]) != fleet.decisions(["b"]))


ONE = taut.Problem(value, lambda x, z: within_budget(x, z)[:1], BOX)


@pytest.mark.parametrize(
    ("method", "problem", "count"), [("half-space", ONE, 1), (CLIPPED, PACING, 2)]
)
def test_a_block_fits_into_one_kernel(method, problem, count):
    """In pieces, a member takes ten times as long."""
    fleet = taut.Fleet(method, problem, ["a"], parameters_of("a"), count=count)
    row = [array[0] for array in fleet._state]
    data = row_of(data_of("a", RNG), 0) | dict.fromkeys(NAMES, 0.5)
    blocks = fleet._blocks
    for layout in blocks._layouts.values():
        step = partial(_step_of_row, revealed, layout, blocks.fixed)
        check_for_kernel(jax.make_jaxpr(step)(row, (data,)))


PROGRAM = """
import jax, jax.numpy as jnp, numpy as np
jax.config.update("jax_enable_x64", True)
import taut

ball = taut.Ball(1.0, shape=3)
constants = taut.Constants(
    loss_lipschitz=4.0, constraint_lipschitz=2.0, constraint_range=2.0, constraint_count=2
)

def largest(values):
    def constraints(x, z):
        return jnp.stack([jnp.max(values(x * z["v"])) - 0.4, jnp.sum(jnp.abs(x)) - z["cap"]])
    return constraints

# Sorting is an operation that no kernel can contain: members are then played side by side.
for name, values in (
    ("half-space", lambda y: y), ("surrogate", lambda y: y), ("clipped-ogd", jnp.sort)
):
    problem = taut.Problem(lambda x, z: z["v"] @ x + 0.1 * x @ x, largest(values), ball, constants)
    options = {"memory": 2} if name == "half-space" else {"horizon": 50}  # compiled sooner
    method, n, rng = taut.learner(name, problem, **options), 200, np.random.default_rng(0)
    caps = rng.uniform(0.2, 1, n)
    everyone = taut.Fleet(method, problem, range(n), {"cap": caps})
    few = taut.Fleet(method, problem, range(n), {"cap": caps})
    alone = taut.Fleet(method, problem, [7], {"cap": caps[7:8]})
    player = taut.Player(method, problem) if name == "surrogate" else None
    for t in range(12):
        z = rng.normal(size=(n, 3))
        everyone.observe(None, {"v": z})
        for part in np.array_split(rng.permutation(n), [3, 20, 120]):
            few.observe(part, {"v": z[part]})
        alone.observe([7], {"v": z[7:8]})
        if player is not None:
            player.observe({"v": z[7], "cap": caps[7]})
    same = [np.array_equal(everyone.decisions(), few.decisions()),
            np.array_equal(everyone.decisions([7]), alone.decisions()),
            np.array_equal(everyone.totals().loss, few.totals().loss)]
    away = 0 if player is None else np.abs(alone.decisions()[0] - player.decision).max()
    print(name, same, away < 1e-12)
"""


def test_who_reports_together_changes_no_bit():
    """In code that XLA optimises: not the others, not the padding, not the slot."""
    lines = run_optimised("-c", PROGRAM).splitlines()
    assert len(lines) == 3
    assert all(line.endswith("[True, True, True] True") for line in lines), lines


@pytest.mark.parametrize(("method", "problem"), [(CLIPPED, MEMORY), (HALF, RAMP)])
def test_members_equal_players_in_single_precision(method, problem):
    """Previous decisions and announced constraints in 32 bits; data and advice are tested with
    advice."""
    with jax.enable_x64(False):
        rng = np.random.default_rng(3)
        twins = Twins(method, problem, ["a", "b", "c"], room=SINGLE)
        for reporting in (["a", "b", "c"], ["c", "a"], ["b", "c"], ["a", "b", "c"]):
            twins.round(reporting, rng)
        twins.check()
        assert twins.fleet._state[0].dtype == np.float32
        again = taut.Fleet.from_bytes(twins.fleet.to_bytes(), problem)
        assert rows_of(again) == rows_of(twins.fleet)


def test_members_of_a_model_in_cvxpy_equal_players():
    """Announced rows need only their own parameters, which are data of a round or of a member."""
    x = cp.Variable(2, name="x")
    price, line = cp.Parameter(2, name="price"), cp.Parameter(name="line", nonneg=True)
    share = cp.Parameter(name="share", nonneg=True)
    cost = price @ x + cp.sum_squares(x - 1)
    model = taut.from_cvxpy(
        cp.Problem(cp.Minimize(cost), [x >= 0, x <= 1, x[0] - 2 * x[1] <= 0.3]),
        per_round=[price, line, share],
        announced=[cp.sum(x) <= line, x[0] <= share],
    )
    method, ids = taut.HalfSpace.adaptive(model.domain, memory=2), ["a", "b"]
    shares = np.array([0.2, 0.6])
    fleet = taut.Fleet(method, model, ids, {"share": shares})
    players = [taut.Player(method, model) for _ in ids]
    rng = np.random.default_rng(4)
    for _ in range(3):
        data = {"price": rng.normal(size=(2, 2)), "line": rng.uniform(0.1, 0.9, 2)}
        assert fleet.announce(None, {"line": data["line"]}) == {}
        decisions = fleet.decisions()
        assert np.all(decisions.sum(axis=1) <= data["line"] + 1e-12)
        assert np.all(decisions[:, 0] <= shares + 1e-12)
        for i, player in enumerate(players):
            known = {"line": data["line"][i], "share": shares[i]}
            np.testing.assert_allclose(decisions[i], player.announce(known), atol=1e-12)
            player.observe({"price": data["price"][i], **known})
        assert fleet.observe(None, data) == {}
    for i, player in enumerate(players):
        for entry in fields(player.totals):
            ours, theirs = (
                getattr(fleet.totals()[i], entry.name),
                getattr(player.totals, entry.name),
            )
            np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


def test_a_skip_that_is_taken_back_leaves_what_data_are_like():
    problem = taut.Problem(
        lambda x, z: jnp.sum((x - z.mean()) ** 2), jnp.sum, taut.Ball(1.0, shape=2)
    )
    fleet = taut.Fleet("half-space", problem, ["a", "b"])
    fleet.observe(["a"], np.ones((1, 3)))
    player = fleet.player("b")
    player.skip("no meter")
    player.undo()
    with pytest.raises(ValueError, match=r"expected \(3,\), as before"):
        player.observe(np.ones(5))
