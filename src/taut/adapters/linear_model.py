"""A linear model that learns one row at a time and keeps constraints on its coefficients, in the
conventions of scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..extras import optional
from ..player.player import Player
from ..problem.domains import Ball
from ..problem.problem import Problem

optional("sklearn")  # before the imports, so that an error names the extra
from sklearn.base import BaseEstimator, RegressorMixin  # noqa: E402
from sklearn.utils.validation import check_is_fitted, validate_data  # noqa: E402

Constraint = Callable[[jax.Array], Any]


def _squared_error(w: jax.Array, row: Any) -> jax.Array:
    """Half the squared error of one row; `row` holds its features, a 1 if there is an intercept,
    and the target."""
    return 0.5 * (w @ row[:-1] - row[-1]) ** 2


def _nothing(w: jax.Array) -> jax.Array:
    return jnp.zeros((), w.dtype) - 1


@cache
def _problem(size: int, radius: float, constraint: Constraint | None) -> Problem:
    """Return the problem; equal arguments share it, so that it is compiled once."""
    return Problem(
        _squared_error, constraint or _nothing, Ball(radius, shape=size), domain_binds=True
    )


class ConstrainedRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Linear regression by squared error, one row per round, under constraints on the coefficients.

    The learner is taut's default. `partial_fit` plays one round for each row. The player that has
    learned is `player_`, so that `player_.certificate()` compares the fit with its bounds.

    Arguments:
        constraint: a function of the coefficients, written with `jax.numpy`, whose values should be
            at most zero. The intercept, if there is one, is the last coefficient. None is no
            constraint besides the radius.
        radius: the largest norm of all coefficients together.
        fit_intercept: whether the model has an intercept.
        passes: how often `fit` goes through the rows.

    Examples:
        >>> import jax.numpy as jnp, numpy as np
        >>> from taut.adapters import ConstrainedRegressor
        >>> X = np.random.default_rng(0).normal(size=(300, 2))
        >>> def budget(w):
        ...     return jnp.abs(w[:2]).sum() - 1
        >>> model = ConstrainedRegressor(budget).fit(X, X @ [1.0, 1.0])
        >>> bool(np.abs(model.coef_).sum() <= 1.001)
        True
    """

    def __init__(
        self,
        constraint: Constraint | None = None,
        radius: float = 100.0,
        fit_intercept: bool = True,
        passes: int = 10,
    ) -> None:
        self.constraint = constraint
        self.radius = radius
        self.fit_intercept = fit_intercept
        self.passes = passes

    def fit(self, X: Any, y: Any) -> ConstrainedRegressor:
        """Forget what was learned, and learn from the rows in their order, `passes` times."""
        if hasattr(self, "player_"):
            del self.player_
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        for _ in range(self.passes):
            self._learn(X, y)
        return self

    def partial_fit(self, X: Any, y: Any) -> ConstrainedRegressor:
        """Learn from the rows in their order, one round each."""
        first = not hasattr(self, "player_")
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, reset=first)
        self._learn(X, y)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the predictions for rows of features."""
        check_is_fitted(self, "player_")
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return np.asarray(X @ self.coef_ + self.intercept_)

    @property
    def coef_(self) -> np.ndarray:
        """The coefficients of the features."""
        check_is_fitted(self, "player_")
        return np.asarray(self.player_.decision, np.float64)[: self.n_features_in_]

    @property
    def intercept_(self) -> float:
        """The intercept; 0 if the model has none."""
        check_is_fitted(self, "player_")
        return float(self.player_.decision[-1]) if self.fit_intercept else 0.0

    def _learn(self, X: np.ndarray, y: np.ndarray) -> None:
        if not hasattr(self, "player_"):
            size = X.shape[1] + int(self.fit_intercept)
            self.player_ = Player(_problem(size, float(self.radius), self.constraint), history=0)
        ones = np.ones((len(X), int(self.fit_intercept)))
        for row in np.concatenate([X, ones, y.reshape(-1, 1)], axis=1):
            self.player_.observe(row)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # an online method; ten passes are not a solver
        return tags
