"""Loss, constraints and their gradients at many decisions and data at once, in NumPy or by one
quickly compiled function."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

if TYPE_CHECKING:
    from ..model import Model

from ...engine import Array
from ...problem.interpreter import Tape, supported
from ..recourse.inner_minimum import solves_programs

__all__ = ["Probe", "Seen"]


NUMBERS = 1_000_000
"""The largest number of entries of the Jacobians of one batch."""
QUICK: dict[str, Any] = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
}
"""This function runs a few times only: compiling it well takes longer than it runs."""
SECONDS = 2.0
"""The processor time in NumPy after which the function is compiled: about as long as compiling
takes."""


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
        self._call = _Quick(_function(model), self.batch, self.width, self.costly)

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


class _Quick:
    """A function of a batch of points, evaluated in NumPy until that has taken as long as compiling
    it would."""

    def __init__(
        self, function: Callable[[jax.Array], Any], batch: int, width: int, costly: bool
    ) -> None:
        self._function, self._spent = jax.vmap(function), 0.0
        self._points = jax.ShapeDtypeStruct((batch, width), jnp.float64)
        self._tape: Tape | None = None
        self._compiled: Any = None
        if not costly:
            traced = jax.make_jaxpr(self._function)(self._points)
            self._tape = Tape(traced) if supported(traced.jaxpr) else None

    def __call__(self, points: Array) -> Any:
        if self._tape is None or self._spent > SECONDS:
            if self._compiled is None:
                self._compiled = _compiled(self._function, self._points)
            return self._compiled(points)
        start = time.process_time()
        with np.errstate(all="ignore"):
            found = self._tape.run([points])
        self._spent += time.process_time() - start
        return found


def _compiled(function: Callable[[jax.Array], Any], points: Any) -> Any:
    traced = jax.jit(function).lower(points)
    try:
        return traced.compile(compiler_options=QUICK)
    except Exception:  # another backend, which does not know these options
        return traced.compile()
