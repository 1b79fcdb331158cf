"""Domains: the simple sets decisions live in, each with an exact Euclidean projection.

A domain is an immutable value and a JAX pytree. Its numbers (radius, bounds, ...) are leaves, so a second
radius never recompiles and a batch of radii can be mapped over; its `shape` is static. Decisions are arrays
of that shape, and distances are Euclidean over all entries (Frobenius for matrices).

The sets are in files of their own: `balls`, `box`, `simplex`, `product`; `base` has what they share.

>>> import numpy as np
>>> Ball(radius=2.5, shape=2).project(np.array([3.0, 4.0])).tolist()
[1.5, 2.0]
"""

from __future__ import annotations

from .balls import Ball, L1Ball
from .base import Domain, domain_from_dict
from .box import Box
from .product import Product
from .simplex import Simplex

__all__ = ["Ball", "Box", "Domain", "L1Ball", "Product", "Simplex", "domain_from_dict"]
