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
    averaged_margin as averaged_margin,
    averaged_smooth_violation as averaged_smooth_violation,
    averaged_violation as averaged_violation,
)
from .learners.bandit import (
    bandit_expected_regret as bandit_expected_regret,
    bandit_expected_violation as bandit_expected_violation,
    two_point_moment as two_point_moment,
)
from .learners.block_frank_wolfe import (
    block_frank_wolfe_regret as block_frank_wolfe_regret,
    block_frank_wolfe_squared_violation as block_frank_wolfe_squared_violation,
    frank_wolfe_gap as frank_wolfe_gap,
)
from .learners.bounded_game import (
    bounded_game_expected_excess as bounded_game_expected_excess,
    bounded_game_regret as bounded_game_regret,
)
from .learners.clipped_bounds import (
    clipped_regret as clipped_regret,
    clipped_squared_violation as clipped_squared_violation,
    clipped_violation as clipped_violation,
    error_bound_peak_violation as error_bound_peak_violation,
    error_bound_squared_violation as error_bound_squared_violation,
    error_bound_violation as error_bound_violation,
    smooth_peak_violation as smooth_peak_violation,
    strong_clipped_regret as strong_clipped_regret,
    strong_clipped_squared_violation as strong_clipped_squared_violation,
    strong_clipped_violation as strong_clipped_violation,
)
from .learners.clipped_parameters import (
    ClippedParameters as ClippedParameters,
    clipped_objective as clipped_objective,
    optimal_parameters as optimal_parameters,
)
from .learners.drift_plus_penalty import (
    drift_plus_penalty_excess as drift_plus_penalty_excess,
    drift_plus_penalty_regret as drift_plus_penalty_regret,
)
from .learners.dual_mirror import (
    dual_mirror_expected_regret as dual_mirror_expected_regret,
)
from .learners.half_space.bounds import (
    Margin as Margin,
    StepLengths as StepLengths,
    adaptive_half_space_regret as adaptive_half_space_regret,
    adaptive_step_lengths as adaptive_step_lengths,
    clipped_slopes_limit as clipped_slopes_limit,
    half_space_contraction as half_space_contraction,
    half_space_distance as half_space_distance,
    half_space_distance_squared as half_space_distance_squared,
    half_space_distance_violation as half_space_distance_violation,
    half_space_margin as half_space_margin,
    half_space_regret as half_space_regret,
    half_space_squared_violation as half_space_squared_violation,
    kept_cuts_violation as kept_cuts_violation,
    lifetime_limit as lifetime_limit,
    lifetimes_violation as lifetimes_violation,
    margin_holds as margin_holds,
    path_violation as path_violation,
    power_step_lengths as power_step_lengths,
    recovery_regret as recovery_regret,
    smooth_half_space_margin as smooth_half_space_margin,
    smooth_half_space_peak as smooth_half_space_peak,
    smooth_half_space_violation as smooth_half_space_violation,
    strong_half_space_regret as strong_half_space_regret,
)
from .learners.projected_ogd import (
    hazan_regret as hazan_regret,
    projected_regret as projected_regret,
)
from .learners.saddle_point import (
    jenatton_excess as jenatton_excess,
    jenatton_regret as jenatton_regret,
    jenatton_strong_excess as jenatton_strong_excess,
    jenatton_strong_regret as jenatton_strong_regret,
    mahdavi_excess as mahdavi_excess,
    mahdavi_regret as mahdavi_regret,
    mahdavi_total_violation as mahdavi_total_violation,
)
from .learners.step_experts import (
    step_experts_penalty_regret as step_experts_penalty_regret,
    step_experts_regret as step_experts_regret,
)
from .learners.surrogate import (
    anytime_surrogate_regret as anytime_surrogate_regret,
    anytime_surrogate_violation as anytime_surrogate_violation,
    strong_surrogate_regret as strong_surrogate_regret,
    strong_surrogate_violation as strong_surrogate_violation,
    surrogate_regret as surrogate_regret,
    surrogate_violation as surrogate_violation,
)
from .learners.theorem import (
    OutsideTheorem as OutsideTheorem,
    error_bound_from_slater as error_bound_from_slater,
    path_cost as path_cost,
    peak_from_squared as peak_from_squared,
    tightening_cost as tightening_cost,
    violation_from_squared as violation_from_squared,
)
from .learners.yu_neely import (
    yu_neely_excess as yu_neely_excess,
    yu_neely_regret as yu_neely_regret,
)
