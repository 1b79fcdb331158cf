"""Packing: trees survive it bit for bit; learners that JAX may confuse are refused."""

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from small_games import GAME, targets
from taut.engine import register_dataclass
from taut.learners import Learner
from taut.learners.base import State
from taut.play.packing import Packing, as_arrays

TREE = {
    "floats": np.array([[1.5, np.nextafter(1, 2)]]),
    "whole": np.array([3, -(2**31)], np.int32),
    "flag": np.array(True),
    "wide": np.array([2**62 + 1]),
    "narrow": np.array([0.1], np.float32),
    "none": None,
}


@pytest.mark.parametrize("floating", [np.float64, np.float32])
def test_trees_survive(floating):
    packing = Packing.of(TREE, np.dtype(floating))
    for packed in (packing.pack(TREE), packing.pack(TREE, xp=jnp)):
        assert len(packed) == packing.arrays
        assert packed[0].shape == (packing.size,)
        back = packing.unpack(packed)
        assert jax.tree.structure(back) == jax.tree.structure(TREE)
        for one, other in zip(jax.tree.leaves(back), jax.tree.leaves(TREE), strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)


def test_a_header_comes_before_the_numbers():
    packing = Packing.of(TREE, np.dtype(np.float64), header=2)
    packed = packing.pack(TREE, jnp.asarray([7.0, 8.0]), jnp)
    np.testing.assert_array_equal(packed[0][:2], [7, 8])
    np.testing.assert_array_equal(packing.unpack(packed)["floats"], TREE["floats"])
    np.testing.assert_array_equal(packing.pack(TREE)[0][:2], [0, 0])
    at = packing.where()["whole"]
    np.testing.assert_array_equal(at.read([np.asarray(each) for each in packed]), TREE["whole"])


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Confusable(Learner):
    eta: Any
    flag: bool = field(default=True, metadata={"static": True})

    def init(self, x1, count):
        return State(x1, jnp.asarray(1, jnp.int32))

    def step(self, state, round):
        return State(round.project(state.x - self.eta * round.gradient(state.x)), state.t + 1)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Inner:
    value: Any


@register_dataclass
@dataclass(frozen=True)
class Holding(Learner):
    inner: Any

    init, step = Confusable.init, Confusable.step


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Other:
    value: Any


@pytest.mark.skipif(
    jax.tree.structure(Inner(0.1)) != jax.tree.structure(Other(0.1)),
    reason="this version of JAX tells classes apart",
)
@pytest.mark.parametrize(
    ("learner", "name"), [(Confusable(0.1), "Confusable"), (Holding(Inner(0.1)), "Inner")]
)
def test_classes_that_jax_may_confuse_are_refused(learner, name):
    message = (
        rf"{name} is registered with jax.tree_util.register_dataclass.*@taut.learner_dataclass"
    )
    with pytest.raises(TypeError, match=message):
        taut.simulate(learner, GAME, targets(rounds=3))
    with pytest.raises(TypeError, match=message):
        taut.Player(learner, GAME)


def test_other_registrations_are_accepted():
    @jax.tree_util.register_pytree_node_class
    @dataclass(frozen=True)
    class Safe(Learner):
        eta: Any

        def tree_flatten(self):
            return (self.eta,), ()

        @classmethod
        def tree_unflatten(cls, static, children):
            return cls(*children)

        init, step = Confusable.init, Confusable.step

    assert as_arrays(Safe(0.1), np.float64).eta.dtype == np.float64
    assert as_arrays(Holding(taut.Ball(1.0, shape=2)), np.float32).inner.radius.dtype == np.float32
