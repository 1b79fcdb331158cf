"""Small made-up results in exactly the format that a reproduction stores: for tests of figures and
the report."""

import json
from pathlib import Path

import numpy as np
import xarray as xr
from PIL import Image

CONVEX = {
    "ogd": "OGD",
    "a-ogd-half": "A-OGD, $\\beta=1/2$",
    "a-ogd-two-thirds": "A-OGD, $\\beta=2/3$",
    "clipped-half": "Clipped-OGD, $\\beta=1/2$",
    "clipped-two-thirds": "Clipped-OGD, $\\beta=2/3$",
    "scaled-half": "Clipped-OGD, scale-aware, $\\beta=1/2$",
    "scaled-two-thirds": "Clipped-OGD, scale-aware, $\\beta=2/3$",
}
STRONG = {
    "strong": "Our-strong",
    "strong-scaled": "Our-strong, scale-aware",
    "a-ogd-strong-half": "A-OGD strongly convex, $\\beta=1/2$",
    "a-ogd-strong-two-thirds": "A-OGD strongly convex, $\\beta=2/3$",
}
BETAS = (1 / 4, 1 / 2)


def _coords(labels):
    return {
        "contestant": list(labels),
        "label": ("contestant", list(labels.values())),
        "parameters": ("contestant", [f"eta = 0.12345678{i}" for i in range(len(labels))]),
    }


def contest(labels, seeds=3, horizons=(250, 1000, 4000)):
    rng = np.random.default_rng(1)
    shape = (len(labels), seeds, len(horizons))
    names = ("regret", "violation", "largest_excess")
    data = {name: (("contestant", "seed", "horizon"), rng.uniform(1, 100, shape)) for name in names}
    data["violation"] = (data["violation"][0], np.geomspace(1, 1000, np.prod(shape)).reshape(shape))
    coords = _coords(labels) | {"seed": np.arange(seeds), "horizon": list(horizons)}
    return xr.Dataset(data, coords=coords, attrs={"choice": "d = 2"})


def toy(rounds=40):
    data = contest(CONVEX)
    data["regret"] -= 60
    steps = np.random.default_rng(2).uniform(-0.05, 0, (len(CONVEX), rounds, 2))
    data["trajectory"] = (
        ("contestant", "round", "axis"),
        np.maximum(np.cumsum(steps, axis=1), -0.7),
    )
    data["star"] = (("axis",), np.array([-1.0, 0.0]))
    data.attrs |= {"choice": "R = 1", "radius": 1.0, "walk": rounds}
    return data


def doubly_stochastic():
    data = contest(CONVEX | STRONG)
    data["excess"] = data["largest_excess"] / 3
    return data


def dispatch(rounds=60):
    rng = np.random.default_rng(3)
    excess = rng.uniform(-5, 20, (len(CONVEX), rounds))
    excess[3:5] = -1.0  # Clipped-OGD with the paper's parameters never violates here
    data = {
        "cost": (("contestant", "round"), rng.uniform(50, 90, (len(CONVEX), rounds))),
        "excess": (("contestant", "round"), excess),
        "best_cost": (("round",), rng.uniform(40, 60, rounds)),
        "demand": (("round",), rng.uniform(30, 40, rounds)),
        "hours": (("round",), np.arange(rounds) / 12),
    }
    attrs = {
        "choice": "mean demand 33",
        "source": "made up",
        "constants": "Constants()",
    }
    return xr.Dataset(
        data, coords=_coords(CONVEX) | {"round": np.arange(1, rounds + 1)}, attrs=attrs
    )


def theory(seeds=3, horizons=(500, 2000, 8000)):
    cases = [
        (f"{name}-{beta:.3g}", label, result, beta)
        for beta in BETAS
        for name, label, result in (
            ("theorem-1", "Clipped-OGD, toy", "Theorem 1, Propositions 2 and 3"),
            ("paper-step", "Clipped-OGD, the paper's step", "Theorem 1, Propositions 2 and 3"),
            (
                "worst-case",
                "Clipped-OGD, the paper's step, worst case",
                "Theorem 1, Propositions 2 and 3",
            ),
            ("proposition-5", "A-OGD clipped, toy", "Proposition 5"),
            ("clipped-worst-5", "A-OGD clipped, worst case", "Proposition 5"),
            ("squares-5", "A-OGD, squared constraint", "remark after Proposition 5"),
            ("lemma-1", "Clipped-OGD, smooth constraint", "Lemma 1"),
        )
    ]
    cases += [
        ("theorem-2", "Our-strong, strongly convex toy", "Theorem 2", np.nan),
        ("theorem-2-inside", "Our-strong, optimum inside", "Theorem 2", np.nan),
        ("proposition-4", "OGD clipped, toy", "Proposition 4", np.nan),
        ("clipped-worst-4", "OGD clipped, worst case", "Proposition 4", np.nan),
        ("squares-4", "OGD, squared constraint", "remark after Proposition 5", np.nan),
        ("proposition-1", "Clipped-OGD, log-sum-exp", "Proposition 1, temperature T^(1/6)", 0.5),
    ]
    rng, count = np.random.default_rng(4), len(cases)
    names, labels, results, betas = zip(*cases, strict=True)
    data = xr.Dataset(
        coords={
            "case": list(names),
            "label": ("case", list(labels)),
            "result": ("case", list(results)),
            "beta": ("case", list(betas)),
            "seed": np.arange(seeds),
            "horizon": list(horizons),
        }
    )
    for quantity in ("regret", "violation", "squared", "peak", "excess"):
        values = rng.uniform(1, 10, (count, seeds, len(horizons)))
        if quantity == "regret":
            values -= 8
        else:
            values[names.index("theorem-2-inside")] = (
                0.0  # never violates: a logarithmic axis must cope
            )
        bounds = rng.uniform(20, 30, (count, len(horizons)))
        if quantity in ("squared", "peak"):
            bounds[names.index("proposition-4")] = np.nan
        middle = rng.uniform(0, 1, count)
        middle[0] = np.nan
        data[quantity] = (("case", "seed", "horizon"), values)
        data[f"bound_{quantity}"] = (("case", "horizon"), bounds)
        trivial = np.full(bounds.shape, 100.0)
        trivial[names.index("proposition-1")] = 1.0  # its bounds say nothing
        data[f"trivial_{quantity}"] = (("case", "horizon"), trivial)
        for part, value in (
            ("measured", middle),
            ("low", middle - 0.05),
            ("high", middle + 0.05),
            ("theory", betas),
        ):
            data[f"{part}_{quantity}"] = (
                ("case",),
                np.nan_to_num(value, nan=0.5) if part == "theory" else value,
            )
    data["literal_log_sum_exp"] = ((), 0.4)
    return data


MAKERS = {
    "toy": toy,
    "doubly-stochastic": doubly_stochastic,
    "dispatch": dispatch,
    "theory": theory,
}


def claims():
    shared = {
        "experiment": "toy",
        "where": "Fig. 1",
        "criterion": "g <= 0.05",
        "reason": "",
        "figures": {"peak": 1.25},
    }
    other = [{"choice": "R = 2", "verdict": "holds"}]
    return {
        "claims": [
            {
                "id": "one",
                "claim": "It <b>follows</b> & stays.",
                "verdict": "holds",
                "choices": other,
                "survives": True,
            },
            {
                "id": "two",
                "claim": "It oscillates.",
                "verdict": "holds in part",
                "choices": other,
                "survives": False,
            },
            {
                "id": "three",
                "claim": "It is cheap.",
                "verdict": "fails",
                "choices": [],
                "survives": None,
            },
            {
                "id": "four",
                "claim": "It grows.",
                "verdict": "not asymptotic yet",
                "choices": [],
                "survives": None,
            },
        ],
        "open": [{"what": "toy: radius", "chosen": "1", "others": "2"}],
        "options": {"seeds": 3, "quick": True, "demand": []},
        "versions": {"python": "3.11", "taut": "0.1.0"},
    } | {"_shared": shared}


def write(folder, names=tuple(MAKERS)):
    """A folder as `reproduce` leaves it; returns what is in its claims.json."""
    folder = Path(folder)
    for name in names:
        (folder / name).mkdir(parents=True)
        MAKERS[name]().to_netcdf(folder / name / "results.nc", engine="h5netcdf")
    found = claims()
    shared = found.pop("_shared")
    found["claims"] = [shared | one for one in found["claims"]]
    (folder / "claims.json").write_text(json.dumps(found))
    return found


def draw(folder):
    """Stand-ins for the figures of a folder: a wide and a tall picture of one colour each, which
    take no time."""
    from taut.paper.figures import pictures

    (Path(folder) / "figures").mkdir()
    for picture, _ in pictures(folder):
        for kind, size in (("", (60, 40)), ("-narrow", (40, 60))):
            Image.new("RGB", size, "teal").save(
                Path(folder) / "figures" / f"{picture.name}{kind}.png"
            )
