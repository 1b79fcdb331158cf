"""Enclosures: bounds contain what a function attains, and are attained where theory says that they
are exact."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.intervals.enclosure import Space
from taut.intervals.of_jaxpr import enclose
from taut.intervals.pieces import Unknown
from taut.problem.sampling import sample_decisions

RNG = np.random.default_rng(0)
ROWS, DATA = RNG.normal(size=(4, 3)), RNG.normal(size=(5, 3))
DOMAINS = {
    "ball": taut.Ball(0.9, shape=3),
    "box": taut.Box(-np.ones(3), 2 * np.ones(3)),
    "simplex": taut.Simplex(3),
    "l1": taut.L1Ball(1.5, shape=3),
}
FUNCTIONS = {
    "l1 norm": lambda x, z: jnp.abs(x).sum() - 1,
    "affine": lambda x, z: ROWS @ x - 1,
    "2-norm": lambda x, z: jnp.linalg.norm(x) - 1,
    "2-norm of affine": lambda x, z: jnp.linalg.norm(ROWS @ x - 1),
    "largest row": lambda x, z: jnp.max(ROWS @ x - 0.1),
    "smallest row": lambda x, z: jnp.min(ROWS @ x),
    "product": lambda x, z: x @ x - 1,
    "squares": lambda x, z: (x**2).sum() - 1,
    "quadratic": lambda x, z: x @ (ROWS.T @ ROWS) @ x,
    "selection": lambda x, z: jnp.where(x > 0, x, -2 * x).sum(),
    "selection by data": lambda x, z: jnp.where(z > 0, x, z).sum(),
    "log-sum-exp": lambda x, z: jax.scipy.special.logsumexp(x),
    "softplus": lambda x, z: jnp.logaddexp(z * x, 0.0).sum(),
    "positive part": lambda x, z: jax.nn.relu(x - 0.2).sum(),
    "exponential": lambda x, z: jnp.exp(ROWS @ x),
    "cube": lambda x, z: x**3,
    "linear in data": lambda x, z: z @ x,
    "tracking": lambda x, z: 0.5 * ((x - z) ** 2).sum(),
    "logarithm": lambda x, z: -jnp.log(x + 3).sum(),
    "division": lambda x, z: (1 + x) / (x + 3),
    "two largest": lambda x, z: jnp.sort(x)[-2:].sum(),
    "partial sums": lambda x, z: jnp.cumsum(x) - z,
    "power": lambda x, z: (jnp.abs(x) ** 1.5).sum() + (x + 4) ** -2.0 @ jnp.ones(3),
    "Huber": lambda x, z: jnp.where(
        jnp.abs(x - z) < 1, 0.5 * (x - z) ** 2, jnp.abs(x - z) - 0.5
    ).sum(),
    "entropy": lambda x, z: (x * jnp.log(x + 2)).sum(),
    "clipped": lambda x, z: jnp.clip(x - z, -0.5, 0.7),
    "joined": lambda x, z: jnp.concatenate([x - 1, -x, jnp.pad(x[1:], (1, 0))]),
    "sigmoid": lambda x, z: jax.nn.sigmoid(2 * x) + jnp.tanh(x),
}


@pytest.fixture(scope="module")
def attained():
    """Values of all functions at many decisions and all data, by domain: (decision, round,
    entry)."""

    def everything(x, z):
        return {name: jnp.ravel(function(x, z)) for name, function in FUNCTIONS.items()}

    compute = jax.jit(jax.vmap(jax.vmap(everything, (None, 0)), (0, None)))
    found = {}
    for name, domain in DOMAINS.items():
        inside = sample_decisions(domain, np.random.default_rng(1), 500)
        ends = np.stack(
            [np.asarray(domain.linear_minimiser(jnp.asarray(d))) for d in RNG.normal(size=(20, 3))]
        )
        found[name] = {
            k: np.asarray(v) for k, v in compute(np.concatenate([inside, ends]), DATA).items()
        }
    return found


@pytest.mark.parametrize("name", FUNCTIONS)
def test_bounds_contain_all_values(name, attained):
    function = FUNCTIONS[name]
    for domain, itself in DOMAINS.items():
        space, values = Space.of(itself), attained[domain][name]
        bounds = enclose(jax.vmap(function, (None, 0)), space, DATA)
        low, high, centre = bounds.low, bounds.high, bounds.centre.high
        low, high = (
            np.broadcast_to(a.reshape(len(DATA) if a.ndim else 1, -1), values.shape[1:])
            for a in (low, high)
        )
        assert np.all(values <= high), domain
        assert np.all(values >= low), domain
        assert np.all(centre <= high.reshape(centre.shape) + 1e-6), domain
        between = enclose(function, space, DATA.min(axis=0), DATA.max(axis=0))
        assert np.all(values <= np.ravel(between.high)), domain
        assert np.all(values >= np.ravel(between.low)), domain


EXACT = [
    ("l1 norm", "ball"),
    ("2-norm", "ball"),
    ("product", "ball"),
    ("squares", "box"),
    ("affine", "simplex"),
    ("linear in data", "ball"),
    ("linear in data", "simplex"),
    ("tracking", "ball"),
    ("l1 norm", "l1"),
]


@pytest.mark.parametrize(("name", "domain"), EXACT)
def test_bounds_from_above_are_exact_where_slopes_are(name, domain):
    ball = 0.9
    norms = np.linalg.norm(DATA, axis=1)
    known = {
        ("l1 norm", "ball"): np.sqrt(3) * ball - 1,
        ("2-norm", "ball"): ball - 1,
        ("product", "ball"): ball**2 - 1,
        ("squares", "box"): 11.0,
        ("affine", "simplex"): ROWS.max(axis=1) - 1,
        ("linear in data", "ball"): ball * norms,
        ("linear in data", "simplex"): DATA.max(axis=1),
        ("tracking", "ball"): 0.5 * (norms + ball) ** 2,
        ("l1 norm", "l1"): 0.5,
    }
    high = enclose(jax.vmap(FUNCTIONS[name], (None, 0)), Space.of(DOMAINS[domain]), DATA).high
    np.testing.assert_allclose(
        *np.broadcast_arrays(high, known[name, domain]), rtol=1e-7, atol=1e-7
    )


def test_a_lipschitz_constant_and_a_domain_without_linear_minimisers_are_used():
    class Disc(taut.Ball, leaves=("radius", "origin")):
        def project(self, x):
            return super().project(x)

    space = Space.of(Disc(2.0, shape=3))
    assert not space.exact
    assert enclose(lambda x, _: jnp.abs(x).sum(), space).high == pytest.approx(2 * 3**0.5)
    hidden = enclose(
        lambda x, _: jnp.where(x[0] > 0, x[0], -x[0]), space, lipschitz=1.0
    )  # |x| by selection
    assert hidden.high == pytest.approx(2.0)


def test_large_decisions_have_no_slopes_and_take_little_memory():
    space = Space.of(taut.Ball(1.0, shape=200_000))  # a matrix of slopes would take 320 GB
    assert enclose(lambda x, _: jnp.sum(x * 2) - 1, space).high == pytest.approx(4e5 - 1)
    assert enclose(lambda x, _: jnp.max(jnp.abs(x)), space, lipschitz=1.0).high == pytest.approx(
        1.0
    )
    assert enclose(lambda x, _: jnp.concatenate([x, jnp.ones(1)])[-1], space).high == pytest.approx(
        1.0
    )


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x, _: jnp.linalg.eigvalsh(jnp.diag(x))[-1], "has no bound"),
        (
            lambda x, _: jax.lax.fori_loop(0, 3, lambda _, y: y * 2, x),
            "the operation scan has no bound",
        ),
        (lambda x, _: 1 / x, "a division by a number that may be 0"),
        (lambda x, _: -jnp.log(x[0] + 0.9), "values are not limited"),
    ],
)
def test_what_has_no_bound_is_refused_with_the_reason(function, message):
    with pytest.raises(Unknown, match=message):
        enclose(function, Space.of(DOMAINS["ball"]))


def test_gradients_are_exact_where_slopes_are():
    space = Space.of(DOMAINS["ball"], gradients=True)
    row = DATA[0]
    length = enclose(lambda x, _: jnp.linalg.norm(x - 5), space)
    assert length.steep == pytest.approx(1.0)
    affine = enclose(lambda x, z: z @ x, space, row)
    np.testing.assert_allclose(affine.slopes.low, row, rtol=1e-9)
    assert affine.steep == pytest.approx(np.linalg.norm(row))
    squares = enclose(lambda x, z: ((x - z) ** 2).sum(), space, row)
    assert squares.steep == pytest.approx(2 * (0.9 + np.linalg.norm(row)))  # attained at -z
    kinked = enclose(lambda x, _: jnp.max(jnp.stack([x[0], -2 * x[0], x[1]])), space)
    np.testing.assert_allclose(kinked.slopes.low, [-2, 0, 0], atol=1e-10)
    np.testing.assert_allclose(kinked.slopes.high, [1, 1, 0], atol=1e-10)
    assert kinked.steep == pytest.approx(2.0)


def test_a_jump_has_values_but_no_slopes():
    space = Space.of(DOMAINS["box"], gradients=True)
    jump = enclose(lambda x, _: jnp.where(x[0] > 0.5, 3.0, -1.0), space)
    assert jump.slopes is None
    assert not np.isfinite(jump.steep)
    assert (float(jump.low), float(jump.high)) == pytest.approx((-1, 3))
    # A jump that depends on data only, or that no decision reaches, has slopes.
    chosen = enclose(
        lambda x, z: jnp.where(z > 0, x, 2 * x).sum() + jnp.where(x > -2, x, x**2).sum(),
        space,
        np.array([-1.0, 1, 1]),
    )
    np.testing.assert_allclose(chosen.slopes.low, [3, 2, 2], atol=1e-9)


WHOLE = np.array([5, -3, 6])


@pytest.mark.parametrize(
    "function",
    [
        lambda x, k: (k & 1) * x,
        lambda x, k: (~k | 2) * x,
        lambda x, k: (k << 2) % 7 * x,
        lambda x, k: k // 2 * x + jax.lax.div(k, 2),
        lambda x, k: x[k % 3] + jax.nn.one_hot(k[0] % 3, 3),
        lambda x, k: jnp.where((k ^ 3) > 4, x, -x),
        lambda x, k: k.astype(jnp.int8).astype(float) * x + jnp.argsort(k),
        lambda x, k: x[jnp.array([2, 0, 1])] + jnp.zeros((3, 0)).sum(axis=1),
        lambda x, k: x.at[k[0] % 3].set(7.0) + jax.lax.dynamic_slice(x, (k[0] % 2,), (1,))[0],
    ],
)
def test_integers_are_computed_as_jax_computes_them(function):
    bounds = enclose(function, Space.of(DOMAINS["box"]), WHOLE)
    for x in sample_decisions(DOMAINS["box"], np.random.default_rng(3), 20):
        value = np.asarray(function(jnp.asarray(x), jnp.asarray(WHOLE)))
        assert np.all(value >= bounds.low)
        assert np.all(value <= bounds.high)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x, k: jax.lax.div(k, 2) * x, "the operation div has no bound"),
        (lambda x, k: (k & 1) * x, "the operation and has no bound"),
        (lambda x, k: k.astype(jnp.int8) * 100 * x, "integers may be too large for int8"),
        (lambda x, k: x[k], "at a place that is not known"),
        (lambda x, k: x[jnp.argsort(x)], "sort of several arrays"),
        (lambda x, k: x + jax.random.normal(jax.random.key(0), (3,)), "has no bound"),
        (lambda x, k: jnp.max(x[:0], initial=-jnp.inf), "values are not limited"),
    ],
)
def test_integers_between_bounds_are_refused_where_they_could_be_wrong(function, message):
    with pytest.raises(Unknown, match=message):
        enclose(function, Space.of(DOMAINS["box"]), WHOLE, WHOLE + 1)


def test_a_place_that_does_not_exist_is_refused():
    missing = lambda x, k: x.at[k[0]].get(mode="fill")  # noqa: E731, what JAX fills in is no entry
    with pytest.raises(Unknown, match="a place that does not exist"):
        enclose(missing, Space.of(DOMAINS["box"]), WHOLE)


def test_data_that_are_not_numbers_may_be_left_out():
    data = np.array([1.0, np.nan, 2.0])
    known = enclose(
        lambda x, z: (jnp.where(jnp.isnan(z), 0.0, z) * x).sum(), Space.of(DOMAINS["box"]), data
    )
    assert (float(known.low), float(known.high)) == pytest.approx((-3, 6))
    with pytest.raises(Unknown, match="values are not limited"):
        enclose(lambda x, z: (z * x).sum(), Space.of(DOMAINS["box"]), data)


def test_data_that_are_not_used_do_not_widen_bounds():
    bounds = enclose(lambda x, z: x.sum(), Space.of(DOMAINS["box"]), np.array([1e30]))
    assert float(bounds.high) == pytest.approx(6, abs=1e-9)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_slopes_contain_all_gradients(name):
    function, row = FUNCTIONS[name], DATA[0]
    compute = jax.jit(jax.vmap(jax.jacrev(lambda y: jnp.ravel(function(y, row)))))
    for domain in DOMAINS.values():
        bounds = enclose(function, Space.of(domain, gradients=True), row)
        if bounds.slopes is None:
            assert name in ("selection", "Huber")
            continue
        x = sample_decisions(domain, np.random.default_rng(2), 200)
        gradients, shape = np.asarray(compute(x)), (-1, x.shape[1])
        assert name == "2-norm" or np.all(np.isfinite(gradients))
        gradients = np.nan_to_num(gradients)  # of the norm at 0
        assert np.all(gradients >= bounds.slopes.low.reshape(shape) - 1e-9)
        assert np.all(gradients <= bounds.slopes.high.reshape(shape) + 1e-9)
        assert np.all(np.linalg.norm(gradients, axis=-1) <= np.ravel(bounds.steep) + 1e-9)


@pytest.mark.parametrize("edge", [-1.0, 0.0])
@pytest.mark.parametrize(
    "function",
    [
        lambda x, _: jnp.abs(x),
        lambda x, _: jnp.maximum(x, -10 * x),
        lambda x, _: jnp.max(jnp.stack([x, x[::-1], 0 * x]), axis=0),
        lambda x, _: jnp.minimum(x, 5 * x),
        lambda x, _: jax.nn.relu(x),
        lambda x, _: jnp.clip(x, 0, 1),
        lambda x, _: jnp.sort(x * jnp.array([1.0, 2.0])),
        lambda x, _: jnp.sum(jnp.abs(x))[None],
    ],
)
def test_what_jax_returns_at_a_kink_on_the_edge_is_a_slope(function, edge):
    """All decisions are on one side of the kink, where there is only one slope; JAX has others."""
    space = Space(np.full(2, edge), np.full(2, edge + 1), gradients=True)
    bounds = enclose(function, space)
    gradient = np.asarray(jax.jacrev(function)(jnp.zeros(2), None))
    assert np.all(gradient >= bounds.slopes.low)
    assert np.all(gradient <= bounds.slopes.high)
    assert np.all(np.linalg.norm(gradient, axis=-1) <= bounds.steep)


def test_a_part_of_a_domain_need_not_contain_the_centre():
    low, high = np.array([0, 0.6, 0]), np.array([0.4, 1, 1])
    space = Space(low, high, DOMAINS["simplex"], gradients=True)
    assert not space.inside
    bounds = enclose(lambda x, _: jnp.sum(x) ** 2, space)
    assert (float(bounds.low), float(bounds.high)) == pytest.approx((1, 1))
    assert np.all(enclose(lambda x, _: x, space).high <= high + 1e-9)


@pytest.mark.parametrize(
    "operation",
    [jnp.less, jnp.less_equal, jnp.greater, jnp.greater_equal, jnp.equal, jnp.not_equal],
)
def test_comparisons_are_certain_only_where_all_decisions_agree(operation):
    space = Space(np.array([0.0, 1, 1, -1, 0]), np.array([1.0, 2, 2, 1, 1]))
    other = np.array([2.0, 0, 1, 0, 1])
    bounds = enclose(lambda x, z: jnp.where(operation(x, z), 3.0, -1.0), space, other)
    x = np.linspace(space.low, space.high, 9)
    values = np.where(np.asarray(operation(x, other[None])), 3.0, -1.0)
    np.testing.assert_allclose(bounds.low, values.min(axis=0), atol=1e-9)
    np.testing.assert_allclose(bounds.high, values.max(axis=0), atol=1e-9)
