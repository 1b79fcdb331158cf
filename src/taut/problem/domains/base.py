"""What every domain offers, and how its numbers become leaves of a pytree."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from ... import arguments, files
from ...engine import Array, register_attributes, require_jax


def reals(name: str, value: Any, shape: tuple[int, ...] | None = None) -> Array:
    """A read-only copy of `value` in 64 bits, finite; a scalar is repeated to fill `shape`."""
    array = arguments.finite(name, value).astype(np.float64)
    if shape is not None:
        if array.shape not in ((), shape):
            raise ValueError(f"{name}: got shape {array.shape}; expected a scalar or shape {shape}")
        array = np.broadcast_to(array, shape).copy()
    array.setflags(write=False)
    return array


def shape_of(shape: Any) -> tuple[int, ...]:
    """The shape of a decision; a number stands for a vector."""
    sizes = shape if isinstance(shape, (tuple, list)) else (shape,)
    return tuple(arguments.count("shape", size, most=10**9) for size in sizes)


def working(x: jax.Array) -> Any:
    """The float type sums are formed in: that of `x`, at least 32 bits."""
    return jnp.promote_types(x.dtype, jnp.float32)


def finfo(dtype: Any) -> Any:
    """The limits of a float type, also of the 16-bit ones NumPy does not know."""
    limits: Any = jnp.finfo  # untyped in JAX
    return limits(dtype)


def cast(dtype: Any, *leaves: Any) -> tuple[jax.Array, ...]:
    """The leaves as JAX arrays of type `dtype`."""
    return tuple(jnp.asarray(leaf, dtype) for leaf in leaves)


def norm(values: Any) -> Any:
    """The Euclidean norm, in 64 bits when the values are known."""
    if any(isinstance(leaf, jax.Array) for leaf in jax.tree_util.tree_leaves(values)):
        return jnp.linalg.norm(jnp.asarray(values).ravel())
    return float(np.linalg.norm(np.ravel(values)))


ROLE = "domain"
"""What files call a description of a domain."""
FAR = 1e8
"""Linear functions are minimised by projecting a point so many radii away."""


class Domain(ABC):
    """A simple convex set with an exact projection.

    A subclass names its numeric fields as in `class Box(Domain, leaves=("lower", "upper"))`;
    that registers it as a pytree. Fields that are fixed in compiled programs, like `shape`, are
    named in `static=`. The constructor validates; rebuilding a pytree does not, as its leaves may
    be tracers.
    """

    shape: tuple[int, ...]
    leaves: ClassVar[tuple[str, ...]]
    static: ClassVar[tuple[str, ...]] = ()

    # Subclasses bring a property or a field; a property here would hide the field.
    if TYPE_CHECKING:

        @property
        def radius(self) -> Any:
            """The largest distance from the centre to a point of the domain."""

        @property
        def diameter(self) -> Any:
            """The largest distance between two points of the domain."""

    def __init_subclass__(
        cls, leaves: tuple[str, ...] = (), static: tuple[str, ...] = (), **keywords: Any
    ) -> None:
        super().__init_subclass__(**keywords)
        if not leaves:  # an intermediate class
            return
        cls.leaves, cls.static = leaves, static
        files.add_class(cls, ROLE)
        register_attributes(cls, leaves, ("shape", *static))

    @abstractmethod
    def project(self, x: jax.Array) -> jax.Array:
        """The point of the domain nearest to `x`, in the float type of `x`."""

    @abstractmethod
    def contains(self, x: jax.Array, tolerance: float = 1e-9) -> jax.Array:
        """Whether `x` is in the domain, up to `tolerance` and the rounding of its float type."""

    @property
    @abstractmethod
    def centre(self) -> jax.Array:
        """The point whose largest distance to the domain is smallest; where learners start."""

    @abstractmethod
    def sample(self, key: jax.Array) -> jax.Array:
        """One point, uniformly distributed over the domain."""

    @abstractmethod
    def to_cvxpy(self, x: Any) -> list[Any]:
        """The CVXPY constraints that keep the expression `x`, of the domain's shape, inside."""

    def linear_minimiser(self, direction: jax.Array) -> jax.Array:
        """A point x of the domain at which <direction, x> is smallest, in the float type of
        `direction`.

        It is a vertex where the domain has vertices. If several points are smallest, the choice
        among them is fixed for each class, so that the same direction always gives the same point.
        A domain that defines only a projection gets an approximation from it: the projection of a
        point that lies 1e8 radii away.
        """
        direction = self._decision(direction, "direction")
        dtype = working(direction)
        flat = direction.astype(dtype).reshape(1, -1)
        if self._has_exact_minimisers():
            point = self._minimisers(flat, jnp)
        else:
            largest = jnp.max(jnp.abs(flat))
            unit = flat / jnp.where(largest > 0, largest, 1)
            length = jnp.maximum(jnp.sqrt(jnp.sum(unit * unit)), 1)
            start = jnp.asarray(self.centre, dtype) - (FAR * self.radius) * (unit / length).reshape(
                self.shape
            )
            point = self.project(start)
        return point.reshape(self.shape).astype(direction.dtype)

    def scaled(self, factor: float) -> Domain:
        """The domain {factor * x : x in this domain}, for a factor above 0."""
        raise TypeError(
            f"domain: {type(self).__name__} has no method scaled(factor), which rescaling needs"
        )

    def _minimisers(self, directions: Any, xp: Any) -> Any:
        """Exact minimisers for flat directions, (k, size), in `xp`, numpy or jax.numpy."""
        raise NotImplementedError  # without it, `linear_minimiser` projects a point far away

    def _project_in_numpy(self, rows: Array) -> Array:
        """The points nearest to flat ones, (k, size) -> (k, size), in NumPy: JAX would trace
        `project` for every new k."""
        raise NotImplementedError  # without it, `support.project_rows` calls `project`

    def _edges(self) -> tuple[Any, Any] | None:
        """Flat bounds of a box around the domain, if they are known; otherwise they are computed
        from minimisers."""
        return None

    @classmethod
    def _has_exact_minimisers(cls) -> bool:
        """Whether `_minimisers` belongs to this very set: a subclass that overrides `project` only
        describes another one."""
        for owner in cls.__mro__:
            if "_minimisers" in vars(owner):
                return owner is not Domain
            if "project" in vars(owner):
                return False
        return False

    def to_dict(self) -> dict[str, Any]:
        """A description that fits into JSON; `domain_from_dict` reads it."""
        numbers = {name: np.asarray(getattr(self, name)).tolist() for name in self.leaves}
        return {"kind": files.class_name(type(self)), **numbers, "shape": list(self.shape)}

    @classmethod
    def from_dict(cls, description: Mapping[str, Any]) -> Domain:
        """The domain that `to_dict` described."""
        return cls(**{name: value for name, value in description.items() if name != "kind"})

    def _set(self, **fields: Any) -> None:
        """Write fields of a frozen instance; for constructors."""
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def _decision(self, x: Any, name: str = "x") -> jax.Array:
        """`x` as a float array of the domain's shape."""
        require_jax(tracing=False)
        decision = jnp.asarray(x)
        if decision.shape != self.shape:
            raise ValueError(
                f"{name}: got shape {decision.shape}; expected the domain's shape {self.shape}"
            )
        if jnp.issubdtype(decision.dtype, jnp.complexfloating):
            raise TypeError(f"{name}: got complex numbers; expected real ones")
        return decision if jnp.issubdtype(decision.dtype, jnp.floating) else decision.astype(float)

    def _slack(self, x: jax.Array, size: jax.Array, tolerance: float) -> jax.Array:
        """What `contains` forgives: the rounding of sums of numbers of magnitude `size`."""
        rounding = (8 + math.sqrt(math.prod(self.shape))) * float(finfo(x.dtype).eps)
        return rounding * size + tolerance


def domain_from_dict(description: Mapping[str, Any]) -> Domain:
    """The domain that a domain's `to_dict` described."""
    if not isinstance(description, Mapping) or "kind" not in description:
        raise TypeError(
            f"description: got {description!r}; expected a mapping with the entry 'kind'"
        )
    kind = files.find_class(str(description["kind"]), ROLE)
    if kind is None:
        arguments.one_of("kind", description["kind"], files.class_names(ROLE))
    try:
        return kind.from_dict(description)
    except KeyError as missing:
        raise ValueError(
            f"description: got {dict(description)!r}; expected an entry {missing}"
        ) from None


files.add_format(ROLE, Domain, lambda domain: domain.to_dict(), domain_from_dict)
