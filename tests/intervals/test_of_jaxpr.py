"""Enclosures: bounds contain what a function attains, and are attained where theory says that they
are exact."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.intervals.enclosure import Space, Unknown
from taut.intervals.of_jaxpr import enclose
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
