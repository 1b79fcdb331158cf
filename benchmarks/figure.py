"""Draw the figure in README: time per round of all implementations, and growth of the time of taut
and C."""

from __future__ import annotations

from typing import Any

# The colours of Okabe and Ito, which colour-blind readers can distinguish; each implementation also
# has its own marker.
SHOWN = {
    "C": ("#000000", "_"),
    "taut, one stream": ("#0072B2", "o"),
    "taut, 10 seeds": ("#0072B2", "s"),
    "Numba": ("#E69F00", "v"),
    "optax in a scan": ("#009E73", "^"),
    "NumPy, 10 seeds in one array": ("#CC79A7", "D"),
    "NumPy": ("#D55E00", "x"),
    "PyOL": ("#56B4E9", "P"),
    "cooper": ("#999999", "X"),
    "CVXPY, one projection per round": ("#F0E442", "*"),
}
SWEEPS = {"T": "rounds T, toy", "seeds": "seeds, toy", "d": "d, logistic", "m": "m, polyhedron"}
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")


def draw(found: dict[str, Any]) -> Any:
    """Return a matplotlib figure."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(
        1, 2, figsize=(12.5, 5.4), width_ratios=(3, 2), layout="constrained"
    )
    _contenders(left, found["contenders"])
    _scaling(right, found["scaling"])
    machine = found["machine"]
    figure.suptitle(
        "Clipped-OGD in taut takes a small multiple of the time of hand-written C\nfloat64, one "
        f"core of {machine['processor']}; {machine['compiler']}; jax {machine['jax']}; medians of "
        f"{found['repeats']}",
        fontsize=10,
    )
    return figure


def _contenders(axes: Any, contenders: dict[str, Any]) -> None:
    problems = list(contenders)
    for k, (name, (colour, marker)) in enumerate(SHOWN.items()):
        aside = 0.07 * (
            k - len(SHOWN) / 2
        )  # side by side, so that equally fast implementations do not hide each other
        points = [
            (i + aside, contenders[p][name]["median"])
            for i, p in enumerate(problems)
            if "median" in _row(contenders, p, name)
        ]
        if points:
            edge = (
                {"markeredgecolor": "#666666", "markeredgewidth": 0.6}
                if marker not in "_x"
                else {"markeredgewidth": 2}
            )
            axes.plot(
                *zip(*points, strict=True), marker, color=colour, label=name, markersize=7, **edge
            )
    axes.set_yscale("log")
    axes.set_ylabel("nanoseconds per round\n(and per seed, if there are several)")
    axes.set_xticks(range(len(problems)), problems, rotation=35, ha="right", fontsize=8)
    axes.set_ylim(top=axes.get_ylim()[1] * 60)
    axes.grid(axis="y", alpha=0.3)
    axes.legend(fontsize=8, ncols=3, loc="upper left")
    axes.set_title("time per round; all implementations compute the same trajectories", fontsize=10)


def _row(contenders: dict[str, Any], problem: str, name: str) -> dict[str, Any]:
    row: dict[str, Any] = contenders[problem].get(name, {})
    return row


def _scaling(axes: Any, scaling: dict[str, Any]) -> None:
    for colour, (variable, row) in zip(COLOURS, scaling.items(), strict=False):
        unit = row["seconds"]["C"][0]
        for name, style, marker in (("taut", "-", "o"), ("C", "--", "")):
            label = (
                f"{SWEEPS[variable]}: exponents {row['exponents']['taut']:.2f} and "
                f"{row['exponents']['C']:.2f}"
            )
            axes.plot(
                [size / row["sizes"][0] for size in row["sizes"]],
                [seconds / unit for seconds in row["seconds"][name]],
                linestyle=style,
                marker=marker,
                markersize=4,
                color=colour,
                label=label if name == "taut" else None,
            )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("size relative to the smallest size")
    axes.set_ylabel("time per call, relative to C at the smallest size")
    axes.set_title("growth of the time: taut (solid, first exponent), C (dashed)", fontsize=10)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, loc="lower right")
