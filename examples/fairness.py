"""Fair classification with minibatches: a limit on the difference between two groups that is only
measured on 16 patients a day.

Logistic regression on scikit-learn's breast cancer data. The mean score of patients with a large
texture may differ from that of the others by at most 0.1. Every round shows the loss and the
difference of 16 patients; decisions are scored by the difference among all of them. A learner that
clips what it measures gives up much of the accuracy, because the noise looks like violations.
Averaged rows come within one per cent of a learner that knows the exact difference.

Run with `python examples/fairness.py [figure.png]`; it needs scikit-learn.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_breast_cancer

import taut
from taut.plots.style import new_figure, styled

ROUNDS, BATCH, LIMIT, RADIUS, SEEDS = 4096, 16, 0.1, 2.0, 3
FEATURES = (
    0,
    4,
    5,
    6,
    7,
    8,
    10,
    27,
)  # radius, smoothness, compactness, ...; the groups differ in another one, texture
COLOURS = {"exact constraint": "#999999", "averaged rows": "#0072B2", "clipped batches": "#D55E00"}


def patients() -> dict[str, Any]:
    """Return standardised features, labels -1 and 1, and the weight of each patient in the
    difference of the groups."""
    table, diagnosis = load_breast_cancer(return_X_y=True)
    features = (table - table.mean(axis=0)) / table.std(axis=0)
    large = features[:, 1] > np.median(features[:, 1])
    weight = np.where(large, len(large) / large.sum(), -len(large) / (~large).sum())
    return {"features": features[:, FEATURES], "label": 1.0 - 2.0 * diagnosis, "weight": weight}


def loss(x: Any, batch: Any) -> Any:
    """The logistic loss of a batch."""
    return jnp.mean(jnp.logaddexp(0.0, -batch["label"] * (batch["features"] @ x)))


def difference(x: Any, patient: Any) -> Any:
    """What one patient adds to the two rows: difference - limit and -difference - limit."""
    score = patient["weight"] * (patient["features"] @ x)
    return jnp.stack([score - LIMIT, -score - LIMIT])


def problem(everyone: dict[str, Any]) -> taut.Problem:
    """Return the true problem: the difference among all patients, which is affine in x."""
    mean = np.mean(everyone["weight"][:, None] * everyone["features"], axis=0)
    steep = float(np.linalg.norm(everyone["features"], axis=1).max())
    known = taut.Constants(
        loss_lipschitz=steep,
        constraint_lipschitz=float(np.linalg.norm(mean)),
        constraint_smoothness=0.0,
        slater=LIMIT,
    )
    domain = taut.Ball(RADIUS, shape=len(FEATURES))
    rows = np.stack([mean, -mean])
    return taut.Problem(loss, lambda x: rows @ x - LIMIT, domain, known, domain_binds=True)


@styled
def figure(runs: dict[str, taut.Run]) -> Any:
    """Draw the mean loss so far and the clipped violation."""
    made, (left, right) = new_figure(2, narrow=False)
    rounds = np.arange(1, ROUNDS + 1)
    for label, run in runs.items():
        assert run.loss is not None
        assert run.excess is not None
        left.plot(
            rounds, np.cumsum(run.loss.mean(axis=0)) / rounds, color=COLOURS[label], label=label
        )
        right.plot(
            rounds,
            np.cumsum(np.maximum(run.excess, 0), axis=1).mean(axis=0) / rounds,
            color=COLOURS[label],
        )
    left.set(title="(a) mean loss so far", xlabel="round", ylabel="logistic loss", xscale="log")
    left.legend(loc="lower left")
    right.set(
        title="(b) mean violation so far",
        xlabel="round",
        ylabel="difference beyond the limit",
        xscale="log",
    )
    return made


def main(path: Path) -> dict[str, float]:
    """Play all learners, print the certificate and the mean losses, and draw the figure."""
    jax.config.update("jax_enable_x64", True)
    everyone = patients()
    game = problem(everyone)
    drawn = np.random.default_rng(0).integers(
        0, len(everyone["label"]), size=(SEEDS, ROUNDS, BATCH)
    )
    stream = {name: values[drawn] for name, values in everyone.items()}
    batches = taut.Batched(difference)  # the 16 patients of the round
    exact = taut.learner("half-space-anytime", game, memory=0, rows="all")
    # sigma = 0: plain averages. Margins would be proven to hold the regret down, and cost violation
    # here.
    averaged = taut.Averaged(
        taut.learner("half-space-anytime", game, memory=0, rows="all", sweeps=None),
        ROUNDS,
        sigma=0.0,
    )
    played = {
        "exact constraint": (exact, None),
        "averaged rows": (averaged, batches),
        "clipped batches": (exact, batches),
    }
    runs = {
        label: taut.simulate(learner, game, stream, seeds=SEEDS, feedback=feedback, unproven=True)
        for label, (learner, feedback) in played.items()
    }
    print(runs["averaged rows"].certificate())
    found = {}
    for label, run in runs.items():
        found[label] = float(np.mean(run.totals.loss)) / ROUNDS
        print(
            f"{label:17} mean loss {found[label]:.4f}   mean violation "
            f"{np.mean(run.totals.worst_violation) / ROUNDS:.5f}"
        )
    figure(runs).savefig(path, dpi=150)
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_suffix(".png"))
