"""`python -m benchmarks.frontier`: methods beyond the paper on the standard streams.

Five tables: the default learner against its first edition and others, stream by stream; measured
growth exponents beside those of the methods' own bounds and those that a prototype had; memory,
sweeps and start-up weight of the half-space learner, from which its defaults were chosen; the cost
of a round; and many variables and constraints, affine, curved and kinked.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import jax
import numpy as np

import taut
from taut.arena import Stream
from taut.judge.guarantees import guarantees, setting_of
from taut.judge.rates import fit
from taut.runs import metrics

from .frontier_editions import editions
from .frontier_sizes import sizes
from .frontier_streams import PUBLISHED, STREAMS, best, simulate

METHODS = (
    "half-space",
    "half-space-anytime",
    "half-space-horizon",
    "clipped-ogd",
    "clipped-ogd-anytime",
    "surrogate",
    "surrogate-anytime",
    "yu-neely",
    "bounded-game",
    "no-slater",
    "step-experts",
    "block-frank-wolfe",
)
"""Methods of the table of exponents, each on the streams that its card covers."""
STRONG = ("half-space-strong", "clipped-ogd-strong", "surrogate-strong")
CHOICES = ((0, 1), (8, 1), (16, 1), (16, 2), (16, 8), (32, 8))
"""(memory, sweeps)."""
WEIGHTS = (10.0, 100.0, 1000.0)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="few streams, short horizons: less than a minute"
    )
    parser.add_argument(
        "--only",
        choices=("editions", "exponents", "choices", "speed", "sizes"),
        help="print one table only",
    )
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    quick = options.quick
    if options.only in (None, "editions"):
        editions(quick)
    if options.only in (None, "exponents"):
        names = (
            ("toy", "pool-random-d10")
            if quick
            else tuple(n for n, s in STREAMS.items() if s.seeds is None)
        )
        exponents(names, (2**8, 2**10) if quick else (2**10, 2**11, 2**12, 2**13), quick)
    if options.only in (None, "choices"):
        names = (
            ("toy", "dispatch-box")
            if quick
            else (
                "toy",
                "polytope",
                "pool-random-d10",
                "pool-random",
                "doubly-stochastic",
                "dispatch",
                "dispatch-box",
            )
        )
        choices(names, CHOICES[::3] if quick else CHOICES, 1024 if quick else 8192)
    if options.only in (None, "speed"):
        speed(quick)
    if options.only in (None, "sizes"):
        sizes(quick)


def exponents(names: tuple[str, ...], horizons: tuple[int, ...], quick: bool) -> None:
    """Growth of regret and clipped violation."""
    print(
        "\ngrowth exponents: regret and clipped violation, measured | allowed by the method's "
        "bounds | of a prototype"
    )
    for name in names:
        stream = STREAMS[name]
        grid = [T for T in horizons if stream.horizons((T,))]
        methods = METHODS[:: 3 if quick else 1]
        if stream.problem.constants.strong_convexity > 0:
            methods += STRONG
        for method in methods:
            if not _covers(method, stream):
                continue
            columns: dict[str, list[Any]] = {"regret": [], "violation": []}
            limits: dict[str, list[float]] = {"regret": [], "violation": []}
            for T in grid:
                run = simulate(stream, method, T)
                columns["regret"].append(metrics.regret(run, best(stream, run)))
                columns["violation"].append(metrics.violation(run))
                for one in guarantees(run.learner, setting_of(stream.problem), T):  # type: ignore[arg-type]
                    if one.quantity in limits and one.bound is not None:
                        limits[one.quantity].append(one.bound)
            cells = []
            for quantity, values in columns.items():
                measured = fit(quantity, grid, np.stack(values, axis=-1)).exponent
                last = float(np.mean(values[-1]))
                known = limits[quantity]
                allowed = (
                    f"{np.polyfit(np.log(grid), np.log(known), 1)[0]:5.2f}"
                    if len(known) == len(grid)
                    else "  -  "
                )
                cells.append(f"{quantity} {last:10.4g} e {measured:6.2f} | {allowed}")
            print(
                f"{name:20s} {method:22s} {'   '.join(cells)} | "
                f"{PUBLISHED.get(name, {}).get(method, '')}",
                flush=True,
            )


def _covers(method: str, stream: Stream) -> bool:
    card, problem = taut.LEARNERS[method], stream.problem
    known = all(getattr(problem.constants, name) is not None for name in card.needs)
    return known and not (card.fixed_constraints and problem.constraints.takes_data)


def choices(names: tuple[str, ...], pairs: tuple[tuple[int, int], ...], rounds: int) -> None:
    """Regret (or mean loss), clipped violation and peak for memory x sweeps x start-up weight."""
    print(f"\nhalf-space, T = {rounds}: mean loss / clipped violation / peak, by start-up weight w")
    for name in names:
        stream = STREAMS[name]
        T = min(rounds, stream.longest or rounds)
        for memory, sweeps in pairs:
            cells = [_choice(stream, T, memory, sweeps, weight) for weight in WEIGHTS]
            print(
                f"{name:20s} memory {memory:2d} x {sweeps} sweeps   " + "   ".join(cells),
                flush=True,
            )
        clipped = simulate(stream, "clipped-ogd", T)
        print(f"{name:20s} clipped-ogd              {_numbers(clipped)}", flush=True)


def _choice(stream: Stream, rounds: int, memory: int, sweeps: int, weight: float) -> str:
    learner = taut.learner(
        "half-space", stream.problem, memory=memory, sweeps=sweeps, start_up=weight
    )
    return f"w {weight:g}: {_numbers(simulate(stream, learner, rounds))}"


def _numbers(run: taut.Run) -> str:
    loss = float(np.mean(run.totals.loss)) / run.horizon
    return (
        f"{loss:8.4f} / {np.mean(metrics.violation(run)):8.4g} / "
        f"{np.max(metrics.peak_violation(run)):8.3g}"
    )


def speed(quick: bool) -> None:
    """CPU time per round as a multiple of Clipped-OGD's, implementations taking turns."""
    print("\ntime per round, as a multiple of clipped-ogd (CPU time, the least of several turns)")
    for name in (
        ("toy", "pool-random-d10")
        if quick
        else ("toy", "doubly-stochastic", "pool-random-d10", "dispatch")
    ):
        stream = STREAMS[name]
        T = min(20_000 if not quick else 4_000, stream.longest or 20_000)
        learners = {"clipped-ogd": taut.learner("clipped-ogd", stream.problem, horizon=T)}
        for memory in (0, 8, 16):
            learners[f"memory {memory}"] = taut.learner("half-space", stream.problem, memory=memory)
        data, best = stream.data(1, T), dict.fromkeys(learners, float("inf"))
        for _ in range(4 if quick else 10):
            for label, learner in learners.items():
                start = time.process_time()
                taut.simulate(learner, stream.problem, data, seeds=1, record=())
                best[label] = min(best[label], time.process_time() - start)
        base = best["clipped-ogd"]
        ratios = "   ".join(f"{label} {value / base:.2f}" for label, value in best.items())
        print(f"{name:20s} {base / T * 1e9:6.0f} ns   {ratios}", flush=True)


if __name__ == "__main__":
    main()
