"""The table of CVXPY atoms: which ones translate to JAX, and why the others do not.

CVXPY exports classes (`cp.abs`) and functions that build trees of them (`cp.tv`); only the classes
count here.
"""

from __future__ import annotations

from textwrap import shorten
from typing import Any, cast

from cvxpy import Parameter

from .rules import RULES, Operation, is_negated

_QUASI = "it is quasiconvex at best, and the guarantees need convexity"
_GEOMETRIC = "it belongs to geometric programming, which is convex only after a change of variables"
_CURVED = "it is neither convex nor concave"
_LOGIC = "it is a logical expression of boolean variables, and decisions are continuous"

REFUSED: dict[str, str] = {
    "And": _LOGIC,
    "LogicExpression": _LOGIC,
    "Not": _LOGIC,
    "Or": _LOGIC,
    "PartialProblem": (
        "its value is the optimum of another problem; state that problem's variables and "
        "constraints"
    ),
    "Prod": _GEOMETRIC,
    "SuppFuncAtom": (
        "its value is the optimum of another problem; write the support function of the set, "
        "such as a norm"
    ),
    "SymbolicQuadForm": "it is an internal step of CVXPY's solvers; write quad_form",
    "Xor": _LOGIC,
    "_NaryLogicExpression": _LOGIC,
    "asinh": _CURVED,
    "atanh": _CURVED,
    "ceil": _QUASI,
    "condition_number": _QUASI,
    "cos": _CURVED,
    "cumprod": _GEOMETRIC,
    "dist_ratio": _QUASI,
    "eye_minus_inv": _GEOMETRIC,
    "floor": _QUASI,
    "gen_lambda_max": _QUASI,
    "gmatmul": _GEOMETRIC,
    "indicator": "it is infinite outside of a set; pass the set as constraints",
    "length": _QUASI,
    "normcdf": _CURVED,
    "one_minus_pos": _GEOMETRIC,
    "pf_eigenvalue": _GEOMETRIC,
    "quantum_rel_entr": "JAX has no derivative of the matrix logarithm",
    "sign": _QUASI,
    "sin": _CURVED,
    "sinh": _CURVED,
    "tan": _CURVED,
    "tanh": _CURVED,
}

# Reductions over all entries, for which the order of the entries in their argument does not matter.
_ORDER_FREE = frozenset(("Pnorm", "PnormApprox", "Sum", "log_sum_exp", "max", "min")) | frozenset(
    ("norm1", "norm_inf", "quad_over_lin", "sum_largest")
)


class UnsupportedAtom(ValueError):
    """A CVXPY expression contains something that cannot become a differentiable JAX function.

    Attributes
    ----------
    atom:
        Name of what is refused.
    expression:
        The offending part of the expression.
    """

    def __init__(self, atom: str, expression: Any, reason: str) -> None:
        self.atom, self.expression = atom, expression
        try:
            text = shorten(str(expression), 200, placeholder=" ...")
        except Exception:  # some of CVXPY's internal classes cannot be printed
            text = object.__repr__(expression)
        super().__init__(f"expression: got {atom} in {text}; expected another form: {reason}")


def operation(atom: Any) -> Operation:
    """The JAX operation of an atom on the values of its `operands`."""
    kind = type(atom)
    name = kind.__name__
    if hasattr(kind, "jax_operation"):  # taut's own atoms
        return cast(Operation, atom.jax_operation())
    # By name, so that a class that an older CVXPY lacks is no error; a user's subclass is another
    # function.
    rule = RULES.get(name) if kind.__module__.startswith("cvxpy.") else None
    if rule is None:
        raise UnsupportedAtom(name, atom, REFUSED.get(name, "taut does not know it"))
    if isinstance(getattr(atom, "p", None), Parameter):
        raise UnsupportedAtom(name, atom, "its exponent decides the curvature and must be a number")
    return rule(atom)


def operands(atom: Any) -> list[Any]:
    """The expressions that the value of an atom depends on, in the order its operation takes them.

    These are its arguments, and expressions that CVXPY keeps elsewhere. Sums subtract what is
    negated in them. Reductions over all entries look through reshapes and transposes, which would
    only move the entries.
    """
    name = type(atom).__name__
    args = list(atom.args)
    if name == "AddExpression":
        return [arg.args[0] if is_negated(arg) else arg for arg in args]
    if name == "huber":
        return [*args, atom.M]
    if name == "perspective":
        return [*args, *atom.f.parameters()]
    if name in _ORDER_FREE and atom.axis is None:
        while type(args[0]).__name__ in ("reshape", "transpose"):
            args[0] = args[0].args[0]
    return args
