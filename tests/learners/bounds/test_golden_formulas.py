"""All formulas at random arguments equal stored numbers, so that none changes unnoticed in a case
that no method meets.

The numbers prove nothing: other tests compare formulas with derivations, runs and attacks. After a
change that is meant, write them again: python tests/learners/bounds/test_golden_formulas.py
"""

import inspect
import json
import re
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

import taut
from taut import bounds

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from learners.bounds.test_bound_arguments import FORMULAS, VALID, given_to

STORED = Path(__file__).with_name("golden_formulas.json")
STORED_ROWS = json.loads(STORED.read_text()) if STORED.exists() else {}
DRAWS = 48
SLOW = ("optimal_parameters",)
MINIMISERS = {"optimal_parameters": 1e-6}
"""How closely these are determined: a minimiser only to the root of what its values are rounded to,
which differs by machine."""
ROUND_BY_ROUND = ("averaged_smooth_violation",)
TEXTS = {"form": ("scale-aware", "sharp", "paper")}
BELOW_ONE = ("alpha", "beta")


def drawn(rng, name, about):
    """A random value for an argument: a valid one, scaled."""
    scale = 10 ** rng.uniform(
        -1.5, 4 if name == "horizon" else 1.5
    )  # some bounds are the smaller ones in the long run
    if name in TEXTS:
        return TEXTS[name][rng.integers(len(TEXTS[name]))]
    if about.annotation == "bool":
        return bool(rng.integers(2))
    if name == "constants":
        numbers = 10 ** rng.uniform(-1, 1, 5)
        names = ("radius", "loss_lipschitz", "constraint_lipschitz", "loss_range", "error_bound")
        return taut.Constants(
            **dict(zip(names, numbers.tolist(), strict=True)),
            constraint_count=int(rng.integers(1, 5)),
        )
    if name == "lengths":
        slope = rng.choice([0.0, 1.3, 2.7])
        return bounds.power_step_lengths(
            horizon=50, eta=0.01 * scale, beta=rng.uniform(0, 0.9), loss_lipschitz=slope
        )
    if name in BELOW_ONE:
        return rng.uniform(0.02, 0.98)
    if about.annotation.startswith("float") and rng.random() < 0.1:
        return None if "None" in about.annotation and rng.random() < 0.5 else 0.0
    valid = VALID.get(name, 0.7) * scale
    return max(1, round(valid)) if about.annotation == "int" else valid


def arguments_of(name):
    """Yield random arguments: all that are needed, some of the others."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    usual = given_to(name)
    for draw in range(DRAWS if name not in SLOW else 3):
        given = {}
        # By name, so that the draws do not depend on the order in the signature.
        for argument, about in sorted(inspect.signature(FORMULAS[name]).parameters.items()):
            value, keep = drawn(rng, argument, about), rng.random() < 0.6
            if argument in usual or keep:
                given[argument] = (
                    usual[argument] if argument in usual and draw % 2 and not keep else value
                )
        if name in ROUND_BY_ROUND:
            given["horizon"] = min(given["horizon"], 500)
        yield given


def described(name):
    """For each draw the numbers that a formula returns, or the argument that its error names."""
    rows = []
    for given in arguments_of(name):
        try:
            found = FORMULAS[name](**given)
        except (ValueError, OverflowError, ZeroDivisionError) as error:
            said = re.match(r"\w+", str(error))
            rows.append(f"{type(error).__name__} {said[0] if said else ''}")
        else:
            rows.append([float(one) for one in np.ravel(found) if one is not None])
    return rows


@pytest.mark.parametrize("name", FORMULAS)
def test_formulas_have_the_stored_values(name):
    assert name in STORED_ROWS, (
        "store the numbers with python tests/learners/bounds/test_golden_formulas.py"
    )
    rel = MINIMISERS.get(name, 1e-9)
    for found, stored in zip(described(name), STORED_ROWS[name], strict=True):
        assert isinstance(found, str) == isinstance(stored, str)
        assert found == (
            stored
            if isinstance(stored, str)
            else pytest.approx(stored, rel=rel, abs=1e-300, nan_ok=True)
        )


def test_the_stored_numbers_are_those_of_all_formulas():
    assert set(STORED_ROWS) == set(FORMULAS)
    numbers = [row for rows in STORED_ROWS.values() for row in rows if not isinstance(row, str)]
    assert len(numbers) > len(FORMULAS) * DRAWS / 2


if __name__ == "__main__":
    lines = [f"{json.dumps(name)}: {json.dumps(described(name))}" for name in FORMULAS]
    STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
