r"""Violation in a single round: Lemma 1 and Proposition 1 of Yuan and Lamperski (2018), for fixed
constraints."""

from __future__ import annotations

import math

from ... import arguments
from .theorem import OutsideTheorem

__all__ = [
    "log_sum_exp_gap",
    "log_sum_exp_lipschitz",
    "log_sum_exp_peak_violation",
    "log_sum_exp_smoothness",
    "smooth_peak_violation",
]


def smooth_peak_violation(
    *,
    eta: float,
    sigma: float,
    radius: float,
    loss_lipschitz: float,
    constraint_lipschitz: float,
    constraint_smoothness: float,
    initial_violation: float = 0.0,
    centre_feasible: bool = True,
) -> float:
    r"""Largest [g(x_t)]_+ of Clipped-OGD with a fixed step and one constraint whose gradient is
    L-Lipschitz (Lemma 1).

    max(e + C eta, [g(x_1)]_+), C = G_f G_g, e = (2 C sigma r^2 eta)^(1/3), valid if L times that
    number is at most sigma (checked). r is the largest distance from a feasible decision u to a
    point of the domain: R if x_1 itself is feasible, else 2 R (`centre_feasible=False`); a feasible
    decision must exist.

    Proof, inside the domain B throughout (the paper evaluates g outside it, and needs a ball
    centred at a feasible x_1 for g(P_B(y)) <= g(y); neither is necessary). Let gamma = g(x_t)/sigma
    > 0 and z = P_B(x_t - gamma dg(x_t)), so |x_{t+1} - z| <= eta G_f and g(x_{t+1}) <= g(z) + C
    eta. For gamma L <= 1 the two inequalities of projected gradient descent are g(z) <= g(x_t) -
    (1/gamma - L/2)|z - x_t|^2 and g(z) <= g(u) + (x_t - z).(x_t - u)/gamma <= r |x_t - z|/gamma;
    hence g(z) <= g(x_t) - g(x_t) g(z)^2 / (2 sigma r^2). Either g(z) < e, or the decrease is at
    least e^3 / (2 sigma r^2) = C eta and g(x_{t+1}) <= g(x_t). A round with g(x_t) <= 0 adds C eta
    at most. With the steps of Theorem 1 the number falls like T^(-1/6).
    `error_bound_peak_violation` is O(eta) wherever it applies.
    """
    eta, sigma = arguments.positive("eta", eta), arguments.positive("sigma", sigma)
    constant = arguments.non_negative("loss_lipschitz", loss_lipschitz) * arguments.non_negative(
        "constraint_lipschitz", constraint_lipschitz
    )
    smoothness = arguments.non_negative("constraint_smoothness", constraint_smoothness)
    first = arguments.non_negative("initial_violation", initial_violation)
    reach = arguments.positive("radius", radius) * (1 if centre_feasible and first == 0 else 2)
    level = max(math.cbrt(2 * constant * sigma * reach**2 * eta) + constant * eta, first)
    if smoothness * level > sigma:
        raise OutsideTheorem(
            f"constraint_smoothness: got {smoothness:g}; expected at most sigma / {level:g} = "
            f"{sigma / level:g}, else the feasibility step may overshoot; a longer horizon "
            "(smaller eta) or a larger sigma helps"
        )
    return level


def log_sum_exp_gap(*, constraint_count: int, temperature: float) -> float:
    """How far (1/tau) log sum_i exp(tau g_i) can lie above max_i g_i: ln(m) / tau, tau =
    `temperature`.

    The paper takes tau = 1, which for m >= 2 may leave no feasible decision at all: its gap does
    not shrink with T.
    """
    return math.log(arguments.count("constraint_count", constraint_count)) / arguments.positive(
        "temperature", temperature
    )


def log_sum_exp_lipschitz(*, constraint_lipschitz: float) -> float:
    """Lipschitz constant of the log-sum-exp of constraints: G_g, for its gradient is a convex
    combination of theirs.

    The proof of Proposition 1 has sqrt(m) G, which is never needed.
    """
    return arguments.non_negative("constraint_lipschitz", constraint_lipschitz)


def log_sum_exp_smoothness(
    *, constraint_smoothness: float, constraint_lipschitz: float, temperature: float
) -> float:
    """Lipschitz constant of the gradient of the log-sum-exp: L + tau G_g^2 (Proposition 1, with a
    temperature).

    Its Hessian is sum_i p_i H_i + tau (sum_i p_i v_i v_i' - v v'), v = sum_i p_i v_i, for weights p
    on the simplex.
    """
    smoothness = arguments.non_negative("constraint_smoothness", constraint_smoothness)
    lipschitz = arguments.non_negative("constraint_lipschitz", constraint_lipschitz)
    return smoothness + arguments.positive("temperature", temperature) * lipschitz**2


def log_sum_exp_peak_violation(
    *,
    eta: float,
    sigma: float,
    radius: float,
    loss_lipschitz: float,
    constraint_lipschitz: float,
    constraint_smoothness: float,
    temperature: float,
    initial_violation: float = 0.0,
    centre_feasible: bool = True,
) -> float:
    """Largest max_i [g_i(x_t)]_+ when Clipped-OGD runs on the log-sum-exp of the constraints
        (Proposition 1).

    `smooth_peak_violation` with the smoothness of the log-sum-exp, which lies above every g_i. Here
    `initial_violation` and `centre_feasible` speak of the log-sum-exp itself: some decision must
    make it nonpositive, which Slater's condition with epsilon >= ln(m)/tau ensures.
    """
    smoothness = log_sum_exp_smoothness(
        constraint_smoothness=constraint_smoothness,
        constraint_lipschitz=constraint_lipschitz,
        temperature=temperature,
    )
    return smooth_peak_violation(
        eta=eta,
        sigma=sigma,
        radius=radius,
        loss_lipschitz=loss_lipschitz,
        constraint_lipschitz=constraint_lipschitz,
        constraint_smoothness=smoothness,
        initial_violation=initial_violation,
        centre_feasible=centre_feasible,
    )
