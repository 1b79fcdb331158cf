"""Every CVXPY atom is translated or refused; translated ones agree with CVXPY in value and (sub)gradient."""

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
from hypothesis import given, settings
from hypothesis import strategies as st

from taut.modelling.atoms import REFUSED, SUPPORTED, UnsupportedAtom
from taut.modelling.translate import translate

SHAPES = [(2, 3), (4, 2), (3, 3)]
POINTS = 8  # per example; the first SMOOTH of them are generic, the others sit on kinks and boundaries
SMOOTH = 3
NAMES = {kind.__name__ for kind in SUPPORTED}


# --- the cases: one function of freshly made variables per line, with the domain of each variable ---


@dataclass(frozen=True)
class Case:
    build: object
    domains: tuple[str, ...]


def rng_of(*seed):
    return np.random.default_rng(seed)


A23 = {shape: rng_of(*shape).normal(size=shape) for shape in SHAPES}


def matrix(x, columns=3):
    """A constant with as many rows as x has entries along its first axis."""
    return rng_of(x.shape[0], columns).normal(size=(x.shape[0], columns))


def symmetric(x):
    m = matrix(x, x.shape[0])
    return m @ m.T


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
    "matmul_left": Case(lambda x: matrix(x).T @ x, (R,)),
    "matmul_right": Case(lambda x: x @ A23[x.shape].T, (R,)),
    "matmul_sparse": Case(lambda x: sp.random_array((2, x.shape[0]), density=0.5, rng=1) @ x, (R,)),
    "matmul_vectors": Case(lambda x: np.arange(x.shape[0]) @ x @ np.ones(x.shape[1]), (R,)),
    "matmul_inner": Case(lambda x: np.arange(x.size) @ flat(x), (R,)),
    "matmul_batched": Case(lambda x: cp.reshape(x, (1, *x.shape), order="C") @ np.ones((2, x.shape[1], 2)), (R,)),
    "divide": Case(lambda x: x / (1 + np.arange(x.shape[1])), (R,)),
    "negate": Case(lambda x: -x, (R,)),
    "sum": Case(cp.sum, (R,)),
    "sum_axis": Case(lambda x: cp.sum(x, axis=0), (R,)),
    "sum_keepdims": Case(lambda x: cp.sum(x, axis=1, keepdims=True), (R,)),
    "sum_all_keepdims": Case(lambda x: cp.sum(x.T, keepdims=True), (R,)),
    "sum_scalar": Case(lambda s: cp.sum(s, axis=0), (S,)),
    "sum_two_axes": Case(lambda x: cp.sum(cp.reshape(x, (x.shape[1], 1, x.shape[0]), order="F"), axis=(0, 1)), (R,)),
    "mean": Case(lambda x: cp.mean(x, axis=0), (R,)),
    "reshape_F": Case(lambda x: cp.reshape(x, x.shape[::-1], order="F"), (R,)),
    "reshape_C": Case(lambda x: cp.reshape(x, x.shape[::-1], order="C"), (R,)),
    "reshape_3d": Case(lambda x: cp.reshape(x, (x.shape[1], 1, x.shape[0]), order="F"), (R,)),
    "vec_F": Case(lambda x: cp.vec(x, order="F"), (R,)),
    "vec_C": Case(lambda x: cp.vec(x, order="C"), (R,)),
    "transpose": Case(lambda x: x.T, (R,)),
    "permute": Case(lambda x: cp.permute_dims(cp.reshape(x, (1, *x.shape), order="F"), (2, 0, 1)), (R,)),
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
    "trace_product": Case(lambda x: cp.trace(x @ A23[x.shape].T), (R,)),
    "diag_of_matrix": Case(lambda x: cp.diag(x, k=-1), (Q,)),
    "diag_of_matrix_above": Case(lambda x: cp.diag(x, k=1), (Q,)),
    "diag_to_matrix": Case(lambda x: cp.diag(flat(x)), (R,)),
    "diag_to_matrix_above": Case(lambda x: cp.diag(flat(x), k=2), (R,)),
    "diag_to_matrix_below": Case(lambda x: cp.diag(flat(x), k=-1), (R,)),
    "cumsum": Case(lambda x: cp.cumsum(x, axis=1), (R,)),
    "cumsum_flat": Case(lambda x: cp.cumsum(x, axis=None), (R,)),
    "diff": Case(lambda x: cp.diff(x, axis=1), (R,)),
    "kron_left": Case(lambda x: cp.kron(np.array([[1.0, 2.0], [0.0, -1.0]]), x), (R,)),
    "kron_right": Case(lambda x: cp.kron(x, np.array([[1.0, 2.0]])), (R,)),
    "convolve": Case(lambda x: cp.convolve(np.array([1.0, -2.0, 0.5]), flat(x)), (R,)),
    "conv": Case(lambda x: quiet(cp.conv, np.array([[1.0], [-2.0]]), flat(x)), (R,)),
    "broadcast_to": Case(lambda x: cp.broadcast_to(x[0], (2, x.shape[1])), (R,)),
    "upper_tri": Case(cp.upper_tri, (Q,)),
    "vec_to_upper_tri": Case(lambda x: cp.vec_to_upper_tri(flat(x)[:3]), (R,)),
    "outer": Case(lambda x: cp.outer(np.ones(2), flat(x)), (R,)),
    "vdot": Case(lambda x: cp.vdot(x, A23[x.shape]), (R,)),
    "einsum": Case(lambda x: cp.einsum("ij,kj->ik", x, A23[x.shape]), (R,)),
    "real_and_imag": Case(lambda x: cp.real(x) + cp.imag(x) + cp.conj(x), (R,)),
    "partial_trace": Case(lambda x: cp.partial_trace(cp.kron(np.eye(2), x), (2, x.shape[0]), 0), (Q,)),
    "partial_transpose": Case(lambda x: cp.partial_transpose(cp.kron(np.eye(2), x), (2, x.shape[0]), 0), (Q,)),
    "wraps": Case(
        lambda x: cp.symmetric_wrap(half(x)) + cp.hermitian_wrap(half(x)) + cp.skew_symmetric_wrap(x - x.T), (Q,)
    ),
    "sign_wraps": Case(
        lambda x: cvxpy.atoms.affine.wraps.nonneg_wrap(x) + cvxpy.atoms.affine.wraps.nonpos_wrap(-x), (V,)
    ),
    "psd_wraps": Case(lambda x: cp.psd_wrap(half(x)) + cvxpy.atoms.affine.wraps.nsd_wrap(-x), (D,)),
    "plain_wrap": Case(lambda x: cvxpy.atoms.affine.wraps.Wrap(x), (R,)),
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
    "kl_div": Case(lambda x, y: cp.kl_div(x, y), (V, P)),
    "kl_div_origin": Case(lambda x: cp.kl_div(x, 2 * x), (V,)),
    "rel_entr": Case(lambda x, y: cp.rel_entr(x, y), (V, P)),
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
    "norm1": Case(lambda x: cp.norm1(x), (R,)),
    "norm1_axis": Case(lambda x: cp.norm1(x, axis=1), (R,)),
    "norm2": Case(lambda x: cp.norm2(flat(x)), (R,)),
    "norm2_axis": Case(lambda x: cp.norm(x, 2, axis=0), (R,)),
    "norm2_keepdims": Case(lambda x: cp.norm(x, 2, axis=1, keepdims=True), (R,)),
    "norm_fro": Case(lambda x: cp.norm(x, "fro"), (R,)),
    "norm_inf": Case(lambda x: cp.norm_inf(x), (R,)),
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
    "quad_over_lin": Case(lambda x, s: cp.quad_over_lin(x, s), (R, "scale")),
    "quad_over_constant": Case(lambda x: cp.quad_over_lin(x, 2.5, axis=0), (R,)),
    "quad_form": Case(lambda x: cp.quad_form(x[:, 0], symmetric(x)), (R,)),
    "quad_form_concave": Case(lambda x: cp.quad_form(x[:, :1], -symmetric(x)), (R,)),
    "quad_form_sparse": Case(lambda x: cp.quad_form(x[:, 0], sp.csc_array(symmetric(x)), assume_PSD=True), (R,)),
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
    "cummax_rows": Case(lambda x: cp.cummax(x, axis=1), (R,)),
    "geo_mean": Case(cp.geo_mean, (V,)),
    "geo_mean_weights": Case(lambda x: cp.geo_mean(x, np.arange(x.size), axis=None), (V,)),
    "geo_mean_axis": Case(lambda x: cp.geo_mean(x, np.arange(1, 1 + x.shape[1]), axis=1, keepdims=True), (V,)),
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
    "lambda_min": Case(lambda x: cp.lambda_min(half(x)), (Q,)),
    "lambda_sum_largest": Case(lambda x: cp.lambda_sum_largest(half(x), 2), (Q,)),
    "lambda_sum_largest_part": Case(lambda x: cp.lambda_sum_largest(half(x), 1.5), (Q,)),
    "lambda_sum_smallest": Case(lambda x: cp.lambda_sum_smallest(half(x), 2), (Q,)),
    "sigma_max": Case(cp.sigma_max, (R,)),
    "norm_nuc": Case(cp.normNuc, (R,)),
    "norm_nuc_square": Case(lambda x: cp.norm(x, "nuc"), (Q,)),
    "log_det": Case(lambda x: cp.log_det(half(x)), (D,)),
    "tr_inv": Case(lambda x: cp.tr_inv(half(x)), (D,)),
    "von_neumann_entr": Case(lambda x: cp.von_neumann_entr(half(x)), ("semidefinite",)),
    "matrix_frac": Case(lambda x, y: cp.matrix_frac(x[:, :2], half(y)), (Q, D)),
    "matrix_frac_vector": Case(lambda x, y: cp.matrix_frac(x[:, 0], half(y)), (Q, D)),
    "matrix_frac_array": Case(lambda x: cp.matrix_frac(x[:, 0], np.eye(x.shape[0]) + symmetric(x)), (R,)),
    "matrix_frac_constant": Case(
        lambda x: cp.matrix_frac(x, cp.Constant(np.eye(x.shape[0]) + symmetric(x))), (R,)
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
        return np.abs(raw)
    if domain in (P, "scale"):
        return np.abs(raw) + 0.25
    return raw @ raw.T + (0.5 * np.eye(shape[0]) if domain == D else 0)


@cache
def prepared(name, shape):
    """The expression of a case, its variables and its translation as a function of their flat values."""
    case = CASES[name]
    variables = []
    for domain in case.domains:
        if domain in (S, "scale"):
            variables.append(cp.Variable(nonneg=domain == "scale"))
        elif domain in (Q, D, "semidefinite"):
            variables.append(cp.Variable((shape[0], shape[0])))
        else:
            variables.append(cp.Variable(shape))
    expression = case.build(*variables)
    evaluate = translate(expression)

    def function(values):
        return evaluate({x.id: value for x, value in zip(variables, values, strict=True)}, {})

    def weighted(values, weights):
        result = function(values)
        return jnp.sum(result * weights), result

    return expression, variables, jax.vmap(jax.grad(weighted, has_aux=True), (0, None))


def cvxpy_value(expression, variables, values):
    for variable, value in zip(variables, values, strict=True):
        variable.value = value
    return np.reshape(np.asarray(expression.value, dtype=float), expression.shape)


def dot(a, b):
    return sum(float(np.sum(p * q)) for p, q in zip(a, b, strict=True))


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=6, deadline=None, derandomize=True, database=None)
@given(shape=st.sampled_from(SHAPES), seed=st.integers(0, 10**6))
def test_value_and_subgradient_agree_with_cvxpy(name, shape, seed):
    expression, variables, derivative = prepared(name, shape)
    rng = rng_of(seed)
    points = [
        [sample(d, x.shape, rng, generic=i < SMOOTH) for d, x in zip(CASES[name].domains, variables, strict=True)]
        for i in range(POINTS)
    ]
    weights = rng.uniform(0.5, 1.5, size=expression.shape)
    gradients, results = derivative([np.stack(column) for column in zip(*points, strict=True)], weights)
    assert results.shape == (POINTS, *expression.shape)
    expected = [cvxpy_value(expression, variables, point) for point in points]
    np.testing.assert_allclose(results, expected, rtol=1e-9, atol=1e-9)

    totals = [float(np.sum(value * weights)) for value in expected]
    slopes = [[np.asarray(g[i]) for g in gradients] for i in range(POINTS)]
    assert all(np.all(np.isfinite(g)) for g in gradients)

    for i in range(SMOOTH):  # central differences of CVXPY's values along a random direction
        direction, h = [rng.normal(size=x.shape) for x in variables], 1e-6
        ends = [
            np.sum(weights * cvxpy_value(expression, variables, [p + t * d for p, d in zip(points[i], direction)]))
            for t in (h, -h)
        ]
        slope = dot(slopes[i], direction)
        assert (ends[0] - ends[1]) / (2 * h) == pytest.approx(slope, rel=1e-5, abs=1e-5 * (1 + abs(totals[i])))

    assert expression.is_convex() or expression.is_concave()
    for i in range(POINTS):
        for j in range(POINTS):
            step = [q - p for p, q in zip(points[i], points[j], strict=True)]
            gap = totals[j] - totals[i] - dot(slopes[i], step)
            # 1e-6 covers the finite slopes given where no supergradient exists.
            tolerance = 1e-6 * (1 + abs(totals[i]) + abs(totals[j]))
            if expression.is_convex():
                assert gap >= -tolerance, (points[i], points[j])
            if expression.is_concave():
                assert gap <= tolerance, (points[i], points[j])
