"""The published guide works: a method is added outside the package, and inside, touching what the
guide says."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "examples" / "exact_penalty"

OUTSIDE = """
import json, jax
jax.config.update("jax_enable_x64", True)
import numpy as np, taut
from taut.testing import PROBLEMS, check_learner, side_by_side
side_by_side.GAMES = side_by_side.GAMES[5:6]  # as in conftest
check_learner("exact-penalty", PROBLEMS[:1])
problem = PROBLEMS[0].problem
run = taut.simulate(taut.learner("exact-penalty", problem, weight=1.5), problem, PROBLEMS[0].stream(1, 50)[0])
bounds = {row.quantity: row.bound for row in run.certificate(check=False).rows}
names = [one.method.name for one in taut.recommend(problem, 1000).candidates]
print(json.dumps({"regret": bounds["regret"], "recommended among": names, "registry": list(taut.LEARNERS)}))
"""

SWEPT = """
import json, sys, tempfile, jax
jax.config.update("jax_enable_x64", True)
import numpy as np, taut
from taut.arena.run import play
from taut.testing import PROBLEMS
problem, data = PROBLEMS[0].problem, PROBLEMS[0].stream(1, 50)[0]
cell = taut.Cell("exact-penalty", problem, data, name="mine")
alone = taut.simulate("exact-penalty", problem, data)
with tempfile.TemporaryDirectory() as folder:
    played = [taut.sweep([cell], executor, folder=folder + "/runs").check() for executor in (1, "processes")]
    contest = play(folder + "/arena", learners=["exact-penalty"], streams=["toy"], horizons=[256], seeds=2, grid=False)
    same = all(np.array_equal(one["mine"].final, alone.final) for one in played)
    print(json.dumps({"same": same, "played": [one.played for one in played],
                      "arena": [contest.cells, contest.new, list(contest.failed), list(contest.broken)]}))
"""

INSIDE = """
import jax
jax.config.update("jax_enable_x64", True)
import taut
from taut.testing import PROBLEMS, checks, run_check
card = taut.LEARNERS["exact-penalty-inside"]
for check in (checks.check_card, checks.check_survives_json, checks.check_stays_in_domain):
    run_check(card, check, PROBLEMS[:1])
print(taut.learners.registry.FAMILIES[-1].__file__, taut.__file__)
"""


def run_python(program, *path, **environment):
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), **environment}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=variables, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The example package, installed as a user would install it, into a folder of its own."""
    target = tmp_path_factory.mktemp("site")
    source = target / "source"
    shutil.copytree(PACKAGE, source)
    command = [
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "--target",
    ]
    done = subprocess.run(
        [sys.executable, *command, str(target / "site"), str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return target / "site"


def test_a_package_adds_a_method_by_its_entry_point(installed):
    found = json.loads(run_python(OUTSIDE, installed, ROOT / "src").splitlines()[-1])
    assert "exact-penalty" in found["registry"]
    assert "exact-penalty" in found["recommended among"]
    assert found["regret"] == pytest.approx(1.5 * (1 + 1.5 * 2**0.5) * 2 * 50**0.5)


def test_a_method_of_another_package_plays_in_sweeps_and_in_the_arena(installed):
    found = json.loads(run_python(SWEPT, installed, ROOT / "src").splitlines()[-1])
    assert found == {"same": True, "played": [1, 0], "arena": [1, 1, [], []]}


def test_one_file_adds_a_method_inside_the_package(tmp_path):
    """A copy of the package with one file more: nothing else is touched, and the registry finds
    it."""
    shutil.copytree(
        ROOT / "src" / "taut", tmp_path / "taut", ignore=shutil.ignore_patterns("__pycache__")
    )
    text = (PACKAGE / "exact_penalty.py").read_text()
    text = text.replace(
        "import taut\nfrom taut.learners import State\n",
        "from .base import Learner, State, learner_dataclass\n",
    )
    text = text.replace("from .base", "from .card import Card, Growth\nfrom .base")
    text = text.replace("taut.", "").replace(
        'CARD = Card(\n    "exact-penalty"', 'CARDS = (Card(\n    "exact-penalty-inside"'
    )
    text = text.rstrip().removesuffix(")") + "),)\n"
    (tmp_path / "taut" / "learners" / "zz_exact_penalty.py").write_text(text)
    printed = run_python(INSIDE, tmp_path)
    assert "zz_exact_penalty.py" in printed
    assert str(tmp_path) in printed
