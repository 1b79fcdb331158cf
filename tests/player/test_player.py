"""Player: the simulated game, one round at a time; refuses what is bad, stays as it was, and
survives in files."""

import json
import pickle
from dataclasses import fields
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from small_games import ALL, BALL, FOUR, GAME, ROUNDS, distance, learner, outside_diamond, targets
from taut import storage
from taut.play.compile import count_compiled
from taut.player.file import contents
from taut.runs import metrics

CLIPPED = taut.ClippedOGD(0.3, 5.0)


def totals_of(player):
    return {
        entry.name: np.asarray(getattr(player.totals, entry.name))
        for entry in fields(player.totals)
    }


def snapshot(player):
    """All that a player plays with and reports, as bytes."""
    arrays = {name: a for name, a in contents(player)[1].items() if "extremes" not in name}
    kept = {**arrays, **totals_of(player), "decision": player.decision}
    return {name: (array.dtype, array.shape, array.tobytes()) for name, array in kept.items()} | {
        "round": player.round
    }


def watched(player, stream):
    """Decisions of the player over a stream."""
    decisions = []
    for z in stream:
        decisions.append(player.decision)
        player.observe(z)
    return np.stack(decisions)


# Equal to the simulation.


@pytest.mark.parametrize("name", ["clipped-ogd", "half-space", "two-point"])
def test_plays_what_simulate_plays(name):
    """Decisions and totals; conformance compares the decisions of all methods."""
    z = targets()
    one = learner(name)
    run = taut.simulate(one, GAME, z, record=ALL)
    player = taut.Player(one, GAME)
    np.testing.assert_allclose(watched(player, z), run.decisions[0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(player.decision, run.final[0], rtol=0, atol=1e-12)
    for entry, total in totals_of(player).items():
        np.testing.assert_allclose(
            total, getattr(run.totals, entry)[0], rtol=1e-11, atol=1e-11, err_msg=entry
        )
    assert player.totals.worst_violation == pytest.approx(
        metrics.violation(run)[0], rel=1e-11, abs=1e-11
    )
    assert player.round == ROUNDS + 1


def test_totals_of_several_constraints_over_several_pages():
    rounds = 2 * 256 + 3
    z = targets(rounds=rounds)
    one = taut.ClippedOGD(0.3, 20.0)
    run = taut.simulate(one, FOUR, z)
    player = taut.Player(one, FOUR)
    watched(player, z)
    np.testing.assert_allclose(player.totals.loss, metrics.loss(run)[0], rtol=1e-12)
    for metric, largest, total, worst in (
        (metrics.excess, metrics.largest_excess, "excess", "worst_excess"),
        (metrics.violation, metrics.violation, "violation", "worst_violation"),
        (metrics.squared_violation, metrics.largest_squared_violation, "squared", "worst_squared"),
    ):
        np.testing.assert_allclose(
            getattr(player.totals, total), metric(run, per_constraint=True)[0], rtol=1e-11
        )
        np.testing.assert_allclose(getattr(player.totals, worst), largest(run)[0], rtol=1e-11)
    np.testing.assert_array_equal(
        player.totals.peak, metrics.peak_violation(run, per_constraint=True)[0]
    )


def test_totals_do_not_depend_on_when_they_are_read():
    z = targets(rounds=300)
    asked, silent = taut.Player(CLIPPED, GAME), taut.Player(CLIPPED, GAME)
    for point in z:
        asked.observe(point)
        silent.observe(point)
        assert asked.totals.loss > 0
    assert snapshot(asked) == snapshot(silent)


def test_float32_game():
    z = targets()
    x1 = np.zeros(2, np.float32)
    run = taut.simulate(CLIPPED, GAME, z, x1=x1, record=ALL)
    player = taut.Player(CLIPPED, GAME, x1=x1)
    decisions = watched(player, z)
    assert decisions.dtype == np.float32
    np.testing.assert_allclose(decisions, run.decisions[0], atol=1e-6)
    assert player.totals.loss.dtype == np.float64


def test_matrices_and_pytrees_of_whole_numbers():
    def loss(x, z):
        return jnp.sum(x * z["prices"][z["day"]])

    problem = taut.Problem(loss, lambda x: jnp.sum(x, axis=1) - 1, taut.Box(0.0, 1.0, shape=(2, 3)))
    rng = np.random.default_rng(0)
    stream = {"prices": rng.normal(size=(20, 7, 2, 3)), "day": rng.integers(0, 7, 20)}
    run = taut.simulate(CLIPPED, problem, stream, record=ALL)
    player = taut.Player(CLIPPED, problem)
    rounds = [{"prices": stream["prices"][t], "day": int(stream["day"][t])} for t in range(20)]
    np.testing.assert_allclose(watched(player, rounds), run.decisions[0], atol=1e-12)


def test_constraints_that_depend_on_the_data():
    problem = taut.Problem(distance, lambda x, z: x - z, BALL)
    z = targets()
    run = taut.simulate(CLIPPED, problem, z, record=ALL)
    player = taut.Player(CLIPPED, problem, count=2)
    np.testing.assert_allclose(watched(player, z), run.decisions[0], atol=1e-12)
    np.testing.assert_allclose(player.totals.violation, run.totals.violation[0], rtol=1e-12)


def test_decision_belongs_to_the_caller():
    player = taut.Player(CLIPPED, GAME)
    mine = player.decision
    mine += 100
    np.testing.assert_array_equal(player.decision, [0, 0])
    assert isinstance(player.decision, np.ndarray)


def test_data_of_other_numeric_types_are_taken_as_the_first_were():
    z = np.round(targets())
    exact, mixed = taut.Player(CLIPPED, GAME), taut.Player(CLIPPED, GAME)
    watched(exact, z)
    for t, point in enumerate(z):
        kinds = (
            point,
            point.astype(np.float32),
            point.astype(int),
            jnp.asarray(point),
            point[::-1][::-1],
        )
        mixed.observe(kinds[t % 5])
    assert snapshot(mixed) == snapshot(exact)


# Measurements instead of functions.


@pytest.mark.parametrize(
    "name", ["clipped-ogd", "a-ogd", "projected-ogd", "drift-plus-penalty", "clipped-ogd-doubling"]
)
def test_measurements_are_as_good_as_data(name):
    seen, told = taut.Player(learner(name), GAME), taut.Player(learner(name), GAME)
    for t, z in enumerate(targets()):
        seen.observe(z)
        x = told.decision
        excess, jacobian = np.abs(x).sum() - 1, np.sign(x)
        if t % 2:  # m = 1: with or without its axis
            excess, jacobian = [excess], [jacobian]
        told.observe(
            gradient=x - z, excess=excess, jacobian=jacobian, loss=0.5 * np.sum((x - z) ** 2)
        )
        np.testing.assert_allclose(told.decision, seen.decision, atol=1e-12)
    for entry, total in totals_of(told).items():
        np.testing.assert_allclose(total, totals_of(seen)[entry], atol=1e-11, err_msg=entry)


def test_measurements_of_several_constraints_on_matrices():
    problem = taut.Problem(
        lambda x, z: jnp.sum((x - z) ** 2),
        lambda x: jnp.sum(x, axis=1) - 1,
        taut.Box(0.0, 1.0, shape=(2, 3)),
    )
    one = taut.DriftPlusPenalty(3.0, 4.0)
    seen, told = taut.Player(one, problem), taut.Player(one, problem)
    jacobian = np.zeros((2, 2, 3))
    jacobian[0, 0], jacobian[1, 1] = 1, 1
    for z in np.random.default_rng(0).uniform(0.3, 1, size=(20, 2, 3)):
        seen.observe(z)
        x = told.decision
        told.observe(gradient=2 * (x - z), excess=x.sum(axis=1) - 1, jacobian=jacobian)
        np.testing.assert_allclose(told.decision, seen.decision, atol=1e-12)
    np.testing.assert_allclose(told.totals.violation, seen.totals.violation, rtol=1e-10)


def test_a_loss_that_was_not_measured_is_not_zero():
    player = taut.Player(CLIPPED, GAME)
    player.observe(targets()[0])
    player.observe(gradient=[0.1, 0.2], excess=0.5, jacobian=[1.0, 1.0])
    last = np.abs(player.decision).sum() - 1
    player.observe(targets()[1])
    assert np.isnan(player.totals.loss)
    np.testing.assert_allclose(player.totals.excess, [-1 + 0.5 + last], rtol=1e-12)
    np.testing.assert_allclose(player.totals.peak, [max(0.5, last)])


# Refusals.


def boxed_root(x, z):
    return z * jnp.sum(-jnp.sqrt(x))


def at_zero():
    """At the corner of the box every slope of the loss is infinite; clipping would hide it."""
    return taut.Problem(boxed_root, lambda x: jnp.sum(x) - 1.5, taut.Box(0.0, 1.0, shape=2))


GOOD = {"gradient": [0.1, 0.2], "excess": 0.5, "jacobian": [1.0, 1.0]}
BAD = {
    "NaN data": (
        [np.nan, 0.0],
        ValueError,
        "z: got a value that is not finite in round 4; expected finite numbers",
    ),
    "infinite data": ([np.inf, 0.0], ValueError, "z: got a value that is not finite in round 4"),
    "overflowing loss": (
        [1e200, 0.0],
        ValueError,
        "loss: got a value that is not finite in round 4",
    ),
    "wrong shape": (
        [0.1, 0.2, 0.3],
        ValueError,
        r"z: got data of shape \(3,\); expected \(2,\), as before",
    ),
    "a number": (0.1, ValueError, r"z: got data of shape \(\); expected \(2,\), as before"),
    "strings": (["a", "b"], TypeError, "z: got values of type <U1; expected real numbers"),
    "complex": ([1j, 0.0], TypeError, "z: got values of type complex128; expected real numbers"),
    "objects": ([None, 1], TypeError, "z: got values of type object; expected real numbers"),
}
BAD_MEASUREMENTS = {
    "infinite gradient": (
        {"gradient": [np.inf, 0]},
        ValueError,
        r"gradient: got inf at index \(0,\); expected finite",
    ),
    "NaN excess": (
        {"excess": np.nan},
        ValueError,
        "excess: got nan at index .*; expected finite numbers",
    ),
    "NaN Jacobian": (
        {"jacobian": [0, np.nan]},
        ValueError,
        r"jacobian: got nan at index \(1,\); expected finite",
    ),
    "infinite loss": ({"loss": np.inf}, ValueError, "loss: got inf; expected a finite real number"),
    "no number": ({"loss": "1"}, TypeError, "loss: got '1'; expected a finite real number"),
    "wrong shape": (
        {"gradient": [1.0]},
        ValueError,
        r"gradient: got shape \(1,\); expected \(2,\)",
    ),
    "too many constraints": (
        {"excess": [0.1, 0.2]},
        ValueError,
        r"excess: got shape \(2,\); expected \(1,\)",
    ),
    "too many rows": (
        {"jacobian": np.ones((2, 2))},
        ValueError,
        r"jacobian: got shape \(2, 2\); expected \(1, 2\)",
    ),
    "strings": (
        {"gradient": ["a", "b"]},
        TypeError,
        "gradient: got values of type <U1; expected real numbers",
    ),
    "missing": (
        {"excess": None},
        TypeError,
        r"excess: got None; expected an array of shape \(1,\) beside the other",
    ),
    "both": ({"z": np.zeros(2)}, TypeError, "z: got both z and measurements; expected either"),
    "neither": (
        {"gradient": None, "excess": None, "jacobian": None},
        TypeError,
        "z: got neither z nor measurements; expected either z, or gradient, excess and jacobian",
    ),
    "loss beside data": (
        {"gradient": None, "excess": None, "jacobian": None, "z": np.zeros(2), "loss": 1.0},
        TypeError,
        "loss: got a value beside z; expected it only beside gradient, excess and jacobian",
    ),
    "an overflowing step": (
        {"gradient": [1e308, 1e308], "jacobian": [1e308, 1e308], "excess": 1e308},
        ValueError,
        "next decision: got a value that is not finite in round 4",
    ),
}


@pytest.fixture(scope="module")
def played():
    player = taut.Player(CLIPPED, GAME)
    watched(player, targets(rounds=3))
    return player


@pytest.mark.parametrize("case", list(BAD))
def test_bad_data_are_refused_and_change_nothing(played, case):
    came, error, message = BAD[case]
    before = snapshot(played)
    with pytest.raises(error, match=message):
        played.observe(np.asarray(came))
    assert snapshot(played) == before


def test_data_of_another_structure_are_refused(played):
    before = snapshot(played)
    with pytest.raises(
        ValueError, match=r"z: got data of shape {'z': \(2,\)}; expected \(2,\), as before"
    ):
        played.observe({"z": np.zeros(2)})
    assert snapshot(played) == before


@pytest.mark.parametrize("case", list(BAD_MEASUREMENTS))
def test_bad_measurements_are_refused_and_change_nothing(played, case):
    came, error, message = BAD_MEASUREMENTS[case]
    before = snapshot(played)
    with pytest.raises(error, match=message):
        played.observe(**{**GOOD, **came})
    assert snapshot(played) == before


def test_a_player_goes_on_after_a_refusal(played):
    untouched = taut.Player(CLIPPED, GAME)
    watched(untouched, targets(rounds=5))
    watched(played, targets(rounds=5)[3:])
    assert snapshot(played) == snapshot(untouched)


def test_first_observation_must_fit_the_problem():
    player = taut.Player(CLIPPED, GAME)
    before = snapshot(player)
    with pytest.raises(
        ValueError,
        match=r"z: loss\(x, z\) raised TypeError when .*x of shape \(2,\) .*z of shape \(3,\)",
    ):
        player.observe(np.zeros(3))
    with pytest.raises(ValueError, match="z: got a value that is not finite"):
        player.observe(
            np.array(np.nan)
        )  # of another shape than what follows: a refused observation teaches nothing
    assert snapshot(player) == before
    player.observe(np.zeros(2))
    wide = taut.Player(CLIPPED, taut.Problem(distance, lambda x, z: x - z, BALL), count=3)
    with pytest.raises(
        ValueError, match=r"z: got data with which constraints\(x, z\) returns 2 values; expected 3"
    ):
        wide.observe(np.zeros(2))


def test_announced_data_may_be_others_in_every_round():
    """What is known before a round differs: a limit alone, with the cost, or under another name."""
    names = {"cap": -0.5, "cost": 1.0, "spare": -0.5}

    def limit(x, z):
        return x - (z["cap"] if "cap" in z else z["spare"])

    problem = taut.Problem(
        lambda x, z: jnp.sum(z["cost"] * x), outside_diamond, BALL, announced=limit
    )
    player = taut.Player("half-space", problem, announced_count=2)
    data = {name: np.full(2, value) for name, value in names.items()}
    for given, highest in ((("cap",), -0.5), (("cap", "cost"), -0.6), (("spare",), -0.7)):
        known = {name: data[name] if name == "cost" else np.full(2, highest) for name in given}
        assert np.all(player.announce(known) <= highest + 1e-9)
        player.observe({**data, **known})


def test_slopes_that_are_not_finite_are_refused_even_where_a_box_would_clip_them():
    player = taut.Player(CLIPPED, at_zero(), x1=[0.0, 0.0])
    with pytest.raises(
        ValueError, match="loss gradient: got a value that is not finite in round 1"
    ):
        player.observe(1.0)
    steep = taut.Problem(
        lambda x, z: jnp.sum(x * z),
        lambda x: 0.1 - jnp.sum(jnp.sqrt(x)),
        taut.Box(0.0, 1.0, shape=2),
    )
    player = taut.Player(CLIPPED, steep, x1=[0.0, 0.0])
    with pytest.raises(
        ValueError, match=r"next decision: got a value that is not finite in round 1"
    ):
        player.observe(np.ones(2))
    np.testing.assert_array_equal(player.decision, [0.0, 0.0])


def test_players_that_cannot_be():
    for make, error, message in (
        (
            lambda: taut.Player("clipped", GAME),
            ValueError,
            "learner: got 'clipped'. Did you mean 'clipped-ogd'",
        ),
        (lambda: taut.Player(3, GAME), TypeError, "learner: got 3; expected a taut learner"),
        (
            lambda: taut.Player(CLIPPED, distance),
            TypeError,
            "problem: got .*; expected taut.Problem",
        ),
        (
            lambda: taut.Player(CLIPPED, GAME, x1=[0.0]),
            ValueError,
            r"x1: got shape \(1,\); expected \(2,\)",
        ),
        (
            lambda: taut.Player(CLIPPED, GAME, count=2),
            ValueError,
            "count: got 2; expected 1, as the problem has",
        ),
        (
            lambda: taut.Player(CLIPPED, GAME, count=0),
            ValueError,
            "count: got 0; expected a whole number of at least 1",
        ),
        (
            lambda: taut.Player(CLIPPED, taut.Problem(distance, lambda x, z: x - z, BALL)),
            ValueError,
            "count: got None; expected the number of constraints, which depends on the round's "
            "data",
        ),
    ):
        with pytest.raises(error, match=message):
            make()


# Files.


@pytest.mark.parametrize(
    "name", ["clipped-ogd-doubling", "a-ogd", "drift-plus-penalty", "projected-ogd"]
)
def test_save_and_load_go_on_exactly(tmp_path, name):
    z = targets()
    whole = taut.Player(learner(name), GAME)
    watched(whole, z)
    half = taut.Player(learner(name), GAME)
    watched(half, z[:31])
    half.save(tmp_path / "deep" / "player.npz")
    back = taut.Player.load(tmp_path / "deep" / "player.npz", GAME, learner(name))
    assert snapshot(back) == snapshot(half)
    assert repr(back.learner) == repr(half.learner)
    watched(back, z[31:])
    assert snapshot(back) == snapshot(whole)
    header, _ = storage.read_arrays(tmp_path / "deep" / "player.npz")
    assert (header["format"], header["version"]) == (5, taut.__version__)


def test_save_and_load_a_float32_player(tmp_path, played):
    player = taut.Player(CLIPPED, GAME, x1=np.zeros(2, np.float32))
    watched(player, targets(rounds=9))
    player.save(tmp_path / "player.npz")
    back = taut.Player.load(tmp_path / "player.npz", GAME)
    assert back.decision.dtype == np.float32
    assert snapshot(back) == snapshot(player)
    played.save(tmp_path / "wide.npz")
    refused = pytest.raises(
        ValueError, match=r"path: got .*wide.npz in float64; expected jax.config.update"
    )
    with jax.enable_x64(False), refused:
        taut.Player.load(tmp_path / "wide.npz", GAME)


def test_a_file_of_something_else_is_refused(tmp_path, played):
    path = tmp_path / "player.npz"
    played.save(path)
    elsewhere = taut.Problem(distance, outside_diamond, taut.Ball(2.0, shape=2))
    header, arrays = storage.read_arrays(path)
    fewer = {name: array for name, array in arrays.items() if name != "state/0"}
    for case, header_of, arrays_of, message in (
        (
            "format",
            {**header, "format": 99},
            arrays,
            "with 'player' in format 99; expected 'player' in format 5",
        ),
        (
            "what",
            {**header, "what": "board"},
            arrays,
            "with 'board' in format 5; expected 'player' in format 5",
        ),
        ("state", header, fewer, "saved by taut .* pass migrate=True to go on from its decision"),
        (
            "shape",
            header,
            {**arrays, "state/0": np.zeros(3)},
            "saved by taut .*other shapes or types",
        ),
        (
            "totals",
            header,
            {**arrays, "totals/1": np.zeros(3)},
            "saved by taut .*other shapes or types",
        ),
        (
            "learner",
            {**header, "learner": {"kind": "Magic", "fields": {}}},
            arrays,
            "got a learner of kind 'Magic'",
        ),
    ):
        storage.write_arrays(tmp_path / f"{case}.npz", header_of, arrays_of)
        with pytest.raises(ValueError, match=message):
            taut.Player.load(tmp_path / f"{case}.npz", GAME)
    with pytest.raises(
        ValueError,
        match=r"learner: got .*sigma=6.0.*is by .*sigma=5.0.*; expected the learner that",
    ):
        taut.Player.load(path, GAME, taut.ClippedOGD(0.3, 6.0))
    with pytest.raises(ValueError, match=r"learner: got DriftPlusPenalty.*is by ClippedOGD"):
        taut.Player.load(path, GAME, taut.DriftPlusPenalty(1.0, 1.0))
    with pytest.raises(
        ValueError, match=r"problem: got the domain Ball.*; expected that in .*player.npz"
    ):
        taut.Player.load(path, elsewhere)
    with pytest.raises(
        ValueError, match=r"constraints: got values of shape \(4,\); expected \(1,\)"
    ):
        taut.Player.load(path, FOUR)
    with pytest.raises(FileNotFoundError, match=r"path: got .*none.npz, where there is no file"):
        taut.Player.load(tmp_path / "none.npz", GAME)


def test_a_player_without_a_stored_history_goes_on_with_its_round_numbers(played):
    back = taut.Player.from_bytes(played.to_bytes(history=False), GAME)
    expected = [back.decision]
    back.observe(np.array([5.0, 3.0]))
    expected.append(back.decision)
    back.observe(np.array([0.1, 0.1]))
    assert back.history.rounds.tolist() == [played.round, played.round + 1]
    np.testing.assert_array_equal(back.history.decision, expected)
    assert back.extremes.since == 1


@pytest.mark.parametrize("part", [0.0, 0.3, 0.9])
def test_a_truncated_file_is_refused(tmp_path, played, part):
    path = tmp_path / "player.npz"
    played.save(path)
    content = path.read_bytes()
    path.write_bytes(content[: int(part * len(content))])
    with pytest.raises(
        ValueError,
        match=r"path: got .*player.npz, damaged or foreign .*; expected a file that taut wrote",
    ):
        taut.Player.load(path, GAME)


def test_a_flipped_bit_is_noticed(tmp_path, played):
    path = tmp_path / "player.npz"
    played.save(path)
    content = bytearray(path.read_bytes())
    where = content.index(played.decision.tobytes())
    content[where + 3] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(ValueError, match=r"damaged or foreign .*CRC"):
        taut.Player.load(path, GAME)


sprung = []


class Trap:
    """Tells when it is unpickled."""

    def __reduce__(self):
        return (sprung_trap, ())


def sprung_trap():
    sprung.append(True)


def test_nothing_is_ever_unpickled(tmp_path, played):
    played.save(tmp_path / "good.npz")
    header, arrays = storage.read_arrays(tmp_path / "good.npz")
    trap = np.array([Trap()], dtype=object)
    described = np.frombuffer(json.dumps(header).encode(), np.uint8)
    np.savez(
        tmp_path / "array.npz",
        header=described,
        **{f"array/{name}": array for name, array in arrays.items()},
        **{"array/state/9": trap},
    )
    np.savez(tmp_path / "header.npz", header=trap)
    (tmp_path / "plain.npz").write_bytes(pickle.dumps(Trap()))
    np.save(tmp_path / "single.npy", trap)
    for name in ("array.npz", "header.npz", "plain.npz", "single.npy"):
        with pytest.raises(ValueError, match=f"path: got .*{name}, damaged or foreign"):
            taut.Player.load(tmp_path / name, GAME)
    assert not sprung
    np.load(tmp_path / "array.npz", allow_pickle=True)["array/state/9"]
    assert sprung  # the trap works


@pytest.mark.parametrize("fails", ["fsync", "replace"])
def test_a_crash_while_saving_leaves_the_old_file(tmp_path, played, monkeypatch, fails):
    path = tmp_path / "player.npz"
    taut.Player(CLIPPED, GAME).save(path)
    before = path.read_bytes()

    def crash(*arguments):
        raise OSError("no space left")

    monkeypatch.setattr(f"taut.storage.os.{fails}", crash)
    with pytest.raises(OSError, match="no space left"):
        played.save(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["player.npz"]
    assert taut.Player.load(path, GAME).round == 1


# Compiled once.


def test_a_round_compiles_nothing_new(played):
    played.observe(gradient=[0.1, 0.2], excess=-0.5, jacobian=[1.0, 1.0])
    before = count_compiled()
    assert before > 0
    other = taut.Player(taut.ClippedOGD(0.1, 9.0), GAME)  # other parameters
    watched(other, targets(rounds=5))
    other.observe(gradient=[0.1, 0.2], excess=-0.5, jacobian=[1.0, 1.0])
    assert count_compiled() == before
    same = taut.Problem(distance, lambda x: jnp.sum(jnp.abs(x)) - 1, BALL)
    taut.Player(taut.ClippedOGD(0.1, 9.0), same).observe([0.1, 0.2])
    assert count_compiled() == before + 1  # another function


ABOUT = ((3, 0, 0), (3, 1, -1), (9, 1, 0), (3, 1, 4))
"""Rounds, spacing and number of earlier rounds that no player with three rounds has."""


def test_every_part_of_a_file_is_checked(tmp_path, played):
    played.save(tmp_path / "player.npz")
    header, arrays = storage.read_arrays(tmp_path / "player.npz")
    for changes, entries, reason in (
        ({}, {"state/0": np.array([np.nan, 0.0])}, "contains NaN"),
        ({}, {"state/0": np.array([9.0, 0.0])}, "outside the domain"),
        ({}, {"state/0": np.array([np.inf, 0.0])}, "outside the domain"),
        ({"rounds": [-5, 0, 0]}, {}, "number of rounds is -5"),
        ({"rounds": [2.5, 0, 0]}, {}, "number of rounds is 2.5"),
        *(({}, {"history/about": np.array(about)}, "the history is not") for about in ABOUT),
        ({}, {"history/values": arrays["history/values"][1:]}, "the history is not"),
        ({}, {"first/0": np.zeros(3)}, "its first decision is not"),
        ({"learner": {"kind": "Constant", "fields": {"value": 1.0}}}, {}, "learner is"),
        ({"feedback": {"kind": "Delayed", "fields": {"rounds": 2**33}}}, {}, "has a state of"),
        ({"feedback": {"kind": "Delayed", "fields": {}}}, {}, "missing"),
        ({"feedback": 5}, {}, "feedback: got 5"),
        ({"announced_count": 2**40}, {}, "constraints, but"),
        ({"data": {"leaf": [[2], "O"]}}, {}, "its data are"),
        ({}, {"other/0": np.zeros(1)}, "other"),
        ({"version": "99.0"}, {}, "written by taut 99.0"),
        ({"version": None}, {}, "version is None"),
        ({"count": "1"}, {}, "count is '1'"),
        ({"learner": 3}, {}, "learner is 3"),
    ):
        storage.write_arrays(tmp_path / "bad.npz", {**header, **changes}, {**arrays, **entries})
        with pytest.raises(ValueError, match=rf"path: got .*bad.npz, damaged .*{reason}"):
            taut.Player.load(tmp_path / "bad.npz", GAME)


def test_the_shape_of_the_data_survives_a_file(tmp_path, played):
    played.save(tmp_path / "player.npz")
    back = taut.Player.load(tmp_path / "player.npz", GAME)
    for wrong in (np.zeros(3), np.array(1.0)):  # a number would be broadcast
        with pytest.raises(
            ValueError, match=r"z: got data of shape .*; expected \(2,\), as before"
        ):
            back.observe(wrong)
    with pytest.raises(ValueError, match="z: got data of shape"):
        back.observe([np.zeros(2)])
    back.save(tmp_path / "again.npz")  # also before the first observation
    with pytest.raises(ValueError, match="z: got data of shape"):
        taut.Player.load(tmp_path / "again.npz", GAME).observe(np.array(1.0))
    back.observe(np.zeros(2))


def test_floats_after_whole_numbers_are_refused_and_whole_numbers_after_floats_are_not(tmp_path):
    problem = taut.Problem(lambda x, z: jnp.sum(x * z), outside_diamond, BALL)
    player = taut.Player(CLIPPED, problem)
    player.observe(np.array([1, 2]))
    player.save(tmp_path / "player.npz")
    for counting in (player, taut.Player.load(tmp_path / "player.npz", problem)):
        with pytest.raises(
            TypeError, match="z: got values of type float64; expected int64, as before"
        ):
            counting.observe(np.array([1.5, 2.5]))
        assert counting.round == 2
        counting.observe(np.array([3, 4]))
    measuring = taut.Player(CLIPPED, problem)
    measuring.observe(np.array([1.5, 2.5]))
    measuring.observe(np.array([3, 4]))
    assert measuring.round == 3


class Readings(NamedTuple):
    """Data of a class that JSON has no values for."""

    near: Any
    far: Any


def test_data_of_other_classes_keep_their_shapes_in_a_file(tmp_path):
    problem = taut.Problem(
        lambda x, z: jnp.sum((x - z.near.mean()) ** 2) + z.far.sum(),
        jnp.sum,
        taut.Ball(1.0, shape=2),
    )
    player = taut.Player(problem)
    player.observe(Readings(np.ones(2), np.ones(3)))
    player.save(tmp_path / "player")
    again = taut.Player.load(tmp_path / "player", problem)
    again.save(tmp_path / "again")  # before anything was observed in this process
    for path in ("player", "again"):
        loaded = taut.Player.load(tmp_path / path, problem)
        with pytest.raises(ValueError, match=r"expected Readings\(near=\(2,\), far=\(3,\)\)"):
            loaded.observe(Readings(np.ones(5), np.ones(3)))
        with pytest.raises(ValueError, match=r"structure .* as before"):
            loaded.observe({"near": np.ones(2), "far": np.ones(3)})
        loaded.observe(Readings(np.ones(2), np.zeros(3)))
        player_twin = taut.Player.load(tmp_path / "player", problem)
        player_twin.observe(Readings(np.ones(2), np.zeros(3)))
        assert np.array_equal(loaded.decision, player_twin.decision)
