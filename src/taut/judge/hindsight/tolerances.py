"""Every tolerance and limit of the hindsight solvers, each with its reason.

Points, losses and constraints are measured in units of their own (see `scaling.py`), so that
absolute numbers mean the same whatever they are multiplied with.
"""

from __future__ import annotations

# Feasibility
FEASIBLE = 1e-9
"""The largest value of a constraint that counts as feasible."""
ALLOWED_EXCESS = 10.0
"""How many times FEASIBLE a constraint may be at a solution: tangents aim at once, rounding adds to
it."""
NEAR = 1e-6
"""Constraints above minus this are near enough to be active at the optimum."""

NO_INTERIOR = 3e-6
"""A set has no interior if no decision satisfies all constraints by more than this."""

# Structure: is a function affine, quadratic, smooth?
SAME = 1e-9
"""Numbers that differ by less than this share of their size are taken as equal; every round is
checked again later."""
MISFIT = 1e-9
"""A round whose loss differs by more than this share from its quadratic polynomial is not
quadratic."""
JUMP = 0.25
"""A gradient that changes by more than this share over 1/64 of a segment has a kink."""

# Convexity
BELOW_TANGENT = 1e-7
"""A constraint below its own tangent by more than this share of the sampled values is not
convex."""
LOSS_BELOW_TANGENT = 1e-9
"""The same for sums of losses, which are compared at a few points only."""
CONCAVE = 1e-9
"""An eigenvalue of a Hessian below minus this share of the largest one is negative, not rounded,"""
CONCAVE_SLOPE = 1e-12
"""unless it is below this share of the gradient, where the Hessian is rounding noise."""

# Newton's method and its line search
NEWTON_STEPS = 100
"""The largest number of Newton steps, each with its passes over the stream."""
SHORTEST_STEP = 1e-6
"""A line search that halves its step below this has failed: the losses are not smooth there."""
ARMIJO = 1e-4
"""The share of the predicted decrease that a step must achieve (Armijo's rule)."""
VALUE_ROUNDING = 1e-13
"""Values closer than this share of their size are equal as far as 64 bits can tell."""
STOP = 0.5
"""Steps end at this share of the tolerance, so that rounding in the final check cannot exceed
it,"""
MODEL_STOP = 0.25
"""and the program of a step is solved to this share."""
INEXACT = (1e-3, 1e-4)
"""Programs of early steps are solved to this share of the gap, at most to the second number: more
would be wasted."""
START = 1e-4
"""The relative gap to which the feasible start is solved; only its feasibility matters."""

# The feasible set and its tangents
TANGENT_STEPS = 400
"""The largest number of rounds of tangents in one program,"""
CURVATURE_STEPS = 60
"""of which so many add the curvature of active constraints to the objective; pure cutting planes,
which cannot cycle, follow."""
TANGENT_PATIENCE = 4
"""Steps of pure cutting planes that add no new tangent after which more would not help."""
TANGENTS_AT_ONCE = 24
"""How many tangents one point may add; the most violated ones come first."""
LARGEST_CURVATURE = 1e12
"""Curvature beyond this multiple of the losses' own comes from multipliers that do not exist."""
PROVEN = 1e-10
"""A relative gap that is small enough to skip tangents at the solution itself."""
VIOLATION_STEPS = 200
"""The largest number of rounds of tangents in the search for the least-violating decision,"""
LEAST_VIOLATION = 1e-6
"""which ends when value and bound differ by this, relatively."""
NUDGE = 1e-7
"""How far from a point without a gradient its tangent is taken."""
HUGE = 1e200
"""Second derivatives are clipped here, so that their sums stay finite."""
USED = 1e-9
"""Cuts whose multiplier is above this share of the largest one count as used."""
NEGLIGIBLE = 1e-13
"""Multipliers below this share of the largest one are left out of lower bounds,"""
NEGLIGIBLE_CURVATURE = 1e-12
"""and out of the curvature that constraints add to the objective."""

# Cutting planes of losses
PLANE_STEPS = 1000
"""The largest number of cutting planes per loss."""
PLANE_PATIENCE = 40
"""Steps without any progress after which more would not help."""

# The conic program
QUICK = 1e-8
"""An error of the optimality conditions that is good enough for a first program, whose result is
refined."""
SWITCHED_OFF = 10.0
"""The offset that switches a cut off: cuts have unit length, and points at most length 1."""
OPPOSITE = 1e-12
"""Rows that differ from each other's negative by less than this are the two sides of an
equation."""
RANK = 1e-14
"""Eigenvalues below this share of the largest one are zero."""
CENTRED = 1e-13
"""A quadratic constraint has a centre if its gradient vanishes there up to this."""
