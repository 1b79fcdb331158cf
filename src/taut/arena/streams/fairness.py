"""Fair classification: logistic losses on batches, and a limit on the difference of the mean scores
of two groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...engine import Array
from ...extras import optional
from ...problem.constants import Constants
from ...problem.domains import Ball
from ...problem.feedback.batched import Batched
from ...problem.problem import Problem
from ..stream import Stream
from .newton import smooth_best

BATCH, GAP, RADIUS, LONGEST_ROW = 16, 0.05, 3.0, 3.0


@dataclass(frozen=True, eq=False)
class Population:
    """People: features (person, d) with rows of norm at most 3, labels -1 or 1, and the group,
    False or True."""

    features: Array
    labels: Array
    group: Array

    @property
    def difference(self) -> Array:
        """The difference of the mean features of the two groups."""
        return np.asarray(
            self.features[self.group].mean(axis=0) - self.features[~self.group].mean(axis=0)
        )

    @property
    def shares(self) -> Array:
        """What each person adds to the difference of the groups, (person, d): their mean is the
        difference."""
        part = self.group.mean()
        return np.asarray(np.where(self.group, 1 / part, -1 / (1 - part))[:, None] * self.features)


def bounded(features: Array) -> Array:
    """Shorten rows that are longer than 3."""
    lengths = np.linalg.norm(features, axis=1, keepdims=True)
    return np.asarray(features * np.minimum(1, LONGEST_ROW / lengths))


@cache
def synthetic() -> Population:
    """Return a population whose labels depend on features that differ between the groups; the last
    feature is constant."""
    d, people = 8, 4096
    rng = np.random.default_rng([10, d])
    group = rng.random(people) < 0.4
    features = rng.normal(size=(people, d)) + 0.8 * group[:, None] * rng.normal(size=d) / np.sqrt(d)
    features[:, -1] = 1.0
    truth = rng.normal(size=d)
    score = features @ (2 * truth / np.linalg.norm(truth))
    labels = np.where(rng.random(people) < 1 / (1 + np.exp(-score)), 1.0, -1.0)
    return Population(bounded(features), labels, group)


def problem(people: Callable[[], Population]) -> Problem:
    """Return the mean logistic loss of the round's batch, with |difference of mean scores| <= 0.05
    over the population."""
    population = people()
    rows, difference = population.features * population.labels[:, None], population.difference

    def loss(x: jax.Array, batch: jax.Array) -> jax.Array:
        return jnp.mean(jax.nn.softplus(-jnp.asarray(rows, x.dtype)[batch] @ x))

    def excess(x: jax.Array) -> jax.Array:
        gap = jnp.asarray(difference, x.dtype) @ x
        return jnp.stack([gap, -gap]) - GAP

    slope, most = float(np.linalg.norm(difference)), float(np.linalg.norm(rows, axis=1).max())
    known = Constants(
        loss_lipschitz=most,
        loss_range=2 * RADIUS * most,
        constraint_lipschitz=slope,
        constraint_range=slope * RADIUS + GAP,
        slater=GAP,
        error_bound=slope,
        constraint_smoothness=0.0,
    )
    return Problem(loss, excess, Ball(RADIUS, shape=rows.shape[1]), known)


def batched(people: Population) -> Batched:
    """Return the feedback with which learners see both rows as means over the people of the round's
    batch."""
    shares = people.shares

    def rows(x: jax.Array, person: jax.Array) -> jax.Array:
        gap = jnp.asarray(shares, x.dtype)[person] @ x
        return jnp.stack([gap, -gap]) - GAP

    return Batched(rows)


def _errors(people: Population) -> dict[str, float]:
    """The scales of the errors of one batch: of the value at any decision (Hoeffding), and of an
    entry of the gradient."""
    longest = np.linalg.norm(people.shares, axis=1).max()
    return {
        "sigma": float(RADIUS * longest / np.sqrt(BATCH)),
        "gradient_sigma": float(np.abs(people.shares).max() / np.sqrt(BATCH)),
    }


def _draw(people: Callable[[], Population], seed: int, rounds: int) -> Array:
    """The numbers of the people in every batch."""
    return (
        np.random.default_rng([11, seed])
        .integers(len(people().labels), size=(rounds, BATCH))
        .astype(np.int32)
    )


def _best(people: Callable[[], Population], batches: Array, rounds: int) -> float:
    """The best decision for the people in all batches, each counted as often as it was drawn."""
    cp = optional("cvxpy")

    population = people()
    rows, difference = population.features * population.labels[:, None], population.difference
    weights = np.bincount(batches.ravel(), minlength=len(rows)) / BATCH

    def oracle(x: Array) -> tuple[float, Array, Array]:
        margin = rows @ x
        wrong = 1 / (1 + np.exp(margin))
        hessian = (rows * (weights * wrong * (1 - wrong))[:, None]).T @ rows
        return float(weights @ np.logaddexp(0, -margin)), -rows.T @ (weights * wrong), hessian

    def fair(x: Any) -> list[Any]:
        return [cp.abs(difference @ x) <= GAP, cp.norm(x) <= RADIUS]

    return smooth_best(oracle, fair, np.zeros(rows.shape[1]))[1]


def stream(
    name: str, title: str, people: Callable[[], Population], source: str, **facts: Any
) -> Stream:
    """Return the stream for a population."""
    known = {
        "Slater gap": f"{GAP:g}",
        "smoothness": "affine",
        "noise": "in the losses: batches of 16",
    }
    return Stream(
        name,
        title,
        partial(problem, people),
        partial(_draw, people),
        source,
        best=partial(_best, people),
        **{"known": known, **facts},
        family="fairness",
    )


@cache
def diabetes() -> Population:
    """Return scikit-learn's diabetes patients: the label says whether the disease progressed more
    than in the median patient, the groups are the two sexes."""
    from ..packages import csv_of

    features = csv_of("scikit-learn", "sklearn/datasets/data/diabetes_data_raw.csv.gz", " ")
    target = csv_of("scikit-learn", "sklearn/datasets/data/diabetes_target.csv.gz", " ").ravel()
    sex, others = features[:, 1], np.delete(features, 1, axis=1)
    others = (others - others.mean(axis=0)) / others.std(axis=0)
    others = np.column_stack([others, np.ones(len(others))])
    return Population(
        bounded(others), np.where(target > np.median(target), 1.0, -1.0), sex > sex.min()
    )


_BATCHES = {
    "Slater gap": f"{GAP:g}",
    "smoothness": "affine",
    "noise": "in losses and constraints: batches of 16",
}
STREAMS = (
    stream(
        "fair-classification",
        "logistic losses in 8 dimensions, score gap between two groups at most 0.05",
        synthetic,
        "fair classification with the exact constraint, synthetic population",
    ),
    stream(
        "fair-batches",
        "the same, but the score gap is only seen on the batch of 16 people",
        synthetic,
        "fair classification with the constraint estimated on batches, synthetic population",
        setting="noisy constraints",
        feedback=batched(synthetic()),
        told=_errors(synthetic()),
        separate=True,
        known=_BATCHES,
    ),
    stream(
        "fair-diabetes",
        "the same for patients of both sexes",
        diabetes,
        "the diabetes data of Efron et al. 2004, packaged with scikit-learn",
        setting="real data",
        requires="scikit-learn",
    ),
)
