"""Player: a learner in live use, one round at a time, with the same step function as the simulation."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from . import archive, errors
from ._version import __version__
from .feasibility import check_feasible
from .learners import Learner
from .problem import Problem
from .rounds import FullInformation, Observed, Round
from .opening import first_decision

__all__ = ["Player", "Tally"]

FORMAT = 1
_PARTS = ("loss", "loss gradient", "constraints", "next decision")
Array = np.ndarray[Any, Any]


class Tally(NamedTuple):
    """Running totals, in 64 bits: of the loss, and of each constraint's excess in every sense of the word."""

    rounds: int
    loss: float
    excess: Array
    violation: Array
    squared: Array
    peak: Array


class _Answer(NamedTuple):
    state: Any
    report: jax.Array
    """One array, because each transfer costs: what was not finite (bits: loss, gradient, constraints, decision), the loss,
    the excess of each constraint, the next decision."""


class Player:
    """A learner playing live: read `decision`, act on it, then `observe` what happened.

    Arguments:
        learner: the method with its parameters.
        problem: the game.
        x1: the first decision; by default the centre of the domain.
        count: the number of constraints, needed only when they depend on the round's data.

    A bad observation is refused and leaves the player as it was.

    >>> import jax.numpy as jnp, numpy as np, taut
    >>> toy = taut.Problem(lambda x, c: c @ x, lambda x: jnp.abs(x).sum() - 1, taut.Ball(1.0, shape=2))
    >>> player = taut.Player(taut.ClippedOGD(eta=0.1, sigma=4.0), toy)
    >>> player.observe(np.array([1.0, 0.0]))
    >>> player.decision
    array([-0.1,  0. ], dtype=float32)
    """

    def __init__(self, learner: Learner, problem: Problem, *, x1: Any = None, count: int | None = None) -> None:
        if not isinstance(learner, Learner):
            raise TypeError(f"learner: got {learner!r}; expected a taut learner")
        if not isinstance(problem, Problem):
            raise TypeError(f"problem: got {problem!r}; expected taut.Problem(...)")
        check_feasible(problem)
        self.learner, self.problem = learner, problem
        first = first_decision(problem, x1)
        count = count or problem.constants.constraint_count
        if count is None:
            raise ValueError("count: got None; expected the number of constraints, which depends on the round's data")
        self._count = errors.count("count", count)
        self._state = learner.init(first, self._count)
        # Numbers are put on the device once: handing them over anew would cost more than the step itself.
        parts = jax.tree.map(jnp.asarray, (problem.constraints, problem.domain, learner))
        self._leaves, structure = jax.tree.flatten(parts)
        self._reveal, self._measure = _reveal(problem.loss, structure), _measure(structure)
        self._dtype = first.dtype
        self._shapes: Any = None
        zero = np.zeros(self._count)
        self._tally = Tally(0, 0.0, zero, zero, zero, zero)
        self._decision: Array = np.asarray(self._state.x)

    @property
    def decision(self) -> Array:
        """x_t, what to play now: a NumPy array of its own, which the caller may change."""
        return self._decision.copy()

    @property
    def totals(self) -> Tally:
        """Running totals of loss and violations."""
        return self._tally

    @property
    def round(self) -> int:
        """The round about to be played, from 1."""
        return self._tally.rounds + 1

    def observe(
        self, z: Any = None, *, gradient: Any = None, excess: Any = None, jacobian: Any = None, loss: float | None = None
    ) -> None:
        """Reveal the round: its data `z`, or what was measured at the decision just played.

        Arguments:
            z: the data, as the problem's loss takes it.
            gradient: a subgradient of the loss at the decision, of its shape.
            excess: the constraint values g(x_t), shape (m,) or a number if m = 1.
            jacobian: their gradients, shape (m, *decision) or that of the decision if m = 1.
            loss: the loss itself, for the totals; optional.
        """
        measured = gradient is not None or excess is not None or jacobian is not None
        if measured == (z is not None):
            raise TypeError("z: got both or neither of z and measurements; expected z, or gradient, excess and jacobian")
        if measured:
            answer = self._measured(gradient, excess, jacobian, loss)
        else:
            if loss is not None:
                raise TypeError("loss: got a value beside z; expected it only beside gradient, excess and jacobian")
            answer = self._revealed(z)
        report = np.asarray(answer.report, np.float64)
        if report[0] != 0:
            what = next(name for bit, name in enumerate(_PARTS) if int(report[0]) >> bit & 1)
            raise ValueError(f"{what}: got a value that is not finite for this observation; expected finite numbers")
        values = report[2 : 2 + self._count]
        clipped = np.maximum(values, 0.0)
        old = self._tally
        self._tally = Tally(
            old.rounds + 1, old.loss + report[1], old.excess + values, old.violation + clipped,
            old.squared + clipped * clipped, np.maximum(old.peak, clipped),
        )  # fmt: skip
        self._state = answer.state
        self._decision = report[2 + self._count :].astype(self._dtype).reshape(self.problem.domain.shape)

    def _revealed(self, z: Any) -> _Answer:
        if type(z) is np.ndarray:  # the common case, without walking a tree
            z, shapes = self._data(z), z.shape
        else:
            z = jax.tree.map(self._data, z)
            shapes = jax.tree.map(np.shape, z)
        if self._shapes is None:
            self._check_shapes(z)
            self._shapes = shapes
        elif shapes != self._shapes:
            raise ValueError(f"z: got data of shape {shapes}; expected {self._shapes}, as in earlier rounds")
        return self._reveal(self._leaves, self._state, z)

    def _data(self, leaf: Any) -> Array:
        array = leaf if isinstance(leaf, np.ndarray) else np.asarray(leaf)
        if array.dtype.kind == "f":
            return array if array.dtype == self._dtype else array.astype(self._dtype)
        if array.dtype.kind in "iub":
            return array
        raise TypeError(f"z: got values of type {array.dtype}; expected real numbers")

    def _check_shapes(self, z: Any) -> None:
        """Once: a loss that fits the data, and as many constraints as were announced."""
        x = self._state.x
        try:
            loss = jax.eval_shape(lambda x, z: jnp.asarray(self.problem.loss(x, z)), x, z)
            values = jax.eval_shape(self.problem.constraints.values, x, z)
        except (TypeError, ValueError, IndexError, KeyError, AttributeError) as error:
            shapes = jax.tree.map(np.shape, z)
            raise ValueError(f"z: got data of shape {shapes}, which the problem's functions refuse: {error}") from error
        if loss.shape != ():
            raise ValueError(f"z: got data that make a loss of shape {loss.shape}; expected a scalar loss")
        if values.shape != (self._count,):
            raise ValueError(f"z: got data that make {values.shape[0]} constraints; expected {self._count}")

    def _measured(self, gradient: Any, excess: Any, jacobian: Any, loss: float | None) -> _Answer:
        shape = self.problem.domain.shape
        wanted = {"gradient": (gradient, shape), "excess": (excess, (self._count,)), "jacobian": (jacobian, (self._count, *shape))}
        parts = {}
        for name, (value, expected) in wanted.items():
            if value is None:
                raise TypeError(f"{name}: got None; expected an array of shape {expected} beside the other measurements")
            array = errors.finite(name, value)
            if self._count == 1 and array.shape == expected[1:] and name != "gradient":
                array = array[None]
            if array.shape != expected:
                raise ValueError(f"{name}: got shape {array.shape}; expected {expected}")
            parts[name] = array.astype(self._dtype)
        value = np.asarray(0.0 if loss is None else errors.real("loss", loss), self._dtype)
        return self._measure(self._leaves, self._state, value, parts["gradient"], parts["excess"], parts["jacobian"])

    def save(self, path: str | Path) -> None:
        """Write the player to a file, atomically: a crash leaves the old file or the new one."""
        header = {
            "format": FORMAT,
            "version": __version__,
            "what": "player",
            "learner": archive.pack(self.learner),
            "domain": self.problem.domain.to_dict(),
            "count": self._count,
            "dtype": str(self._dtype),
            "rounds": self._tally.rounds,
            "loss": self._tally.loss,
        }
        leaves = {f"state/{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(self._state))}
        tally = {f"tally/{name}": getattr(self._tally, name) for name in ("excess", "violation", "squared", "peak")}
        archive.write_arrays(path, header, {**leaves, **tally})

    @classmethod
    def load(cls, path: str | Path, problem: Problem, learner: Learner | None = None) -> Player:
        """The player that `save` wrote, to go on exactly where it stopped.

        Arguments:
            path: the file.
            problem: the game, whose functions no file can hold; domain and number of constraints must match.
            learner: if given, the file must have been written by this learner with these parameters.
        """
        header, arrays = archive.read_arrays(path)
        if header.get("what") != "player" or header.get("format") != FORMAT:
            raise ValueError(
                f"{path}: got {header.get('what')!r} in format {header.get('format')!r}; expected a player in format {FORMAT}"
            )
        saved = archive.unpack(header["learner"])
        if learner is not None and not archive.same(archive.pack(learner), header["learner"]):
            raise ValueError(f"{path}: got the state of {saved!r}; expected that of {learner!r}")
        if not archive.same(problem.domain.to_dict(), header["domain"]):
            raise ValueError(f"{path}: got a player on another domain; expected {problem.domain!r}")
        player = cls(saved, problem, x1=jnp.asarray(problem.domain.centre, header["dtype"]), count=header["count"])
        leaves, structure = jax.tree.flatten(player._state)
        saved_leaves = [arrays.get(f"state/{i}") for i in range(len(leaves))]
        if any(new is None or new.shape != old.shape for new, old in zip(saved_leaves, leaves, strict=True)):
            raise ValueError(f"{path}: got a state of other shapes; expected that of {type(saved).__name__} on this problem")
        player._state = jax.tree.unflatten(
            structure, [jnp.asarray(new, old.dtype) for new, old in zip(saved_leaves, leaves, strict=True)]
        )
        names = ("excess", "violation", "squared", "peak")
        player._decision = np.asarray(player._state.x)
        player._tally = Tally(header["rounds"], header["loss"], *(arrays[f"tally/{name}"] for name in names))
        return player


@lru_cache(maxsize=256)
def _reveal(loss: Callable[[jax.Array, Any], Any], structure: Any) -> Callable[..., _Answer]:
    """The compiled step; it takes flat leaves because walking a learner's tree would cost as much as the step."""

    @jax.jit
    def reveal(leaves: list[jax.Array], state: Any, z: Any) -> _Answer:
        constraints, domain, learner = jax.tree.unflatten(structure, leaves)
        return _answer(learner, state, FullInformation(loss, constraints, domain, z))

    return reveal


@lru_cache(maxsize=256)
def _measure(structure: Any) -> Callable[..., _Answer]:
    """The same step from measurements."""

    @jax.jit
    def measure(leaves: list[jax.Array], state: Any, loss: Any, gradient: Any, excess: Any, jacobian: Any) -> _Answer:
        _, domain, learner = jax.tree.unflatten(structure, leaves)
        return _answer(learner, state, Observed(loss, gradient, excess, jacobian, domain))

    return measure


def _answer(learner: Learner, state: Any, round: Round) -> _Answer:
    x = state.x
    loss, values = round.loss(x), round.constraints(x).values
    after = learner.step(state, round)
    parts = (loss, round.gradient(x), values, after.x)
    broken = sum((~jnp.all(jnp.isfinite(part))) * 2**bit for bit, part in enumerate(parts))
    return _Answer(after, jnp.concatenate([jnp.stack([jnp.asarray(broken, x.dtype), loss]), values, after.x.ravel()]))
