"""Formulas of the theorems. Each has one function, which returns a number for given constants and
parameters.

Read `clipped_ogd` first (Theorem 1, with the notation), then `step_sums` (sums of step sizes) and
the file of the family that you are interested in. `conversions` derives bounds on one quantity from
bounds on another.

Every function takes plain numbers by keyword, which are checked to be what the annotations say
(`theorem`). It holds for all admissible parameters (not only
tuned ones), for every convex problem with these constants and for any data, including data chosen
by an adaptive adversary. Outside its theorem it raises `OutsideTheorem`.
"""

from __future__ import annotations

from .averaged import *
from .bandit import *
from .block_frank_wolfe import *
from .bounded_game import *
from .clipped_ogd import *
from .clipped_parameters import *
from .conversions import *
from .drift_plus_penalty import *
from .dual_mirror import *
from .error_bound import *
from .half_space import *
from .kept_cuts import *
from .projected_ogd import *
from .saddle_point import *
from .smooth_half_space import *
from .step_experts import *
from .surrogate import *
from .theorem import OutsideTheorem
from .yu_neely import *

__all__ = [
    "ClippedParameters",
    "Margin",
    "OutsideTheorem",
    "StepLengths",
    "adaptive_half_space_regret",
    "adaptive_step_lengths",
    "advice_regret",
    "anytime_surrogate_regret",
    "anytime_surrogate_violation",
    "averaged_block_violation",
    "averaged_margin",
    "averaged_smooth_violation",
    "averaged_violation",
    "bandit_expected_regret",
    "bandit_expected_violation",
    "block_frank_wolfe_regret",
    "block_frank_wolfe_squared_violation",
    "bounded_game_expected_excess",
    "bounded_game_regret",
    "clipped_anytime_regret",
    "clipped_anytime_squared_violation",
    "clipped_anytime_violation",
    "clipped_objective",
    "clipped_regret",
    "clipped_slopes_limit",
    "clipped_squared_violation",
    "clipped_violation",
    "drift_plus_penalty_excess",
    "drift_plus_penalty_queue",
    "drift_plus_penalty_regret",
    "dual_mirror_expected_regret",
    "error_bound_distance",
    "error_bound_from_slater",
    "error_bound_peak_violation",
    "error_bound_squared_violation",
    "error_bound_violation",
    "frank_wolfe_gap",
    "half_space_contraction",
    "half_space_distance",
    "half_space_distance_squared",
    "half_space_distance_violation",
    "half_space_margin",
    "half_space_regret",
    "half_space_squared_violation",
    "hazan_regret",
    "jenatton_excess",
    "jenatton_regret",
    "jenatton_strong_excess",
    "jenatton_strong_regret",
    "kept_cuts_sweeps_violation",
    "kept_cuts_violation",
    "kept_rows_violation",
    "lifetime_limit",
    "lifetimes_violation",
    "mahdavi_excess",
    "mahdavi_regret",
    "mahdavi_total_violation",
    "margin_cost",
    "margin_holds",
    "optimal_parameters",
    "path_cost",
    "path_violation",
    "peak_from_squared",
    "power_step_lengths",
    "projected_regret",
    "recovery_regret",
    "smooth_half_space_margin",
    "smooth_half_space_peak",
    "smooth_half_space_violation",
    "smooth_peak_violation",
    "step_experts_penalty_regret",
    "step_experts_regret",
    "strong_clipped_regret",
    "strong_clipped_squared_violation",
    "strong_clipped_violation",
    "strong_half_space_regret",
    "strong_surrogate_regret",
    "strong_surrogate_violation",
    "surrogate_regret",
    "surrogate_violation",
    "tightening_cost",
    "two_point_moment",
    "violation_from_squared",
    "yu_neely_excess",
    "yu_neely_regret",
]
