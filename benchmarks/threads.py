"""Two cores over one: twenty independent runs, one after the other and in two threads, in a process that has both."""

from __future__ import annotations

import json
from functools import partial

RUNS = 20


def measure() -> dict[str, object]:
    """Medians of five, taken in turns, on the toy with 10 seeds and on doubly stochastic matrices."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import taut

    from . import cases
    from .timing import interleaved

    found: dict[str, object] = {}
    for case, seeds in ((cases.toy(), 10), (cases.doubly_stochastic(10, 5000), 1)):
        data = jax.device_put(case.data(RUNS * seeds))
        streams = [data[i * seeds : (i + 1) * seeds] for i in range(RUNS)]
        jobs = [partial(taut.simulate, case.learner, case.problem, z, seeds=seeds, x1=case.start) for z in streams]
        took = interleaved({"one": partial(taut.simulate_all, jobs, 1), "two": partial(taut.simulate_all, jobs, 2)})
        name = f"{case.name}, {seeds} seed{'s' * (seeds > 1)} each"
        found[name] = {"one": took["one"]._asdict(), "two": took["two"]._asdict()}
        found[name]["faster"] = took["one"].median / took["two"].median  # type: ignore[index]
    return found


if __name__ == "__main__":
    print(json.dumps(measure()))
