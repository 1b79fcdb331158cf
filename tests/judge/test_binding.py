"""A certificate belongs to its run: problems and data are refused that are not those of the run."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.judge import binding

ROUNDS = 12
BOX = taut.Box(-1.0, 1.0, shape=2)
CONSTANTS = taut.Constants(loss_lipschitz=4.0, constraint_lipschitz=2.0)


def distance(x, z):
    return 0.5 * jnp.sum((x - z) ** 2)


def diamond(x):
    return jnp.abs(x).sum() - 1


def tighter(x):
    return jnp.abs(x).sum() - 0.5


def other_far_away(x):
    """The diamond wherever a run goes, and a tighter constraint in a corner of the domain."""
    return jnp.maximum(jnp.abs(x).sum() - 1, 50 * (-x.sum() - 1.9))


def problem(loss=distance, constraints=diamond, domain=BOX, **options):
    return taut.Problem(loss, constraints, domain, CONSTANTS, **options)


GAME = problem()
TARGETS = np.random.default_rng(0).uniform(0.2, 1.2, size=(2, ROUNDS, 2))


def chunk(start, length):
    return TARGETS[0, start : start + length]


def reveal(t, x, key):
    return 1.0 - 0.5 * x + 0.1 * jax.random.normal(key, (2,))


def with_memory(x, z, previous):
    return distance(x, z) + 0.1 * jnp.sum((x - previous) ** 2)


def row(x, z):
    return x.sum() - z[0]


KINDS = {
    "arrays": (GAME, {"stream": TARGETS[0]}),
    "seeds": (GAME, {"stream": TARGETS, "seeds": 2}),
    "chunks": (GAME, {"stream": chunk, "horizon": ROUNDS}),
    "adversary": (GAME, {"stream": reveal, "horizon": ROUNDS}),
    "previous": (problem(with_memory, previous=True), {"stream": TARGETS[0]}),
    "announced": (problem(announced=row), {"stream": TARGETS[0]}),
    "feedback": (GAME, {"stream": TARGETS[0], "feedback": taut.Noisy(values=0.1)}),
    "totals only": (GAME, {"stream": TARGETS[0], "record": ()}),
    "decisions": (GAME, {"stream": TARGETS[0], "record": ("decisions",), "every": 5}),
}
PASSED = ("stream", "seeds")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A run of each kind, as it was and as it is loaded from a file."""
    folder = tmp_path_factory.mktemp("runs")
    runs = {}
    for kind, (played, options) in KINDS.items():
        run = taut.simulate(learner(kind), played, unproven="feedback" in options, **options)
        run.save(folder / f"{kind}.nc")
        runs[kind] = run, taut.Run.load(folder / f"{kind}.nc")
    return runs


def learner(kind, eta=0.2):
    if kind == "announced":
        return taut.HalfSpace(eta, 1.0)
    return taut.ClippedOGD(eta=eta, sigma=1.0)


def given(kind):
    return {name: value for name, value in KINDS[kind][1].items() if name in PASSED}


def twin(original, **changes):
    """The problem with another loss, constraints or domain."""
    parts = {
        "loss": original.loss.function if original.previous else original.loss,
        "constraints": diamond,
        "domain": BOX,
    } | changes
    options = {"previous": True} if original.previous else {}
    return problem(**parts, **options, announced=row if original.announced else None)


def scaled(kind):
    """Another loss with the same arguments."""
    if kind == "previous":
        return lambda x, z, previous: 1.01 * with_memory(x, z, previous)
    return lambda x, z: 1.01 * distance(x, z)


def other_data(kind, change):
    stream = given(kind)["stream"]
    if kind == "chunks":
        return lambda start, length: change(TARGETS[0])[start : start + length]
    if kind == "adversary":
        return lambda t, x, key: -reveal(t, x, key)
    return np.swapaxes(change(np.swapaxes(stream, 0, -2)), 0, -2)


CHANGES = {
    "constraint": lambda kind, game: {"problem": twin(game, constraints=tighter)},
    "loss": lambda kind, game: {"problem": twin(game, loss=scaled(kind))},
    "domain": lambda kind, game: {"problem": twin(game, domain=taut.Box(-3.0, 3.0, shape=2))},
    "far away": lambda kind, game: {"problem": twin(game, constraints=other_far_away)},
    "shuffled": lambda kind, game: {"stream": other_data(kind, lambda z: z[::-1])},
    "negated": lambda kind, game: {"stream": other_data(kind, lambda z: -z)},
    "last round": lambda kind, game: {
        "stream": other_data(kind, lambda z: np.concatenate([z[:-1], z[-1:] + 0.01]))
    },
}


def refused(run, **options):
    try:
        run.certificate(**options)
    except ValueError as error:
        return re.search("are not those of the run: .* in the run; expected", str(error))
    return False


def changes_of(kind):
    """All changes of the most common kind of run, and of others one of each part."""
    few = ("constraint", "loss", "negated")
    return CHANGES if kind == "arrays" else {name: CHANGES[name] for name in few}


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_problem_and_data_of_a_run_are_accepted(saved, kind):
    run, loaded = saved[kind]
    game = KINDS[kind][0]
    honest = {"problem": game, "check": False, **given(kind)}
    loaded.certificate(**honest)
    run.certificate(check=False)
    accepted = [
        name
        for name, change in changes_of(kind).items()
        if not refused(loaded, **(honest | change(kind, game)))
    ]
    assert accepted == []
    other = dataclasses.replace(loaded, learner=learner(kind, 0.21))
    with pytest.raises(ValueError, match="not those of the run"):
        other.certificate(**honest)


def test_data_that_are_overwritten_after_the_run_are_noticed():
    data = TARGETS[0].copy()
    run = taut.simulate(learner("arrays"), GAME, data)
    data[4] += 1e-4
    sentence = (
        r"run: the losses of round 5 are not those of the run: .* with this problem and these data"
    )
    with pytest.raises(ValueError, match=sentence):
        run.certificate()
    with pytest.raises(ValueError, match=sentence):
        run.plot("regret")
    data[4] -= 1e-4
    run.certificate(check=False)  # the same up to rounding


def test_a_run_that_keeps_its_decisions_is_not_played_again(monkeypatch):
    run = taut.simulate(learner("arrays"), GAME, TARGETS, seeds=2)
    memory = taut.simulate(learner("previous"), KINDS["previous"][0], TARGETS[0])
    other = dataclasses.replace(run, learner=learner("arrays", 0.21))
    with pytest.raises(ValueError, match="not those of the run"):
        other.certificate(check=False)
    monkeypatch.setattr(binding, "played_again", None)
    for kept in (run, memory):
        kept.certificate()
    with pytest.raises(TypeError):
        dataclasses.replace(run, path=None).certificate()


def test_a_number_of_seeds_or_constraints_that_differs_is_named(saved):
    loaded = saved["seeds"][1]
    with pytest.raises(ValueError, match=r"stream: got data of 1 seed; expected .* has 2"):
        loaded.certificate(problem=GAME, stream=TARGETS[0])
    bare = dataclasses.replace(loaded, sample=None)
    two = problem(constraints=lambda x: jnp.stack([jnp.abs(x).sum() - 1, x[0] - 2]))
    with pytest.raises(
        ValueError, match=r"the numbers of constraints are not those .*: 2 .*, 1 in"
    ):
        bare.certificate(problem=two, stream=TARGETS, seeds=2)


def kinked(x, z):
    return jnp.abs(x - z).sum()


@pytest.fixture(scope="module")
def at_kinks():
    """A run whose decisions meet kinks of the loss: rounding decides on which side they are."""
    game = taut.Problem(
        kinked,
        lambda x: jnp.stack([x[0] + x[1], x[0] - x[1], x[1] - x[0], -x[0] - x[1]]) - 1,
        taut.Ball(1.5, shape=2),
    )
    data = np.random.default_rng(0).normal(size=(60, 2)).round(1)
    run = taut.simulate(taut.ClippedOGD(eta=0.1, sigma=1.0), game, data)
    return game, data, run


def test_a_run_that_rounding_changes_is_accepted_and_other_data_are_not(at_kinks, tmp_path):
    game, data, run = at_kinks
    elsewhere = taut.simulate(taut.ClippedOGD(0.1 * (1 - 9e-16), 1.0), game, data)
    assert np.abs(elsewhere.loss - run.loss).max() > 1e-3  # rounding errors have grown
    honest = dataclasses.replace(elsewhere, learner=run.learner)
    honest.certificate(check=False)
    with pytest.raises(ValueError, match="losses of round 1 are"):
        honest.certificate(check=False, stream=data[::-1])
    path = tmp_path / "run.nc"
    honest.save(path)
    loaded = taut.Run.load(path)
    loaded.certificate(check=False, problem=game, stream=data)
    changed = data.copy()
    changed[50] += 0.1
    with pytest.raises(ValueError, match="are not those of the run"):
        loaded.certificate(check=False, problem=game, stream=changed)


def test_values_that_are_rounding_noise_are_no_difference():
    """A decision on the boundary: all constraint values are zero up to rounding."""
    game = problem(domain=taut.Ball(1.0, shape=2), constraints=lambda x: jnp.sum(x * x) - 1)
    run = taut.simulate(taut.ClippedOGD(0.2, 1.0), game, np.ones((6, 2)), x1=np.ones(2) / 2**0.5)
    assert np.abs(run.excess).max() < 1e-15
    noise = np.random.default_rng(0).normal(size=run.excess.shape) * 1e-15
    totals = dataclasses.replace(run.totals, excess=run.totals.excess + noise.sum())
    dataclasses.replace(run, excess=run.excess + noise, totals=totals).certificate(check=False)
