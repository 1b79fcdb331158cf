"""The formulas of the theorems, by name: each returns a number for given constants and parameters.

Every function takes plain numbers by keyword, which are checked to be what the signature says. It
holds for all admissible parameters (not only tuned ones), for every convex problem with these
constants and for any data, including data chosen by an adaptive adversary. Outside its theorem it
raises `OutsideTheorem`. Its docstring has the proof, with the notation of the module where it is.
"""

from .learners.advised import (
    advice_regret as advice_regret,
)
from .learners.averaged import (
    averaged_block_violation as averaged_block_violation,
)
from .learners.averaged import (
    averaged_margin as averaged_margin,
)
from .learners.averaged import (
    averaged_smooth_violation as averaged_smooth_violation,
)
from .learners.averaged import (
    averaged_violation as averaged_violation,
)
from .learners.bandit import (
    bandit_expected_regret as bandit_expected_regret,
)
from .learners.bandit import (
    bandit_expected_violation as bandit_expected_violation,
)
from .learners.bandit import (
    two_point_moment as two_point_moment,
)
from .learners.block_frank_wolfe import (
    block_frank_wolfe_regret as block_frank_wolfe_regret,
)
from .learners.block_frank_wolfe import (
    block_frank_wolfe_squared_violation as block_frank_wolfe_squared_violation,
)
from .learners.block_frank_wolfe import (
    frank_wolfe_gap as frank_wolfe_gap,
)
from .learners.bounded_game import (
    bounded_game_expected_excess as bounded_game_expected_excess,
)
from .learners.bounded_game import (
    bounded_game_regret as bounded_game_regret,
)
from .learners.clipped_bounds import (
    clipped_anytime_regret as clipped_anytime_regret,
)
from .learners.clipped_bounds import (
    clipped_anytime_squared_violation as clipped_anytime_squared_violation,
)
from .learners.clipped_bounds import (
    clipped_anytime_violation as clipped_anytime_violation,
)
from .learners.clipped_bounds import (
    clipped_regret as clipped_regret,
)
from .learners.clipped_bounds import (
    clipped_squared_violation as clipped_squared_violation,
)
from .learners.clipped_bounds import (
    clipped_violation as clipped_violation,
)
from .learners.clipped_bounds import (
    error_bound_peak_violation as error_bound_peak_violation,
)
from .learners.clipped_bounds import (
    error_bound_squared_violation as error_bound_squared_violation,
)
from .learners.clipped_bounds import (
    error_bound_violation as error_bound_violation,
)
from .learners.clipped_bounds import (
    smooth_peak_violation as smooth_peak_violation,
)
from .learners.clipped_bounds import (
    strong_clipped_regret as strong_clipped_regret,
)
from .learners.clipped_bounds import (
    strong_clipped_squared_violation as strong_clipped_squared_violation,
)
from .learners.clipped_bounds import (
    strong_clipped_violation as strong_clipped_violation,
)
from .learners.clipped_parameters import (
    ClippedParameters as ClippedParameters,
)
from .learners.clipped_parameters import (
    clipped_objective as clipped_objective,
)
from .learners.clipped_parameters import (
    optimal_parameters as optimal_parameters,
)
from .learners.drift_plus_penalty import (
    drift_plus_penalty_excess as drift_plus_penalty_excess,
)
from .learners.drift_plus_penalty import (
    drift_plus_penalty_regret as drift_plus_penalty_regret,
)
from .learners.dual_mirror import (
    dual_mirror_expected_regret as dual_mirror_expected_regret,
)
from .learners.half_space.bounds import (
    Margin as Margin,
)
from .learners.half_space.bounds import (
    StepLengths as StepLengths,
)
from .learners.half_space.bounds import (
    adaptive_half_space_regret as adaptive_half_space_regret,
)
from .learners.half_space.bounds import (
    adaptive_step_lengths as adaptive_step_lengths,
)
from .learners.half_space.bounds import (
    clipped_slopes_limit as clipped_slopes_limit,
)
from .learners.half_space.bounds import (
    half_space_contraction as half_space_contraction,
)
from .learners.half_space.bounds import (
    half_space_distance as half_space_distance,
)
from .learners.half_space.bounds import (
    half_space_distance_squared as half_space_distance_squared,
)
from .learners.half_space.bounds import (
    half_space_distance_violation as half_space_distance_violation,
)
from .learners.half_space.bounds import (
    half_space_margin as half_space_margin,
)
from .learners.half_space.bounds import (
    half_space_regret as half_space_regret,
)
from .learners.half_space.bounds import (
    half_space_squared_violation as half_space_squared_violation,
)
from .learners.half_space.bounds import (
    kept_cuts_sweeps_violation as kept_cuts_sweeps_violation,
)
from .learners.half_space.bounds import (
    kept_cuts_violation as kept_cuts_violation,
)
from .learners.half_space.bounds import (
    kept_rows_violation as kept_rows_violation,
)
from .learners.half_space.bounds import (
    lifetime_limit as lifetime_limit,
)
from .learners.half_space.bounds import (
    lifetimes_violation as lifetimes_violation,
)
from .learners.half_space.bounds import (
    margin_holds as margin_holds,
)
from .learners.half_space.bounds import (
    path_violation as path_violation,
)
from .learners.half_space.bounds import (
    power_step_lengths as power_step_lengths,
)
from .learners.half_space.bounds import (
    recovery_regret as recovery_regret,
)
from .learners.half_space.bounds import (
    smooth_half_space_margin as smooth_half_space_margin,
)
from .learners.half_space.bounds import (
    smooth_half_space_peak as smooth_half_space_peak,
)
from .learners.half_space.bounds import (
    smooth_half_space_violation as smooth_half_space_violation,
)
from .learners.half_space.bounds import (
    strong_half_space_regret as strong_half_space_regret,
)
from .learners.projected_ogd import (
    hazan_regret as hazan_regret,
)
from .learners.projected_ogd import (
    projected_regret as projected_regret,
)
from .learners.saddle_point import (
    jenatton_excess as jenatton_excess,
)
from .learners.saddle_point import (
    jenatton_regret as jenatton_regret,
)
from .learners.saddle_point import (
    jenatton_strong_excess as jenatton_strong_excess,
)
from .learners.saddle_point import (
    jenatton_strong_regret as jenatton_strong_regret,
)
from .learners.saddle_point import (
    mahdavi_excess as mahdavi_excess,
)
from .learners.saddle_point import (
    mahdavi_regret as mahdavi_regret,
)
from .learners.saddle_point import (
    mahdavi_total_violation as mahdavi_total_violation,
)
from .learners.step_experts import (
    step_experts_penalty_regret as step_experts_penalty_regret,
)
from .learners.step_experts import (
    step_experts_regret as step_experts_regret,
)
from .learners.surrogate import (
    anytime_surrogate_regret as anytime_surrogate_regret,
)
from .learners.surrogate import (
    anytime_surrogate_violation as anytime_surrogate_violation,
)
from .learners.surrogate import (
    strong_surrogate_regret as strong_surrogate_regret,
)
from .learners.surrogate import (
    strong_surrogate_violation as strong_surrogate_violation,
)
from .learners.surrogate import (
    surrogate_regret as surrogate_regret,
)
from .learners.surrogate import (
    surrogate_violation as surrogate_violation,
)
from .learners.theorem import (
    OutsideTheorem as OutsideTheorem,
)
from .learners.theorem import (
    error_bound_from_slater as error_bound_from_slater,
)
from .learners.theorem import (
    path_cost as path_cost,
)
from .learners.theorem import (
    peak_from_squared as peak_from_squared,
)
from .learners.theorem import (
    tightening_cost as tightening_cost,
)
from .learners.theorem import (
    violation_from_squared as violation_from_squared,
)
from .learners.yu_neely import (
    yu_neely_excess as yu_neely_excess,
)
from .learners.yu_neely import (
    yu_neely_regret as yu_neely_regret,
)
