"""The drill of sequences: random calls of players, many of them refused or taken back. What remains
must be what a new player computes from the calls that counted.

Run: python -m drills.sequences [--sequences 200] [--calls 25] [--seed 0]
"""

from __future__ import annotations

import argparse
import random
import sys
import warnings
from collections import Counter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import taut

BOX = taut.Box(-1.0, 1.0, shape=2)
AGREE = 1e-12


class Case(NamedTuple):
    """A learner and a problem, and which calls they have."""

    name: str
    learner: taut.Learner
    problem: taut.Problem
    advisers: int = 0
    announced: bool = False
    late: bool = False


def _loss(x: Any, z: Any, previous: Any) -> Any:
    return 0.5 * jnp.sum((x - z["target"]) ** 2) + 0.1 * jnp.sum(jnp.abs(x - previous))


def _announced(x: Any, z: Any, previous: Any) -> Any:
    return jnp.stack([x[0] + x[1] - z["capacity"], x[0] - previous[0] - 0.5])


def cases() -> list[Case]:
    """Advice with ramps and announced capacities; late rounds; and half-space by itself."""

    def kept(x: Any) -> Any:
        return x[0] - 2 * x[1] - 0.3

    ramps = taut.Problem(_loss, kept, BOX, previous=True, announced=_announced)
    plain = taut.Problem(lambda x, z: 0.5 * jnp.sum((x - z["target"]) ** 2), kept, BOX)
    own = taut.HalfSpace.adaptive(BOX, memory=3)
    late = taut.DelayTolerant(taut.HalfSpace(eta=0.1, diameter=2.0), delay=2)
    return [
        Case("advice, ramps, announced", taut.Advised(own, 2), ramps, 2, announced=True),
        Case("late rounds", late, plain, late=True),
        Case("half-space", own, plain),
    ]


Call = tuple[str, dict[str, Any]]
"""The name of a method and its arguments."""


class Driven:
    """A player, and the calls that count for its state.

    Arguments:
        case: what is played.
    """

    def __init__(self, case: Case) -> None:
        self.case, self.calls = case, list[list[Call]]()
        self.player = self.new()
        self._round: list[Call] = []  # calls before the round is over

    def new(self) -> taut.Player:
        """Return a player before round 1."""
        options: dict[str, Any] = {"announced_count": 2} if self.case.announced else {}
        limits = {"target": taut.Limits(-50.0, 50.0)}
        return taut.Player(self.case.learner, self.case.problem, limits=limits, **options)

    def take(self, name: str, **given: Any) -> None:
        """Call a method that must succeed, and remember it."""
        getattr(self.player, name)(**given)
        self._round.append((name, given))
        if name in ("observe", "skip", "observe_late"):
            self.calls.append(self._round)
            self._round = []

    def undo(self) -> None:
        """Take the last round back."""
        self.player.undo()
        self.calls.pop()
        self._round = []

    def restart(self) -> None:
        """Go on from the player's bytes. What was announced and advised must be said again."""
        content = self.player.to_bytes()
        limits = {"target": taut.Limits(-50.0, 50.0)}
        self.player = taut.Player.from_bytes(content, self.case.problem, limits=limits)
        again, self._round = self._round, []
        for name, given in again:
            self.take(name, **given)

    def replayed(self) -> taut.Player:
        """Return a new player after the calls that count."""
        player = self.new()
        for name, given in [call for round in [*self.calls, self._round] for call in round]:
            getattr(player, name)(**given)
        return player


def data_of(rng: np.random.Generator) -> dict[str, Any]:
    """Return the data of a round."""
    return {"target": rng.normal(size=2), "capacity": rng.uniform(-0.3, 1.0)}


def refused(driven: Driven, name: str, **given: Any) -> list[str]:
    """Make a call that must be refused, and say if it was not or changed something."""
    before, now = driven.player.to_bytes(), driven.player.round
    try:
        getattr(driven.player, name)(**given)
    except (TypeError, ValueError) as error:
        if driven.player.to_bytes() != before:
            return [f"{name}: a refused call changed something ({error})"]
        return []
    return [f"{name}: {given} was not refused in round {now}"]


def one_call(driven: Driven, z: dict[str, Any], choice: random.Random, rng: Any) -> list[str]:
    """Make one random call, for the round with the data `z`."""
    case, player = driven.case, driven.player
    kinds = ["observe"] * 6 + ["skip", "undo", "restart", "bad", "bad", "again"]
    kind = choice.choice(kinds + ["late"] * (3 * case.late) + ["advice"] * (3 * case.advisers))
    begun = [name for name, _ in driven._round]
    if case.announced and "announce" not in begun and kind in ("observe", "advice", "skip"):
        driven.take("announce", z={"capacity": z["capacity"]})
    if kind == "observe":
        driven.take("observe", z=z, round=player.round)
    elif kind == "skip":
        driven.take("skip", reason="no meter")
    elif kind == "advice":
        advice = None if choice.random() < 0.3 else rng.uniform(-2, 2, 2)
        forecast = choice.choice([None, "last", {**z, "target": z["target"] + 0.1}])
        said = [advice, None] if forecast is None else advice
        driven.take("decide", advice=said, forecast=forecast)
    elif kind == "late":
        if player.pending:
            driven.take("observe_late", round=choice.choice(player.pending), z=data_of(rng))
        else:
            return refused(driven, "observe_late", round=player.round, z=z)
    elif kind == "undo":
        if player._last is not None:
            driven.undo()
        else:
            return refused(driven, "undo")
    elif kind == "restart":
        driven.restart()
    elif kind == "again":
        return refused(driven, "observe", z=z, round=player.round + choice.choice([-1, 1, 7]) or 9)
    else:
        return bad_call(driven, z, choice)
    return []


def bad_call(driven: Driven, z: dict[str, Any], choice: random.Random) -> list[str]:
    """Make a call with something that must be refused."""
    case = driven.case
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("observe", {"z": {**z, "target": np.array([np.nan, 1.0])}}),
        ("observe", {"z": {**z, "target": np.array([1e6, 1.0])}}),
        ("observe", {"z": {"target": np.zeros(3), "capacity": 0.1}}),
        ("observe", {"z": z, "played": [9.0, 9.0]}),
    ]
    if case.announced:
        wrong.append(("announce", {"z": {"capacity": np.nan}}))
        wrong.append(("announce", {"z": {"capacity": -9.0}}))  # no decision satisfies it
        if "announce" in [name for name, _ in driven._round]:
            wrong.append(("observe", {"z": {**z, "capacity": z["capacity"] + 1}}))
    if case.advisers:
        wrong.append(("decide", {"advice": [np.array([np.nan, 0.0]), None]}))
        wrong.append(("decide", {"advice": np.zeros(2), "forecast": {**z, "capacity": np.inf}}))
    name, given = choice.choice(wrong)
    return refused(driven, name, **given)


def differences(driven: Driven) -> list[str]:
    """Compare a player with one that made only the calls that count."""
    one, two = driven.player, driven.replayed()
    texts = []
    for what, ours, theirs in (
        ("round", one.round, two.round),
        ("unknown", one.unknown, two.unknown),
        ("pending", one.pending, two.pending),
        ("observed", one.observed, two.observed),
    ):
        if ours != theirs:
            texts.append(f"{what}: {ours} after all calls, {theirs} after those that count")
    numbers = {
        "decision": lambda player: player._now.report[player._next],
        "loss": lambda player: player.totals.loss,
        "violation": lambda player: player.totals.violation,
        "steepest": lambda player: [getattr(player.extremes.loss_lipschitz, "value", 0.0)],
        "weights": lambda player: player.weights and player.weights[player.round] * 1,
    }
    for what, read in numbers.items():
        ours, theirs = read(one), read(two)
        if ours is not None and not np.allclose(ours, theirs, rtol=AGREE, atol=AGREE):
            texts.append(f"{what}: {ours} after all calls, {theirs} after those that count")
    if one.observed and str(one.certificate(check=False)) != str(two.certificate(check=False)):
        texts.append("the certificates differ")
    return texts


def sequence(case: Case, calls: int, seed: int) -> list[str]:
    """Make so many random calls; return what went wrong."""
    choice, rng = random.Random(seed), np.random.default_rng(seed)
    driven, z, now = Driven(case), data_of(np.random.default_rng(seed)), 1
    for _ in range(calls):
        if driven.player.round != now:
            z, now = data_of(rng), driven.player.round
        texts = one_call(driven, z, choice, rng)
        if texts:
            return texts
    return differences(driven)


def drill(sequences: int, calls: int, seed: int) -> Counter[str]:
    """Make random sequences of all cases; return what went wrong, with its count."""
    wrong: Counter[str] = Counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in cases():
            for number in range(sequences):
                for text in sequence(case, calls, seed + number):
                    wrong[f"{case.name}, seed {seed + number}: {text}"] += 1
    return wrong


def main() -> None:
    """Run the drill and print what went wrong."""
    words = argparse.ArgumentParser(description="Random calls of players, against a replay.")
    words.add_argument("--sequences", type=int, default=200, help="of each case")
    words.add_argument("--calls", type=int, default=25, help="in each sequence")
    words.add_argument("--seed", type=int, default=0)
    asked = words.parse_args()
    jax.config.update("jax_enable_x64", True)
    wrong = drill(asked.sequences, asked.calls, asked.seed)
    for text, count in wrong.most_common(20):
        print(f"{count:>4}  {text}")
    kinds = len(cases())
    print(
        f"{kinds * asked.sequences} sequences of {asked.calls} calls: {len(wrong)} differ from a "
        "replay of the calls that count"
    )
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
