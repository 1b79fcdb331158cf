"""Loss, constraints and their gradients at many decisions and data at once, in NumPy or by one
quickly compiled function; the size decides."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

if TYPE_CHECKING:
    from ..model import Model

from ...engine import Array
from ...jaxpr.in_numpy import NumPyProgram, in_numpy
from ..recourse.inner_minimum import solves_programs

__all__ = ["Probe", "Seen"]


NUMBERS = 1_000_000
"""The largest number of entries of the Jacobians of one batch."""
QUICK: dict[str, Any] = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
}
"""This function runs a few times only: compiling it well takes longer than it runs."""
LARGEST = 10_000_000
"""Batches that compute more numbers than this are compiled: about a hundred of them are evaluated,
for which NumPy would take longer."""


class Seen(NamedTuple):
    """Values and gradients at a batch of points w, each a flat decision followed by the flat
    data."""

    loss: Array
    """(point,)"""
    slope: Array
    """(point, entry of w): the gradient of the loss in decision and data."""
    values: Array
    """(point, constraint)"""
    slopes: Array
    """(point, constraint, entry): their gradients, in the decision alone if they do not depend on
    data."""


class Probe:
    """Evaluates a model at points w."""

    def __init__(self, model: Model) -> None:
        self.size, self.count = model.size, model.count
        self.width = self.size + sum(parameter.size for parameter in model.parameters)
        self.takes_data = bool(model.constraints.takes_data)
        self.costly = solves_programs(model.objective)
        """Whether one evaluation takes so long that few should be made."""
        self.batch = int(np.clip(NUMBERS // (self.count * self.width), 8, 256))
        self._call = _Batch(_function(model), self.batch, self.width, self.costly)

    def __call__(self, points: Array) -> Seen:
        """Values and gradients at the points (point, entry of w)."""
        short = -len(points) % self.batch
        full = np.concatenate([points, np.repeat(points[-1:], short, axis=0)])
        parts = [self._call(full[i : i + self.batch]) for i in range(0, len(full), self.batch)]
        whole = (np.concatenate([np.asarray(a) for a in part]) for part in zip(*parts, strict=True))
        return Seen(*(a[: len(points)] for a in whole))


def _function(model: Model) -> Callable[[jax.Array], Any]:
    ends = np.cumsum([model.size, *(parameter.size for parameter in model.parameters)])

    def split(w: jax.Array) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        data = tuple(
            w[start:end].reshape(parameter.shape)
            for start, end, parameter in zip(ends[:-1], ends[1:], model.parameters, strict=True)
        )
        return w[: model.size].reshape(model.domain.shape), data

    def loss(w: jax.Array) -> jax.Array:
        return jnp.asarray(model.loss(*split(w)), w.dtype)

    def values(v: jax.Array, w: jax.Array) -> jax.Array:
        x, data = split(
            v if model.constraints.takes_data else jnp.concatenate([v, w[model.size :]])
        )
        return model.constraints.values(x, data)

    def seen(w: jax.Array) -> tuple[jax.Array, ...]:
        v = w if model.constraints.takes_data else w[: model.size]
        jacobian = (jax.jacrev if model.count <= v.size else jax.jacfwd)(values)
        return *jax.value_and_grad(loss)(w), values(v, w), jacobian(v, w)

    return seen


class _Batch:
    """A function of a batch of points: small ones are evaluated in NumPy, large ones compiled."""

    def __init__(
        self, function: Callable[[jax.Array], Any], batch: int, width: int, costly: bool
    ) -> None:
        self._program: NumPyProgram | None = None
        if not costly:
            point = jax.ShapeDtypeStruct((width,), jnp.float64)
            program = in_numpy(jax.make_jaxpr(function)(point), 1)
            if program is not None and program.work([np.zeros((batch, width))]) <= LARGEST:
                self._program = program
        self._function = jax.vmap(function)
        self._points = jax.ShapeDtypeStruct((batch, width), jnp.float64)

    @cached_property
    def _compiled(self) -> Any:
        options = QUICK if jax.default_backend() == "cpu" else {}
        return jax.jit(self._function).lower(self._points).compile(compiler_options=options)

    def __call__(self, points: Array) -> Any:
        if self._program is None:
            return self._compiled(points)
        results = self._program.run([points])
        return [np.broadcast_to(a, (len(points), *a.shape[1:])) for a in results]
