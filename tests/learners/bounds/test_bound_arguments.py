"""Every formula refuses arguments that are no numbers, and an error names the argument that is
wrong."""

import inspect
import math
import re

import pytest

import taut
from taut import bounds

VALID = {
    "experts": 3,
    "beta": 0.5,
    "changed": 3,
    "block": 5,
    "constraint_count": 2,
    "constraint_lipschitz": 1.0,
    "constraint_scale": 1.0,
    "count": 4,
    "delta": 4.0,
    "diameter": 2.0,
    "error_bound": 0.5,
    "eta": 0.01,
    "gain": 3.0,
    "half_spaces": 3,
    "horizon": 100,
    "in_force": 3,
    "initial_excess": -1.0,
    "inner_radius": 0.5,
    "life": 4,
    "limit": 3.0,
    "longest": 0.01,
    "loss_slope": 1.0,
    "margin": 0.1,
    "norm": 1.5,
    "penalty": 30.0,
    "proximity": 50.0,
    "radius": 1.0,
    "rate": 0.01,
    "scale": 1.0,
    "sigma": 30.0,
    "size": 2,
    "slater": 0.5,
    "start_up": 1.0,
    "strong_convexity": 0.5,
    "sweeps": 2,
    "theta": 20.0,
    "constants": taut.Constants(
        radius=1.0, loss_lipschitz=1.0, constraint_lipschitz=1.0, constraint_count=2
    ),
    "lengths": bounds.power_step_lengths(horizon=100, eta=0.01, loss_lipschitz=1.0),
}
FORMULAS = {
    name: found for name, found in sorted(vars(bounds).items()) if inspect.isfunction(found)
}
OTHER = {
    "bounded_game_expected_excess": {"slater": 0.9},
    "margin_holds": {"longest": 1e-9},
}


def given_to(name):
    """Return valid arguments, those with a default left out."""
    declared = inspect.signature(FORMULAS[name]).parameters
    given = {
        one: VALID.get(one, 0.7)
        for one, about in declared.items()
        if about.default is inspect.Parameter.empty
    }
    return {
        **given,
        **({"eta": 0.01} if name.startswith("error_bound_") and "eta" in declared else {}),
        **OTHER.get(name, {}),
    }


def outcome(formula, given):
    """Return the argument that an error names, and the result if there is no error."""
    try:
        return None, formula(**given)
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        said = re.match(r"(\w+): got", str(error))
        return said and said[1], None


@pytest.mark.parametrize("name", FORMULAS)
def test_errors_name_the_argument(name):
    formula, given = FORMULAS[name], given_to(name)
    declared = inspect.signature(formula).parameters
    assert formula(**given) is not None
    for argument, about in declared.items():
        if about.annotation.split(" |")[0] in ("float", "int", "bool"):
            for bad in (math.nan, "text"):
                with pytest.raises((TypeError, ValueError), match=f"^{argument}: got"):
                    formula(**{**given, argument: bad})
        for bad in (-1.0, 0.0, math.inf, 10**9):
            named, found = outcome(formula, {**given, argument: bad})
            assert named is None or named in declared, argument
            assert not isinstance(found, float) or not math.isnan(found) or bad == math.inf, (
                argument
            )


def test_what_sweeps_leave_over_adds_a_convergent_sum():
    """Round t adds G_g D / t^2 at most, so that all rounds together add little."""
    given = {**given_to("averaged_smooth_violation"), "constraint_smoothness": 0.0, "sigma": 0.0}
    exact = bounds.averaged_smooth_violation(**given)
    swept = bounds.averaged_smooth_violation(**given, several=True, constraint_lipschitz=1.0)
    assert exact < swept < exact + given["diameter"] * math.pi**2
