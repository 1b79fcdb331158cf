"""Models that are refused, and the reason that is given."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from cvxpy.transforms.partial_optimize import partial_optimize

import taut

pytestmark = pytest.mark.usefixtures("compile_quickly")


def refusals():
    x = cp.Variable(2, name="x")
    ball = [cp.norm(x) <= 1]
    return {
        "concave": (
            lambda: (-cp.sum_squares(x), ball),
            r"(?s)loss: .*You are trying to minimize a function that is concave",
        ),
        "not DCP": (
            lambda: (cp.sqrt(cp.sum_squares(x)), ball),
            r"loss: .*subexpressions are not:\n.*quad_over_lin\(x",
        ),
        "wrong way": (
            lambda: (cp.sum(x), [cp.norm(x) >= 1]),
            r"(?s)constraints: .*1.0 <= Pnorm\w*\(x, 2\)",
        ),
        "curved equality": (
            lambda: (cp.sum(x), [cp.norm(x) == 1]),
            r"(?s)constraints: .*Pnorm\w*\(x, 2\) == 1.0",
        ),
        "unbounded": (
            lambda: (cp.sum(x), [x[0] == 2 * x[1], x[1] >= 0]),
            r"a ray in the direction \+1 x\[0\] \+0.5 x\[1\];",
        ),
        "unbounded but for data": (
            lambda: (cp.sum(x), [x >= 0, cp.sum(x) <= cp.Parameter(name="p", bounds=[0, 1])]),
            r"a ray in the direction .*expected a bounded one, bounds=.* \(constraints with data of the round do not count",
        ),
        "sign in bounds": (
            lambda: (-cp.Parameter(2, name="p", bounds=[1, 2]) @ cp.log(x), [x >= 1, x <= 2]),
            "(?s)loss: .*add nonneg=True to parameter p",
        ),
        "fraction of any matrix": (
            lambda: (cp.matrix_frac(x, cp.Parameter((2, 2), name="p", symmetric=True)), ball),
            "parameter p: got admissible data that are not positive semidefinite",
        ),
        "unbounded along a curve": (
            lambda: (cp.sum(x), [cp.square(x[0]) <= x[1]]),
            r"a ray in the direction \+1 x\[1\];",
        ),
        "empty": (lambda: (cp.sum(x), [x >= 1, x <= 0]), "constraints: got no feasible decision"),
        "no choice": (
            lambda: (cp.sum(x), [x == 1]),
            r"constraints: got only one feasible decision, \[1.0, 1.0\]",
        ),
        "whole numbers": (
            lambda: (cp.sum(cp.Variable(2, integer=True, name="k")), []),
            "variable k: got integer=True",
        ),
        "complex": (
            lambda: (cp.real(cp.sum(cp.Variable(2, complex=True, name="k"))), []),
            "variable k: got complex=True",
        ),
        "complex data": (
            lambda: (cp.sum(x) + cp.real(cp.Parameter(imag=True, name="j")), ball),
            "parameter j: got a parameter that may be complex; expected real data",
        ),
        "complex loss": (lambda: (1j * cp.sum(x), ball), "loss: got the complex expression"),
        "cone": (
            lambda: (cp.sum(x), [cp.FiniteSet(x, [1, 2])]),
            "got FiniteSet in .* expected <=, >=, ==",
        ),
        "vector": (lambda: (x, ball), r"loss: got an expression of shape \(2,\)"),
        "no variable": (lambda: (cp.Constant(1.0), []), "got no CVXPY variable"),
        "names": (
            lambda: (cp.sum(x) + cp.Variable(name="x"), ball),
            "variables: got two with the name 'x'",
        ),
        "quasiconvex": (lambda: (cp.length(x), ball), "loss: "),
    }


@pytest.mark.parametrize("name", refusals())
def test_what_is_refused_says_why(name):
    make, message = refusals()[name]
    with pytest.raises(ValueError, match=message):
        taut.from_cvxpy(*make())


@pytest.mark.parametrize("loss", [lambda x: x, 3.0, "x"])
def test_what_is_no_expression_is_refused(loss):
    with pytest.raises(TypeError, match="loss: got"):
        taut.from_cvxpy(loss)
    x = cp.Variable(name="x")
    with pytest.raises(TypeError, match="constraints: got"):
        taut.from_cvxpy(cp.square(x), [loss])
    with pytest.raises((TypeError, ValueError), match="domain: got"):
        taut.from_cvxpy(cp.square(x), [x <= 1, x >= 0], domain=loss)


def test_unsupported_atoms_are_refused_by_name():
    x = cp.Variable((2, 2), name="x", PSD=True)
    with pytest.raises(ValueError, match="got quantum_rel_entr"):
        taut.from_cvxpy(
            cp.quantum_rel_entr(x, np.eye(2)), [cp.trace(x) == 1], taut.Ball(1.0, shape=(2, 2))
        )


def test_atoms_without_a_closed_form_are_refused_before_anything_is_solved():
    x, z = cp.Variable(2, name="x"), cp.Variable(name="z")
    inner = cp.Problem(cp.Minimize(z), [z >= x[0], z >= -x[0]])
    for part, message in (
        (
            cp.transforms.indicator([cp.norm(x) <= 1]),
            "got indicator in .* pass the set as constraints",
        ),
        (
            partial_optimize(inner, opt_vars=[z], dont_opt_vars=[x]),
            "got PartialProblem in .* variables and constraints",
        ),
        (cp.suppfunc(z, [cp.abs(z) <= 1])(x[0]), "got SuppFuncAtom in .* such as a norm"),
    ):
        for loss, constraints in ((part, []), (cp.sum(x), [part <= 1])):
            with pytest.raises(ValueError, match=message):
                taut.from_cvxpy(loss, constraints)


def test_a_quadratic_form_that_changes_needs_a_semidefinite_parameter():
    x, p = (
        cp.Variable(2, name="x", bounds=[0, 1]),
        cp.Parameter((2, 2), name="p", symmetric=True, value=np.eye(2)),
    )
    with pytest.raises(ValueError, match=r"loss: .*do not prove convexity"):
        taut.from_cvxpy(cp.quad_form(x, p), per_round=[p])  # the value is that of one round


def test_a_parameter_without_bounds_is_noted_with_the_range_that_was_assumed():
    x, c = cp.Variable(2, name="x", bounds=[-1, 1]), cp.Parameter(2, name="c")
    notes = taut.from_cvxpy(c @ x).notes
    assert any(
        note.startswith(
            "c: no bounds are stated; the constants (loss_lipschitz, loss_range) assume values "
            "between -2 and 2"
        )
        for note in notes
    )
    assert not any("no bounds" in note for note in taut.from_cvxpy(cp.sum_squares(x - 1)).notes)


def test_atoms_must_be_defined_finite_and_lipschitz_on_the_whole_domain():
    x, r = cp.Variable(2, name="x"), cp.Parameter(2, name="r")
    unit = [x >= 0, x <= 1]
    for loss, constraints, domain, message in (
        (-cp.log(x[0]), unit, None, r"x = \[0. 1.\], where log\(x\[0\]\) is infinite"),
        (
            -cp.sqrt(x[0]),
            unit,
            None,
            "is infinitely steep; expected a domain that keeps a distance",
        ),
        (-cp.sum(cp.entr(x)), unit, None, "entr.* is infinitely steep"),
        (
            cp.sum(cp.power(x, 3)),
            unit,
            taut.Ball(1.0, shape=2),
            r"is not defined; expected a domain on which 0.0 <= x",
        ),
        (
            -cp.log(r @ x),
            unit,
            None,
            r"parameters: got r without bounds; expected bounds, because log",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            taut.from_cvxpy(loss, constraints, domain)
    # At a distance all is well; the cube is convex where the derived domain holds it.
    taut.from_cvxpy(-cp.log(x[0]), [x >= 0.1, x <= 1])
    cube = taut.from_cvxpy(cp.sum(cp.power(x, 3)), [x >= -1, x <= 1])
    np.testing.assert_array_equal(cube.domain.lower, [0, 0])
    assert cube.domain_binds


def test_undefined_losses_are_refused_with_the_data_that_show_it():
    b, x = cp.Variable(3, name="b", nonneg=True), cp.Variable(2, name="x", bounds=[0, 10])
    for width, wrong in ((0.4, True), (0.3, False)):
        r = cp.Parameter(3, name="r", bounds=[-width, width])
        if not wrong:
            taut.from_cvxpy(-cp.log(1 + r @ b), [cp.sum(b) <= 1])
            continue
        with pytest.raises(
            ValueError,
            match=r"b = \[1. 1. 1.\], where log.* is not defined for the admissible data r = \[-0.4",
        ):
            taut.from_cvxpy(-cp.log(1 + r @ b), [cp.sum(b) <= 1])
    with pytest.raises(
        ValueError, match=r"x = \[10. 10.\], where log.* is not defined"
    ):  # only at a corner
        taut.from_cvxpy(-cp.log(225 - cp.square(cp.sum(x))), [x[0] <= 10], taut.Box(0, 10, shape=2))
    taut.from_cvxpy(-cp.log(500 - cp.square(cp.sum(x))), [x[0] <= 10])
