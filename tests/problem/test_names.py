"""Constraints keep the user's names and the user's order, however they are written and wherever
they are shown."""

import cvxpy as cp
import jax.numpy as jnp
import matplotlib
import numpy as np
import pytest

import taut

matplotlib.use("Agg")

LEARNER = taut.HalfSpace(0.5, 2.0)
BALL = taut.Ball(2.0, shape=2)
DATA = np.array([[1.0, 0.5], [0.5, 1.0], [-1.0, 0.25], [1.0, -1.0]])
ORDER = ("z", "a", "m[0]", "m[1]")
NESTED = ("z", "deep.b", "deep.a[0]", "deep.a[1]")


def loss(x, z):
    return z @ x


def z(x):
    return x[0] - 0.1


def a(x, data):
    return x[1] - 0.2 * data[0]


def m(x):
    return x - 0.4


def matrix(x, data):
    return jnp.stack([z(x), a(x, data), *m(x)])


WAYS = {
    "array": (matrix, None),
    "array with names": (matrix, ORDER),
    "tuple": (lambda x, data: (z(x), a(x, data), m(x)), None),
    "tuple with names": (lambda x, data: (z(x), a(x, data), m(x)), ORDER),
    "dict": (lambda x, data: {"z": z(x), "a": a(x, data), "m": m(x)}, None),
    "dict with names": (lambda x, data: {"a2": z(x), "a1": a(x, data), "a0": m(x)}, ORDER),
    "nested": (lambda x, data: {"z": z(x), "deep": {"b": a(x, data), "a": m(x)}}, None),
    "functions": ({"z": z, "a": a, "m": m}, None),
    "functions with names": ({"q": z, "p": a, "o": m}, ORDER),
    "fixed dict": (lambda x: {"z": z(x), "a": a(x, [1.0]), "m": m(x)}, None),
    "fixed functions": ({"z": z, "a": lambda x: a(x, [1.0]), "m": m}, None),
}
NAMES = {way: NESTED if way == "nested" else ORDER for way in WAYS} | {"array": None, "tuple": None}


def problem(way, **options):
    constraints, names = WAYS[way]
    return taut.Problem(loss, constraints, BALL, constraint_names=names, **options)


def values(way, x, data):
    """The constraint values at a decision, in the user's order, with NumPy."""
    second = x[1] - 0.2 * (1.0 if way.startswith("fixed") else data[0])
    return [x[0] - 0.1, second, x[0] - 0.4, x[1] - 0.4]


@pytest.mark.parametrize("way", WAYS)
def test_a_run_and_its_file_keep_names_and_order(way, tmp_path):
    run = taut.simulate(LEARNER, problem(way), DATA, record=("loss", "excess", "decisions"))
    played = np.array(
        [values(way, x, data) for x, data in zip(run.decisions[0], DATA, strict=True)]
    )
    assert run.constraint_names == NAMES[way]
    np.testing.assert_allclose(run.totals.excess[0], played.sum(axis=0), rtol=1e-9)
    run.save(tmp_path / "run.nc")
    back = taut.Run.load(tmp_path / "run.nc")
    assert back.constraint_names == NAMES[way]
    shown = NAMES[way] or tuple(f"g[{i}]" for i in range(4))
    for one in (run, back):
        table = one.to_dataframe("totals")
        assert tuple(table.index.get_level_values("constraint")) == shown
        if NAMES[way]:
            labels = one.to_xarray()["total_excess"]["constraint"].values
            assert tuple(labels) == NAMES[way]


@pytest.mark.parametrize("way", ["array", "array with names", "dict", "nested", "functions"])
def test_a_player_and_its_file_keep_names_and_order(way, tmp_path):
    game = problem(way)
    player = taut.Player(LEARNER, game, count=4)
    played = []
    for data in DATA:
        played.append(values(way, player.decision, data))
        player.observe(data)
    player.save(tmp_path / "player.npz")
    for one in (player, taut.Player.load(tmp_path / "player.npz", game)):
        assert one.constraint_names == one.history.constraint_names == NAMES[way]
        shown = NAMES[way] or tuple(f"g[{i}]" for i in range(4))
        assert tuple(one.to_dataframe("totals").index) == shown
        np.testing.assert_allclose(one.to_dataframe()[shown[1]], np.array(played)[:, 1])
        listed = one.state().get("constraint_names")
        assert listed == (None if NAMES[way] is None else list(NAMES[way]))
        np.testing.assert_allclose(one.history.excess, played, rtol=1e-9)
        np.testing.assert_allclose(one.state()["totals"]["excess"], np.sum(played, 0), rtol=1e-9)
        lines = one.plot("excess").get_legend_handles_labels()[1]
        assert tuple(lines) == shown
    matplotlib.pyplot.close("all")


def ramp(x, data, previous):
    return {"up": x[0] - previous[0] - 1.5, "down": previous[0] - x[0] - 1.5}


def memory_loss(x, data, previous):
    return data @ x


@pytest.mark.parametrize("way", ["array", "dict", "none"])
def test_announced_rows_have_names_and_come_last(way, tmp_path):
    constraints = None if way == "none" else WAYS[way][0]
    game = taut.Problem(memory_loss, constraints, BALL, previous=True, announced=ramp)
    own = {"none": (), "dict": ORDER, "array": tuple(f"g[{i}]" for i in range(4))}[way]
    run = taut.simulate(LEARNER, game, DATA)
    assert run.constraint_names == (*own, "up", "down")
    player = taut.Player(LEARNER, game, count=None if way == "none" else 4)
    for data in DATA:
        player.observe(data)
    assert player.constraint_names == run.constraint_names
    np.testing.assert_allclose(player.totals.excess, run.totals.excess[0], rtol=1e-9)
    assert tuple(player.plot("excess").get_legend_handles_labels()[1]) == run.constraint_names
    matplotlib.pyplot.close("all")
    player.save(tmp_path / "player.npz")
    back = taut.Player.load(tmp_path / "player.npz", game)
    assert back.state()["constraint_names"] == list(run.constraint_names)


def test_announced_functions_by_name():
    game = taut.Problem(loss, None, BALL, announced={"z": z, "a": a})
    assert taut.simulate(LEARNER, game, DATA).constraint_names == ("z", "a")
    game = taut.Problem(loss, {"b": z}, BALL, announced=lambda x: x - 0.4)
    assert game.constraint_names == ("b", "announced[0]", "announced[1]")
    game = taut.Problem(loss, None, BALL, announced=z, constraint_names=["cap"])
    assert game.constraint_names == ("cap",)


def test_cvxpy_keeps_the_order_of_the_list(tmp_path):
    x, data = cp.Variable(2, name="x"), cp.Parameter(2, name="data", bounds=[-2, 2])
    rows = [x[0] <= 0.1, x[1] <= 0.2 * data[0], x <= 0.4]
    steps = [x[0] - taut.previous(x)[0] <= 1.5]
    for row, label in zip([*rows, *steps], ["z", "a", "m", "ramp"], strict=True):
        row.set_label(label)
    model = taut.from_cvxpy(data @ x, rows, BALL)
    run = taut.simulate(LEARNER, model, DATA, record=("loss", "excess", "decisions"))
    assert run.constraint_names == ORDER
    played = [values("", x, row) for x, row in zip(run.decisions[0], DATA, strict=True)]
    np.testing.assert_allclose(run.totals.excess[0], np.sum(played, axis=0), atol=1e-12)
    player = taut.Player(LEARNER, model)
    player.observe(DATA[0])
    assert player.state()["constraint_names"] == list(ORDER)
    run.save(tmp_path / "run.nc")
    assert taut.Run.load(tmp_path / "run.nc").constraint_names == ORDER
    announced = taut.from_cvxpy(data @ x, rows, BALL, announced=steps)
    assert taut.simulate(LEARNER, announced, DATA).constraint_names == (*ORDER, "ramp")


def test_a_wrong_number_of_names_is_refused():
    with pytest.raises(
        ValueError, match=r"constraint_names: got 1 names; expected 2, one for each"
    ):
        taut.Problem(loss, lambda x: x - 1, BALL, constraint_names=["a"])
    changing = taut.Problem(loss, matrix, BALL, constraint_names=["a", "b", "c"])
    wrong = r"constraint_names: got 3 names; expected 4, one for each value of constraints\(x, z\)"
    with pytest.raises(ValueError, match=wrong):
        taut.simulate(LEARNER, changing, DATA)
    with pytest.raises(ValueError, match=wrong):
        taut.Player(LEARNER, changing, count=4).observe(DATA[0])
    with pytest.raises(
        ValueError,
        match=r"constraint_names: got 2 names; expected 1, one for each "
        r"value of announced\(x\)",
    ):
        taut.Problem(loss, None, BALL, announced=z, constraint_names=["a", "b"])


def test_transforms_keep_the_names_of_rows_that_stay():
    changing = problem("array with names")
    for game in (
        changing,
        changing.with_constants(taut.Constants(loss_lipschitz=2.0)),
        taut.squared(changing),
        taut.tightened(problem("dict"), 0.01),
    ):
        assert taut.simulate(LEARNER, game, DATA).constraint_names == ORDER
    for game in (taut.max_of(changing), taut.log_sum_exp(changing, 2.0)):
        assert taut.simulate(LEARNER, game, DATA).constraint_names is None
    scored = taut.simulate(LEARNER, taut.max_of(changing), DATA, score=changing)
    assert scored.constraint_names == ORDER


def test_equal_and_odd_names():
    pairs = taut.Problem(loss, lambda x: ({"a": z(x)}, {"a": z(x)}, z(x)), BALL)
    assert pairs.constraint_names == ("a[0]", "a[1]", "g[2]")
    dotted = taut.Problem(loss, lambda x: {"a": {"b": z(x)}, "a.b": z(x), 3: z(x)}, BALL)
    assert dotted.constraint_names == ("a.b[0]", "a.b[1]", "3")
    square = taut.Problem(
        lambda x, z: jnp.sum(x), lambda x: {"cap": x - 1}, taut.Ball(1.0, shape=(2, 2))
    )
    assert square.constraint_names == ("cap[0, 0]", "cap[0, 1]", "cap[1, 0]", "cap[1, 1]")
