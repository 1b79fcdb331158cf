"""Player: a learner in live use, one round at a time, with the same step function as the simulation."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import arguments, files
from ..engine import VERSION
from ..learners import Learner
from ..problem.compatibility import count_constraints, entered, first_decision
from ..problem.feasibility import check_feasible
from ..problem.problem import Problem
from .live import FAULTS, head, measured_step, revealed_step
from .packing import Parcel, settled
from .run import Totals
from .totals import Ledger

__all__ = ["Player"]

FORMAT = 1
Array = np.ndarray[Any, Any]
Kind = tuple[tuple[int, ...], np.dtype[Any]]


class Player:
    """A learner playing live: read `decision`, act on it, then `observe` what happened.

    Arguments:
        learner: the method with its parameters.
        problem: the game.
        x1: the first decision; by default the centre of the domain. Its float type is that of the whole game.
        count: the number of constraints, needed only when they depend on the round's data.

    A bad observation is refused and leaves the player as it was.

    >>> import jax.numpy as jnp, numpy as np, taut
    >>> toy = taut.Problem(lambda x, c: c @ x, lambda x: jnp.abs(x).sum() - 1, taut.Ball(1.0, shape=2))
    >>> player = taut.Player(taut.ClippedOGD(eta=0.1, sigma=4.0), toy)
    >>> player.observe(np.array([1.0, 0.0]))
    >>> player.decision.round(3).tolist()
    [-0.1, 0.0]
    >>> player.round, player.totals.violation.tolist()
    (2, [0.0])
    """

    def __init__(self, learner: Learner, problem: Problem, *, x1: Any = None, count: int | None = None) -> None:
        if not isinstance(learner, Learner):
            raise TypeError(f"learner: got {learner!r}; expected a taut learner")
        if not isinstance(problem, Problem):
            raise TypeError(f"problem: got {problem!r}; expected taut.Problem(...)")
        self.learner, self.problem = learner, problem
        self._count = _count(problem, count)
        first = first_decision(problem, x1)
        check_feasible(problem)
        self._dtype, self._shape = np.dtype(first.dtype), problem.domain.shape
        self._played = slice(2 + self._count, 2 + self._count + math.prod(self._shape))
        ready = settled(learner, self._dtype)
        fixed, state = (problem.constraints, problem.domain, ready), ready.init(first, self._count)
        parcel, self._parcel = Parcel.of(fixed, self._dtype), Parcel.of(state, self._dtype)
        self._reveal = revealed_step(problem.loss, parcel, self._parcel, self._played.stop)
        self._measure = measured_step(parcel, self._parcel, self._played.stop)
        self._fixed = parcel.wrap(fixed)
        self._ledger = Ledger(self._count)
        self._like: tuple[Any, list[Kind]] | None = None  # how data look: their structure, then leaf by leaf
        self._plain: Kind | None = None  # the same if they are one array
        self._place(state)

    def _place(self, state: Any) -> None:
        nothing = jnp.zeros(self._count, self._dtype)
        self._arrays = self._parcel.wrap(state, head(0, 0, nothing, jnp.asarray(state.x, self._dtype)))
        self._report = np.asarray(self._arrays[0])

    @property
    def decision(self) -> Any:
        """x_t, what to play now: a NumPy array of its own, which the caller may change.

        For a problem written in CVXPY with several variables, a dict of them by name.
        """
        return self.problem.present(self._report[self._played].reshape(self._shape).copy())

    @property
    def totals(self) -> Totals:
        """Running totals of loss and violations. That of the loss is NaN once a measurement came without it."""
        return self._ledger.totals

    @property
    def round(self) -> int:
        """The round about to be played, from 1."""
        return self._ledger.rounds + 1

    def observe(
        self,
        z: Any = None,
        *,
        gradient: Any = None,
        excess: Any = None,
        jacobian: Any = None,
        loss: float | None = None,
    ) -> None:
        """Reveal the round: its data `z`, or what was measured at the decision just played.

        Arguments:
            z: the data, as the problem's loss takes it; in shape and type like those of earlier rounds.
            gradient: a subgradient of the loss at the decision, of its shape.
            excess: the constraint values g(x_t), shape (m,) or a number if m = 1.
            jacobian: their gradients, shape (m, *decision) or that of the decision if m = 1.
            loss: the loss itself, for the totals; optional.
        """
        measured = gradient is not None or excess is not None or jacobian is not None
        if measured == (z is not None):
            came = "both z and measurements" if measured else "neither z nor measurements"
            raise TypeError(f"z: got {came}; expected either z, or gradient, excess and jacobian")
        if measured:
            numbers = self._measured(gradient, excess, jacobian, 0.0 if loss is None else loss)
            arrays = self._measure(*self._fixed, *self._arrays, *numbers)
        elif loss is not None:
            raise TypeError("loss: got a value beside z; expected it only beside gradient, excess and jacobian")
        else:
            z = self.problem.arrange(z)
            if type(z) is not np.ndarray or (z.shape, z.dtype) != self._plain:  # rarely: walking a tree takes time
                z = self._checked(z)
            arrays = self._reveal(*self._fixed, *self._arrays, z)
        report = np.asarray(arrays[0])  # one array brings it all back: each transfer costs as much as the step
        if report[0]:
            self._refuse(int(report[0]))
        note = report[1 : self._played.start]
        if measured and loss is None:
            note = np.concatenate([[np.nan], note[1:]])
        self._arrays, self._report = arrays, report
        self._ledger.note(note)
        if self._like is None and not measured:
            self._remember(z)

    def _refuse(self, faults: int) -> None:
        name = next(name for bit, name in enumerate(FAULTS) if faults >> bit & 1)
        why = " from the slopes of the constraints and a step that does not overflow" if name == FAULTS[-1] else ""
        raise ValueError(f"{name}: got a value that is not finite in round {self.round}; expected finite numbers{why}")

    def _checked(self, z: Any) -> Any:
        """The data in the game's types, if they look like those of earlier rounds."""
        leaves, structure = jax.tree.flatten(z)
        arrays = [entered("z", leaf, self._dtype) for leaf in leaves]
        if self._like is None:
            data = jax.tree.unflatten(structure, arrays)
            found = count_constraints(self.problem, self._report[self._played].reshape(self._shape), data, "z")
            if found != self._count:
                raise ValueError(f"z: got data that make {found} constraints; expected {self._count}")
            return data
        expected, kinds = self._like
        shapes = [shape for shape, _ in kinds]
        if structure != expected or [array.shape for array in arrays] != shapes:
            came = jax.tree.unflatten(structure, [array.shape for array in arrays])
            raise ValueError(f"z: got data of shape {came}; expected {jax.tree.unflatten(expected, shapes)}, as before")
        for array, (_, dtype) in zip(arrays, kinds, strict=True):
            if array.dtype.kind == "f" and dtype.kind != "f":
                raise TypeError(f"z: got values of type {array.dtype}; expected {dtype}, as before")
        return jax.tree.unflatten(
            structure, [a.astype(kind[1], copy=False) for a, kind in zip(arrays, kinds, strict=True)]
        )

    def _remember(self, z: Any) -> None:
        """Data that were accepted show how all data look."""
        leaves, structure = jax.tree.flatten(z)
        self._like = structure, [(leaf.shape, leaf.dtype) for leaf in leaves]
        self._plain = self._like[1][0] if jax.tree_util.treedef_is_leaf(structure) else None

    def _measured(self, gradient: Any, excess: Any, jacobian: Any, loss: Any) -> list[Array]:
        wanted = {
            "gradient": (gradient, self._shape),
            "excess": (excess, (self._count,)),
            "jacobian": (jacobian, (self._count, *self._shape)),
        }
        numbers = [np.asarray(arguments.real("loss", loss), self._dtype)]
        for name, (value, expected) in wanted.items():
            if value is None:
                raise TypeError(
                    f"{name}: got None; expected an array of shape {expected} beside the other measurements"
                )
            array = arguments.finite(name, value)
            if self._count == 1 and array.shape == expected[1:] and name != "gradient":
                array = array[None]
            if array.shape != expected:
                raise ValueError(f"{name}: got shape {array.shape}; expected {expected}")
            numbers.append(array.astype(self._dtype))
        return numbers

    def save(self, path: str | Path) -> None:
        """Write the player to a file, atomically: a crash leaves the old file or the new one."""
        header = {
            "what": "player",
            "format": FORMAT,
            "version": VERSION,
            "learner": files.pack(self.learner),
            "domain": self.problem.domain.to_dict(),
            "count": self._count,
            "dtype": str(self._dtype),
        }
        state = files.flat(self._parcel.unwrap(self._arrays, self._played.stop))
        parts = {"state": state, "ledger": self._ledger.to_arrays()}
        arrays = {f"{part}/{name}": array for part, entries in parts.items() for name, array in entries.items()}
        files.write_arrays(path, header, arrays)

    @classmethod
    def load(cls, path: str | Path, problem: Problem, learner: Learner | None = None) -> Player:
        """The player that `save` wrote, to go on exactly where it stopped.

        Arguments:
            path: the file.
            problem: the game, whose functions no file can hold; domain and number of constraints must match.
            learner: if given, the file must have been written by this learner with these parameters.
        """
        header, arrays = files.read_arrays(path)
        if header.get("what") != "player" or header.get("format") != FORMAT:
            came = f"{header.get('what')!r} in format {header.get('format')!r}"
            raise ValueError(f"path: got {path}, with {came}; expected 'player' in format {FORMAT}")
        if learner is not None and not files.same(files.pack(learner), header["learner"]):
            came = files.unpack(header["learner"])
            raise ValueError(f"learner: got {learner!r}, but {path} is by {came!r}; expected the learner that saved it")
        if not files.same(problem.domain.to_dict(), header["domain"]):
            raise ValueError(f"problem: got the domain {problem.domain!r}; expected that in {path}: {header['domain']}")
        dtype = np.dtype(header["dtype"])
        if jax.dtypes.canonicalize_dtype(dtype) != dtype:
            raise ValueError(
                f'path: got {path} in {dtype}; expected jax.config.update("jax_enable_x64", True) before it'
            )
        centre = jnp.asarray(problem.domain.centre, dtype)
        player = cls(files.unpack(header["learner"]), problem, x1=centre, count=header["count"])
        parts: dict[str, dict[str, Array]] = {"state": {}, "ledger": {}}
        for name, array in arrays.items():
            part, _, entry = name.partition("/")
            parts.setdefault(part, {})[entry] = array
        try:
            model = player._parcel.unwrap(player._arrays, player._played.stop)
            player._place(files.like(model, parts["state"]))
            player._ledger = Ledger.from_arrays(player._count, parts["ledger"])
        except (KeyError, ValueError) as error:
            raise ValueError(f"path: got {path}, damaged ({error}); expected a player that taut saved") from error
        return player


def _count(problem: Problem, given: int | None) -> int:
    known = problem.constants.constraint_count
    if given is None:
        if known is None:
            raise ValueError("count: got None; expected the number of constraints, which depends on the round's data")
        return known
    count = arguments.count("count", given)
    if known is not None and known != count:
        raise ValueError(f"count: got {count}; expected {known}, as the problem has")
    return count
