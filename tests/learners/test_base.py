"""What all methods are built on: guarantees, settings, and errors of constructors."""

import dataclasses
import inspect
import math

import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.learners import schedules

KNOWN = taut.Constants(
    radius=1.0,
    loss_lipschitz=2.0,
    constraint_lipschitz=1.5,
    loss_range=4.0,
    constraint_range=1.5,
    strong_convexity=0.5,
    constraint_smoothness=0.1,
    constraint_count=1,
    slater=0.5,
    error_bound=0.5,
)
DISC = taut.Ball(1.0, shape=2)


def test_guarantees_are_about_known_quantities_and_name_their_theorem():
    with pytest.raises(ValueError, match=r"^quantity: got 'regrets'. Did you mean 'regret'"):
        taut.Guarantee("regrets", 1.0, "a theorem")
    with pytest.raises(TypeError, match=r"^source: got None"):
        taut.Guarantee("regret", 1.0, None)


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("bound", "12", TypeError),
        ("bound", b"12", TypeError),
        ("bound", True, TypeError),
        ("bound", 1j, TypeError),
        ("bound", [1.0, 2.0], TypeError),
        ("bound", np.ones(3), TypeError),
        ("bound", math.nan, ValueError),
        ("bound", np.float32("nan"), ValueError),
        ("assumptions", "convex losses", TypeError),
        ("reason", None, TypeError),
        ("expected", "no", TypeError),
        ("moving", 1, TypeError),
    ],
)
def test_guarantees_refuse_nonsense_by_name(field, value, error):
    with pytest.raises(error, match=f"^{field}: got"):
        taut.Guarantee(**{"quantity": "regret", "bound": 1.0, "source": "a theorem", field: value})


@pytest.mark.parametrize("bound", [None, 0, -1.5, math.inf, np.float32(2.0), np.array(3)])
def test_the_bound_of_a_guarantee_is_a_number_or_none(bound):
    kept = taut.Guarantee("regret", bound, "a theorem").bound
    assert kept == bound
    assert kept is None or type(kept) is float


def test_losses_without_strong_convexity_have_no_modulus():
    def formula(*, strong_convexity):
        return 1 / strong_convexity

    flat, curved = (taut.Setting(KNOWN.with_values(strong_convexity=h), 2.0) for h in (0.0, 0.5))
    found = flat.evaluate("regret", formula, "a theorem", ("strong_convexity",))
    assert (found.bound, found.reason) == (None, "strong_convexity (H) is not known")
    assert curved.evaluate("regret", formula, "a theorem", ("strong_convexity",)).bound == 2.0


def named(make, given):
    """Return what an error names, or None if there is none."""
    try:
        make(**given)
    except ValueError as error:
        return str(error).partition(":")[0]


@pytest.mark.parametrize("card", taut.LEARNERS)
def test_constructors_name_the_argument_or_the_constant_that_is_wrong(card):
    make = taut.LEARNERS[card].make
    declared = inspect.signature(make).parameters
    usual = {"constants": KNOWN, "horizon": 100, "domain": DISC, "feasible": DISC}
    given = {one: usual[one] for one in declared if one in usual}
    assert isinstance(make(**given), taut.Learner)
    for argument, about in declared.items():
        if about.annotation.split(" |")[0] in ("float", "int"):
            for bad in (math.nan, "text", *((0,) if argument == "horizon" else ())):
                with pytest.raises((TypeError, ValueError), match=f"^{argument}: got"):
                    make(**{**given, argument: bad})
    names = {"constants", *declared, *vars(make(**given)), *vars(KNOWN)}
    slopes = ("loss_lipschitz", "constraint_lipschitz", "constraint_range")
    unknown = {name: None for name in (*slopes, "radius", "slater")}
    for name, value in (*unknown.items(), *dict.fromkeys(slopes, 0.0).items()):
        assert named(make, {**given, "constants": KNOWN.with_values(**{name: value})}) in {
            None,
            *names,
        }


@pytest.mark.parametrize("card", taut.LEARNERS)
def test_learners_name_the_parameter_that_is_wrong(card):
    learner = taut.LEARNERS[card].build(
        taut.Problem(jnp.vdot, jnp.sum, DISC, KNOWN), 100, feasible=DISC
    )
    for parameter in dataclasses.fields(learner):
        for bad in ("text", math.nan, 2.5j):
            with pytest.raises((TypeError, ValueError), match=f"^{parameter.name}: got"):
                dataclasses.replace(learner, **{parameter.name: bad})


def test_schedules_without_values_or_gradients_say_so():
    with pytest.raises(TypeError, match=r"^Schedule: got a schedule without values"):
        schedules.Schedule()(jnp.asarray(1), jnp.float64)
    with pytest.raises(TypeError, match="the learner must call `with_gradient`"):
        schedules.AdaGradNorm(1.0)(jnp.asarray(1), jnp.float64)


def test_saddle_point_methods_are_not_clipped_unless_asked():
    made = (
        taut.SaddlePoint.mahdavi(KNOWN, 100),
        taut.SaddlePoint.jenatton(KNOWN),
        taut.SaddlePoint.jenatton_strongly_convex(KNOWN),
    )
    assert [learner.clipped for learner in made] == [False, False, False]
