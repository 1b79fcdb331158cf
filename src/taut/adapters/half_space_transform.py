"""The projection on a constraint's half-space, as a gradient transformation for optax.

An optimiser proposes the update u of parameters x. With the value v and the gradient s of a
constraint at x, every feasible point satisfies v + <s, u> <= 0 in the linear model, so

    u' = u - [v + <s, u>]_+ / |s|^2 s

is the closest update that does.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from ..extras import optional


def half_space(margin: float = 0.0) -> Any:
    """Return the half-space step as an `optax.GradientTransformationExtraArgs`.

    Put it behind any optimiser with `optax.chain`, and pass the constraint's value and gradient at
    the present parameters to `update`. For several constraints pass the largest one. It keeps no
    state: to remember constraints that come back, use `taut.HalfSpace` itself.

    Arguments:
        margin: the linear model must be at most minus this number.

    Examples:
        >>> import jax, jax.numpy as jnp, optax
        >>> from taut.adapters import half_space
        >>> optimiser = optax.chain(optax.sgd(0.5), half_space())
        >>> x = jnp.array([0.2, 0.2])
        >>> state = optimiser.init(x)
        >>> for _ in range(20):  # minimise -x_0 - x_1 subject to |x|^2 <= 1
        ...     value, slope = jax.value_and_grad(lambda x: x @ x - 1)(x)
        ...     update, state = optimiser.update(
        ...         -jnp.ones(2), state, x, constraint_value=value, constraint_gradient=slope
        ...     )
        ...     x = optax.apply_updates(x, update)
        >>> [round(float(entry), 3) for entry in x]
        [0.707, 0.707]
    """
    optax = optional("optax")

    def init(params: Any) -> Any:
        return optax.EmptyState()

    def update(
        updates: Any,
        state: Any,
        params: Any = None,
        *,
        constraint_value: Any,
        constraint_gradient: Any,
        **others: Any,
    ) -> tuple[Any, Any]:
        moved = sum(
            jnp.vdot(slope, step)
            for slope, step in zip(
                jax.tree.leaves(constraint_gradient), jax.tree.leaves(updates), strict=True
            )
        )
        square = sum(jnp.vdot(slope, slope) for slope in jax.tree.leaves(constraint_gradient))
        excess = jnp.maximum(constraint_value + moved + margin, 0)
        weight = jnp.where(square > 0, excess / jnp.where(square > 0, square, 1), 0)
        projected = jax.tree.map(
            lambda step, slope: step - (weight * slope).astype(step.dtype),
            updates,
            constraint_gradient,
        )
        return projected, state

    return optax.GradientTransformationExtraArgs(init, update)
