"""Domains: simple sets that contain all decisions, each with an exact Euclidean projection.

Read `base` first (the contract), then one of the sets: `balls`, `box`, `simplex`, `affine_box`,
`spectral`, and for decisions of several parts `product`. `support` computes how far a domain
extends in given directions.

A domain is an immutable value and a JAX pytree. Its numbers (radius, bounds, ...) are leaves, so
that another radius does not recompile and a batch of radii can be mapped over; its `shape` is
static. Decisions are arrays of that shape, and distances are Euclidean over all entries (Frobenius
for matrices).
>>> import numpy as np
>>> Ball(radius=2.5, shape=2).project(np.array([3.0, 4.0])).tolist()
[1.5, 2.0]
"""

from __future__ import annotations

from .affine_box import AffineBox as AffineBox
from .balls import Ball as Ball, L1Ball as L1Ball
from .base import Domain as Domain, domain_from_dict as domain_from_dict
from .box import Box as Box
from .product import Blocks as Blocks, Product as Product
from .simplex import Simplex as Simplex
from .spectral import Spectral as Spectral
