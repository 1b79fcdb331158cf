"""The guarantees of Clipped-OGD against plain-NumPy runs, under adversaries that answer the
learner."""

import functools
import math

import numpy as np
import pytest

from bound_games import Game, clipped_ogd, games, play, project_l1
from learners.bounds import inequalities
from taut import bounds

FORMS = ("paper", "scale-aware", "sharp")
TINY = 1e-9
NEEDED = ("constraint_count",)


@functools.cache
def clipped_runs(name, beta=0.0, horizon=400, seed=0):
    """One batch: 5 adversaries x steps from far too small to far too large x sigma from barely
    enough up."""
    game = games()[name]
    rows = [
        (eta, sigma)
        for eta in (0.02, 0.3, 1.0, 4.0)
        for sigma in (0.52, 1.0, 5.0)
        for _ in range(5)
    ]
    scale = game.radius / math.sqrt(game.m + 1) / (horizon**0.5 if beta == 0 else 1)
    eta = scale * np.array([row[0] for row in rows])
    sigma = (game.m + 1) * game.slope**2 * np.array([row[1] for row in rows])
    return (
        game,
        eta,
        sigma,
        play(game, clipped_ogd(lambda t: eta / t**beta, sigma), len(rows), horizon, seed),
    )


def admissible(form, sigma, game):
    slope = max(1.0, game.slope) if form == "paper" else game.slope
    return sigma > (game.m if form == "sharp" else game.m + 1) * slope**2 / 2


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", list(games()))
def test_fixed_step_guarantees_hold_for_every_parameter_and_adversary(name, seed):
    game, eta, sigma, runs = clipped_runs(name, seed=seed)
    horizon, known = runs.loss.shape[1], game.constants(*NEEDED)
    regret, squared = runs.regret(), (runs.v**2).sum(axis=(1, 2))
    each, largest = runs.v.sum(axis=1), runs.v.max(axis=2).sum(axis=1)
    assert (squared > 0).sum() > 20  # the constraints are felt
    for i in range(len(eta)):
        common = {"horizon": horizon, "eta": eta[i], "sigma": sigma[i], **known}
        values = []
        for form in FORMS:
            if not admissible(form, sigma[i], game):
                with pytest.raises(ValueError, match="sigma: got"):
                    bounds.clipped_regret(**common, form=form)
                continue
            q = bounds.clipped_squared_violation(**common, loss_range=2 * game.radius, form=form)
            v = bounds.clipped_violation(
                **common, form=form
            )  # F left to 2 R G_f, which is the same here
            r = bounds.clipped_regret(**common, form=form)
            values.append((r, q))
            assert regret[i] <= r
            assert squared[i] <= q
            assert max(each[i].max(), largest[i]) <= v == pytest.approx(math.sqrt(horizon * q))
            master = inequalities.clipped_master(
                regret=regret[i], squared_violation=squared[i], **common, form=form
            )
            assert master <= TINY * r
            assert runs.v[i].max() <= bounds.peak_from_squared(squared_violation=q)
        for less, more in zip(
            values[1:], values[:-1], strict=True
        ):  # each form at least as sharp as the one before
            assert less[0] <= more[0] * (1 + TINY)
            assert less[1] <= more[1] * (1 + TINY)


@pytest.mark.parametrize("beta", [0.5, 0.8])
@pytest.mark.parametrize("name", ["l1", "polyhedron", "varying"])
def test_anytime_guarantees_hold_at_every_horizon(name, beta):
    game, eta, sigma, runs = clipped_runs(name, beta=beta)
    known = game.constants(*NEEDED)
    squares = (runs.v**2).sum(axis=2)
    for horizon in (1, 3, 57, 400):
        regret = runs.regret(horizon)
        steps = eta[:, None] / np.arange(1, horizon + 1) ** beta
        for i in range(len(eta)):
            common = {"horizon": horizon, "eta": eta[i], "sigma": sigma[i], "beta": beta, **known}
            for form in FORMS[1:]:
                q = bounds.clipped_squared_violation(**common, form=form)
                assert regret[i] <= bounds.clipped_regret(**common, form=form)
                assert squares[i, :horizon].sum() <= q
                assert runs.v[i, :horizon].max(axis=1).sum() <= bounds.clipped_violation(
                    **common, form=form
                )
            x = game.vertices[0]  # any feasible decision will do
            gaps = runs.loss[i] - np.diff(runs.sums[i], axis=0, prepend=0) @ x
            residual = inequalities.clipped_step(
                weighted_regret=(steps[i] * gaps[:horizon]).sum(),
                squared_violation=squares[i, :horizon].sum(),
                sum_of_squared_steps=(steps[i] ** 2).sum(),
                sigma=sigma[i],
                **known,
            )
            assert residual <= TINY


def test_one_round_of_anytime_is_the_fixed_step():
    common = {
        "horizon": 1,
        "eta": 0.3,
        "sigma": 3.0,
        "radius": 2.0,
        "loss_lipschitz": 1.5,
        "constraint_lipschitz": 1.0,
        "constraint_count": 2,
    }
    assert bounds.clipped_regret(**common) == pytest.approx(4 / 0.6 + 0.3 * 3 * 2.25 / 2)
    # the sum of one step is rounded up by 3.6 % (Hermite-Hadamard at its worst)
    assert bounds.clipped_regret(**common, beta=0.5) == pytest.approx(
        4 / 0.6 + 0.3 * 3 * 2.25 / 2, rel=0.01
    )


def test_regret_is_tight_and_the_wrong_power_of_the_radius_is_refuted():
    """Losses that never turn, a step so small that the far end is reached at the last round."""
    radius, horizon = 9.0, 2000
    eta = radius / horizon
    x = -eta * np.arange(horizon)
    regret = x.sum() + radius * horizon
    common = {
        "horizon": horizon,
        "eta": eta,
        "sigma": 1e6,
        "loss_lipschitz": 1.0,
        "constraint_lipschitz": 1.0,
        "constraint_count": 1,
        "form": "sharp",
    }
    bound = bounds.clipped_regret(radius=radius, **common)
    assert 0.99 * bound <= regret <= bound
    assert regret > bounds.clipped_regret(radius=radius**0.5, **common)  # R in place of R^2
    # the step printed in Theorem 1 does not scale: (G sqrt((m+1) T) / 2)(R^(5/2) + R^(-1/2))
    printed = bounds.clipped_regret(
        radius=radius,
        **{**common, "eta": 1 / math.sqrt(2 * radius * horizon), "form": "scale-aware"},
    )
    assert printed == pytest.approx(math.sqrt(2 * horizon) / 2 * (radius**2.5 + radius**-0.5))
    tuned = bounds.clipped_regret(
        radius=radius, **{**common, "eta": radius / math.sqrt(2 * horizon), "form": "scale-aware"}
    )
    assert tuned == pytest.approx(radius * math.sqrt(2 * horizon))


def test_paper_form_is_the_theorem_by_hand():
    common = {
        "horizon": 100,
        "eta": 0.1,
        "sigma": 40.0,
        "radius": 2.0,
        "loss_lipschitz": 3.0,
        "constraint_lipschitz": 1.0,
        "constraint_count": 3,
        "loss_range": 5.0,
        "form": "paper",
    }
    right = 4 / 0.2 + 0.1 * 100 * 4 * 9 / 2  # R^2 / (2 eta) + eta T (m+1) G^2 / 2
    alpha = 1 - 4 * 9 / 80
    assert bounds.clipped_squared_violation(**common) == pytest.approx(
        40 * 0.1 / alpha * (right + 500)
    )
    del common["loss_range"]
    assert bounds.clipped_regret(**common) == pytest.approx(right)
    master = inequalities.clipped_master(regret=7.0, squared_violation=2.0, **common)
    assert master == pytest.approx(7 + alpha / 4 * 2 - right)


def test_sharp_form_takes_the_best_split():
    """Against the definition: the least value over a fine grid of c."""
    common = {
        "horizon": 50,
        "eta": 0.2,
        "sigma": 3.0,
        "radius": 1.0,
        "loss_lipschitz": 2.0,
        "constraint_lipschitz": 0.7,
        "constraint_count": 5,
    }
    k = 5 * 0.49 / 6
    c = np.geomspace(1e-3, (1 - k) / k * 0.999, 40_000)
    half = 0.04 * 50 * 4 / 2
    grid = 3 * (0.5 + 3 * 0.2 * 50 + (1 + 1 / c) * half) / (1 - k - k * c)
    assert bounds.clipped_squared_violation(
        **common, loss_range=3.0, form="sharp"
    ) == pytest.approx(grid.min(), 1e-6)
    assert bounds.clipped_regret(**common, form="sharp") == pytest.approx(
        2.5 + 0.2 * 50 * 4 / 2 / (1 - k)
    )


def test_numbers_of_the_toy_and_the_error_bound_ratio():
    """Ten seeds of the l1 toy: regret, violation, squares and peak known; the peak is 0.42 of its
    bound."""
    game, horizon = games()["l1"], 2000
    eta, sigma = np.full(50, 0.5 / math.sqrt(horizon)), np.full(50, 4.0)
    runs = play(game, clipped_ogd(lambda t: eta, sigma), 50, horizon, seed=3)
    rows = slice(0, 50, 5)  # the i.i.d. losses
    v = runs.v[rows, :, 0]
    assert runs.regret()[rows].mean() == pytest.approx(12.8, rel=0.05)
    assert v.sum(axis=1).mean() == pytest.approx(53.87, rel=0.03)
    assert (v**2).sum(axis=1).mean() == pytest.approx(1.519, rel=0.05)
    peak = bounds.error_bound_peak_violation(
        horizon=horizon,
        eta=eta[0],
        sigma=4.0,
        loss_lipschitz=1.0,
        constraint_lipschitz=math.sqrt(2),
        constraint_count=1,
        error_bound=1.0,
    )
    assert v.max(axis=1).mean() / peak == pytest.approx(0.417, abs=0.01)
    assert runs.v.max() <= peak  # the other adversaries too


@pytest.mark.parametrize("beta", [0.0, 0.5])
@pytest.mark.parametrize("name", ["l1", "l1 rows", "polyhedron"])
def test_error_bound_guarantees_hold_in_every_round(name, beta):
    game, eta, sigma, runs = clipped_runs(name, beta=beta)
    if (
        name == "polyhedron"
    ):  # Slater: (0.4, 0.1) has slack 0.2 at least; the farthest point of the ball
        u = np.array([0.4, 0.1])
        slack = -(game.normals @ u + game.offsets).max()
        kappa = bounds.error_bound_from_slater(
            slater=slack, distance=game.radius + np.linalg.norm(u)
        )
        first = 0.2  # from the centre to x_1 >= 0.2
    else:
        kappa, first = 1.0, 0.0  # [|x|_1 - 1]_+ >= distance, with equality on the axes
    points = np.random.default_rng(0).uniform(-1, 1, (200, 2)) * game.radius
    worst = np.maximum(points @ game.normals.T + game.offsets, 0).max(axis=1)
    assert np.all(worst >= kappa * game.distance(points) - TINY)
    for i in range(len(eta)):
        common = {
            "eta": eta[i],
            "beta": beta,
            "sigma": sigma[i],
            "loss_lipschitz": 1.0,
            "error_bound": kappa,
            "constraint_lipschitz": game.slope,
            "constraint_count": game.m,
            "initial_distance": first,
        }
        assert runs.v[i].max() <= bounds.error_bound_peak_violation(horizon=400, **common)
        assert runs.v[i].max(axis=1).sum() <= bounds.error_bound_violation(horizon=400, **common)
        assert (runs.v[i] ** 2).sum() <= bounds.error_bound_squared_violation(horizon=400, **common)
        worst_squares = (runs.v[i].max(axis=1) ** 2).sum()
        assert worst_squares <= bounds.error_bound_squared_violation(
            horizon=400, total=False, **common
        )


@pytest.mark.parametrize(
    "steps", [{"eta": 0.05}, {"eta": 0.7, "beta": 0.6}, {"strong_convexity": 2.0}]
)
def test_error_bound_numbers_follow_the_recursion(steps):
    common = {
        **steps,
        "sigma": 2.0,
        "loss_lipschitz": 1.5,
        "constraint_lipschitz": 1.0,
        "constraint_count": 1,
        "error_bound": 0.3,
        "initial_distance": 0.4,
    }
    q = math.sqrt(1 - 0.09 * 1.5 / 2)
    d = [0.4]
    for t in range(1, 9000):
        eta = 1 / (2 * (t + 1)) if "eta" not in steps else steps["eta"] / t ** steps.get("beta", 0)
        d.append(q * d[-1] + 1.5 * eta)
    assert bounds.error_bound_peak_violation(horizon=9000, **common) == pytest.approx(max(d))
    total = bounds.error_bound_violation(horizon=9000, **common)
    assert sum(d) <= total * (1 + TINY)
    assert total <= sum(d) * (1 + TINY if "beta" not in steps and "eta" in steps else 1.05)


def test_squares_of_all_constraints_are_counted():
    """Three copies of one constraint violate three times as much as one."""
    common = {
        "horizon": 50,
        "eta": 0.05,
        "sigma": 4.0,
        "loss_lipschitz": 1.0,
        "constraint_lipschitz": 1.0,
        "constraint_count": 3,
        "error_bound": 0.5,
    }
    largest = bounds.error_bound_squared_violation(**common, total=False)
    assert bounds.error_bound_squared_violation(**common) == pytest.approx(3 * largest)
    peak = bounds.error_bound_peak_violation(**common)
    assert 0.5 * 50 * peak**2 <= largest <= 50 * peak**2


@functools.cache
def strong_runs(horizon=300, rows=15):
    """f_t = |x + 1.5 c_t|^2 / 2 on the unit ball under the l1 constraint: H = 1, G_f = 2.5."""
    game, rng = games()["l1"], np.random.default_rng(5)
    sigma = np.repeat([2.2, 4.0, 20.0], rows // 3)
    x = np.zeros((rows, 2))
    xs, vs, cs = [], [], []
    for t in range(1, horizon + 1):
        values, jacobian = game.constraints(x, rng)
        c = rng.normal(size=(rows, 2))
        c[1::5] = [0.6, -0.8] if t < horizon // 2 else [-1.0, 0.0]
        c[2::5] = x[2::5] + 1e-9 if t % 2 else -jacobian[2::5, 0]
        c[3::5] = [-1.0, 0.0]
        c /= np.linalg.norm(c, axis=1, keepdims=True)
        xs.append(x), vs.append(np.maximum(values[:, 0], 0)), cs.append(c)
        x = game.project(
            x - (x + 1.5 * c) / (t + 1) - vs[-1][:, None] / sigma[:, None] * jacobian[:, 0]
        )
    return sigma, np.array(xs), np.array(vs), np.array(cs)


def test_strongly_convex_guarantees_hold_at_every_horizon():
    sigma, xs, vs, cs = strong_runs()
    losses = ((xs + 1.5 * cs) ** 2).sum(axis=2) / 2
    for horizon in (1, 2, 5, 40, 300):
        for i in range(len(sigma)):
            best = project_l1(-1.5 * cs[:horizon, i].mean(axis=0))
            regret = losses[:horizon, i].sum() - ((best + 1.5 * cs[:horizon, i]) ** 2).sum() / 2
            common = {
                "horizon": horizon,
                "strong_convexity": 1.0,
                "sigma": sigma[i],
                "radius": 1.0,
                "loss_lipschitz": 2.5,
                "constraint_lipschitz": math.sqrt(2),
                "constraint_count": 1,
            }
            for form in FORMS[1:] if sigma[i] < 13 else FORMS:
                assert regret <= bounds.strong_clipped_regret(**common, form=form)
                for spread in (None, 3.0):
                    squared = bounds.strong_clipped_squared_violation(
                        **common, loss_range=spread, form=form
                    )
                    violation = bounds.strong_clipped_violation(
                        **common, loss_range=spread, form=form
                    )
                    assert (vs[:horizon, i] ** 2).sum() <= squared
                    assert vs[:horizon, i].sum() <= violation
            common = {k: v for k, v in common.items() if k != "radius"} | {"error_bound": 1.0}
            assert vs[:horizon, i].max() <= bounds.error_bound_peak_violation(**common)
            assert vs[:horizon, i].sum() <= bounds.error_bound_violation(**common)
            assert (vs[:horizon, i] ** 2).sum() <= bounds.error_bound_squared_violation(**common)


def test_strongly_convex_numbers_by_hand_and_ln_t_refuted():
    common = {
        "horizon": 1,
        "strong_convexity": 1.0,
        "sigma": 9.0,
        "radius": 1.0,
        "loss_lipschitz": 3.0,
        "constraint_lipschitz": 1.0,
        "constraint_count": 1,
    }
    bound = bounds.strong_clipped_regret(**common)
    assert bound == pytest.approx(0.5 + 9 * math.log(2))
    # f = |x - 2|^2 / 2 on [-1, 1] from 0: one round costs 1.5; ln T instead of ln(T+1) promises 0.5
    assert 0.5 < 2.0 - 0.5 <= bound
    # Theorem 2's own constants: sigma = (m+1) G^2, alpha = 1/2
    log, spread = math.log(101), 0.9
    paper = bounds.strong_clipped_violation(
        **{**common, "horizon": 100, "sigma": 18.0}, loss_range=spread, form="paper"
    )
    assert paper == pytest.approx(math.sqrt(2 * 18 * log * (0.5 + 9 * log + spread * 100)))
    # F beyond G_f^2 / (2H) changes nothing, below it counts
    assert bounds.strong_clipped_violation(**common) == bounds.strong_clipped_violation(
        **common, loss_range=5.0
    )
    assert bounds.strong_clipped_violation(
        **common, loss_range=1.0
    ) < bounds.strong_clipped_violation(**common)


def smooth_runs(eta, sigma, start, square):
    """g(x) = |x|^2 - 1/2 on a ball of radius 2 or the square [-1, 1]^2, pushed outward, sideways
    and at random."""
    rng = np.random.default_rng(1)
    x, peak = np.tile(np.asarray(start, float), (3, 1)), 0.0
    game = Game(np.eye(2), np.zeros(2), 2.0)
    for _ in range(900):
        g = np.maximum((x**2).sum(axis=1) - 0.5, 0)
        peak = max(peak, g.max())
        c = rng.normal(size=(3, 2))
        c[0], c[1] = -x[0] + 1e-9, [-x[1, 1] - 1e-9, x[1, 0]] - 0.7 * x[1]
        y = x - eta * c / np.linalg.norm(c, axis=1, keepdims=True) - (g / sigma)[:, None] * 2 * x
        x = np.clip(y, -1, 1) if square else game.project(y)
    return peak


@pytest.mark.parametrize("eta", [1e-3, 1e-2, 0.1])
@pytest.mark.parametrize(
    ("square", "start"), [(False, (0, 0)), (True, (0, 0)), (True, (0.8, 0.6)), (False, (0.9, 0.0))]
)
def test_smooth_peak_holds_on_any_domain(eta, square, start):
    slope = 2 * math.sqrt(2) if square else 4.0
    first = max(np.square(start).sum() - 0.5, 0)
    radius = 1.4142136 + np.linalg.norm(start) if square else 2.0 + np.linalg.norm(start)
    common = {
        "eta": eta,
        "sigma": 2 * slope**2,
        "radius": radius,
        "loss_lipschitz": 1.0,
        "constraint_lipschitz": slope,
        "constraint_smoothness": 2.0,
        "initial_violation": first,
        "centre_feasible": first == 0,
    }
    bound = bounds.smooth_peak_violation(**common)
    assert 0 < smooth_runs(eta, common["sigma"], start, square) <= bound
    reach = radius * (1 if first == 0 else 2)
    by_hand = (2 * slope * common["sigma"] * reach**2 * eta) ** (1 / 3) + slope * eta
    assert bound == pytest.approx(max(by_hand, first))
    if first > 0:  # a first decision that violates is not feasible, whatever is claimed
        assert bounds.smooth_peak_violation(**{**common, "centre_feasible": True}) == bound
    with pytest.raises(ValueError, match="constraint_smoothness: got"):
        bounds.smooth_peak_violation(
            **{**common, "constraint_smoothness": 1.01 * common["sigma"] / bound}
        )


def test_numbers_outside_the_theorems_are_refused():
    with pytest.raises(ValueError, match="exactly one of the two"):
        bounds.error_bound_violation(
            horizon=5,
            eta=0.1,
            strong_convexity=1.0,
            sigma=2.0,
            loss_lipschitz=1.0,
            constraint_lipschitz=1.0,
            constraint_count=1,
            error_bound=1.0,
        )
    with pytest.raises(ValueError, match="form: got 'loose'"):
        bounds.clipped_regret(
            horizon=1,
            eta=1.0,
            sigma=9.0,
            radius=1.0,
            loss_lipschitz=1.0,
            constraint_lipschitz=1.0,
            constraint_count=1,
            form="loose",
        )
