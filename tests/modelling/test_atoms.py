"""Every CVXPY atom is translated or refused; translated ones agree with CVXPY in value and
(sub)gradient."""

import importlib
import inspect
import pkgutil
import warnings
from dataclasses import dataclass
from functools import cache

import cvxpy as cp
import cvxpy.atoms
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from cvxpy.atoms.atom import Atom
from cvxpy.expressions.leaf import Leaf
from hypothesis import given, settings, strategies as st

from cvxpy_atoms import SUPPORTED
from taut.modelling.translation.atoms import kernels
from taut.modelling.translation.atoms.table import REFUSED, UnsupportedAtom
from taut.modelling.translation.statement import FlatCopy
from taut.modelling.translation.translate import translate
from without_compiling import in_numpy

SHAPES = [(2, 3), (4, 2), (3, 3), (2, 2), (5, 2), (3, 4)]
ROUNDS = 2  # every case is translated for this many random shapes
POINTS = 8  # the first SMOOTH of them are generic, the others sit on kinks and boundaries
SMOOTH = 3


# --- the cases: one function of freshly made variables per line, with the domain of each variable
# ---


@dataclass(frozen=True)
class Case:
    build: object
    domains: tuple[str, ...]


def rng_of(*seed):
    return np.random.default_rng(seed)


def like(x):
    """A constant of the shape of x."""
    return rng_of(*x.shape).normal(size=x.shape)


def semidefinite(x):
    """A constant positive semidefinite matrix with as many rows as x."""
    root = rng_of(x.shape[0]).normal(size=(x.shape[0], x.shape[0]))
    return root @ root.T


def flat(x):
    return cp.vec(x, order="F")


def half(x):
    return (x + x.T) / 2


def quiet(function, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args)


def mask(x):
    return np.arange(x.size).reshape(x.shape) % 3 != 1


R, P, V, Q, S, D = "real", "positive", "nonneg", "square", "scalar", "definite"
CASES = {
    # affine
    "add": Case(lambda x, y: x + 2 * y - 1 + np.arange(x.shape[1]), (R, R)),
    "sub_scalar": Case(lambda x, s: x - s, (R, S)),
    "multiply": Case(lambda x: cp.multiply(np.arange(x.shape[1]) - 1.0, x), (R,)),
    "multiply_sparse": Case(lambda x: cp.multiply(sp.csr_array(np.eye(*x.shape)), x), (R,)),
    "scalar_times_matrix": Case(lambda s: s * np.array([[1.0, 2.0], [3.0, -4.0]]), (S,)),
    "matmul_left": Case(lambda x: like(x).T @ x, (R,)),
    "matmul_right": Case(lambda x: x @ like(x).T, (R,)),
    "matmul_sparse": Case(
        lambda x: sp.coo_array(np.tri(2, x.shape[0], -1) - 2 * np.eye(2, x.shape[0], 1)) @ x, (R,)
    ),
    "matmul_vectors": Case(lambda x: np.arange(x.shape[0]) @ x @ np.ones(x.shape[1]), (R,)),
    "matmul_inner": Case(lambda x: np.arange(x.size) @ flat(x), (R,)),
    "matmul_batched": Case(
        lambda x: cp.reshape(x, (1, *x.shape), order="C") @ np.ones((2, x.shape[1], 2)), (R,)
    ),
    "divide": Case(lambda x: x / (1 + np.arange(x.shape[1])), (R,)),
    "negate": Case(lambda x: -x, (R,)),
    "sum": Case(cp.sum, (R,)),
    "sum_axis": Case(lambda x: cp.sum(x, axis=0), (R,)),
    "sum_keepdims": Case(lambda x: cp.sum(x, axis=1, keepdims=True), (R,)),
    "sum_all_keepdims": Case(lambda x: cp.sum(x.T, keepdims=True), (R,)),
    "sum_scalar": Case(lambda s: cp.sum(s, axis=0), (S,)),
    "sum_two_axes": Case(
        lambda x: cp.sum(cp.reshape(x, (x.shape[1], 1, x.shape[0]), order="F"), axis=(0, 1)), (R,)
    ),
    "mean": Case(lambda x: cp.mean(x, axis=0), (R,)),
    "reshape_F": Case(lambda x: cp.reshape(x, x.shape[::-1], order="F"), (R,)),
    "reshape_C": Case(lambda x: cp.reshape(x, x.shape[::-1], order="C"), (R,)),
    "reshape_3d": Case(lambda x: cp.reshape(x, (x.shape[1], 1, x.shape[0]), order="F"), (R,)),
    "vec_F": Case(lambda x: cp.vec(x, order="F"), (R,)),
    "vec_C": Case(lambda x: cp.vec(x, order="C"), (R,)),
    "transpose": Case(lambda x: x.T, (R,)),
    "permute": Case(
        lambda x: cp.permute_dims(cp.reshape(x, (1, *x.shape), order="F"), (2, 0, 1)), (R,)
    ),
    "squeeze": Case(lambda x: cp.squeeze(x[:1]), (R,)),
    "index_entry": Case(lambda x: x[1, -1], (R,)),
    "index_row": Case(lambda x: x[-1], (R,)),
    "slice": Case(lambda x: x[1:, ::-1], (R,)),
    "slice_step": Case(lambda x: x[::2, -2:], (R,)),
    "index_list": Case(lambda x: x[[1, 0, 1]], (R,)),
    "index_column_list": Case(lambda x: x[:, [0, 1, 0, 1, 1, 0]], (R,)),
    "index_arrays": Case(lambda x: x[np.array([0, 1]), np.array([1, 0])], (R,)),
    "index_mask": Case(lambda x: x[mask(x)], (R,)),
    "index_nothing": Case(lambda x: cp.sum(x[np.zeros(x.shape, bool)]) + x[0, 0], (R,)),
    "index_ellipsis": Case(lambda x: x[..., 0, None], (R,)),
    "hstack": Case(lambda x, s: cp.hstack([flat(x), s, np.ones(2), 3]), (R, S)),
    "hstack_matrix": Case(lambda x: cp.hstack([x, np.ones((x.shape[0], 1)), 2 * x]), (R,)),
    "vstack": Case(lambda x: cp.vstack([x, np.ones(x.shape[1]), x[0]]), (R,)),
    "vstack_scalars": Case(lambda s: cp.vstack([s, 1, 2 * s]), (S,)),
    "bmat": Case(lambda x, s: cp.bmat([[x, np.ones((x.shape[0], 1))], [x[:1], s]]), (R, S)),
    "concatenate": Case(lambda x: cp.concatenate([x, 2 * x], axis=1), (R,)),
    "concatenate_flat": Case(lambda x: cp.concatenate([x, x[:1]], axis=None), (R,)),
    "stack": Case(lambda x: cp.stack([x, -x], axis=1), (R,)),
    "trace": Case(cp.trace, (Q,)),
    "trace_batched": Case(lambda x: cp.trace(cp.stack([x, -2 * x])), (Q,)),
    "trace_product": Case(lambda x: cp.trace(x @ like(x).T), (R,)),
    "diag_of_matrix": Case(lambda x: cp.diag(x, k=-1), (Q,)),
    "diag_of_matrix_above": Case(lambda x: cp.diag(x, k=1), (Q,)),
    "diag_to_matrix": Case(lambda x: cp.diag(flat(x)), (R,)),
    "diag_to_matrix_above": Case(lambda x: cp.diag(flat(x), k=2), (R,)),
    "diag_to_matrix_below": Case(lambda x: cp.diag(flat(x), k=-1), (R,)),
    "cumsum": Case(lambda x: cp.cumsum(x, axis=1), (R,)),
    "cumsum_vector": Case(lambda x: cp.cumsum(flat(x)), (R,)),
    "cumsum_flat": Case(lambda x: cp.cumsum(x, axis=None), (R,)),
    "diff": Case(lambda x: cp.diff(x, axis=1), (R,)),
    "kron_left": Case(lambda x: cp.kron(np.array([[1.0, 2.0], [0.0, -1.0]]), x), (R,)),
    "kron_right": Case(lambda x: cp.kron(x, np.array([[1.0, 2.0]])), (R,)),
    "convolve": Case(lambda x: cp.convolve(np.array([1.0, -2.0, 0.5]), flat(x)), (R,)),
    "conv": Case(lambda x: quiet(cp.conv, np.array([[1.0], [-2.0]]), flat(x)), (R,)),
    "broadcast_to": Case(lambda x: cp.broadcast_to(x[0], (2, x.shape[1])), (R,)),
    "upper_tri": Case(cp.upper_tri, (Q,)),
    "upper_tri_batched": Case(lambda x: cp.upper_tri(cp.stack([x, -2 * x])), (Q,)),
    "vec_to_upper_tri": Case(lambda x: cp.vec_to_upper_tri(flat(x)[:3]), (R,)),
    "outer": Case(lambda x: cp.outer(np.ones(2), flat(x)), (R,)),
    "vdot": Case(lambda x: cp.vdot(x, like(x)), (R,)),
    "einsum": Case(lambda x: cp.einsum("ij,kj->ik", x, like(x)), (R,)),
    "real_and_imag": Case(lambda x: cp.real(x) + cp.imag(x) + cp.conj(x), (R,)),
    "partial_trace": Case(
        lambda x: cp.partial_trace(cp.kron(np.eye(2), x), (2, x.shape[0]), 0), (Q,)
    ),
    "partial_transpose": Case(
        lambda x: cp.partial_transpose(cp.kron(np.eye(2), x), (2, x.shape[0]), 0), (Q,)
    ),
    "wraps": Case(
        lambda x: (
            cp.symmetric_wrap(half(x))
            + cp.hermitian_wrap(half(x))
            + cp.skew_symmetric_wrap(x - x.T)
        ),
        (Q,),
    ),
    "sign_wraps": Case(
        lambda x: (
            cvxpy.atoms.affine.wraps.nonneg_wrap(x) + cvxpy.atoms.affine.wraps.nonpos_wrap(-x)
        ),
        (V,),
    ),
    "psd_wraps": Case(lambda x: cp.psd_wrap(half(x)) + cvxpy.atoms.affine.wraps.nsd_wrap(-x), (D,)),
    "plain_wrap": Case(cvxpy.atoms.affine.wraps.Wrap, (R,)),
    # elementwise
    "abs": Case(cp.abs, (R,)),
    "pos": Case(cp.pos, (R,)),
    "neg": Case(cp.neg, (R,)),
    "scalene": Case(lambda x: cp.scalene(x, 2, 3), (R,)),
    "maximum": Case(lambda x, y: cp.maximum(x, y, 0.5 * x - 0.5), (R, R)),
    "minimum": Case(lambda x, y: cp.minimum(x, y, 1), (R, R)),
    "square": Case(cp.square, (R,)),
    "power_0": Case(lambda x: cp.power(x, 0), (R,)),
    "power_1": Case(lambda x: cp.power(x, 1), (R,)),
    "power_3": Case(lambda x: cp.power(x, 3), (V,)),
    "power_4": Case(lambda x: cp.power(x, 4), (R,)),
    "power_1.5": Case(lambda x: cp.power(x, 1.5), (V,)),
    "power_0.3": Case(lambda x: cp.power(x, 0.3), (V,)),
    "power_exact": Case(lambda x: cp.power(x, 2.7, approx=False), (V,)),
    "power_-1.5": Case(lambda x: cp.power(x, -1.5), (P,)),
    "power_of_constant": Case(lambda x: cp.power(2, x), (R,)),
    "sqrt": Case(cp.sqrt, (V,)),
    "sqrt_of_sums": Case(lambda x: cp.sqrt(np.array([[1.0, 0.0], [0.0, 1.0]]) @ x[:2]), (V,)),
    "inv_pos": Case(cp.inv_pos, (P,)),
    "exp": Case(cp.exp, (R,)),
    "log": Case(cp.log, (P,)),
    "log1p": Case(cp.log1p, (V,)),
    "entr": Case(cp.entr, (V,)),
    "kl_div": Case(cp.kl_div, (V, P)),
    "kl_div_origin": Case(lambda x: cp.kl_div(x, 2 * x), (V,)),
    "rel_entr": Case(cp.rel_entr, (V, P)),
    "rel_entr_scalar": Case(lambda x: cp.rel_entr(1.5, x), (P,)),
    "logistic": Case(lambda x: cp.logistic(30 * x), (R,)),
    "huber": Case(cp.huber, (R,)),
    "huber_half": Case(lambda x: cp.huber(x, 0.5), (R,)),
    "xexp": Case(cp.xexp, (V,)),
    "loggamma": Case(cp.loggamma, (P,)),
    "log_normcdf": Case(cp.log_normcdf, (R,)),
    # reductions
    "max": Case(cp.max, (R,)),
    "max_axis": Case(lambda x: cp.max(x, axis=0, keepdims=True), (R,)),
    "min": Case(cp.min, (R,)),
    "min_axis": Case(lambda x: cp.min(x, axis=1), (R,)),
    "ptp": Case(lambda x: cp.ptp(x, axis=0), (R,)),
    "norm1": Case(cp.norm1, (R,)),
    "norm1_axis": Case(lambda x: cp.norm1(x, axis=1), (R,)),
    "norm2": Case(lambda x: cp.norm2(flat(x)), (R,)),
    "norm2_axis": Case(lambda x: cp.norm(x, 2, axis=0), (R,)),
    "norm2_keepdims": Case(lambda x: cp.norm(x, 2, axis=1, keepdims=True), (R,)),
    "norm_fro": Case(lambda x: cp.norm(x, "fro"), (R,)),
    "norm_inf": Case(cp.norm_inf, (R,)),
    "norm_inf_axis": Case(lambda x: cp.norm_inf(x, axis=0), (R,)),
    "norm_scalar": Case(lambda s: cp.norm(s, 2), (S,)),
    "matrix_norm_1": Case(lambda x: cp.norm(x, 1), (R,)),
    "pnorm_3": Case(lambda x: cp.pnorm(x, 3), (R,)),
    "pnorm_1.3": Case(lambda x: cp.pnorm(x, 1.3), (R,)),
    "pnorm_exact": Case(lambda x: cp.pnorm(x, 2.3, approx=False), (R,)),
    "pnorm_0.5": Case(lambda x: cp.pnorm(x, 0.5), (V,)),
    "pnorm_-2": Case(lambda x: cp.pnorm(x, -2), (V,)),
    "harmonic_mean": Case(cp.harmonic_mean, (V,)),
    "mixed_norm": Case(lambda x: cp.mixed_norm(x, 2, 1), (R,)),
    "mixed_norm_inf": Case(lambda x: cp.mixed_norm(x, "inf", 1), (R,)),
    "sum_squares": Case(cp.sum_squares, (R,)),
    "sum_squares_axis": Case(lambda x: cp.sum_squares(x, axis=1), (R,)),
    "quad_over_lin": Case(cp.quad_over_lin, (R, "scale")),
    "quad_over_constant": Case(lambda x: cp.quad_over_lin(x, 2.5, axis=0), (R,)),
    "quad_form": Case(lambda x: cp.quad_form(x[:, 0], semidefinite(x)), (R,)),
    "quad_form_concave": Case(lambda x: cp.quad_form(x[:, :1], -semidefinite(x)), (R,)),
    "quad_form_sparse": Case(
        lambda x: cp.quad_form(x[:, 0], sp.csc_array(semidefinite(x)), assume_PSD=True), (R,)
    ),
    "var": Case(cp.var, (R,)),
    "std": Case(lambda x: cp.std(x, axis=0), (R,)),
    "log_sum_exp": Case(cp.log_sum_exp, (R,)),
    "log_sum_exp_axis": Case(lambda x: cp.log_sum_exp(200 * x, axis=1, keepdims=True), (R,)),
    "sum_largest": Case(lambda x: cp.sum_largest(x, 3), (R,)),
    "sum_largest_one": Case(lambda x: cp.sum_largest(x, 1, axis=0), (R,)),
    "sum_largest_part": Case(lambda x: cp.sum_largest(x, 1.5, axis=1, keepdims=True), (R,)),
    "sum_largest_all": Case(lambda x: cp.sum_largest(x, 50), (R,)),
    "sum_smallest": Case(lambda x: cp.sum_smallest(x, 2), (R,)),
    "cvar": Case(lambda x: cp.cvar(flat(x), 0.7), (R,)),
    "dotsort": Case(lambda x: cp.dotsort(x, np.array([3.0, -1.0, 2.0])), (R,)),
    "cummax": Case(lambda x: cp.cummax(x, axis=0), (R,)),
    "cummax_vector": Case(lambda x: cp.cummax(flat(x)), (R,)),
    "cummax_flat": Case(lambda x: cp.cummax(flat(x), axis=None), (R,)),
    "cummax_rows": Case(lambda x: cp.cummax(x, axis=1), (R,)),
    "geo_mean": Case(cp.geo_mean, (V,)),
    "geo_mean_weights": Case(lambda x: cp.geo_mean(x, np.arange(x.size), axis=None), (V,)),
    "geo_mean_axis": Case(
        lambda x: cp.geo_mean(x, np.arange(1, 1 + x.shape[1]), axis=1, keepdims=True), (V,)
    ),
    "geo_mean_exact": Case(lambda x: cp.geo_mean(x, approx=False, axis=0), (V,)),
    "geo_mean_single": Case(lambda x: cp.geo_mean(flat(x)[:3], [0, 1, 0]), (R,)),
    "tv": Case(lambda x: cp.tv(flat(x)), (R,)),
    "tv_matrix": Case(cp.tv, (R,)),
    "perspective": Case(
        lambda x, s: cp.perspective(cp.sum_squares(x) + cp.norm1(x), s), (R, "scale")
    ),
    "perspective_concave": Case(lambda x, s: cp.perspective(cp.sum(cp.log(x)), s), (P, "scale")),
    # matrices
    "lambda_max": Case(lambda x: cp.lambda_max(half(x)), (Q,)),
    "lambda_max_batched": Case(lambda x: cp.lambda_max(cp.stack([half(x), -2 * half(x)])), (Q,)),
    "lambda_min": Case(lambda x: cp.lambda_min(half(x)), (Q,)),
    "lambda_sum_largest": Case(lambda x: cp.lambda_sum_largest(half(x), 2), (Q,)),
    "lambda_sum_largest_part": Case(lambda x: cp.lambda_sum_largest(half(x), 1.5), (Q,)),
    "lambda_sum_smallest": Case(lambda x: cp.lambda_sum_smallest(half(x), 2), (Q,)),
    "sigma_max": Case(cp.sigma_max, (R,)),
    "norm_nuc": Case(cp.normNuc, (R,)),
    "norm_nuc_square": Case(lambda x: cp.norm(x, "nuc"), (Q,)),
    "log_det": Case(lambda x: cp.log_det(half(x)), (D,)),
    "tr_inv": Case(lambda x: cp.tr_inv(half(x)), (D,)),
    "von_neumann_entr": Case(
        lambda x: cp.von_neumann_entr(cp.symmetric_wrap(half(x))), ("semidefinite",)
    ),
    "matrix_frac": Case(lambda x, y: cp.matrix_frac(x[:, :2], half(y)), (Q, D)),
    "matrix_frac_vector": Case(lambda x, y: cp.matrix_frac(x[:, 0], half(y)), (Q, D)),
    "matrix_frac_array": Case(
        lambda x: cp.matrix_frac(x[:, 0], np.eye(x.shape[0]) + semidefinite(x)), (R,)
    ),
    "matrix_frac_constant": Case(
        lambda x: cp.matrix_frac(x, cp.Constant(np.eye(x.shape[0]) + semidefinite(x))), (R,)
    ),
}


# --- points: generic ones, and a coarse grid that is full of zeros, ties and boundary points ---


def sample(domain, shape, rng, generic):
    """One value of a variable: `generic`, or on the half-integer grid where kinks live."""
    raw = rng.normal(size=shape) if generic else rng.integers(-2, 3, size=shape) / 2
    if not generic and rng.random() < 0.25:
        raw = np.zeros(shape)
    if domain in (R, Q, S):
        return raw
    if domain == V:
        return np.abs(raw) + 0.05 * generic
    if domain in (P, "scale"):
        return np.abs(raw) + 0.25
    if (
        domain == "semidefinite" and not generic
    ):  # singular, yet with eigenvalues that round to no negative number
        return np.diag(np.abs(raw[0]))
    return raw @ raw.T + (0.5 * np.eye(shape[0]) if domain == D else 0)


def variable(domain, shape):
    if domain in (S, "scale"):
        shape = ()
    elif domain in (Q, D, "semidefinite"):
        shape = (shape[0], shape[0])
    return cp.Variable(shape, nonneg=domain in (V, "scale"))


class Built:
    """A case for one shape: CVXPY's expression, and the translation's gradient and values at many
    points."""

    def __init__(self, case, shape):
        self.case = case
        self.variables = [variable(domain, shape) for domain in case.domains]
        self.expression = case.build(*self.variables)
        evaluate = translate(self.expression)

        def weighted(values, weights):
            result = evaluate({x.id: v for x, v in zip(self.variables, values, strict=True)}, {})
            return jnp.sum(result * weights), result

        self.derivative = in_numpy(jax.vmap(jax.grad(weighted, has_aux=True), (0, None)))

    def points(self, rng):
        """Arrays with leading axis POINTS, one per variable."""
        pairs = list(zip(self.case.domains, self.variables, strict=True))
        rows = [[sample(d, x.shape, rng, i < SMOOTH) for d, x in pairs] for i in range(POINTS)]
        return [np.stack(column) for column in zip(*rows, strict=True)]

    def value(self, values):
        """CVXPY's value of the expression."""
        for x, value in zip(self.variables, values, strict=True):
            x.value = value
        value = self.expression.value
        value = value.toarray() if sp.issparse(value) else value
        return np.reshape(np.asarray(value, dtype=float), self.expression.shape)


@cache
def built(name, which):
    """A case for one of its random shapes."""
    shapes = rng_of(*name.encode()).permutation(len(SHAPES))
    return Built(CASES[name], SHAPES[shapes[which]])


def dot(a, b):
    return sum(float(np.sum(p * q)) for p, q in zip(a, b, strict=True))


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=6, deadline=None, derandomize=True, database=None)
@given(which=st.integers(0, ROUNDS - 1), seed=st.integers(0, 9))
def test_value_and_subgradient_agree_with_cvxpy(name, which, seed):
    case, rng = built(name, which), rng_of(seed, *name.encode())
    columns, weights = case.points(rng), rng.uniform(0.5, 1.5, size=case.expression.shape)
    gradients, values = case.derivative(columns, weights)
    points, slopes = (
        [list(row) for row in zip(*arrays, strict=True)] for arrays in (columns, gradients)
    )
    expected = np.array([case.value(point) for point in points])
    assert values.shape == expected.shape
    np.testing.assert_allclose(values, expected, rtol=1e-9, atol=1e-9)
    assert all(np.all(np.isfinite(gradient)) for gradient in gradients)
    totals = [float(np.sum(value * weights)) for value in expected]

    rng, h = rng_of(seed), 1e-6
    for point, slope, total in list(zip(points, slopes, totals, strict=True))[:SMOOTH]:
        direction = [rng.normal(size=x.shape) for x in case.variables]
        up, down = (
            float(
                np.sum(
                    weights * case.value([p + t * d for p, d in zip(point, direction, strict=True)])
                )
            )
            for t in (h, -h)
        )
        assert (up - down) / (2 * h) == pytest.approx(
            dot(slope, direction), rel=1e-5, abs=1e-5 * (1 + abs(total))
        )

    convex, concave = case.expression.is_convex(), case.expression.is_concave()
    assert convex or concave
    for i in range(POINTS):
        for j in range(POINTS):
            step = [q - p for p, q in zip(points[i], points[j], strict=True)]
            gap = totals[j] - totals[i] - dot(slopes[i], step)
            # The tolerance covers the finite slopes that are given where no supergradient exists.
            tolerance = 1e-6 * (1 + abs(totals[i]) + abs(totals[j]))
            assert not convex or gap >= -tolerance, (points[i], points[j])
            assert not concave or gap <= tolerance, (points[i], points[j])


# --- every atom that CVXPY exports is supported or refused ---


def nodes(expression):
    """The expression and all its parts, constants excepted."""
    yield expression
    if isinstance(expression, Atom):
        for part in expression.args:
            yield from nodes(part)


def descendants(kind):
    for child in kind.__subclasses__():
        if child.__module__.startswith("cvxpy."):
            yield child
            yield from descendants(child)


def exported_classes():
    """Concrete expression classes of CVXPY that are not leaves."""
    for package in (cvxpy.atoms, cvxpy.transforms):
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            importlib.import_module(module.name)
    every = set(descendants(cp.Expression)) - set(descendants(Leaf)) - {Leaf}
    return sorted(
        (kind for kind in every if not inspect.isabstract(kind)), key=lambda kind: kind.__name__
    )


def exported_functions():
    """Functions among CVXPY's atoms that build expressions from classes."""
    found = {}
    for space in (cvxpy.atoms, cp.nlp, cp.logic):
        found |= {
            n: f
            for n, f in vars(space).items()
            if inspect.isfunction(f) and f.__module__.startswith("cvxpy.")
        }
    return found


def calls():
    """Arguments to try, in turn, on a function of unknown signature."""
    x, y, m, n, s = (
        cp.Variable(3),
        cp.Variable(3),
        cp.Variable((4, 4)),
        cp.Variable((4, 4)),
        cp.Variable(pos=True),
    )
    b, c = cp.Variable(boolean=True), cp.Variable(boolean=True)
    rho, positive = cp.Variable((4, 4), PSD=True), cp.Variable(3, pos=True)
    singles = [x, m, s, rho, positive]
    yield from [(e,) for e in singles]
    yield from [(e, np.ones(e.shape)) for e in (x, m)]
    yield from [(e, 2) for e in singles]
    yield from [(e, 0.5) for e in singles]
    yield from [
        (x, y),
        (m, n),
        ([x, y],),
        ([[x, y]],),
        ([m, n],),
        (positive, s),
        (s, positive[0]),
        (b,),
        (b, c),
    ]
    yield from [(np.ones(2), x), (m, (2, 2)), (rho, (2, 2)), (m, (1, 0)), (m, 0, 1), (x, 2, 3)]
    yield from [("ij,jk->ik", m, np.ones((4, 2))), (x, np.eye(3)), (m, np.eye(4))]


def first_success(function):
    for arguments in calls():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                built = function(*arguments)
            except Exception:  # CVXPY's own refusals of unfitting arguments are of all kinds
                continue
        if isinstance(built, cp.Expression):
            return built
    return None


def test_every_exported_class_is_either_supported_or_refused():
    names = {kind.__name__ for kind in SUPPORTED}
    classes = {kind.__name__ for kind in exported_classes()}
    assert len(classes) > 80
    assert classes - names - set(REFUSED) == set()
    assert names & set(REFUSED) == set()
    assert set(REFUSED) - classes == set(), "refused names that CVXPY does not have"


@pytest.mark.parametrize("name", exported_functions())
def test_every_exported_function_builds_supported_or_refused_atoms(name):
    built = first_success(exported_functions()[name])
    assert built is not None, f"add arguments for {name} to calls()"
    kinds = {type(node) for node in nodes(built) if isinstance(node, Atom)}
    assert all(kind in SUPPORTED or kind.__name__ in REFUSED for kind in kinds)
    if kinds <= set(SUPPORTED):
        translate(built)
    else:
        with pytest.raises(UnsupportedAtom):
            translate(built)


@pytest.mark.parametrize("name", [*exported_functions(), *REFUSED])
def test_every_atom_is_refused_by_name_or_copied(name):
    functions = exported_functions()
    built = first_success(functions[name]) if name in functions else refused_example(name)
    kinds = {type(node) for node in nodes(built) if isinstance(node, Atom)}
    flat = FlatCopy(built.variables(), built.parameters(), {})
    if kinds <= set(SUPPORTED) and name not in REFUSED:
        copied = flat.of(built)
        assert copied.shape == built.shape
        assert {v.id for v in copied.variables()} & {v.id for v in built.variables()} == set()
    else:
        with pytest.raises(UnsupportedAtom, match=f"got ({'|'.join(REFUSED)}) in"):
            translate(built)


def test_every_supported_class_is_in_the_property_tests():
    tested = {type(node) for name in CASES for node in nodes(built(name, 0).expression)}
    assert {kind.__name__ for kind in set(SUPPORTED) - tested} == set()


# --- what is refused, and how ---


def refused_example(name):
    x = cp.Variable(2)
    classes = {kind.__name__: kind for kind in exported_classes()}
    special = {
        "SuppFuncAtom": lambda: cp.suppfunc(x, [cp.norm(x) <= 1])(cp.Variable(2)),
        "indicator": lambda: cp.transforms.indicator([x >= 0]),
        "PartialProblem": lambda: cvxpy.transforms.partial_optimize.partial_optimize(
            cp.Problem(cp.Minimize(cp.sum(x)), [x >= 0]), dont_opt_vars=[x]
        ),
        "SymbolicQuadForm": lambda: classes["SymbolicQuadForm"](
            x, cp.Constant(np.eye(2)), cp.sum_squares(x)
        ),
        "dist_ratio": lambda: cp.dist_ratio(x, np.zeros(2), np.ones(2)),
        "gmatmul": lambda: cp.gmatmul(np.eye(2), cp.Variable((2, 2), pos=True)),
    }
    return special[name]() if name in special else first_success(classes[name])


@pytest.mark.parametrize("name", REFUSED)
def test_refused_atoms_are_named_with_a_reason_and_the_alternatives(name):
    expression = refused_example(name)
    assert type(expression).__name__ == name
    with pytest.raises(ValueError, match=f"got {name} in ") as caught:
        translate(expression)
    assert isinstance(caught.value, UnsupportedAtom)
    assert caught.value.expression is expression
    message = str(caught.value)
    assert REFUSED[name] in message
    assert len(message) < 400


def test_the_offending_part_of_a_larger_expression_is_shown():
    x = cp.Variable(3, name="x")
    with pytest.raises(UnsupportedAtom, match=r"got ceil in ceil\(x\);"):
        translate(cp.sum(cp.abs(cp.ceil(x))) + 1)


class Doubled(cp.abs):
    def numeric(self, values):
        return 2 * super().numeric(values)


def test_an_unknown_subclass_of_a_supported_atom_is_refused():
    with pytest.raises(UnsupportedAtom, match="taut does not know it"):
        translate(Doubled(cp.Variable(2)))


@pytest.mark.parametrize(
    ("build", "what"),
    [
        (lambda: cp.real(np.array([1j, 1]) @ cp.Variable(2)), "complex constant"),
        (lambda: cp.power(cp.Parameter(nonneg=True), cp.Parameter()), "PowerApprox"),
    ],
)
def test_numbers_that_are_not_real_and_exponents_that_change_are_refused(build, what):
    with pytest.raises(UnsupportedAtom, match=f"got {what} in "):
        translate(build())


def test_values_that_are_missing_or_do_not_fit_are_named():
    x, p = cp.Variable(2, name="x"), cp.Parameter(2, name="p")
    evaluate = translate(p @ x)
    with pytest.raises(ValueError, match="p: got no value"):
        evaluate({x.id: jnp.ones(2)}, {})
    with pytest.raises(ValueError, match=r"x: got shape \(3,\); expected an array of shape \(2,\)"):
        evaluate({x.id: jnp.ones(3)}, {p.id: jnp.ones(2)})


# --- parameters, constants and the shape of the compiled program ---


def as_function(expression, *leaves):
    """The translation with one positional argument per leaf."""
    evaluate = translate(expression)

    def function(*values):
        given = {leaf.id: value for leaf, value in zip(leaves, values, strict=True)}
        return evaluate(given, given)

    return function


def test_parameters_are_arguments_in_every_place_they_may_stand():
    x, s = cp.Variable(2), cp.Variable(nonneg=True)
    scale, width = cp.Parameter(nonneg=True), cp.Parameter(nonneg=True)
    m, w = cp.Parameter((2, 2), PSD=True), cp.Parameter(2)
    leaves = (x, s, scale, width, m, w)
    expression = (
        cp.quad_form(x, m)
        + cp.sum(cp.huber(x, width))
        + cp.dotsort(x, w)
        + cp.matrix_frac(x, m)
        + cp.quad_over_lin(x, scale)
        + cp.perspective(cp.sum(cp.multiply(w, cp.exp(x))), s)
        + cp.sum(x / scale)
        + cp.norm1(cp.convolve(w, x))
        + cp.sum(cp.kron(m, cp.reshape(x, (1, 2), order="F")))
    )
    function = in_numpy(jax.vmap(as_function(expression, *leaves)))
    rng = rng_of(5)
    root = rng.normal(size=(4, 2, 2))
    values = [
        rng.normal(size=(4, 2)),
        rng.uniform(0.5, 2, 4),
        rng.uniform(1, 2, 4),
        rng.uniform(0, 1, 4),
        root @ root.transpose(0, 2, 1) + np.eye(2),
        rng.normal(size=(4, 2)),
    ]
    got = function(*values)
    for row, result in zip(zip(*values, strict=True), got, strict=True):
        for leaf, value in zip(leaves, row, strict=True):
            leaf.value = value
        np.testing.assert_allclose(result, np.squeeze(expression.value), rtol=1e-10)


def primitives(function, *arguments):
    """Names of the operations of a function, inner functions included."""
    names = []

    def walk(jaxpr):
        for equation in jaxpr.eqns:
            inner = [p for p in jax.tree.leaves(equation.params, is_leaf=is_jaxpr) if is_jaxpr(p)]
            names.extend([] if inner else [equation.primitive.name])
            for part in inner:
                walk(getattr(part, "jaxpr", part))

    def is_jaxpr(value):
        return hasattr(value, "eqns") or hasattr(value, "jaxpr")

    walk(jax.make_jaxpr(function)(*arguments).jaxpr)
    return names


def test_constants_are_folded_and_shared_parts_computed_once():
    x = cp.Variable(3)
    weight = cp.exp(cp.Constant([1.0, 2.0, 3.0])) @ np.ones((3, 3))
    shared = cp.exp(x)
    names = primitives(as_function(weight @ shared + cp.sum(shared), x), np.ones(3))
    assert names.count("exp") == 1
    assert names.count("dot_general") == 1


@pytest.mark.parametrize(
    "build",
    [
        lambda x, m: cp.reshape(x, (6, 1), order="F"),
        lambda x, m: cp.vec(cp.reshape(x, (1, 6), order="F"), order="F"),
        lambda x, m: (
            cp.norm(m, "fro") + cp.sum_squares(m.T) + cp.max(cp.vec(m, order="F")) + cp.sum(m.T)
        ),
        lambda x, m: cp.trace(m[:, :2]) + cp.sum(cp.diag(x)) + cp.sum(cp.diag(m[:, 1:])),
        lambda x, m: x[[0, 1, 2]] + x[3:] + x[np.arange(6) % 2 == 0],
    ],
)
def test_no_entry_is_moved_without_need(build):
    x, m = cp.Variable(6), cp.Variable((2, 3))
    function = as_function(build(x, m), x, m)
    moved = {"transpose", "gather", "scatter", "scatter-add", "scatter_add"}
    assert (
        moved & set(primitives(lambda *v: jax.vjp(function, *v)[0], np.ones(6), np.ones((2, 3))))
        == set()
    )


def test_the_work_is_that_of_the_same_problem_by_hand():
    rng, n = rng_of(3), 10
    x, z = cp.Variable((n, n)), cp.Parameter((n, n))
    a, b, q = rng.normal(size=(n, n)), rng.normal(size=(n, n)), rng.normal(size=(7, n * n))
    rows = [cp.sum(x, axis=0) - 1, -cp.sum(x, axis=1), q @ cp.vec(x, order="C")]
    cost = cp.sum(0.5 * cp.multiply(a, cp.square(x)) + cp.multiply(b, x)) + 3 * cp.square(
        cp.sum(x) - 1
    )
    expression = cost + 0.5 * cp.sum_squares(x - z) + cp.max(cp.hstack(rows))

    def by_hand(x, z):
        rows = jnp.concatenate([jnp.sum(x, 0) - 1, -jnp.sum(x, 1), q @ jnp.reshape(x, (-1,))])
        cost = jnp.sum(0.5 * (a * x**2) + b * x) + 3 * (jnp.sum(x) - 1) ** 2
        # Not jnp.max, whose gradient is infinite where the compiler computes the rows twice with
        # other rounding.
        return cost + 0.5 * jnp.sum((x - z) ** 2) + kernels.largest(rows, (0,))

    point = rng.normal(size=(2, n, n))
    costs, results = [], []
    for function in (as_function(expression, x, z), by_hand):
        program = jax.jit(jax.value_and_grad(function)).lower(*point).compile()
        costs.append(program.cost_analysis())
        results.append(program(*point))
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-12, atol=1e-12)
    assert costs[0]["flops"] <= 1.02 * costs[1]["flops"]
    assert costs[0]["bytes accessed"] <= 1.02 * costs[1]["bytes accessed"]


def test_a_quadratic_form_needs_one_matrix_product_for_value_and_gradient():
    x = cp.Variable(9)
    function = as_function(cp.quad_form(x, np.diag(np.arange(9.0))), x)
    assert primitives(jax.value_and_grad(function), np.ones(9)).count("dot_general") == 1


def test_the_float_type_follows_the_values():
    x, p = cp.Variable(2), cp.Parameter()
    parts = [
        cp.sqrt(x),
        p * cp.norm(x),
        cp.geo_mean(x),
        cp.pnorm(x, 0.5),
        cp.entr(x),
        cp.sum_largest(x, 1.5),
        cp.log1p(x),
    ]
    function = as_function(cp.sum(cp.hstack(parts)) + 0.1 + np.ones(2) @ x, x, p)
    value, gradient = jax.jit(jax.value_and_grad(function))(
        np.zeros(2, np.float32), np.float32(1.5)
    )
    assert value.dtype == gradient.dtype == np.float32
    assert np.all(np.isfinite(gradient))
    assert jax.eval_shape(function, np.zeros(2), 1).dtype == np.float64


def test_second_derivatives_are_those_of_the_function():
    x = cp.Variable(3)
    point = np.array([0.3, -2.0, 0.9])
    size = np.linalg.norm(point)
    cases = {
        cp.sum(cp.huber(x)): np.diag([2.0, 0.0, 2.0]),
        cp.quad_form(x, np.diag([1.0, 2.0, 3.0])): np.diag([2.0, 4.0, 6.0]),
        cp.norm(x): np.eye(3) / size - np.outer(point, point) / size**3,
        cp.sum(cp.power(cp.pos(x), 1.5)): np.diag([0.75 / 0.3**0.5, 0.0, 0.75 / 0.9**0.5]),
        cp.sum(cp.maximum(cp.square(x), 1)): np.diag([0.0, 2.0, 0.0]),
        cp.lambda_max(cp.diag(x) + np.ones((3, 3))): None,
    }
    functions = [as_function(expression, x) for expression in cases]
    found = in_numpy(lambda v: [jax.hessian(function)(v) for function in functions])(point)
    for hessian, expected in zip(found, cases.values(), strict=True):
        if (
            expected is None
        ):  # of an eigenvalue: symmetric, positive semidefinite, flat along the identity
            assert np.linalg.eigvalsh(hessian)[0] > -1e-12
            np.testing.assert_allclose(hessian @ np.ones(3), 0, atol=1e-12)
        else:
            np.testing.assert_allclose(hessian, expected, rtol=1e-10, atol=1e-12)


def test_on_the_boundary_where_cvxpy_has_no_value_the_limit_is_taken():
    x, s, m = cp.Variable(2), cp.Variable(nonneg=True), cp.Variable((2, 2))
    fraction = as_function(cp.quad_over_lin(x, s), x, s)
    plain = as_function(cp.perspective(cp.sum_squares(x), s), x, s)
    slanted = cp.norm1(x) + cp.sum(x)
    recession = as_function(cp.perspective(slanted, s, slanted), x, s)
    divergence = as_function(cp.rel_entr(x[0], x[1]), x)

    @jax.jit
    def limits(zero, one, mixed, indefinite):
        return (
            [fraction(zero, 0.0), *jax.grad(fraction, (0, 1))(zero, 0.0)],
            [fraction(one, 0.0), plain(one, 0.0), recession(mixed, 0.0)],
            jax.grad(divergence)(zero),
            [as_function(cp.log_det(m), m)(indefinite), as_function(cp.tr_inv(m), m)(indefinite)],
        )

    at_zero, elsewhere, slope, outside = limits(
        np.zeros(2), np.ones(2), np.array([1.0, -2.0]), np.diag([1.0, -1.0])
    )
    assert all(np.all(value == 0) for value in at_zero)
    assert elsewhere == [np.inf, np.inf, 2]
    np.testing.assert_array_equal(slope, [1, -1])
    assert outside == [-np.inf, np.inf]
