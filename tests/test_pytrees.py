"""Dataclasses as pytrees: checked when a user makes them, rebuilt from anything when JAX does."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.engine import register_dataclass
from taut.learners.schedules import Constant, Inverse, InverseRoot, Power, Reciprocal

MADE = {
    "constant": Constant(0.1),
    "inverse": Inverse(0.1, 1.0),
    "inverse root": InverseRoot(0.1),
    "power": Power(0.1, 0.0, 0.7),
    "reciprocal": Reciprocal(InverseRoot(0.1), 1.0),
    "clipped": taut.ClippedOGD(0.1, 4.0),
    "saddle point": taut.SaddlePoint(0.1, Inverse(2.0), 0.3, clipped=True),
    "queues": taut.DriftPlusPenalty(3.0, 9.0),
    "projected": taut.ProjectedOGD(0.1, taut.Box(-1.0, 1.0, shape=2)),
    "doubling": taut.Doubling.of(lambda horizon: taut.ClippedOGD(horizon**-0.5, 4.0), warm=True),
}


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_trees_are_rebuilt_from_any_leaves(made):
    leaves, structure = jax.tree.flatten(made)
    for fill in (object(), -1.0, "placeholder", jax.ShapeDtypeStruct((), float)):
        filled = jax.tree.unflatten(structure, [fill] * len(leaves))
        assert type(filled) is type(made)
        assert jax.tree.structure(filled) == structure
        assert jax.tree.leaves(filled) == [fill] * len(leaves)
    assert jax.tree.leaves(jax.tree.map(lambda leaf: None, made)) == []
    again = jax.jit(lambda tree: jax.tree.map(lambda leaf: 3 * leaf, tree))(made)  # tracers
    assert jax.tree.structure(again) == structure
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, 3 * b, rtol=1e-15), again, made)
    for field in dataclasses.fields(made):
        assert type(getattr(again, field.name)) is type(
            getattr(made, field.name)
        ) or not field.metadata.get("static")
    assert hash(structure) == hash(jax.tree.structure(again))


def test_only_a_user_is_checked():
    with pytest.raises(ValueError, match="sigma: got -4; expected a positive number"):
        dataclasses.replace(MADE["clipped"], sigma=-4.0)
    assert dataclasses.replace(MADE["clipped"], eta=0.5).eta == Constant(0.5)
    with pytest.raises(TypeError, match="feasible: got 3"):
        dataclasses.replace(MADE["projected"], feasible=3)
    with pytest.raises(TypeError, match="eta"):
        taut.ClippedOGD(sigma=4.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        jax.tree.map(lambda leaf: leaf, MADE["clipped"]).sigma = 1.0


def test_nothing_is_checked_again_in_a_compiled_call():
    checked = []

    @register_dataclass
    @dataclasses.dataclass(frozen=True, slots=True)
    class Counted:
        leaf: Any
        fixed: int = dataclasses.field(default=3, metadata={"static": True})

        def __post_init__(self):
            checked.append(self)

    one = Counted(1.0)
    double = jax.jit(lambda counted: jax.tree.map(lambda leaf: 2 * leaf, counted))
    assert float(double(double(one)).leaf) == 4
    assert double(one).fixed == 3
    assert len(checked) == 1


def test_parameters_that_are_traced_or_on_a_device_are_schedules_too():
    t = jnp.asarray(4)

    def value(eta):
        return (
            taut.ClippedOGD(eta, 4.0).eta(t, float),
            Reciprocal(eta, 1.0)(t, float),
            InverseRoot(eta, eta)(t, float),
        )

    for take in (value, jax.jit(value)):
        got = [float(one) for one in take(jnp.asarray(0.5))]
        assert got == pytest.approx([0.5, 1 / (0.5 * 5), 0.5 / 4.5**0.5], rel=1e-15)
    np.testing.assert_allclose(jax.vmap(value)(np.array([0.5, 0.25]))[0], [0.5, 0.25])


def test_a_class_that_jax_itself_rebuilds_takes_placeholders():
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Own(taut.ClippedOGD):
        pass

    made = Own(Reciprocal(Power(0.1, 1.0, 0.7)), 4.0)
    for fill in (object(), jax.ShapeDtypeStruct((), float)):
        filled = jax.tree.unflatten(jax.tree.structure(made), [fill] * len(jax.tree.leaves(made)))
        assert filled.eta.of.exponent is filled.sigma is fill
    assert float(jax.jit(lambda own: own.eta(jnp.asarray(1), float))(made)) == pytest.approx(
        2**0.7 / 0.1
    )
