"""Other libraries on the toy problem, in separate environments: cooper (CPU torch) and PyOL. They
are optional.

The environments are created in `benchmarks/build` from the package index at the first call. If that
fails, the library is skipped with a message. Both libraries run Clipped-OGD. For cooper this is its
quadratic penalty, because a round of Clipped-OGD is a gradient step on f + sum_i [g_i]_+^2 / (2
sigma eta). PyOL has no constraints, so the multiplier is written by hand.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
HOME = HERE / "build" / "outside"
PACKAGES = {"cooper": "cooper-optim==1.0.1", "PyOL": "PyOL==0.0.3"}


def measure(case: Any, rounds: int, install: bool) -> dict[str, dict[str, Any]]:
    """Return for each library nanoseconds per round and its losses, or the reason why it was
    skipped."""
    import numpy as np

    found: dict[str, dict[str, Any]] = {}
    HOME.parent.mkdir(exist_ok=True)
    data = HOME.parent / "toy.npz"
    eta, sigma = case.steps
    np.savez(data, c=case.data(1)[0, :rounds], eta=eta, sigma=sigma, radius=case.radius)
    for name in PACKAGES:
        reason = _installed(name, install)
        if reason:
            found[name] = {"skipped": reason}
            continue
        done = subprocess.run(
            [_python(name), str(Path(__file__)), name, str(data)],
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
        if done.returncode:
            found[name] = {"skipped": f"failed: {done.stderr.strip().splitlines()[-1:]}"}
            continue
        found[name] = json.loads(done.stdout.splitlines()[-1])
    return found


def _python(name: str) -> str:
    return str(HOME / name / "bin" / "python")


def _installed(name: str, install: bool) -> str:
    """Return an empty text if the library can be used, otherwise the reason why not."""
    if Path(_python(name)).exists() and _works(_python(name), "-c", f"import {name.lower()}"):
        return ""
    if not install:
        return "not installed (use --outside to install it)"
    if not _works(sys.executable, "-m", "venv", str(HOME / name)):
        return "the environment could not be created"
    if not _works(_python(name), "-m", "pip", "install", "-q", PACKAGES[name]):
        return f"{PACKAGES[name]} could not be installed"
    return ""


def _works(*command: str) -> bool:
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def _play_pyol(c: Any, eta: float, sigma: float, radius: float) -> list[float]:
    import numpy as np
    from pyol.learning_rates import LearningRateConstant
    from pyol.oco import L2OptimisticOMD
    from pyol.projections import ProjL2Ball

    player = L2OptimisticOMD(
        2, lr_handler=LearningRateConstant(eta), proj_handler=ProjL2Ball(radius)
    )
    losses, violation = [], 0.0
    for z in c:
        x = player.predict()
        g = np.abs(x).sum() - 1
        losses.append(float(z @ x))
        violation += max(g, 0.0)
        player.update(z + max(g, 0.0) / (sigma * eta) * np.sign(x))
    return losses


def _play_cooper(c: Any, eta: float, sigma: float, radius: float) -> list[float]:
    import cooper
    import torch

    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    x = torch.nn.Parameter(torch.zeros(2))

    class Toy(cooper.ConstrainedMinimizationProblem):
        def __init__(self) -> None:
            super().__init__()
            penalty = cooper.penalty_coefficients.DensePenaltyCoefficient(
                torch.tensor([1 / (sigma * eta)])
            )
            self.limit = cooper.Constraint(
                constraint_type=cooper.ConstraintType.INEQUALITY,
                formulation_type=cooper.formulations.QuadraticPenalty,
                penalty_coefficient=penalty,
            )

        def compute_cmp_state(self, z: Any) -> Any:
            seen = cooper.ConstraintState(violation=(x.abs().sum() - 1).reshape(1))
            return cooper.CMPState(loss=z @ x, observed_constraints={self.limit: seen})

    optimiser = cooper.optim.UnconstrainedOptimizer(Toy(), torch.optim.SGD([x], lr=eta))
    losses = []
    for z in torch.as_tensor(c):
        losses.append(float(optimiser.roll(compute_cmp_state_kwargs={"z": z}).loss))
        with torch.no_grad():
            norm = x.norm()
            if norm > radius:
                x *= radius / norm
    return losses


def _main(name: str, path: str) -> None:
    import time

    import numpy as np

    loaded = np.load(path)
    numbers = (loaded["c"], float(loaded["eta"]), float(loaded["sigma"]), float(loaded["radius"]))
    play = {"cooper": _play_cooper, "PyOL": _play_pyol}[name]
    play(numbers[0][:10], *numbers[1:])
    samples = []
    for _ in range(5):
        began = time.perf_counter()
        losses = play(*numbers)
        samples.append((time.perf_counter() - began) * 1e9 / len(losses))
    low, middle, high = min(samples), float(np.median(samples)), max(samples)
    print(json.dumps({"ns": middle, "low": low, "high": high, "losses": losses}))


if __name__ == "__main__":
    _main(*sys.argv[1:])
