"""Domains: the simple sets decisions live in, each with an exact Euclidean projection.

A domain is an immutable value and a JAX pytree. Its numbers (radius, bounds, ...) are leaves, so a second
radius never recompiles and a batch of radii can be mapped over; its `shape` is static. Decisions are arrays
of that shape, and distances are Euclidean over all entries (Frobenius for matrices).

>>> Ball(radius=2.5, shape=2).project(np.array([3.0, 4.0])).tolist()
[1.5, 2.0]
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from taut import errors

__all__ = ["Ball", "Box", "Domain", "L1Ball", "Product", "Simplex", "domain_from_dict"]

_KINDS: dict[str, type[Domain]] = {}


class Domain(ABC):
    """A simple convex set with an exact projection.

    A subclass names its numeric fields as in `class Box(Domain, leaves=("lower", "upper"))`;
    that registers it as a pytree. The constructor validates; rebuilding a pytree does not, as its leaves may
    be tracers.
    """

    shape: tuple[int, ...]
    leaves: ClassVar[tuple[str, ...]]

    if TYPE_CHECKING:  # subclasses bring a property or a field; a property here would hide the field

        @property
        def radius(self) -> Any:
            """The largest distance from the centre to a point of the domain."""

        @property
        def diameter(self) -> Any:
            """The largest distance between two points of the domain."""

    def __init_subclass__(cls, leaves: tuple[str, ...] = (), **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if not leaves:  # an intermediate class
            return
        cls.leaves = leaves
        _KINDS[cls.__name__] = cls

        def flatten(domain: Domain) -> tuple[tuple[Any, ...], tuple[int, ...]]:
            return tuple(getattr(domain, name) for name in leaves), domain.shape

        def flatten_with_keys(domain: Domain) -> tuple[tuple[tuple[Any, Any], ...], tuple[int, ...]]:
            values, shape = flatten(domain)
            return tuple(zip(map(jax.tree_util.GetAttrKey, leaves), values, strict=True)), shape

        def unflatten(shape: tuple[int, ...], values: Iterable[Any]) -> Domain:
            domain = object.__new__(cls)
            domain._set(shape=shape, **dict(zip(leaves, values, strict=True)))
            return domain

        jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)

    @abstractmethod
    def project(self, x: jax.Array) -> jax.Array:
        """The point of the domain nearest to `x`, in the float type of `x`."""

    @abstractmethod
    def contains(self, x: jax.Array, tolerance: float = 1e-9) -> jax.Array:
        """Whether `x` is in the domain, up to an absolute `tolerance` and the rounding of its float type."""

    @property
    @abstractmethod
    def centre(self) -> jax.Array:
        """The point whose largest distance to the domain's points is smallest; where learners start."""

    @abstractmethod
    def sample(self, key: jax.Array) -> jax.Array:
        """One point, uniformly distributed over the domain."""

    @abstractmethod
    def to_cvxpy(self, x: Any) -> list[Any]:
        """The CVXPY constraints that keep the expression `x`, of the domain's shape, in the domain."""

    def to_dict(self) -> dict[str, Any]:
        """A description that fits into JSON; `domain_from_dict` reads it."""
        numbers = {name: np.asarray(getattr(self, name)).tolist() for name in self.leaves}
        return {"kind": type(self).__name__, **numbers, "shape": list(self.shape)}

    @classmethod
    def from_dict(cls, description: Mapping[str, Any]) -> Domain:
        """The domain that `to_dict` described."""
        return cls(**{name: value for name, value in description.items() if name != "kind"})

    def _set(self, **fields: Any) -> None:
        """Write fields of a frozen instance; for constructors."""
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def _decision(self, x: Any) -> jax.Array:
        """`x` as a float array of the domain's shape."""
        decision = jnp.asarray(x)
        if decision.shape != self.shape:
            raise ValueError(f"x: got shape {decision.shape}; expected the domain's shape {self.shape}")
        return decision if jnp.issubdtype(decision.dtype, jnp.floating) else decision.astype(float)

    def _slack(self, x: jax.Array, size: jax.Array, tolerance: float) -> jax.Array:
        """What `contains` forgives: numbers of magnitude `size`, rounded to the type of `x`, are added up."""
        rounding = (8 + math.sqrt(math.prod(self.shape))) * float(_finfo(x.dtype).eps)
        return rounding * size + tolerance


@dataclass(frozen=True, init=False, eq=False)
class _Centred(Domain):
    """What the two balls share: a centre and a radius, which is also the largest distance from the centre."""

    radius: float
    origin: Any  # the centre as a leaf; None is zero, which then costs nothing in every round
    shape: tuple[int, ...]

    def __init__(self, radius: float, centre: Any = None, shape: int | Sequence[int] | None = None) -> None:
        if centre is None and shape is None:
            raise TypeError("shape: got None and no centre; expected one of the two")
        wanted = _shape(np.shape(centre) if shape is None else shape)
        origin = None if centre is None else _reals("centre", centre, wanted)
        self._set(radius=errors.positive("radius", radius), origin=origin, shape=wanted)

    @property
    def middle(self) -> Any:
        """The centre as given, or zeros."""
        return np.zeros(self.shape) if self.origin is None else self.origin

    @property
    def centre(self) -> jax.Array:
        """The centre as a JAX array."""
        return jnp.asarray(self.middle)

    @property
    def diameter(self) -> Any:
        """Twice the radius."""
        return 2 * self.radius

    @staticmethod
    @abstractmethod
    def _length(offset: jax.Array) -> jax.Array:
        """The norm the ball is a ball of."""

    def contains(self, x: jax.Array, tolerance: float = 1e-9) -> jax.Array:
        """Whether the norm of x - centre is at most the radius."""
        x = self._decision(x)
        radius, middle = _cast(_working(x), self.radius, self.middle)
        slack = self._slack(x, radius + self._length(middle), tolerance)
        return self._length(x.astype(middle.dtype) - middle) <= radius + slack

    def to_dict(self) -> dict[str, Any]:
        """Radius, centre and shape."""
        description = super().to_dict()
        description["centre"] = description.pop("origin")
        return description


class Ball(_Centred, leaves=("radius", "origin")):
    """The Euclidean ball {x : |x - centre| <= radius}; `shape` without `centre` means centred at zero."""

    def project(self, x: jax.Array) -> jax.Array:
        """centre + (x - centre) / max(1, |x - centre| / radius)."""
        x = self._decision(x)
        dtype = _working(x)
        (radius,) = _cast(dtype, self.radius)
        offset = x.astype(dtype)
        if self.origin is not None:
            (middle,) = _cast(dtype, self.origin)
            offset = offset - middle
        # The radius is measured as `small`, a power of two whose square is still well above the least float:
        # far points can then be squared without overflow (up to 1e298 radii in 64 bits, 1e33 in 32 bits). The
        # square root sees at least small^2, so that its gradient exists at the centre too.
        small: float = 2.0 ** ((_finfo(dtype).minexp + _finfo(dtype).nmant + 6) // 2)
        unit = offset * (small / radius)
        squares = jnp.sum(unit * unit)
        scale = small / jnp.sqrt(jnp.where(squares > small**2, squares, small**2))
        inside = offset * scale if self.origin is None else middle + offset * scale
        return inside.astype(x.dtype)

    def sample(self, key: jax.Array) -> jax.Array:
        """The first d of d + 2 coordinates of a uniform point of the sphere, which fill the ball evenly."""
        normal = jax.random.normal(key, (math.prod(self.shape) + 2,))
        point = normal[:-2] * (self.radius / self._length(normal))
        return self.centre + point.reshape(self.shape)

    def to_cvxpy(self, x: Any) -> list[Any]:
        """One second-order cone."""
        cp = _cvxpy()
        return [cp.norm2(cp.vec(x - np.asarray(self.middle), order="C")) <= self.radius]

    @staticmethod
    def _length(offset: jax.Array) -> jax.Array:
        return jnp.sqrt(jnp.sum(offset * offset))


class L1Ball(_Centred, leaves=("radius", "origin")):
    """The l1 ball {x : sum |x - centre| <= radius}; `shape` without `centre` means centred at zero.

    The point farthest from the centre is a vertex, so `radius` is its Euclidean radius too.
    """

    def project(self, x: jax.Array) -> jax.Array:
        """Soft thresholding of x - centre at the simplex's threshold; a point inside comes back unchanged."""
        x = self._decision(x)
        radius, middle = _cast(_working(x), self.radius, self.middle)
        offset = x.astype(middle.dtype) - middle
        sizes, threshold = _onto_simplex(jnp.abs(offset).ravel(), radius)
        outside = middle + jnp.sign(offset) * sizes.reshape(self.shape)
        return jnp.where(threshold <= 0, x, outside.astype(x.dtype))

    def sample(self, key: jax.Array) -> jax.Array:
        """The first d of d + 1 exponentials with random signs, divided by the sum of all their sizes."""
        signed = jax.random.laplace(key, (math.prod(self.shape) + 1,))
        point = signed[:-1] * (self.radius / self._length(signed))
        return self.centre + point.reshape(self.shape)

    def to_cvxpy(self, x: Any) -> list[Any]:
        """One inequality on a sum of absolute values."""
        cp = _cvxpy()
        return [cp.sum(cp.abs(x - np.asarray(self.middle))) <= self.radius]

    @staticmethod
    def _length(offset: jax.Array) -> jax.Array:
        return jnp.sum(jnp.abs(offset))


@dataclass(frozen=True, init=False, eq=False)
class Box(Domain, leaves=("lower", "upper")):
    """The box {x : lower <= x <= upper}; scalar bounds hold for every entry of `shape`."""

    lower: Any
    upper: Any
    shape: tuple[int, ...]

    def __init__(self, lower: Any, upper: Any, shape: int | Sequence[int] | None = None) -> None:
        if shape is None:
            shape = np.shape(lower) or np.shape(upper)
            if not shape:
                raise TypeError("shape: got None and scalar bounds; expected the shape of a decision")
        wanted = _shape(shape)
        low, high = _reals("lower", lower, wanted), _reals("upper", upper, wanted)
        if np.any(low > high):
            at = tuple(int(i) for i in np.argwhere(low > high)[0])
            raise ValueError(f"lower: got {low[at]:g} at index {at}; expected at most upper = {high[at]:g}")
        self._set(lower=low, upper=high, shape=wanted)

    @property
    def centre(self) -> jax.Array:
        """The midpoint."""
        return jnp.asarray(self.lower + (self.upper - self.lower) / 2)

    @property
    def radius(self) -> Any:
        """Half the diagonal."""
        return self.diameter / 2

    @property
    def diameter(self) -> Any:
        """The diagonal."""
        return _norm(self.upper - self.lower)

    def project(self, x: jax.Array) -> jax.Array:
        """Entrywise clipping."""
        x = self._decision(x)
        return jnp.clip(x, *_cast(x.dtype, self.lower, self.upper))

    def contains(self, x: jax.Array, tolerance: float = 1e-9) -> jax.Array:
        """Whether lower <= x <= upper in every entry."""
        x = self._decision(x)
        wide = x.astype(_working(x))
        lower, upper = _cast(wide.dtype, self.lower, self.upper)
        slack = self._slack(x, jnp.maximum(jnp.abs(lower), jnp.abs(upper)), tolerance)
        return jnp.all((wide >= lower - slack) & (wide <= upper + slack))

    def sample(self, key: jax.Array) -> jax.Array:
        """Independent uniform entries."""
        lower, upper = jnp.asarray(self.lower), jnp.asarray(self.upper)
        return jnp.minimum(lower + (upper - lower) * jax.random.uniform(key, self.shape), upper)

    def to_cvxpy(self, x: Any) -> list[Any]:
        """Two linear inequalities."""
        return [x >= np.asarray(self.lower), x <= np.asarray(self.upper)]


@dataclass(frozen=True, init=False, eq=False)
class Simplex(Domain, leaves=("total",)):
    """The simplex {x : x >= 0, sum x = total} in `dimension` entries."""

    total: float
    shape: tuple[int, ...]

    def __init__(self, dimension: int, total: float = 1.0) -> None:
        self._set(total=errors.positive("total", total), shape=(errors.count("dimension", dimension),))

    @property
    def dimension(self) -> int:
        """The number of entries."""
        return self.shape[0]

    @property
    def centre(self) -> jax.Array:
        """Equal shares."""
        return jnp.full(self.shape, self.total / self.dimension)

    @property
    def radius(self) -> Any:
        """From equal shares to a vertex: total * sqrt(1 - 1/n)."""
        return self.total * math.sqrt(1 - 1 / self.dimension)

    @property
    def diameter(self) -> Any:
        """From vertex to vertex: total * sqrt(2); zero in one dimension."""
        return self.total * math.sqrt(2) if self.dimension > 1 else self.total * 0.0

    def project(self, x: jax.Array) -> jax.Array:
        """max(x - threshold, 0), the threshold found by sorting."""
        x = self._decision(x)
        return _onto_simplex(x.astype(_working(x)), self.total)[0].astype(x.dtype)

    def contains(self, x: jax.Array, tolerance: float = 1e-9) -> jax.Array:
        """Whether no entry is negative and the sum is `total`."""
        x = self._decision(x)
        total = jnp.asarray(self.total, _working(x))
        slack = self._slack(x, total, tolerance)
        return (jnp.min(x) >= -slack) & (jnp.abs(jnp.sum(x.astype(total.dtype)) - total) <= slack)

    def sample(self, key: jax.Array) -> jax.Array:
        """Exponentials divided by their sum."""
        shares = jax.random.exponential(key, self.shape)
        return self.total * shares / jnp.sum(shares)

    def to_cvxpy(self, x: Any) -> list[Any]:
        """Non-negativity and one linear equation."""
        cp = _cvxpy()
        return [x >= 0, cp.sum(x) == self.total]

    def to_dict(self) -> dict[str, Any]:
        """Dimension and total."""
        return {"kind": "Simplex", "dimension": self.dimension, "total": float(self.total)}


@dataclass(frozen=True, init=False, eq=False)
class Product(Domain, leaves=("parts",)):
    """The product of domains: a decision is the flat concatenation of the parts' decisions, in order."""

    parts: tuple[Domain, ...]
    shape: tuple[int, ...]

    def __init__(self, *parts: Domain) -> None:
        if not parts:
            raise TypeError("parts: got none; expected at least one Domain")
        for i, part in enumerate(parts):
            if not isinstance(part, Domain):
                raise TypeError(f"parts: got {part!r} at index {i}; expected a Domain")
        self._set(parts=parts, shape=(sum(math.prod(part.shape) for part in parts),))

    def split(self, x: Any) -> tuple[Any, ...]:
        """The parts of the decision `x`, each in its own shape."""
        ends = np.cumsum([math.prod(part.shape) for part in self.parts])[:-1].tolist()
        starts = zip([0, *ends], [*ends, self.shape[0]], self.parts, strict=True)
        return tuple(x[start:end].reshape(part.shape) for start, end, part in starts)

    def join(self, parts: Sequence[Any]) -> jax.Array:
        """The decision whose parts are `parts`."""
        if len(parts) != len(self.parts):
            raise ValueError(f"parts: got {len(parts)}; expected {len(self.parts)}")
        pieces = [part._decision(x) for part, x in zip(self.parts, parts, strict=True)]
        return jnp.concatenate([piece.ravel() for piece in pieces])

    @property
    def centre(self) -> jax.Array:
        """The parts' centres."""
        return self.join([part.centre for part in self.parts])

    @property
    def radius(self) -> Any:
        """The root of the sum of the parts' squared radii."""
        return _norm([part.radius for part in self.parts])

    @property
    def diameter(self) -> Any:
        """The root of the sum of the parts' squared diameters."""
        return _norm([part.diameter for part in self.parts])

    def project(self, x: jax.Array) -> jax.Array:
        """Each part on its own domain."""
        pieces = self.split(self._decision(x))
        return self.join([part.project(piece) for part, piece in zip(self.parts, pieces, strict=True)])

    def contains(self, x: jax.Array, tolerance: float = 1e-9) -> jax.Array:
        """Whether each part is in its own domain."""
        pieces = zip(self.parts, self.split(self._decision(x)), strict=True)
        return jnp.all(jnp.stack([part.contains(piece, tolerance) for part, piece in pieces]))

    def sample(self, key: jax.Array) -> jax.Array:
        """Independent parts."""
        keys = jax.random.split(key, len(self.parts))
        return self.join([part.sample(keys[i]) for i, part in enumerate(self.parts)])

    def to_cvxpy(self, x: Any) -> list[Any]:
        """The parts' constraints on slices of `x`."""
        cp = _cvxpy()
        constraints, start = [], 0
        for part in self.parts:
            end = start + math.prod(part.shape)
            constraints += part.to_cvxpy(cp.reshape(x[start:end], part.shape, order="C"))
            start = end
        return constraints

    def to_dict(self) -> dict[str, Any]:
        """The parts' descriptions."""
        return {"kind": "Product", "parts": [part.to_dict() for part in self.parts]}

    @classmethod
    def from_dict(cls, description: Mapping[str, Any]) -> Domain:
        """The domain that `to_dict` described."""
        return cls(*map(domain_from_dict, description["parts"]))


def domain_from_dict(description: Mapping[str, Any]) -> Domain:
    """The domain that a domain's `to_dict` described."""
    if not isinstance(description, Mapping) or "kind" not in description:
        raise TypeError(f"description: got {description!r}; expected a mapping with the entry 'kind'")
    kind = errors.one_of("kind", description["kind"], tuple(_KINDS))
    try:
        return _KINDS[kind].from_dict(description)
    except KeyError as missing:
        raise ValueError(f"description: got {dict(description)!r}; expected an entry {missing}") from None


def _onto_simplex(x: jax.Array, total: Any) -> tuple[jax.Array, jax.Array]:
    """The projection p = max(x - threshold, 0) of the vector `x` on {p >= 0, sum p = total}; the threshold.

    The threshold is max_j (sum of the j largest - total) / j: each j bounds it from below, and the j that
    counts the positive entries of p reaches it.
    """
    (total,) = _cast(x.dtype, total)
    ordered = jnp.sort(x, descending=True)
    counts = jnp.arange(1, x.size + 1, dtype=x.dtype)

    def threshold_from(origin: jax.Array) -> jax.Array:
        return jnp.max((jnp.cumsum(ordered - origin) - total) / counts)

    # Measured from the largest entry, far points lose no digits; measured once more from the threshold found
    # so, neither do many small entries beside a large one.
    origin = jax.lax.stop_gradient(ordered[0] + threshold_from(ordered[0]))
    threshold = threshold_from(origin)
    return jnp.maximum(x - origin - threshold, 0), origin + threshold


def _working(x: jax.Array) -> Any:
    """The float type sums are formed in: that of `x`, at least 32 bits."""
    return jnp.promote_types(x.dtype, jnp.float32)


def _finfo(dtype: Any) -> Any:
    """The limits of a float type, also of the 16-bit ones NumPy does not know."""
    limits: Any = jnp.finfo  # untyped in JAX
    return limits(dtype)


def _cast(dtype: Any, *leaves: Any) -> tuple[jax.Array, ...]:
    """The leaves as JAX arrays of type `dtype`."""
    return tuple(jnp.asarray(leaf, dtype) for leaf in leaves)


def _cvxpy() -> Any:
    """CVXPY, imported when first needed because it is slow to import."""
    import cvxpy

    return cvxpy


def _norm(values: Any) -> Any:
    """The Euclidean norm, in 64 bits when the values are known."""
    if any(isinstance(leaf, jax.Array) for leaf in jax.tree_util.tree_leaves(values)):
        return jnp.linalg.norm(jnp.asarray(values).ravel())
    return float(np.linalg.norm(np.ravel(values)))


def _reals(name: str, value: Any, shape: tuple[int, ...] | None = None) -> np.ndarray[Any, Any]:
    """A read-only copy of the finite array `value` in 64 bits; a scalar is repeated to fill `shape`."""
    array = errors.finite(name, value).astype(np.float64)
    if shape is not None:
        if array.shape not in ((), shape):
            raise ValueError(f"{name}: got shape {array.shape}; expected a scalar or shape {shape}")
        array = np.broadcast_to(array, shape).copy()
    array.setflags(write=False)
    return array


def _shape(shape: Any) -> tuple[int, ...]:
    """The shape of a decision; a number stands for a vector."""
    sizes = shape if isinstance(shape, (tuple, list)) else (shape,)
    return tuple(errors.count("shape", size) for size in sizes)
