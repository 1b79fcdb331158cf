"""The engine: its one flag never overrides the user's; importing taut stays light; 32 bits work
without a warning."""

import json
import os
import subprocess
import sys

import pytest

from subprocesses import run_in_single_precision
from taut import engine

HEAVY = ["cvxpy", "matplotlib", "xarray", "scipy", "h5netcdf", "typer"]
FRESH = """
import json, os, sys, warnings
heavy = sys.argv[1:]
warnings.simplefilter("error")
import jax
before = dict(os.environ), dict(jax.config.values)
import taut
changed = before != (dict(os.environ), dict(jax.config.values))
out = {"changed": changed, "imported": [name for name in heavy if name in sys.modules]}

import jax, jax.numpy as jnp, numpy as np
toy = taut.Problem(lambda x, z: x[0] * z[1] - x[1] * z[0], lambda x: jnp.abs(x).sum() - 1, taut.Ball(1.0, shape=2))
whole = np.random.default_rng(0).integers(-3, 4, size=(30, 2))
learner = taut.ClippedOGD(0.1, 4.0)
run = taut.simulate([learner, learner], toy, whole, x1=np.zeros(2), record=("loss", "decisions"), chunk=8)
player = taut.Player(learner, toy)
for z in whole:
    player.observe(z)
out["types"] = [str(run.loss.dtype), str(run.totals.loss.dtype), str(player.decision.dtype)]
out["apart"] = float(np.abs(player.decision - run.final[0, 0]).max())
out["after a game"] = [name for name in heavy if name in sys.modules]
print(json.dumps(out))
"""


@pytest.fixture(scope="module")
def fresh():
    """What a fresh process with JAX's own settings sees."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("XLA_", "JAX_"))
    }
    command = [sys.executable, "-c", FRESH, *HEAVY]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_import_is_light(fresh):
    assert fresh["imported"] == []


def test_a_game_on_a_feasible_problem_needs_no_solver(fresh):
    assert "cvxpy" not in fresh["after a game"]
    assert "matplotlib" not in fresh["after a game"]


def test_import_changes_no_setting_of_the_process(fresh):
    assert not fresh["changed"]


OWN_LOOP = """
import sys
import jax, jax.numpy as jnp, numpy as np
jax.config.update("jax_enable_x64", True)
import taut
weights = np.random.default_rng(0).normal(size=(4, 3))

def largest(x):
    return jnp.max(jnp.concatenate([weights @ x - 0.1, jnp.array([jnp.sum(x * x) - 0.4])]))

problem = taut.Problem(lambda x, z: 0.5 * jnp.sum((x - z) ** 2), largest, taut.Box(-1.0, 1.0, shape=3))
learner = taut.HalfSpace(eta=0.1, diameter=2.0)
data = np.random.default_rng(1).normal(size=(8, 40, 3))
if sys.argv[1] == "simulate first":
    taut.simulate(learner, problem, data, seeds=8)

def play(data):
    def step(states, z):
        after = jax.vmap(lambda state, z: learner.step(state, problem.round(z)))(states, z)
        return after, after.x
    begun = jax.vmap(lambda z: learner.init(jnp.zeros(3), 1))(data[:, 0])
    return jax.lax.scan(step, begun, jnp.swapaxes(data, 0, 1))[1]

together = np.asarray(jax.jit(play)(data))
alone = np.concatenate([np.asarray(jax.jit(play)(data[i : i + 1])) for i in range(8)], axis=1)
print(np.abs(together - alone).max() <= 1e-12, together.tobytes().hex())
"""


def test_a_users_own_loop_is_the_same_after_a_simulation_and_each_seed_alone():
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("XLA_", "JAX_"))
    }
    printed = []
    for how in ("simulate first", "own loop only"):
        command = [sys.executable, "-c", OWN_LOOP, how]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout.split())
    assert printed[0] == printed[1]
    assert printed[0][0] == "True"


def test_32_bits_are_the_users_choice(fresh):
    """Whole numbers, a 64-bit first decision and a sweep: nothing warns, nothing is promoted,
    totals have 64 bits."""
    assert fresh["types"] == ["float32", "float64", "float32"]
    assert fresh["apart"] < 1e-6


def test_compiler_options_in_the_users_flags_are_kept(monkeypatch):
    options = {"xla_cpu_scheduler_type": "A", "xla_cpu_copy_insertion_use_region_analysis": True}
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    assert engine.unless_chosen(options) == options
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=there --xla_cpu_scheduler_type=B")
    assert list(engine.unless_chosen(options)) == ["xla_cpu_copy_insertion_use_region_analysis"]


WIDTHS = """
import numpy as np, jax.numpy as jnp, taut
from taut import engine
weights = np.array([0.1, 0.2])
problem = taut.Problem(
    lambda x, z: jnp.sum(weights * jnp.abs(x - z)) + jnp.vdot(weights, x), lambda x: jnp.sum(jnp.abs(x) * weights) - 1,
    taut.Ball(1.0, shape=2),
)
def loss():
    return taut.simulate(taut.ClippedOGD(0.1, 4.0), problem, np.ones((4, 2))).loss
print(loss().dtype)
with engine.double_precision():
    wide = loss()
    print(wide.dtype, float(wide[0, 0]) == float(np.sum(weights)))
print(loss().dtype)
"""


def test_programs_of_one_float_width_are_not_used_in_the_other():
    """JAX keeps NumPy constants of a function in the width they were first seen in, so its caches
    must be cleared."""
    assert run_in_single_precision(WIDTHS).split() == ["float32", "float64", "True", "float32"]


def test_a_platform_that_is_not_there_is_named():
    """JAX itself raises an AssertionError without a text."""
    program = """
import jax.numpy as jnp, numpy as np, taut
problem = taut.Problem(lambda x, c: c @ x, lambda x: x - 1, taut.Ball(1.0, shape=2))
for call in (
    lambda: taut.simulate(problem, np.zeros((3, 2))), lambda: taut.Player(problem),
    lambda: taut.hindsight(problem, np.zeros((3, 2))), lambda: taut.recommend(problem), lambda: problem.domain.project(np.zeros(2)),
):
    try:
        call()
    except RuntimeError as error:
        print(error)
import sys, taut.cli.main
sys.argv = ["taut", "recommend", "-R", "1", "-f", "1", "-g", "1"]
taut.cli.main.main()
"""
    environment = {**os.environ, "JAX_PLATFORMS": "cuda"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    sentence = "JAX_PLATFORMS: got 'cuda', on which JAX cannot compute here"
    assert [line.startswith(sentence) for line in done.stdout.splitlines()] == [True] * 5, (
        done.stdout + done.stderr
    )
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1].startswith(f"taut: {sentence}")


SINGLE = """
import jax, numpy as np, jax.numpy as jnp, taut
weights = np.array([0.1, 0.2])
def smooth(x, z):
    return jnp.logaddexp(0.0, z @ x) + jax.nn.relu(weights @ x) + jnp.linalg.norm(x - weights)
problem = taut.Problem(smooth, lambda x: jnp.sum(jnp.abs(x) * weights) - 0.1, taut.Ball(1.0, shape=2))
data = np.random.default_rng(0).normal(size=(30, 2))
compiled = []
jax.monitoring.register_event_duration_secs_listener(lambda name, *_, **__: compiled.append(name))
def all_of_it():
    run = taut.simulate(taut.ClippedOGD(0.1, 4.0), problem, data)
    best = taut.hindsight(problem, data)
    certificate = run.certificate(best=best)
    player = taut.Player(taut.ClippedOGD(0.1, 4.0), problem)
    player.observe(data[0])
    kinds = run.loss.dtype, player.decision.dtype, best.decision.dtype
    return [*map(str, kinds), repr(float(best.loss[0])), repr([row.worst for row in certificate.rows])]
first = all_of_it()
compiled.clear()
again = all_of_it()
print(*first[:3], first == again, sum(name.endswith("backend_compile_duration") for name in compiled))
jax.config.update("jax_enable_x64", True)
wide = all_of_it()
jax.config.update("jax_enable_x64", False)
problem.estimate_constants(data, jax.random.key(0))
print(*wide[:3], wide[3:] == first[3:], all_of_it() == first)
"""


def test_single_precision_keeps_its_programs_through_hindsight_and_certificates():
    """Hindsight computes in double precision; the simulation is not compiled again after it, and
    nothing mixes."""
    alone, switched = run_in_single_precision(SINGLE).splitlines()
    assert alone.split() == ["float32", "float32", "float64", "True", "0"]
    assert switched.split() == ["float64", "float64", "float64", "False", "True"]


NARROW = """
import jax, numpy as np, jax.numpy as jnp
made = jax.ShapeDtypeStruct.__init__
def checked(self, shape, dtype, *rest, **named):  # JAX 0.12 warns of types that it does not have
    if jax.dtypes.canonicalize_dtype(dtype) != dtype:
        raise TypeError(f"{dtype} in 32 bits")
    made(self, shape, dtype, *rest, **named)
jax.ShapeDtypeStruct.__init__ = checked
import taut
z = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30)
problem = taut.Problem(lambda x, z: z[1] * (z[0] @ x), lambda x, z: jnp.abs(z[0] @ x) - 1, taut.Ball(1.0, shape=2))
smooth = taut.log_sum_exp(problem, 10.0)
run = taut.simulate(smooth, z)
best = taut.hindsight(problem, z)
print(run.loss.dtype, best.loss.dtype, taut.metrics.regret(run, best).shape)
"""


def test_nothing_asks_for_64_bits_in_a_session_of_32():
    assert run_in_single_precision(NARROW).split() == ["float32", "float64", "(1,)"]
