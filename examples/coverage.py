"""Adaptive conformal prediction: intervals that cover 90 % of every day, while the series drifts.

A forecaster of a series publishes an interval around its forecast for each of 48 half-hours of the
next day. The decision is the half-width in each of six parts of the day. The loss is the mean
width. The constraint: the mean of the five largest errors beyond the interval is at most zero. Then
at most four of the 48 values lie outside, so at least 91 % are covered. It is convex, and a day's
constraint is known only after the day.

A fixed interval from the first month is too narrow when the errors double in size. The learner
widens its intervals after the first day that shows it, and narrows them when old days are
forgotten.

Run with `python examples/coverage.py [figure.png]`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import taut
from taut.plots.style import new_figure, styled

DAYS, STEPS, PARTS, OUTSIDE = 400, 48, 6, 5
WIDEST, TARGET = 6.0, 0.9
ORANGE, BLUE = "#D55E00", "#0072B2"


def errors(seed: int = 0) -> Any:
    """Return absolute errors of the forecasts, (day, half-hour); they double in the second half."""
    random = np.random.default_rng(seed)
    shape = 0.6 + 0.4 * np.sin(2 * np.pi * np.arange(STEPS) / STEPS) ** 2
    level = np.where(np.arange(DAYS) < DAYS // 2, 0.7, 1.4)
    return np.clip(np.abs(random.normal(size=(DAYS, STEPS))) * shape * level[:, None], 0, WIDEST)


def beyond(widths: jax.Array, day: jax.Array) -> jax.Array:
    """Mean of the largest errors beyond the interval; at most 0 means that few are outside."""
    over = day - jnp.repeat(widths, STEPS // PARTS)
    return jnp.mean(jax.lax.top_k(over, OUTSIDE)[0])


def mean_width(widths: jax.Array, day: jax.Array) -> jax.Array:
    """What the day costs: the mean width of its intervals."""
    return 2 * jnp.mean(widths)


def covered(widths: Any, days: Any) -> Any:
    """Return the share of values inside the interval, for each day."""
    return np.mean(days <= np.repeat(widths, STEPS // PARTS, axis=-1), axis=-1)


@styled
def figure(shares: Any, fixed: Any, widths: Any) -> Any:
    """Draw the coverage of every day, and the mean width."""
    made, (left, right) = new_figure(2, narrow=False, width=3.8, height=3.0)
    days = np.arange(DAYS)
    window = np.ones(14) / 14
    for share, colour, label in ((fixed, BLUE, "fixed"), (shares, ORANGE, "learned")):
        left.plot(days[13:], np.convolve(share, window, "valid"), color=colour, label=label)
    left.axhline(TARGET, color="black", linestyle="--", linewidth=1)
    left.legend(loc="lower left")
    left.set(
        title="Coverage, mean of 14 days; 90 % is dashed",
        xlabel="day",
        ylabel="share",
        ylim=(0.5, 1),
    )
    right.plot(days, 2 * widths.mean(axis=1), color=ORANGE)
    right.set(title="Mean width of the intervals", xlabel="day", ylim=(0, None))
    return made


def main(path: Path) -> dict[str, float]:
    """Play all days, print coverage and certificate, and draw the figure."""
    jax.config.update("jax_enable_x64", True)
    data = errors()
    problem = taut.Problem(
        mean_width, beyond, taut.Box(0.0, WIDEST, shape=PARTS), domain_binds=True
    )
    run: Any = taut.simulate(problem, data, record=("loss", "excess", "decisions"))
    widths = run.decisions[0]
    shares = covered(widths, data)
    month = np.quantile(data[:30].reshape(30, PARTS, -1), TARGET, axis=(0, 2))
    fixed = covered(np.broadcast_to(month, (DAYS, PARTS)), data)
    late = slice(DAYS // 2 + 14, None)
    for label, share in (("learned", shares), ("fixed", fixed)):
        below = np.mean(share < TARGET)
        print(
            f"{label}: {share[late].mean():.3f} covered after the jump, {below:.3f} of days below"
        )
    print(run.certificate())
    figure(shares, fixed, widths).savefig(path, dpi=150)
    return {"learned": float(shares[late].mean()), "fixed": float(fixed[late].mean())}


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_suffix(".png"))
