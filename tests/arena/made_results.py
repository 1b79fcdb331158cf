"""Results with known numbers, for tests of scores and reports."""

import numpy as np

from taut.arena import STREAMS, Result, results

HORIZONS = (256, 512, 1024, 2048)
LEARNERS = {
    "half-space": (20.0, 1.0),
    "clipped-ogd": (-5.0, 60.0),
    "mine": (8.0, 90.0),
    "poor": (40.0, 200.0),
}
"""Regret and violation at T = 1024; they grow like sqrt(T)."""


def made(stream, learner, horizon, variant="theory", factor=1.0, seeds=4, **facts):
    regret, violation = LEARNERS[learner]
    wobble = 1 + 0.02 * np.sin(np.arange(seeds) + len(learner))
    root = np.sqrt(horizon / 1024) * factor
    values = {
        "regret": regret * root * wobble,
        "violation": violation * root * wobble,
        "squared violation": violation * wobble,
        "peak violation": 0.1 * wobble,
        "excess": violation * root * wobble / 2,
        "violating rounds": np.full(seeds, horizon / 4),
    }
    return Result(
        stream=stream,
        stream_version=STREAMS[stream].version,
        learner=learner,
        variant=variant,
        horizon=horizon,
        values={name: tuple(map(float, column)) for name, column in values.items()},
        bounds={"regret": 1e6},
        **facts,
    )


def write(folder):
    times = {}
    for stream in ("toy", "polytope", "toy-strong"):
        for learner in LEARNERS:
            if (stream, learner) == ("polytope", "poor"):
                continue
            for horizon in HORIZONS:
                result = made(stream, learner, horizon)
                results.write(folder, result)
                times[result.file] = 1e-6
            results.write(folder, made(stream, learner, HORIZONS[-1], "loss_lipschitz x 4", 0.5))
    results.update_json(folder / results.TIMES, times)
    results.update_json(
        folder / results.LEFT_OUT, {"toy / yu-neely": "the constraints are not affine"}
    )
    return folder
