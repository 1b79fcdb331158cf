"""Arguments that are True or False: a text such as "no" has a truth value too, and is refused by
name everywhere."""

import dataclasses
import inspect

import cvxpy as cp
import jax.numpy as jnp
import numpy as np
import pytest

import taut
import taut.arena

BALL = taut.Ball(1.0, shape=2)
PROBLEM = taut.Problem(
    lambda x, c: c @ x,
    lambda x: jnp.sum(jnp.abs(x)) - 1,
    BALL,
    taut.Constants(
        loss_lipschitz=1.0, constraint_lipschitz=1.5, loss_range=2.0, constraint_range=1.0
    ),
)
COSTS = np.ones((6, 2))
LEARNER = taut.ClippedOGD(0.1, 4.0)
STREAM = {"name": "a", "title": "b", "make": len, "draw": len, "source": "c", "setting": "requests"}


def tuned(horizon):
    return taut.ClippedOGD.tuned(PROBLEM.constants, horizon)


def modelled(**options):
    x = cp.Variable(2, name="x")
    return taut.from_cvxpy(cp.sum(x), [x <= 1, x >= 0], **options)


def certified(**options):
    return taut.certify(taut.simulate(LEARNER, PROBLEM, COSTS), **options)


def swept(**options):
    return taut.sweep([taut.Cell(LEARNER, PROBLEM, COSTS)], **options)


CALLS = {
    "taut.Advised": lambda **o: taut.Advised(taut.HalfSpace(0.1, 2.0), **o),
    "taut.Card": lambda **o: taut.Card("a", taut.ClippedOGD, **o),
    "taut.Cell": lambda **o: taut.Cell(LEARNER, PROBLEM, COSTS, **o),
    "taut.Certificate.plot": lambda **o: certified().plot(**o),
    "taut.Certificate.text": lambda **o: certified().text(**o),
    "taut.Comparison.plot": lambda **o: taut.compare([LEARNER], PROBLEM, COSTS).plot(**o),
    "taut.Constants.with_values": lambda **o: taut.Constants().with_values(**o),
    "taut.Doubling": lambda **o: taut.Doubling(taut.Doubling.of(tuned).epochs, 1, **o),
    "taut.Doubling.of": lambda **o: taut.Doubling.of(tuned, **o),
    "taut.Guarantee": lambda **o: taut.Guarantee("regret", 1.0, "a", **o),
    "taut.HalfSpace": lambda **o: taut.HalfSpace(0.1, 2.0, **o),
    "taut.HalfSpace.adaptive": lambda **o: taut.HalfSpace.adaptive(BALL, **o),
    "taut.HalfSpace.tuned": lambda **o: taut.HalfSpace.tuned(PROBLEM.constants, 10, BALL, **o),
    "taut.HalfSpace.anytime": lambda **o: taut.HalfSpace.anytime(PROBLEM.constants, BALL, **o),
    "taut.HalfSpace.strongly_convex": lambda **o: taut.HalfSpace.strongly_convex(
        PROBLEM.constants.with_values(strong_convexity=1.0), **o
    ),
    "taut.Player": lambda **o: taut.Player(LEARNER, PROBLEM, **o),
    "taut.Player.from_bytes": lambda **o: taut.Player.from_bytes(b"", PROBLEM, **o),
    "taut.Player.load": lambda **o: taut.Player.load("unused", PROBLEM, **o),
    "taut.Player.save": lambda **o: taut.Player(LEARNER, PROBLEM).save("unused", **o),
    "taut.Player.to_bytes": lambda **o: taut.Player(LEARNER, PROBLEM).to_bytes(**o),
    "taut.Problem": lambda **o: taut.Problem(PROBLEM.loss, lambda x: x, BALL, **o),
    "taut.Run.plot": lambda **o: taut.simulate(LEARNER, PROBLEM, COSTS).plot(**o),
    "taut.Run": lambda **o: dataclasses.replace(taut.simulate(LEARNER, PROBLEM, COSTS), **o),
    "taut.SaddlePoint": lambda **o: taut.SaddlePoint(0.1, 0.1, 0.1, **o),
    "taut.SaddlePoint.mahdavi": lambda **o: taut.SaddlePoint.mahdavi(PROBLEM.constants, 10, **o),
    "taut.SaddlePoint.jenatton": lambda **o: taut.SaddlePoint.jenatton(PROBLEM.constants, **o),
    "taut.SaddlePoint.jenatton_strongly_convex": lambda **o: (
        taut.SaddlePoint.jenatton_strongly_convex(
            PROBLEM.constants.with_values(strong_convexity=1.0), **o
        )
    ),
    "taut.Setting": lambda **o: taut.Setting(PROBLEM.constants, 2.0, **o),
    "taut.Setting.evaluate": lambda **o: taut.Setting(PROBLEM.constants, 2.0).evaluate(
        "regret", lambda **_: 1.0, "a", (), **o
    ),
    "taut.certify": certified,
    "taut.compare": lambda **o: taut.compare([LEARNER], PROBLEM, COSTS, **o),
    "taut.from_cvxpy": modelled,
    "taut.recommend": lambda **o: taut.recommend(PROBLEM, 10, **o),
    "taut.step": lambda **o: taut.step(
        LEARNER, PROBLEM, taut.init(LEARNER, PROBLEM), COSTS[0], **o
    ),
    "taut.simulate": lambda **o: taut.simulate(LEARNER, PROBLEM, COSTS, **o),
    "taut.sweep": swept,
    "taut.arena.Stream": lambda **o: taut.arena.Stream(**STREAM, **o),
    "taut.arena.play": lambda **o: taut.arena.play("unused", learners=[], streams=[], **o),
}


def flags_of(path, function):
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return
    for name, parameter in parameters.items():
        if "bool" in str(parameter.annotation):
            yield path, name


def public_flags():
    """Every parameter of a public function, class or method that is annotated as True or False."""
    known = set()
    for module in (taut, taut.arena):
        for name in dir(module):
            value = getattr(module, name)
            if name[0] == "_" or inspect.ismodule(value) or not callable(value) or value in known:
                continue
            known.add(value)
            yield from flags_of(f"{module.__name__}.{name}", value)
            methods = vars(value) if inspect.isclass(value) else ()
            for method in (one for one in methods if one[0] != "_"):
                yield from flags_of(f"{module.__name__}.{name}.{method}", getattr(value, method))


@pytest.mark.parametrize(("path", "name"), sorted(public_flags()))
@pytest.mark.parametrize("value", ["no", 0])
def test_only_true_and_false_are_flags(path, name, value):
    with pytest.raises(TypeError, match=rf"^{name}: got {value!r}; expected True or False"):
        CALLS[path](**{name: value})
