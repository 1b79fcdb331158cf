"""The bounds of half-space learners against instances that a random search makes as bad as it can,
in plain NumPy."""

import math

import numpy as np
import pytest

from learners import half_space_reference as reference
from taut import bounds
from taut.learners import OutsideTheorem

ROUNDS = 10


def clip_ball(x):
    centre = np.array([0.2, -0.1])
    offset = x - centre
    return centre + offset / max(1.0, np.linalg.norm(offset))


def clip_box(x):
    return np.clip(x, [0.0, -0.3], [1.2, 0.6])


def clip_segment(x):
    """The simplex in two dimensions."""
    s = np.clip((x[0] - x[1] + 1) / 2, 0, 1)
    return np.array([s, 1 - s])


DOMAINS = {
    "ball": (clip_ball, 2.0),
    "box": (clip_box, 1.5),
    "simplex": (clip_segment, math.sqrt(2)),
}


class Instance:
    """Linear losses and rows that hold at a comparator, all read off one vector of numbers; |p|,
    |s| <= 1."""

    size = 4 + 6 * ROUNDS

    def __init__(self, numbers, domain):
        self.project, self.diameter = DOMAINS[domain]
        self.start, self.star = self.project(numbers[:2]), self.project(numbers[2:4])
        self.radius = max(np.linalg.norm(self.start - self.star), 1e-9)
        rest = numbers[4:].reshape(ROUNDS, 6)
        self.losses = rest[:, :2] / np.maximum(
            1, np.linalg.norm(rest[:, :2], axis=1, keepdims=True)
        )
        self.rows = rest[:, 2:4] / np.maximum(
            1, np.linalg.norm(rest[:, 2:4], axis=1, keepdims=True)
        )
        self.levels = self.rows @ self.star + np.maximum(rest[:, 4], 0)

    def rounds(self):
        for p, a, b in zip(self.losses, self.rows, self.levels, strict=True):
            yield lambda x, p=p, a=a, b=b: (p, a @ x - b, a)

    def play(self, eta, **options):
        self.x, self.v = reference.play(
            self.start, self.rounds(), eta, self.project, self.diameter, **options
        )
        self.regret = float(np.sum(self.losses * (self.x - self.star)))
        self.squared = float(np.sum(np.maximum(self.v, 0) ** 2))
        return self

    @property
    def seen(self):
        squares = np.sum(self.losses**2, axis=1)
        known = {"loss_slope": np.sqrt(squares.max()), "squared_slopes": squares.sum()}
        return known | {"first_squared_slope": next((s for s in squares if s > 0), 0.0)}


def attack(ratio, size, seed, trials=150, steps=150):
    """The largest ratio that a random search and then a (1+1) evolution strategy find."""
    rng = np.random.default_rng(seed)
    best, at = -np.inf, None
    for _ in range(trials):
        numbers = rng.normal(size=size) * rng.choice([0.3, 1.0, 3.0])
        value = ratio(numbers)
        best, at = (value, numbers) if value > best else (best, at)
    width = 0.5
    for _ in range(steps):
        numbers = at + width * rng.normal(size=size) * (rng.uniform(size=size) < 0.3)
        value = ratio(numbers)
        best, at, width = (
            (value, numbers, width * 1.5) if value > best else (best, at, width * 0.93)
        )
    return best


def steps_of(kind, D):
    """A step rule, its regret bound and its lengths, as functions of an instance; G_f = 1, D the
    diameter."""
    if kind == "adaptive":
        weight, scale = 2.0, D / 2

        def regret(one):
            return bounds.adaptive_half_space_regret(
                scale=scale, start_up=weight, radius=one.radius, diameter=one.diameter, **one.seen
            )

        def lengths(one):
            return bounds.adaptive_step_lengths(
                horizon=ROUNDS, scale=scale, start_up=weight, **one.seen
            )

        return lambda: reference.Steps(scale, weight), regret, lengths
    beta = {"horizon": 0.0, "anytime": 0.5}[kind]
    eta = D / math.sqrt(ROUNDS) if kind == "horizon" else D

    def regret(one):
        known = {"horizon": ROUNDS, "eta": eta, "beta": beta, "loss_lipschitz": 1.0}
        return bounds.half_space_regret(radius=one.radius, diameter=one.diameter, **known)

    def lengths(one):
        return bounds.power_step_lengths(horizon=ROUNDS, eta=eta, beta=beta, loss_lipschitz=1.0)

    return lambda: lambda t, p: eta / t**beta, regret, lengths


@pytest.mark.parametrize(
    ("kind", "memory"), [("horizon", 0), ("horizon", 3), ("anytime", 3), ("adaptive", 3)]
)
def test_regret_and_squares_survive_an_attack(kind, memory):
    found = []
    for seed, domain in enumerate(DOMAINS):
        rule, regret, lengths = steps_of(kind, DOMAINS[domain][1])

        def play(numbers, domain=domain, rule=rule):
            return Instance(numbers, domain).play(rule(), memory=reference.Memory(memory), sweeps=2)

        def of_regret(numbers, play=play, regret=regret):
            one = play(numbers)
            return one.regret / max(regret(one), 1e-9)

        def of_squares(numbers, play=play, lengths=lengths):
            one = play(numbers)
            return one.squared / bounds.half_space_squared_violation(
                lengths=lengths(one),
                radius=one.radius,
                diameter=one.diameter,
                constraint_lipschitz=1.0,
            )

        worst = [attack(ratio, Instance.size, seed) for ratio in (of_regret, of_squares)]
        assert max(worst) <= 1 + 1e-9
        found.append(worst)
    assert (
        max(one[0] for one in found) > 0.5
    )  # half the bound would be refuted: the attack is strong enough to tell
    assert max(one[1] for one in found) > 0.05


def test_regret_bound_of_the_fixed_step_is_attained():
    """One linear loss for ever and no constraint in reach: G_f R sqrt T is exactly what gradient
    descent can lose."""
    T, R = 16, 1.0
    eta = R / math.sqrt(T)
    # The comparator lies R away from the start, against the losses; every decision is worse by R -
    # (t-1) eta.
    losses = sum(R - (t - 1) * eta for t in range(1, T + 1) if (t - 1) * eta < R)
    bound = bounds.half_space_regret(horizon=T, eta=eta, radius=R, loss_lipschitz=1.0)
    assert bound == pytest.approx(R * math.sqrt(T))
    assert losses <= bound <= 2 * losses


def test_strong_steps():
    """0.5 |x - c_t|^2 on the unit disc, H = 1, from a shifted start; regret against the best point
    on the disc."""
    rng, T = np.random.default_rng(0), 200
    for shift in (0, 3):
        c = rng.normal(size=(T, 2)) * 0.6 + [0.9, 0.2]
        c /= np.maximum(1, np.linalg.norm(c, axis=1, keepdims=True))
        x, path = np.zeros(2), []
        for t in range(1, T + 1):
            path.append(x)
            x = x - (x - c[t - 1]) / (t + shift)
            x = x / max(1.0, np.linalg.norm(x))
        star = c.mean(axis=0)
        regret = 0.5 * np.sum((np.array(path) - c) ** 2) - 0.5 * np.sum((star - c) ** 2)
        known = {
            "horizon": T,
            "strong_convexity": 1.0,
            "radius": np.linalg.norm(star),
            "loss_lipschitz": 2.0,
        }
        assert 0.05 < regret / bounds.strong_half_space_regret(shift=shift, **known) <= 1


def test_summary_forms():
    """The short forms of docs/theory.md are upper bounds on the formulas."""
    for T in (1, 10, 1000):
        lengths = bounds.power_step_lengths(horizon=T, eta=1 / math.sqrt(T), loss_lipschitz=2.0)
        squared = bounds.half_space_squared_violation(
            lengths=lengths, radius=2, diameter=2, constraint_lipschitz=3.0
        )
        assert squared <= 9 * 4 * (2 + 2 * math.sqrt(T)) * (1 + 1e-12)
        lengths = bounds.power_step_lengths(horizon=T, eta=1.0, beta=0.5, loss_lipschitz=2.0)
        assert lengths.total <= 2 * 2 * math.sqrt(T)
        anytime = bounds.half_space_regret(
            horizon=T, eta=1.0, beta=0.5, radius=2, diameter=2, loss_lipschitz=2.0
        )
        assert anytime <= 1.5 * 2 * 2 * math.sqrt(T) * (1 + 1e-12)


# -- Error bound and smooth constraints: one disc |x|^2 <= 1 in a box, tangential and random pushes
# --------------------


def onto_box_and_cut(y, a, o, low, high):
    """The nearest point of the box and the half-plane, by bisection on the multiplier."""

    def at(lam):
        return np.clip(y - lam * a, low, high)

    if a @ at(0.0) <= o:
        return at(0.0)
    left, right = 0.0, 1.0
    while a @ at(right) > o:
        right *= 2
    for _ in range(80):
        middle = (left + right) / 2
        left, right = (middle, right) if a @ at(middle) > o else (left, middle)
    return at(right)


def disc_run(pushes, length, start, margin=0.0, joint=True):
    """Violations of g = (|x|^2 - 1) / 2 (L = 1, kappa = 1 outside the disc), steps of a given
    length."""
    low, high = np.array([-0.4, -1.5]), np.array([1.5, 1.5])
    x, values = np.clip(start, low, high), []
    for push in pushes:
        v = (x @ x - 1) / 2
        values.append(v)
        y = x + length * push / max(np.linalg.norm(push), 1e-12)
        size = max(np.linalg.norm(x), 1e-12)
        a, o = x / size, size - (v + margin) / size
        x = (
            onto_box_and_cut(y, a, o, low, high)
            if joint
            else np.clip(y - max(a @ y - o, 0) * a, low, high)
        )
    return np.array(values)


@pytest.mark.parametrize("length", [0.05, 0.3, 0.9])
def test_smooth_constraints_are_violated_by_the_square_of_a_step(length):
    rounds = 60
    peak = bounds.smooth_half_space_peak(longest=length, constraint_smoothness=1.0, error_bound=1.0)
    total = bounds.smooth_half_space_violation(
        lengths=bounds.StepLengths(length, rounds * length, rounds * length**2),
        constraint_smoothness=1.0,
        error_bound=1.0,
    )

    def worst(numbers):
        values = disc_run(
            numbers[2:].reshape(rounds, 2),
            length,
            numbers[:2] / max(1, np.linalg.norm(numbers[:2])),
        )
        return max(values.max() / peak, np.maximum(values, 0).sum() / total)

    found = attack(worst, 2 + 2 * rounds, seed=1, trials=20, steps=80)
    assert found <= 1 + 1e-9
    spin = disc_run(
        [np.array([math.sin(-t * length), math.cos(-t * length)]) for t in range(rounds)],
        length,
        [0.99, 0.0],
    )
    assert spin.max() > 0.2 * peak
    with pytest.raises(OutsideTheorem, match="longest step"):
        bounds.smooth_half_space_peak(longest=1.01, constraint_smoothness=1.0, error_bound=1.0)
    with pytest.raises(OutsideTheorem, match="longest step"):
        bounds.smooth_half_space_peak(
            longest=0.26, constraint_smoothness=1.0, error_bound=1.0, memory=True
        )
    with pytest.raises(OutsideTheorem, match="first decision"):
        bounds.smooth_half_space_peak(
            longest=0.5, constraint_smoothness=1.0, error_bound=1.0, initial_violation=1.9
        )


def test_fixed_points_are_those_of_the_maps():
    for theta in (0.01, 0.2, 0.25):
        a, L, kappa = theta * 2.0 / 3.0, 3.0, 2.0
        plain = bounds.smooth_half_space_peak(longest=a, constraint_smoothness=L, error_bound=kappa)
        assert plain == pytest.approx(L / 2 * (a**2 + plain**2 / kappa**2))
        kept = bounds.smooth_half_space_peak(
            longest=a, constraint_smoothness=L, error_bound=kappa, memory=True
        )
        assert kept == pytest.approx(L / 2 * (a + 2 * kept / kappa) ** 2)
        assert plain <= kept <= 2 * L * a**2 * (1 + 1e-12)
    assert (
        bounds.smooth_half_space_peak(longest=9.0, constraint_smoothness=0.0, error_bound=None) == 0
    )


def test_a_margin_leaves_no_violation():
    T, rng = 400, np.random.default_rng(5)
    across = math.hypot(1.9, 3.0)
    eta, rho = bounds.smooth_half_space_margin(
        horizon=T,
        radius=1.0,
        diameter=across,
        loss_lipschitz=1.0,
        constraint_smoothness=1.0,
        slater=0.5,
    )
    assert rho == pytest.approx(eta**2)
    for _ in range(5):
        assert (
            disc_run(rng.normal(np.array([1.0, 0.3]), size=(T, 2)), eta, [0.0, 0.0], rho).max() <= 0
        )
    assert disc_run(rng.normal(np.array([1.0, 0.3]), size=(T, 2)), eta, [0.0, 0.0]).max() > 0
    eta, rho = bounds.half_space_margin(
        horizon=T, diameter=across, loss_lipschitz=1.0, constraint_lipschitz=2.2, slater=0.5
    )
    assert (
        bounds.margin_holds(
            longest=eta,
            margin=rho,
            diameter=across,
            slater=0.5,
            constraint_lipschitz=2.2,
            initial_excess=-0.5,
        )
        == 0
    )
    with pytest.raises(OutsideTheorem, match="away from the feasible set"):
        bounds.margin_holds(
            longest=9 * eta,
            margin=rho,
            diameter=across,
            slater=0.5,
            constraint_lipschitz=2.2,
            initial_excess=-0.5,
        )
    assert bounds.tightening_cost(
        horizon=T, margin=0.1, slater=0.5, diameter=2.0, loss_lipschitz=3.0
    ) == pytest.approx(480)


def test_error_bound_follows_the_recursion():
    gain = bounds.half_space_contraction(constraint_lipschitz=2.0, error_bound=0.5)
    q = math.sqrt(1 - 0.25**2)
    assert gain == pytest.approx(1 - q)
    lengths = bounds.power_step_lengths(horizon=500, eta=0.3, beta=0.5, loss_lipschitz=1.0)
    d, distances = 0.2, []
    for t in range(1, 501):
        distances.append(d)
        d = q * d + 0.3 / math.sqrt(t)
    known = {
        "lengths": lengths,
        "constraint_lipschitz": 2.0,
        "error_bound": 0.5,
        "initial_distance": 0.2,
    }
    assert 0.1 < 2 * max(distances) / bounds.half_space_distance(**known) <= 1
    assert 0.3 < 2 * sum(distances) / bounds.half_space_distance_violation(**known) <= 1
    assert (
        0.1 < 4 * sum(x * x for x in distances) / bounds.half_space_distance_squared(**known) <= 1
    )


# -- Kept cuts
# ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_rows_that_come_back_are_paid_for_once(seed):
    """Every round shows the row that is violated most, or a random one, and pushes towards it;
    memory for all rows."""
    rng, M, T = np.random.default_rng(seed), 7, 400
    a = rng.normal(size=(M, 3))
    a /= np.linalg.norm(a, axis=1, keepdims=True)
    b = a @ rng.uniform(-0.3, 0.3, size=3) + rng.choice([0.0, 0.05], size=M)
    scale = rng.uniform(0.2, 2.0, size=(T, M))

    def rounds():
        for t in range(T):

            def reveal(x, t=t):
                values = a @ x - b
                i = int(np.argmax(values)) if t % 2 else int(rng.integers(M))
                return -a[(t // 5) % M], scale[t, i] * values[i], scale[t, i] * a[i]

            yield reveal

    def project(y):
        return np.clip(y, -1, 1)

    across = 2 * math.sqrt(3)
    eta, totals = across / math.sqrt(T), {}
    for memory in (M, 2):
        kept = reference.Memory(memory)
        _, v = reference.play(
            np.ones(3), rounds(), lambda t, p: eta, project, across, kept, sweeps=None
        )
        totals[memory] = np.maximum(v, 0).sum()
        if (
            memory == M
        ):  # but for the rounds that store a row, violation is within the tolerance of the sweeps
            assert np.sum(v > 2.0 * across / np.arange(1, T + 1) ** 2) <= M
    bound = bounds.kept_cuts_violation(half_spaces=M, diameter=across, constraint_lipschitz=2.0)
    assert bound == pytest.approx((M + 0.6449) * 2 * across, rel=1e-4)
    assert totals[M] <= bound
    assert totals[2] > 2 * totals[M]  # a memory that is too small is felt


def test_all_cuts_kept_in_the_plane():
    """Tangents of random discs that share a point, every one of them kept."""
    rng, T = np.random.default_rng(0), 150

    def rounds():
        for _ in range(T):
            centre = rng.uniform(-0.5, 0.5, size=2)
            radius = np.linalg.norm(centre) + 1e-3

            def reveal(x, centre=centre, radius=radius):
                offset = x - centre
                size = max(np.linalg.norm(offset), 1e-12)
                return -rng.normal(size=2), size - radius, offset / size

            yield reveal

    def project(y):
        return y / max(1.0, np.linalg.norm(y))

    _, v = reference.play(
        np.array([1.0, 0]), rounds(), lambda t, p: 0.4, project, 1e-9, reference.Memory(T), None
    )
    # H7: (1 + sqrt 2) (d / (d - 1)) G_g D T^(1 - 1/d), with d = 2 and D = 2
    assert 0.3 < np.maximum(v, 0).sum() <= (1 + math.sqrt(2)) * 2 * 2.0 * math.sqrt(T)


def corner_run(steps, start):
    """Distances and violations of half-space steps on |x|_1 <= 1 that push outwards as they can."""

    def row(x):
        return np.where(x >= 0, 1.0, -1.0)

    x, violations = np.array(start), []
    for t, length in enumerate(steps):
        violations.append(max(np.abs(x).sum() - 1, 0.0))
        push = np.array([1.0, 0.7 if t % 3 else -0.7])
        y = x + length * push / np.linalg.norm(push)
        s = row(x)
        over = np.abs(x).sum() - 1 + s @ (y - x)
        x = y - max(over, 0) * s / (s @ s)
        x = x / max(1.0, np.linalg.norm(x))
    return np.array(violations)


@pytest.mark.parametrize("start", [(0.0, 0.0), (1.0, 0.0)])
def test_observed_steps_are_followed_round_by_round(start):
    rng = np.random.default_rng(3)
    each = rng.uniform(0.0, 0.3, size=(2, 60))
    lengths = bounds.StepLengths.observed(each).beyond((1 - np.abs(start).sum()) / math.sqrt(2))
    known = dict(lengths=lengths, constraint_lipschitz=math.sqrt(2), error_bound=1.0)
    peak, total, squares = (
        formula(**known)
        for formula in (
            bounds.half_space_distance,
            bounds.half_space_distance_violation,
            bounds.half_space_distance_squared,
        )
    )
    for steps in each:
        seen = corner_run(steps, start)
        assert seen.max() <= peak
        assert seen.sum() <= total
        assert (seen**2).sum() <= squares
    # The sums are never worse than those of formulas that know the longest step and the sums.
    rough = {**known, "lengths": lengths._replace(each=None)}
    assert peak <= bounds.half_space_distance(**rough)
    assert total <= bounds.half_space_distance_violation(**rough)
    assert squares <= bounds.half_space_distance_squared(**rough)


def test_steps_within_the_room_of_the_first_decision_cannot_violate():
    each = np.full((1, 4), 0.25)
    assert bounds.StepLengths.observed(each).beyond(0.6).each.tolist() == [[0.0, 0.0, 0.25, 0.25]]
    assert bounds.StepLengths.observed(each).beyond(0.0).total == 1.0
    unknown = bounds.StepLengths(0.25, 1.0, 0.25)
    assert unknown.beyond(5.0) == unknown
