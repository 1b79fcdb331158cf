"""The baselines' guarantees, conversions and growth exponents, against plain-NumPy runs and
hand-worked numbers."""

import functools
import math

import numpy as np
import pytest

from bound_games import drift_plus_penalty, games, play, project_l1, saddle_point
from learners.bounds import inequalities
from taut import bounds

TINY = 1e-9
SADDLE = ("constraint_range", "constraint_count")


def without(numbers, *names):
    return {k: v for k, v in numbers.items() if k not in names}


@pytest.mark.parametrize("clipped", [False, True])
@pytest.mark.parametrize("name", list(games()))
def test_mahdavi_holds_for_every_admissible_parameter(name, clipped):
    game, horizon = games()[name], 300
    known = game.constants(*SADDLE)
    spread = (game.m + 1) * game.slope**2
    pairs = []
    for eta in (0.3, 0.05, 0.002) / np.sqrt(8 * spread):
        # The least delta with delta >= spread + 2 delta^2 eta^2.
        least = 2 * spread / (1 + math.sqrt(1 - 8 * eta**2 * spread))
        pairs += [(eta, least), (eta, 2 * spread)]
    eta, delta = np.repeat(np.array(pairs), 5, axis=0).T[:, :, None]
    runs = play(
        game,
        saddle_point(lambda t: eta, lambda t: eta, lambda t: delta * eta, clipped),
        len(eta),
        horizon,
    )
    totals = (runs.v if clipped else runs.g).sum(axis=1)
    for i, regret in enumerate(runs.regret()):
        common = {"horizon": horizon, "eta": eta[i, 0], "delta": delta[i, 0], **known}
        assert regret <= bounds.mahdavi_regret(**common)
        assert totals[i].max() <= bounds.mahdavi_excess(**common)
        if clipped:
            assert totals[i].sum() <= bounds.mahdavi_total_violation(**common)
        assert inequalities.mahdavi(regret=regret, excess=totals[i], **common) <= TINY


def test_mahdavi_numbers_by_hand_and_conditions():
    m, lipschitz, reach, radius, horizon = 3, 2.0, 1.5, 4.0, 10_000
    a = radius * math.sqrt((m + 1) * lipschitz**2 + 2 * m * reach**2)
    eta = radius**2 / (a * math.sqrt(horizon))
    delta = 2 * (m + 1) * lipschitz**2
    common = {
        "horizon": horizon,
        "eta": eta,
        "delta": delta,
        "radius": radius,
        "loss_lipschitz": lipschitz,
        "constraint_lipschitz": lipschitz,
        "constraint_range": reach,
        "constraint_count": m,
    }
    assert bounds.mahdavi_regret(**common) == pytest.approx(a * math.sqrt(horizon))
    # Theorem 4 as published, with m/eta; ours has 1/eta and is less
    published = math.sqrt(
        2
        * (5.0 * horizon + a * math.sqrt(horizon))
        * math.sqrt(horizon)
        * (delta * radius**2 / a + m * a / radius**2)
    )
    ours = bounds.mahdavi_excess(**common, loss_range=5.0)
    one = math.sqrt(
        2 * (5.0 * horizon + a * math.sqrt(horizon)) * (delta * eta * horizon + 1 / eta)
    )
    assert one == pytest.approx(ours)
    assert ours < published
    with pytest.raises(ValueError, match="delta: got"):
        bounds.mahdavi_regret(**{**common, "delta": 0.9 * (m + 1) * lipschitz**2})


@pytest.mark.parametrize("clipped", [False, True])
@pytest.mark.parametrize("beta", [0.25, 0.5, 0.8])
@pytest.mark.parametrize("name", ["l1", "varying"])
def test_jenatton_holds_at_every_horizon(name, beta, clipped):
    game = games()[name]
    known = game.constants("constraint_range")
    pairs = [(game.radius / game.slope, 6 * game.radius * game.slope), (0.3, 2.5 * game.slope**2)]
    eta, theta = np.repeat(np.array(pairs), 5, axis=0).T[:, :, None]
    update = saddle_point(
        lambda t: eta / t**beta,
        lambda t: t**beta / (theta * (t + 1)),
        lambda t: theta / t**beta,
        clipped,
    )
    runs = play(game, update, len(eta), 300)
    for horizon in (1, 2, 20, 300):
        totals = (runs.v if clipped else runs.g)[:, :horizon, 0].sum(axis=1)
        for i, regret in enumerate(runs.regret(horizon)):
            common = {
                "horizon": horizon,
                "eta": eta[i, 0],
                "theta": theta[i, 0],
                "beta": beta,
                **known,
            }
            bound = bounds.jenatton_regret(**common)
            assert regret <= bound
            assert totals[i] <= bounds.jenatton_excess(**common)
            key = inequalities.jenatton(
                regret=regret,
                excess=totals[i],
                regret_bound=bound,
                horizon=horizon,
                theta=theta[i, 0],
                beta=beta,
            )
            assert key <= TINY


def test_jenatton_excess_by_hand():
    common = {
        "horizon": 1000,
        "eta": 0.5,
        "theta": 12.0,
        "beta": 0.5,
        "radius": 1.0,
        "loss_lipschitz": 2.0,
        "constraint_lipschitz": 2.0,
        "constraint_range": 1.5,
    }
    t = np.arange(1, 1001)
    regret = (
        (4 * 1000**0.5 / 0.5 - 3 / 0.5) / 2
        + (0.5 / t**0.5 * 4).sum()
        + (t**0.5 / (12 * (t + 1)) * 2.25).sum()
    )
    assert bounds.jenatton_regret(**common) == pytest.approx(regret, rel=0.01)
    excess = math.sqrt(2 * (12 + (12 / t**0.5).sum()) * (regret + 3 * 1000))
    found = bounds.jenatton_excess(**common, loss_range=3.0)
    assert found == pytest.approx(excess, rel=0.01)
    published = math.sqrt(24 * 2 / 0.5 * (bounds.jenatton_regret(**common) + 3 * 1000) * 1000**0.5)
    assert excess <= found <= published
    strong = {**without(common, "eta", "radius"), "theta": 48.0, "strong_convexity": 0.5}
    regret = 8 * (1 + math.log(1000)) + 2.25 * 1000**0.5 / (0.5 * 48)
    assert bounds.jenatton_strong_regret(**strong) == pytest.approx(regret)
    excess = math.sqrt(2 * (48 + (48 / t**0.5).sum()) * (regret + 3 * 1000))
    assert bounds.jenatton_strong_excess(**strong, radius=1.0, loss_range=3.0) == pytest.approx(
        excess, rel=0.01
    )


def test_the_constant_quoted_for_jenatton_is_refuted_and_ours_is_not():
    """Slack constraint, R = G = 1: drift to one end early, wait, then losses that turn when steps
    are small."""
    beta, horizon, reach = 0.75, 1000, 1e-3
    eta = np.arange(1, horizon + 1) ** -beta
    turn = int(np.argmax(np.cumsum(eta[::-1])[::-1] <= 2))
    x, xs, cs = 0.0, [], []
    for t in range(horizon):
        c = -1.0 if t >= turn else float(x > -1)
        xs.append(x), cs.append(c)
        x = float(np.clip(x - eta[t] * c, -1, 1))
    regret = np.dot(xs, cs) + abs(sum(cs))
    quoted = (1 + reach**2 / (6 * beta)) * horizon**beta + 2 / (1 - beta) * horizon ** (1 - beta)
    ours = bounds.jenatton_regret(
        horizon=horizon,
        eta=1.0,
        theta=6.0,
        beta=beta,
        radius=1.0,
        loss_lipschitz=1.0,
        constraint_lipschitz=1.0,
        constraint_range=reach,
    )
    assert quoted < regret <= ours
    assert regret > 0.75 * ours


@functools.cache
def strong_runs(learner):
    """f_t = |x + 1.5 c_t|^2 / 2, the l1 constraint, the unit ball: H = 1, G_f = 2.5, F = 3."""
    game, rng, horizon, beta = games()["l1"], np.random.default_rng(8), 300, 0.6
    x, dual, xs, gs, cs = np.zeros((6, 2)), np.zeros(6), [], [], []
    for t in range(1, horizon + 1):
        values, jacobian = game.constraints(x, rng)
        g, normal = values[:, 0], jacobian[:, 0]
        c = rng.normal(size=(6, 2))
        c[1], c[2], c[3] = [-1, 0], [0.6, 0.8] if t < 150 else [-0.6, 0.8], -normal[3]
        c /= np.linalg.norm(c, axis=1, keepdims=True)
        xs.append(x), gs.append(g), cs.append(c)
        gradient = x + 1.5 * c
        if learner == "projected":
            x = np.array([project_l1(row) for row in x - gradient / t])
        else:
            clip = learner == "clipped"
            theta = 6 * 2.5**2 / t**beta
            x = game.project(
                x - (gradient + (dual * (g > 0) if clip else dual)[:, None] * normal) / t
            )
            g = np.maximum(g, 0) if clip else g
            dual = np.maximum(dual + (g - theta * dual) / (theta * (t + 1)), 0)
    return np.array(xs), np.array(gs), np.array(cs)


@pytest.mark.parametrize("learner", ["projected", "plain", "clipped"])
def test_strongly_convex_baselines_hold_at_every_horizon(learner):
    xs, gs, cs = strong_runs(learner)
    losses = ((xs + 1.5 * cs) ** 2).sum(axis=2) / 2
    for horizon in (1, 2, 10, 300):
        best = np.array([project_l1(-1.5 * c) for c in cs[:horizon].mean(axis=0)])
        regret = (
            losses[:horizon].sum(axis=0) - ((best + 1.5 * cs[:horizon]) ** 2).sum(axis=(0, 2)) / 2
        )
        if learner == "projected":
            bound = bounds.hazan_regret(horizon=horizon, strong_convexity=1.0, loss_lipschitz=2.5)
            assert bound == pytest.approx(3.125 * (1 + math.log(horizon)))
            assert regret.max() <= bound
            continue
        common = {
            "horizon": horizon,
            "theta": 37.5,
            "beta": 0.6,
            "strong_convexity": 1.0,
            "loss_lipschitz": 2.5,
            "constraint_lipschitz": 2**0.5,
            "constraint_range": 1.0,
        }
        assert regret.max() <= bounds.jenatton_strong_regret(**common)
        total = (np.maximum(gs, 0) if learner == "clipped" else gs)[:horizon].sum(axis=0)
        assert total.max() <= bounds.jenatton_strong_excess(**common, radius=1.0, loss_range=3.0)
    with pytest.raises(ValueError, match="theta: got 37"):
        bounds.jenatton_strong_regret(
            horizon=5,
            theta=37.4,
            beta=0.5,
            strong_convexity=1.0,
            loss_lipschitz=1.0,
            constraint_lipschitz=2.5,
            constraint_range=1.0,
        )


@pytest.mark.parametrize("beta", [0.0, 0.5])
def test_zinkevich_holds_and_is_tight(beta):
    """One dimension, losses that alternate: the learner is always on the wrong side."""
    horizon, diameter = 900, 2.0
    eta = diameter / (math.sqrt(horizon) if beta == 0 else 1.0)
    x, xs, cs = 0.0, [], []
    for t in range(1, horizon + 1):
        c = 1.0 if t % 2 else -1.0
        xs.append(x), cs.append(c)
        x = float(np.clip(x - eta / t**beta * c, -1, 1))
    regret = np.dot(xs, cs) + abs(sum(cs))
    bound = bounds.projected_regret(
        horizon=horizon, eta=eta, beta=beta, radius=1.0, loss_lipschitz=1.0
    )
    tuned = (1.5 if beta else 1.0) * 2 * math.sqrt(horizon)  # Zinkevich, with D = 2
    assert 0.5 * bound <= regret <= bound <= tuned
    # with R = D the general form gives back the tuned constants
    general = bounds.projected_regret(
        horizon=horizon, eta=eta, beta=beta, radius=2.0, diameter=2.0, loss_lipschitz=1.0
    )
    assert general == pytest.approx(tuned, rel=0.02)


@pytest.mark.parametrize("name", list(games()))
def test_drift_plus_penalty_holds_with_and_without_a_slater_point(name):
    game, horizon = games()[name], 400
    inside = np.zeros(2) if name.startswith("l1") else np.array([0.4, 0.1])
    slater = -(game.normals @ inside + game.offsets).max()
    known = game.constants(*SADDLE)
    pairs = [(20.0, 400.0), (1.0, 3.0), (200.0, 100.0), (5.0, 4000.0), (3.0, 0.1)]
    penalty, proximity = np.repeat(np.array(pairs), 5, axis=0).T[:, :, None]
    runs = play(game, drift_plus_penalty(penalty, proximity), len(penalty), horizon)
    for i, regret in enumerate(runs.regret()):
        common = {
            "horizon": horizon,
            "penalty": penalty[i, 0],
            "proximity": proximity[i, 0],
            **known,
        }
        assert regret <= bounds.drift_plus_penalty_regret(**common)
        with_slater = bounds.drift_plus_penalty_excess(**common, slater=slater)
        assert (
            runs.g[i].sum(axis=0).max() <= with_slater <= bounds.drift_plus_penalty_excess(**common)
        )
        last = float(np.linalg.norm(runs.dual[i]))
        key = inequalities.drift_plus_penalty(regret=regret, queue=last, **common)
        assert key <= TINY * runs.dual_peak[i] ** 2


def test_drift_plus_penalty_rates_and_numbers():
    common = {
        "radius": 1.0,
        "loss_lipschitz": 1.0,
        "constraint_lipschitz": 1.0,
        "constraint_range": 1.0,
        "constraint_count": 1,
    }

    def at(function, horizon, **extra):
        return function(
            horizon=horizon, penalty=math.sqrt(horizon), proximity=float(horizon), **common, **extra
        )

    # K = D^2 / 2 + (V G_f + D G_g)^2 / (4 (alpha - G_g^2 / 2)) at T = 100
    cost = 0.5 + 11**2 / (4 * 99.5)
    assert at(bounds.drift_plus_penalty_regret, 100) == pytest.approx(10 * (1 + cost))
    for function, extra, power in [
        (bounds.drift_plus_penalty_regret, {}, 0.5),
        (bounds.drift_plus_penalty_excess, {"slater": 0.3}, 0.5),
        (bounds.drift_plus_penalty_excess, {}, 0.75),
    ]:
        ratio = at(function, 10**16, **extra) / at(function, 10**14, **extra)
        assert math.log(ratio) / math.log(100) == pytest.approx(power, abs=0.01)
    with pytest.raises(ValueError, match="slater: got 2"):
        at(bounds.drift_plus_penalty_excess, 100, slater=2.0)


def test_drift_plus_penalty_in_expectation():
    """Rows drawn afresh each round, with noise that only the mean satisfies."""
    game, horizon, rows = games()["varying"], 300, 100
    rng = np.random.default_rng(6)
    noisy = type(game)(game.normals, game.offsets, game.radius, varying=True)

    def constraints(x, draw):
        values, jacobian = game.constraints(x, draw)
        return values + rng.uniform(-1, 1, values.shape), jacobian

    noisy.constraints = constraints
    runs = play(noisy, drift_plus_penalty(math.sqrt(horizon), float(horizon)), rows, horizon)
    known = game.constants(*SADDLE)
    known["constraint_range"] += 1
    common = {
        "horizon": horizon,
        "penalty": math.sqrt(horizon),
        "proximity": float(horizon),
        **known,
    }
    assert runs.regret().mean() <= bounds.drift_plus_penalty_regret(**common)


def test_conversions_and_tightening():
    v = np.array([0.0, 0.3, 0.1, 0.7])
    squared = float((v**2).sum())
    assert v.sum() <= bounds.violation_from_squared(horizon=4, squared_violation=squared)
    assert bounds.violation_from_squared(horizon=4, squared_violation=4 * 0.2**2) == pytest.approx(
        0.8
    )  # equality
    assert v.max() <= bounds.peak_from_squared(squared_violation=squared)
    # the l1 ball tightened by rho is the l1 ball of radius 1 - rho: losses e_1, best -1 before and
    # rho - 1 after
    cost = bounds.tightening_cost(
        horizon=50, margin=0.2, slater=1.0, loss_lipschitz=1.0, diameter=1.0
    )
    assert cost == pytest.approx(50 * 0.2)
    # |x|_1 <= 1/2 from the start: slack 1/2, the corner moves from -1/2 to -(1/2 - rho), all of the
    # diameter 1/2 counts
    half = bounds.tightening_cost(
        horizon=50, margin=0.2, slater=0.5, loss_lipschitz=1.0, diameter=0.5
    )
    assert half == pytest.approx(50 * (0.5 - 0.3))
    less = bounds.tightening_cost(
        horizon=50, margin=0.2, slater=1.0, loss_lipschitz=1.0, diameter=9.0, loss_range=2.0
    )
    assert less == pytest.approx(50 * 0.2 * 2)
    with pytest.raises(ValueError, match="margin: got 2"):
        bounds.tightening_cost(horizon=50, margin=2.0, slater=1.0, loss_lipschitz=1.0, diameter=1.0)


CLIPPED = {
    "horizon": 100,
    "eta": 0.1,
    "sigma": 30.0,
    "radius": 2.0,
    "loss_lipschitz": 3.0,
    "constraint_lipschitz": 1.5,
    "constraint_count": 3,
}
STRONG = {**without(CLIPPED, "eta"), "strong_convexity": 0.7}
FAR = {**without(CLIPPED, "radius"), "error_bound": 0.5, "initial_distance": 0.1}
MAHDAVI = {**without(CLIPPED, "sigma"), "eta": 0.01, "delta": 30.0, "constraint_range": 2.0}
JENATTON = {
    **without(CLIPPED, "sigma", "constraint_count"),
    "theta": 6.0,
    "beta": 0.5,
    "constraint_range": 2.0,
}
QUEUE = {
    **without(CLIPPED, "sigma", "eta"),
    "penalty": 10.0,
    "proximity": 100.0,
    "constraint_range": 2.0,
}
RISING = [
    (bounds.clipped_regret, CLIPPED, "horizon radius loss_lipschitz constraint_count"),
    (
        bounds.clipped_regret,
        {**CLIPPED, "form": "sharp"},
        "horizon radius loss_lipschitz constraint_lipschitz",
    ),
    (bounds.clipped_regret, {**CLIPPED, "form": "paper"}, "horizon radius loss_lipschitz"),
    (
        bounds.clipped_squared_violation,
        {**CLIPPED, "loss_range": 2.0},
        "horizon radius loss_lipschitz constraint_lipschitz constraint_count loss_range eta",
    ),
    (
        bounds.clipped_violation,
        {**CLIPPED, "form": "sharp"},
        "horizon radius loss_lipschitz constraint_lipschitz",
    ),
    (
        bounds.clipped_regret,
        {**CLIPPED, "beta": 0.5, "diameter": 3.0},
        "horizon radius loss_lipschitz diameter",
    ),
    (
        bounds.clipped_squared_violation,
        {**CLIPPED, "beta": 0.5, "loss_range": 2.0},
        "horizon radius loss_range eta",
    ),
    (
        bounds.clipped_violation,
        {**CLIPPED, "beta": 0.5},
        "horizon radius loss_lipschitz constraint_lipschitz",
    ),
    (bounds.strong_clipped_regret, STRONG, "horizon radius loss_lipschitz constraint_count"),
    (
        bounds.strong_clipped_squared_violation,
        {**STRONG, "loss_range": 2.0},
        "horizon radius loss_lipschitz constraint_lipschitz loss_range",
    ),
    (
        bounds.strong_clipped_violation,
        {**STRONG, "loss_range": 2.0},
        "horizon radius loss_lipschitz loss_range",
    ),
    (bounds.error_bound_peak_violation, FAR, "horizon eta loss_lipschitz constraint_lipschitz"),
    (
        bounds.error_bound_violation,
        FAR,
        "horizon eta loss_lipschitz constraint_lipschitz initial_distance",
    ),
    (
        bounds.error_bound_squared_violation,
        FAR,
        "horizon eta loss_lipschitz constraint_lipschitz constraint_count",
    ),
    (
        bounds.mahdavi_regret,
        MAHDAVI,
        "horizon radius loss_lipschitz constraint_range constraint_count",
    ),
    (bounds.mahdavi_excess, MAHDAVI, "horizon radius loss_lipschitz constraint_range delta"),
    (bounds.mahdavi_total_violation, MAHDAVI, "horizon constraint_count"),
    (bounds.jenatton_regret, JENATTON, "horizon radius loss_lipschitz constraint_range"),
    (bounds.jenatton_excess, JENATTON, "horizon radius loss_lipschitz constraint_range theta"),
    (
        bounds.drift_plus_penalty_regret,
        QUEUE,
        "horizon radius loss_lipschitz constraint_range constraint_lipschitz constraint_count",
    ),
    (
        bounds.drift_plus_penalty_excess,
        {**QUEUE, "loss_range": 1.0},
        "horizon radius loss_range constraint_lipschitz constraint_count",
    ),
    (
        bounds.projected_regret,
        {"horizon": 9, "eta": 0.1, "radius": 1.0, "loss_lipschitz": 2.0, "beta": 0.3},
        "horizon radius loss_lipschitz",
    ),
]


@pytest.mark.parametrize(
    ("function", "numbers", "names"), RISING, ids=lambda v: getattr(v, "__name__", None)
)
def test_bounds_feel_every_constant(function, numbers, names):
    value = function(**numbers)
    assert isinstance(value, float)
    assert math.isfinite(value)
    for name in names.split():
        more = numbers[name] + 1 if isinstance(numbers[name], int) else numbers[name] * 1.05
        assert function(**{**numbers, name: more}) > value, name


def slope_of(bound):
    """Growth exponent of a bound between two horizons so long that constants no longer matter."""
    return math.log(bound(10**20) / bound(10**16)) / math.log(10**4)


@pytest.mark.parametrize("beta", [0.3, 0.5, 0.7])
def test_exponents_are_those_of_the_bounds(beta):
    base = {"radius": 1.0, "loss_lipschitz": 1.0, "constraint_lipschitz": 1.0}
    clipped = {**base, "sigma": 2.0, "constraint_count": 1}
    kappa = {**without(clipped, "radius"), "error_bound": 0.5}
    aogd = {**base, "eta": 1.0, "theta": 6.0, "beta": beta, "constraint_range": 1.0}
    strong = {**without(aogd, "eta", "radius"), "strong_convexity": 1.0}

    def fixed(function, numbers):
        return lambda T: function(**numbers, horizon=T, eta=T**-beta)

    def every(function, numbers):
        return lambda T: function(**numbers, horizon=T)

    def smooth(T):
        return bounds.smooth_peak_violation(
            **base, sigma=2.0, eta=T**-beta, constraint_smoothness=0.1
        )

    powers = {**clipped, "eta": 1.0, "beta": beta}
    for found, expected in [
        (fixed(bounds.clipped_regret, clipped), max(beta, 1 - beta)),
        (fixed(bounds.clipped_squared_violation, clipped), 1 - beta),
        (fixed(bounds.clipped_violation, clipped), 1 - beta / 2),
        (smooth, -beta / 3),
        (fixed(bounds.error_bound_violation, kappa), 1 - beta),
        (fixed(bounds.error_bound_squared_violation, kappa), 1 - 2 * beta),
        (fixed(bounds.error_bound_peak_violation, kappa), -beta),
        (every(bounds.clipped_regret, powers), max(beta, 1 - beta)),
        (every(bounds.clipped_squared_violation, powers), 1 - beta),
        (every(bounds.clipped_violation, powers), 1 - beta / 2),
        (every(bounds.jenatton_regret, aogd), max(beta, 1 - beta)),
        (every(bounds.jenatton_excess, aogd), 1 - beta / 2),
        (every(bounds.jenatton_strong_regret, strong), beta),
    ]:
        assert slope_of(found) == pytest.approx(expected, abs=0.01)
