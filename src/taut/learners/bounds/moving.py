r"""Comparators that move: what a path u_1, u_2, ... adds to a bound on regret against a fixed
decision.

Let the proof of a regret bound sum inequalities

    f_t(x_t) - f_t(u) <= (|x_t - u|^2 - |x_{t+1} - u|^2) / (2 eta_t) + (terms without u),   (S)

each of which holds for all u that are feasible in round t, with steps eta_t that do not increase.
With u = u_t in round t, the sum by parts contains |x_t - u_t|^2 in place of |x_t - u_{t-1}|^2. The
two differ by

    <u_t - u_{t-1}, u_t + u_{t-1} - 2 x_t> <= |u_t - u_{t-1}| (|x_t - u_t| + |x_t - u_{t-1}|) <= 2 D
    |u_t - u_{t-1}|,

so the regret exceeds the bound by at most sum_{t>1} D |u_t - u_{t-1}| / eta_t <= D P / eta_T, P
being the length of the path. Strong convexity of modulus H subtracts H |x_t - u_t|^2 / 2 in (S).
With eta_t = 1 / (H (t + shift)) the weight of
|x_t - u_t|^2 is then 1 / (2 eta_{t-1}), and the cost is at most D P / eta_{T-1}.
"""

from __future__ import annotations

from ... import arguments

__all__ = ["path_cost"]


def path_cost(*, path_length: float, diameter: float, last_step: float) -> float:
    r"""D P / eta: what a comparator that moves along a path of length P adds to a bound on regret
    against a fixed one.

    Arguments:
        path_length: P = sum_t |u_{t+1} - u_t|; u_t must be feasible in round t.
        diameter: D, the largest distance between two points of the domain.
        last_step: the smallest step that counts: eta_T, or eta_{T-1} for strongly convex losses
            with eta_t = 1 / (H (t + shift)).

    >>> path_cost(path_length=3.0, diameter=2.0, last_step=0.1)
    60.0
    """
    length = arguments.non_negative("path_length", path_length)
    across = arguments.positive("diameter", diameter)
    return 0.0 if length == 0 else across * length / arguments.positive("last_step", last_step)
