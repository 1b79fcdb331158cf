"""What the fuzzer calls of players and fleets: each call is on a new one, and a refused call must
leave it as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import taut

__all__ = ["live"]

Targets = dict[str, tuple[Callable[..., Any], dict[str, Any]]]
NOTHING = np.zeros(2)


class Live:
    """A call of a method of a new player or fleet.

    Arguments:
        made: makes the player or fleet.
        method: the name of the method.
    """

    def __init__(self, made: Callable[[], Any], method: str) -> None:
        self._made, self.method = made, method

    def __call__(self, **arguments: Any) -> None:
        """Call the method. RuntimeError, which no fuzzed call may raise, if a refusal changed
        something."""
        used = self._made()
        before = used.to_bytes()
        try:
            getattr(used, self.method)(**arguments)
        except Exception:
            if used.to_bytes() != before:
                raise RuntimeError(f"{self.method}: a refused call changed something") from None
            raise


def live(learner: taut.Learner, problem: taut.Problem) -> Targets:
    """Calls of players and fleets in production."""
    return {**_players(learner, problem), **_advice(learner, problem), **_fleets(learner, problem)}


def _players(learner: taut.Learner, problem: taut.Problem) -> Targets:
    late = taut.DelayTolerant(learner, 2)

    def skipped() -> taut.Player:
        player = taut.Player(late, problem, limits=taut.Limits(-9.0, 9.0, change=9.0))
        player.observe(NOTHING)
        player.skip()
        return player

    saved = taut.Player(learner, problem)
    saved.observe(NOTHING)
    ignored = {"event": "violated", "function": lambda event: None, "tolerance": 0.1, "every": None}
    read = {
        "content": saved.to_bytes(),
        "problem": problem,
        "learner": None,
        "feedback": None,
        "migrate": False,
        "limits": None,
        "on_refuted": "warn",
    }
    guarded = {
        "learner": learner,
        "problem": problem,
        "limits": None,
        "on_refuted": "warn",
        "history": 8,
    }
    return {
        "player.observe": (
            Live(skipped, "observe"),
            {"z": NOTHING, "round": 3, "played": None},
        ),
        "player.observe_late": (Live(skipped, "observe_late"), {"round": 2, "z": NOTHING}),
        "player.skip": (Live(skipped, "skip"), {"reason": "no meter"}),
        "player.undo": (Live(skipped, "undo"), {}),
        "player.on": (Live(skipped, "on"), ignored),
        "player.to_bytes": (Live(skipped, "to_bytes"), {"history": True}),
        "Player.from_bytes": (taut.Player.from_bytes, read),
        "Limits": (taut.Limits, {"low": 0.0, "high": 1.0, "change": None, "check": None}),
        "guarded player": (taut.Player, guarded),
        "history.to_frame": (saved.history.to_frame, {"times": None}),
    }


def _advice(learner: taut.Learner, problem: taut.Problem) -> Targets:
    advised = taut.Advised(learner)

    def player() -> taut.Player:
        made = taut.Player(advised, problem)
        made.observe(NOTHING)
        return made

    rounds = np.zeros((5, 2))
    return {
        "Advised": (taut.Advised, {"learner": learner, "advisers": 1, "hold": True}),
        "player.decide": (
            Live(player, "decide"),
            {"z": None, "advice": NOTHING, "forecast": None},
        ),
        "player.decide for a forecast": (
            Live(player, "decide"),
            {"z": None, "advice": None, "forecast": NOTHING},
        ),
        "simulate with advice": (
            taut.simulate,
            {
                "learner": advised,
                "problem": problem,
                "stream": rounds,
                "advice": rounds,
                "forecast": None,
            },
        ),
    }


def _fleets(learner: taut.Learner, problem: taut.Problem) -> Targets:
    advised, rows, ids = taut.Advised(learner), np.zeros((2, 2)), ["a", "b"]
    budgets = {"budget": np.ones(2)}
    budgeted = taut.Problem(
        lambda x, z: z["cost"] @ x, lambda x, z: x.sum() - z["budget"], problem.domain
    )

    def fleet() -> taut.Fleet:
        made = taut.Fleet(advised, problem, ids)
        made.observe(None, rows)
        return made

    def parametric() -> taut.Fleet:
        return taut.Fleet(learner, budgeted, ids, budgets, count=1)

    new = {"learner": learner, "problem": problem, "ids": ids, "parameters": None, "count": None}
    given = {"ids": ids, "parameters": budgets}
    return {
        "Fleet": (taut.Fleet, new),
        "fleet.decisions": (
            Live(fleet, "decisions"),
            {"ids": ids, "advice": rows, "forecast": None},
        ),
        "fleet.decisions for forecasts": (
            Live(fleet, "decisions"),
            {"ids": ids, "advice": None, "forecast": rows},
        ),
        "fleet.observe": (Live(fleet, "observe"), {"ids": ids, "z": rows, "rounds": 2}),
        "fleet.skip": (Live(fleet, "skip"), {"ids": ids, "reason": "no report"}),
        "fleet.leave": (Live(fleet, "leave"), {"ids": ids}),
        "fleet.weights": (Live(fleet, "weights"), {"ids": ids}),
        "fleet.to_dataframe": (Live(fleet, "to_dataframe"), {"what": "totals"}),
        "fleet.join": (Live(parametric, "join"), {**given, "ids": ["c", "d"]}),
        "fleet.set_parameters": (Live(parametric, "set_parameters"), given),
        "fleet.observe with parameters": (
            Live(parametric, "observe"),
            {"ids": ids, "z": {"cost": rows}, "rounds": None},
        ),
        "Fleet.from_bytes": (
            taut.Fleet.from_bytes,
            {"content": fleet().to_bytes(), "problem": problem, "learner": None},
        ),
    }
