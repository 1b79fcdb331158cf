"""The figure that README shows: everybody's time a round on every problem, and how taut and C grow."""

from __future__ import annotations

from typing import Any

SHOWN = {
    "C": ("k", "_"), "taut, one stream": ("C0", "o"), "taut, 10 seeds": ("C0", "s"), "Numba": ("C1", "v"),
    "optax in a scan": ("C2", "^"), "NumPy, 10 seeds in one array": ("C3", "D"), "NumPy": ("C3", "x"),
    "CVXPY, a projection a round": ("C4", "*"), "PyOL": ("C5", "P"), "cooper": ("C6", "X"),
}  # fmt: skip


def draw(found: dict[str, Any]) -> Any:
    """A matplotlib figure."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), width_ratios=(3, 2), layout="constrained")
    problems = list(found["contenders"])
    for name, (colour, marker) in SHOWN.items():
        points = [
            (i, found["contenders"][p][name]["median"])
            for i, p in enumerate(problems)
            if "median" in found["contenders"][p].get(name, {})
        ]
        if points:
            left.plot(*zip(*points, strict=True), marker, color=colour, label=name, markersize=7, markeredgewidth=1.5)
    left.set_yscale("log")
    left.set_ylabel("nanoseconds a round (a seed-round for several seeds)")
    left.set_xticks(range(len(problems)), problems, rotation=35, ha="right", fontsize=8)
    left.grid(axis="y", alpha=0.3)
    left.legend(fontsize=7, ncols=2)
    for i, (variable, row) in enumerate(found.get("scaling", {}).items()):
        for name, style in (("taut", "-"), ("C", "--")):
            per = [s * 1e9 / row["seconds"]["C"][0] / 1e9 for s in row["seconds"][name]]
            label = f"{row['what']} ({variable}), exponent {row['exponents']['taut']:.2f}" if name == "taut" else None
            right.plot([n / row["sizes"][0] for n in row["sizes"]], per, style, color=f"C{i}", label=label)
    right.set_xscale("log")
    right.set_yscale("log")
    right.set_xlabel("size, over the smallest")
    right.set_ylabel("time, over that of C at the smallest size")
    right.set_title("taut (solid) and hand-written C (dashed)", fontsize=9)
    right.grid(alpha=0.3)
    right.legend(fontsize=7)
    machine = found["machine"]
    figure.suptitle(
        f"Clipped-OGD, float64, one core of {machine['processor']}; {machine['compiler']}, jax {machine['jax']}",
        fontsize=9,
    )
    return figure
