"""Mistakes that users of JAX and CVXPY make, and the sentence that each of them gets.

Every row has the mistake, the argument that is blamed, what came, and what is expected or how to mend it.
"""

import math
from pathlib import Path

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import taut
from taut.arguments import shown

BALL = taut.Ball(1.0, shape=2)
LEARNER = taut.ClippedOGD(0.1, 4.0)
COSTS = np.random.default_rng(0).uniform(size=(20, 2))
KNOWN = taut.Constants(loss_lipschitz=1.0, constraint_lipschitz=2**0.5)


def linear(x, c):
    return c @ x


def diamond(x):
    return jnp.abs(x).sum() - 1


PROBLEM = taut.Problem(linear, diamond, BALL)
TUNED = taut.Problem(linear, diamond, BALL, KNOWN)


def play(loss=linear, constraints=diamond, stream=COSTS, domain=BALL, **options):
    return taut.simulate(LEARNER, taut.Problem(loss, constraints, domain), stream, **options)


def branching(x, c):
    return c @ x if x[0] > 0 else -(c @ x)


def branching_constraint(x):
    return jnp.sum(x) if jnp.sum(x) > 1 else -1.0


def counting(x, c):
    return sum(c[0] for _ in range(int(x[0])))


def assigning(x, c):
    x[0] = 1.0
    return c @ x


def complaining(x, c):
    raise ValueError("loss: no number today")


def forgetful(x, c):
    c @ x


def reveal_by_branching(t, x, key):
    return jnp.ones(2) if x[0] > 0 else -jnp.ones(2)


def saved_run(folder):
    run = play()
    run.save(folder / "run.nc")
    return taut.Run.load(folder / "run.nc")


x2, c2 = cp.Variable(2, name="x"), cp.Parameter(2, name="c", bounds=[-1, 1])
MODEL = taut.from_cvxpy(c2 @ x2, [cp.norm1(x2) <= 1])
TABLE = pd.DataFrame({"east": COSTS[:, 0], "west": COSTS[:, 1]})
NAMED = taut.Problem(linear, diamond, BALL, coordinate_names=["east", "west"])
NAN = np.where(np.arange(40).reshape(20, 2) == 7, np.nan, COSTS)

WHERE = "Use jnp.where(condition, a, b), jnp.maximum(a, b) or jnp.minimum(a, b) instead"
JNP = "Use the function of the same name in jax.numpy (jnp)"
PYTHON_NUMBER = "turns its arguments into numbers of Python"
ORDER = "The order is simulate(learner, problem, stream)"
LOSS, CON = "loss(x, z)", "constraints(x)"

# (mistake, call, argument, what came, what is expected or how to mend it)
MISTAKES = [
    # Functions that JAX cannot trace.
    (
        "Python if in the loss",
        lambda: play(branching),
        "loss",
        f"{LOSS} decides by a value of its arguments",
        WHERE,
    ),
    (
        "Python if in the constraints",
        lambda: play(constraints=branching_constraint),
        "constraints",
        f"{CON} decides by a value",
        WHERE,
    ),
    (
        "Python max in the loss",
        lambda: play(lambda x, c: max(c @ x, 0.0)),
        "loss",
        "`max` or `min` of Python",
        "jnp.maximum(a, b)",
    ),
    (
        "Python and in the loss",
        lambda: play(lambda x, c: (x[0] > 0 and c[0]) * x[0]),
        "loss",
        "`and`",
        WHERE,
    ),
    (
        "NumPy in the loss",
        lambda: play(lambda x, c: np.dot(np.asarray(c), np.asarray(x))),
        "loss",
        "to a function of NumPy",
        JNP,
    ),
    (
        "NumPy in the constraints",
        lambda: play(constraints=lambda x: np.linalg.norm(np.array(x)) - 1),
        "constraints",
        "function of NumPy",
        JNP,
    ),
    (
        "float() in the loss",
        lambda: play(lambda x, c: float(x[0])),
        "loss",
        PYTHON_NUMBER,
        "jnp.sqrt",
    ),
    (
        "math.sqrt in the loss",
        lambda: play(lambda x, c: math.sqrt(x[0])),
        "loss",
        PYTHON_NUMBER,
        "jnp.sqrt",
    ),
    (
        "range over the decision",
        lambda: play(counting),
        "loss",
        PYTHON_NUMBER,
        "expected operations of jax.numpy only",
    ),
    (
        "a Boolean mask",
        lambda: play(lambda x, c: jnp.sum(x[x > 0])),
        "loss",
        "selects entries by a condition",
        "jnp.where(x > 0, x, 0.0)",
    ),
    (
        "assignment to an entry",
        lambda: play(assigning),
        "stream",
        "loss(x, z) raised TypeError",
        "x.at[idx].set(y)",
    ),
    (
        "an adversary with Python if",
        lambda: play(stream=reveal_by_branching, horizon=5),
        "stream",
        "reveal(round, decision, key) decides",
        WHERE,
    ),
    # What the functions take and return.
    (
        "an error of the user's own that begins like ours",
        lambda: play(complaining),
        "stream",
        "loss(x, z) raised ValueError",
        "loss: no number today",
    ),
    (
        "a loss of x alone",
        lambda: play(lambda x: x[0]),
        "loss",
        "a function with 1 required argument",
        "two, loss(x, z)",
    ),
    (
        "a loss of three",
        lambda: play(lambda x, c, t: x[0]),
        "loss",
        "3 required arguments",
        "the decision and the round's data",
    ),
    (
        "a loss without return",
        lambda: play(forgetful),
        "loss",
        "returned None",
        "Is the `return` missing?",
    ),
    (
        "a loss that is a vector",
        lambda: play(lambda x, c: c * x),
        "loss",
        "an array of shape (2,)",
        "a scalar, for example jnp.sum(...)",
    ),
    (
        "a loss that is a tuple",
        lambda: play(lambda x, c: (c @ x, 0.0)),
        "loss",
        "returned a tuple",
        "one number per round",
    ),
    (
        "a loss that is a truth value",
        lambda: play(lambda x, c: x[0] > 0),
        "loss",
        "a value of type bool",
        "a real number",
    ),
    (
        "a loss that takes other data",
        lambda: play(lambda x, z: z["price"] @ x),
        "stream",
        "loss(x, z) raised TypeError",
        "z of shape (2,)",
    ),
    (
        "constraints as a comparison",
        lambda: play(constraints=lambda x: jnp.sum(x) <= 1),
        "constraints",
        "truth values",
        "jnp.sum(x) - 1 instead of jnp.sum(x) <= 1",
    ),
    (
        "constraints without return",
        lambda: play(constraints=lambda x: None),
        "constraints",
        "returns no number",
        "Is the `return` missing?",
    ),
    (
        "constraints as text",
        lambda: play(constraints="x <= 1"),
        "constraints",
        "'x <= 1'",
        "a function of x, or of x and z",
    ),
    (
        "a list of constraints",
        lambda: play(constraints=[diamond, diamond]),
        "constraints",
        "class list",
        "lambda x: (g1(x), g2(x))",
    ),
    (
        "CVXPY constraints",
        lambda: play(constraints=[x2 <= 1]),
        "constraints",
        "Inequality",
        "taut.from_cvxpy(loss, constraints)",
    ),
    (
        "a CVXPY loss",
        lambda: play(cp.sum(x2)),
        "loss",
        "Expression",
        "taut.from_cvxpy(loss, constraints)",
    ),
    (
        "constraints that cannot be met",
        lambda: play(constraints=lambda x: jnp.sum(x * x) + 1),
        "constraints",
        "for all x of the domain",
        "g(x) <= 0",
    ),
    # Domains and constants.
    ("a number as domain", lambda: play(domain=2), "domain", "2", "taut.Ball(1.0, shape=2)"),
    (
        "a class as domain",
        lambda: play(domain=taut.Ball),
        "domain",
        "the class Ball",
        "taut.Ball(1.0, shape=2)",
    ),
    (
        "bounds as domain, as in SciPy",
        lambda: play(domain=[(0, 1), (0, 1)]),
        "domain",
        "[(0, 1), (0, 1)]",
        "a taut domain",
    ),
    (
        "domain and constraints swapped",
        lambda: taut.Problem(linear, BALL, diamond),
        "domain",
        "the function diamond",
        "a taut domain",
    ),
    (
        "constants as a dict",
        lambda: taut.Problem(linear, diamond, BALL, {"radius": 1}),
        "constants",
        "{'radius': 1}",
        "taut.Constants(...)",
    ),
    (
        "a misspelt constant",
        lambda: taut.Constants(loss_lipshitz=1.0),
        "loss_lipshitz",
        "a constant that does not exist",
        "Did you mean 'loss_lipschitz'?",
    ),
    (
        "a symbol instead of a constant",
        lambda: taut.Constants(G_g=1.0),
        "G_g",
        "a constant that does not exist",
        "Did you mean 'constraint_lipschitz'?",
    ),
    (
        "constants without names",
        lambda: taut.Constants(1.0, 2.0),
        "Constants",
        "1.0, 2.0 without a name",
        "taut.Constants(loss_lipschitz=1.0)",
    ),
    (
        "a simplex with total first",
        lambda: taut.Simplex(1.0, 80),
        "dimension",
        "1.0",
        "taut.Simplex(80, 1.0)",
    ),
    (
        "a simplex without size",
        taut.Simplex,
        "dimension",
        "neither dimension nor shape",
        "one of them",
    ),
    ("a simplex of matrices", lambda: taut.Simplex(shape=(2, 3)), "shape", "(2, 3)", "one axis"),
    (
        "a domain of one point",
        lambda: play(domain=taut.Simplex(1), stream=np.ones((5, 1))),
        "domain",
        "a single decision",
        "a larger set",
    ),
    (
        "a ball without shape",
        lambda: taut.Ball(1.0),
        "shape",
        "None and no centre",
        "one of the two",
    ),
    (
        "a ball with shape first",
        lambda: taut.Ball((2,), 1.0),
        "radius",
        "(2,)",
        "a finite real number",
    ),
    ("a negative radius", lambda: taut.Ball(-1.0, shape=2), "radius", "-1", "a positive number"),
    (
        "a box upside down",
        lambda: taut.Box(1.0, 0.0, shape=2),
        "lower",
        "1 at index (0,)",
        "at most upper = 0",
    ),
    (
        "a box without limit",
        lambda: taut.Box(0.0, np.inf, shape=2),
        "upper",
        "inf",
        "finite numbers only",
    ),
    (
        "edges of different shapes",
        lambda: taut.Box(np.zeros(2), np.ones(3)),
        "upper",
        "shape (3,)",
        "a scalar or shape (2,)",
    ),
    # Arguments in the wrong place.
    (
        "learner and problem swapped",
        lambda: taut.simulate(PROBLEM, LEARNER, COSTS),
        "learner",
        "class Problem",
        "The order is simulate(learner, problem, stream)",
    ),
    (
        "problem and stream swapped",
        lambda: taut.simulate(LEARNER, COSTS, PROBLEM),
        "problem",
        "an array of shape (20, 2)",
        ORDER,
    ),
    (
        "a class instead of a learner",
        lambda: taut.Player(taut.ClippedOGD, PROBLEM),
        "learner",
        "the class ClippedOGD",
        "Player(learner, problem)",
    ),
    (
        "a problem instead of constants",
        lambda: taut.ClippedOGD.tuned(TUNED, 10),
        "constants",
        "class Problem",
        "problem.constants",
    ),
    (
        "horizon and constants swapped",
        lambda: taut.ClippedOGD.tuned(10, TUNED.constants),
        "constants",
        "10",
        "taut.Constants",
    ),
    (
        "stream before problem in hindsight",
        lambda: taut.hindsight(COSTS, PROBLEM),
        "problem",
        "an array of shape (20, 2)",
        "then the stream",
    ),
    (
        "constants instead of a problem",
        lambda: taut.recommend(KNOWN, 100),
        "problem",
        "Constants(",
        "taut.Problem(...)",
    ),
    (
        "a problem instead of a run",
        lambda: taut.certify(PROBLEM),
        "run",
        "class Problem",
        "taut.simulate(learner, problem, stream)",
    ),
    (
        "a function instead of a problem",
        lambda: taut.max_of(diamond),
        "problem",
        "diamond",
        "taut.Problem(...)",
    ),
    (
        "problem and stream in a list",
        lambda: taut.rates(LEARNER, [PROBLEM, COSTS], [10, 20]),
        "family",
        "class list",
        "a tuple (problem, stream)",
    ),
    (
        "one horizon",
        lambda: taut.rates(LEARNER, (PROBLEM, COSTS), [10]),
        "horizons",
        "[10]",
        "at least two, increasing",
    ),
    (
        "one name to compare",
        lambda: taut.compare("clipped-ogd", TUNED, COSTS),
        "learners",
        "'clipped-ogd'",
        "a list of names",
    ),
    # Names and options.
    (
        "a misspelt learner",
        lambda: taut.learner("cliped-ogd", TUNED, horizon=10),
        "learner",
        "'cliped-ogd'. Did you mean 'clipped-ogd'? Expected one of",
        "half-space",
    ),
    (
        "no horizon",
        lambda: taut.learner("clipped-ogd", TUNED),
        "horizon",
        "None",
        "horizon=1000, which clipped-ogd needs",
    ),
    (
        "a misspelt option",
        lambda: taut.learner("clipped-ogd", TUNED, horizon=10, bta=0.5),
        "bta",
        "no such option",
        "beta",
    ),
    (
        "unknown constants",
        lambda: taut.learner("clipped-ogd", PROBLEM, horizon=10),
        "constants",
        "loss_lipschitz (G_f)",
        "problem.estimate_constants(stream, key) sample it, or use the learner half-space",
    ),
    (
        "a misspelt record",
        lambda: play(record=("losses",)),
        "record",
        "'losses'",
        "Did you mean 'loss'?",
    ),
    (
        "the singular of a record",
        lambda: play(record="decision"),
        "record",
        "'decision'",
        "Did you mean 'decisions'?",
    ),
    (
        "a misspelt quantity",
        lambda: play().plot("violations"),
        "quantity",
        "'violations'",
        "Did you mean 'violation'?",
    ),
    # Data.
    (
        "a transposed stream",
        lambda: play(stream=COSTS.T),
        "stream",
        "z of shape (20,)",
        "the leading axis of the stream counts rounds",
    ),
    (
        "seeds that are not announced",
        lambda: play(stream=np.zeros((3, 20, 2))),
        "loss",
        "an array of shape (20,)",
        "say how many with seeds=...",
    ),
    ("seeds as a list", lambda: play(seeds=[0, 1, 2]), "seeds", "[0, 1, 2]", "a whole number"),
    (
        "seeds without a seed axis",
        lambda: play(seeds=3),
        "stream",
        "20 seeds in shape (20, 2)",
        "seeds=3",
    ),
    (
        "a generator",
        lambda: play(stream=(c for c in COSTS)),
        "stream",
        "a generator",
        "numpy.array(list(stream))",
    ),
    (
        "a random generator",
        lambda: play(stream=np.random.default_rng(0)),
        "stream",
        "a random generator",
        "rng.uniform(size=(1000, 2))",
    ),
    (
        "a file name",
        lambda: play(stream="costs.csv"),
        "stream",
        "'costs.csv'",
        "pandas.read_csv('costs.csv')",
    ),
    ("a path", lambda: play(stream=Path("costs.csv")), "stream", "'costs.csv'", "not their name"),
    (
        "a list of rows as arrays",
        lambda: play(stream=list(COSTS)),
        "stream",
        "20 arrays, the first of shape ()",
        "numpy.stack",
    ),
    (
        "a list with rows of different lengths",
        lambda: play(stream=[[1.0, 2.0], [3.0]]),
        "stream",
        "the lengths [1, 2]",
        "rows of one length",
    ),
    (
        "a column of text",
        lambda: play(stream=pd.DataFrame({"a": [1.0], "city": ["Bonn"]})),
        "stream",
        "the column 'city'",
        "Drop the column",
    ),
    (
        "NaN in the data",
        lambda: play(stream=NAN),
        "stream",
        "not finite in round 4",
        "finite numbers",
    ),
    (
        "a horizon beyond the data",
        lambda: play(horizon=21),
        "horizon",
        "21",
        "at most the 20 rounds",
    ),
    (
        "a function without horizon",
        lambda: play(stream=lambda start, length: COSTS),
        "horizon",
        "stream is a function",
        "horizon=1000",
    ),
    (
        "text that holds numbers",
        lambda: play(stream=COSTS.astype(str)),
        "stream",
        "values of type <U",
        "Convert them with .astype(float)",
    ),
    (
        "numbers as objects",
        lambda: play(stream=COSTS.astype(object)),
        "stream",
        "values of type object",
        "Convert them with .astype(float)",
    ),
    (
        "a table of text that holds numbers",
        lambda: play(stream=TABLE.astype(str)),
        "stream",
        "in the column 'east'",
        "Convert it with .astype(float)",
    ),
    (
        "a column of dates",
        lambda: play(stream=TABLE.assign(day=pd.date_range("2024", periods=20))),
        "stream",
        "the column 'day'",
        "move dates and labels into the index",
    ),
    ("complex numbers", lambda: play(stream=COSTS + 0j), "stream", "complex128", "real numbers"),
    (
        "missing entries in a table",
        lambda: play(stream=pd.DataFrame(NAN)),
        "stream",
        "not finite in round 4",
        "finite numbers",
    ),
    (
        "missing whole numbers in a table",
        lambda: play(stream=pd.DataFrame({"a": pd.array([1, None], "Int64"), "b": 1.0})),
        "stream",
        "not finite in round 2",
        "finite numbers",
    ),
    (
        "columns in another order",
        lambda: taut.simulate(LEARNER, NAMED, TABLE[["west", "east"]]),
        "stream",
        "the columns west, east",
        "table[['east', 'west']]",
    ),
    (
        "a row in another order",
        lambda: taut.Player(LEARNER, NAMED).observe(TABLE[["west", "east"]].iloc[0]),
        "stream",
        "the columns west, east",
        "table[['east', 'west']]",
    ),
    (
        "a list of dicts",
        lambda: play(stream=[{"c": 1.0}, {"c": 2.0}]),
        "stream",
        "a list of 2 dicts",
        "one dict of arrays with a row per round",
    ),
    (
        "a dict with arrays of other lengths",
        lambda: play(stream={"a": COSTS, "b": np.ones(5)}),
        "stream",
        "arrays of [5, 20] rounds",
        "one number of rounds",
    ),
    (
        "one number as stream",
        lambda: play(stream=3.0),
        "stream",
        "a number",
        "leading axes (round)",
    ),
    ("no stream", lambda: play(stream=None), "stream", "None, no array", "one row per round"),
    ("an empty table", lambda: play(stream=TABLE.iloc[:0]), "stream", "0 rounds", "at least one"),
    ("a negative horizon", lambda: play(horizon=-5), "horizon", "-5", "at least 1"),
    ("half a round", lambda: play(horizon=10.5), "horizon", "10.5", "a whole number"),
    (
        "a horizon as text",
        lambda: taut.recommend(TUNED, "1000"),
        "horizon",
        "'1000'",
        "a whole number",
    ),
    (
        "no rounds between records",
        lambda: play(record=("decisions",), every=0),
        "every",
        "0",
        "at least 1",
    ),
    (
        "seeds of another number",
        lambda: play(stream=np.zeros((3, 20, 2)), seeds=4),
        "stream",
        "3 seeds in shape (3, 20, 2)",
        "seeds=4",
    ),
    (
        "a loss of the whole stream",
        lambda: play(lambda x, c: c.sum(axis=1) @ x),
        "stream",
        "one round's data z of shape (2,)",
        "axis 1 is out of bounds",
    ),
    (
        "a constraint with the wrong sign",
        lambda: play(constraints=lambda x: 5 - jnp.abs(x).sum()),
        "constraints",
        "for all x of the domain",
        "for which g(x) <= 0",
    ),
    (
        "a loss that is infinite at the first decision",
        lambda: play(lambda x, c: -jnp.log(x[0])),
        "loss",
        "not finite in round 1",
        "finite numbers",
    ),
    (
        "a norm without gradient at zero",
        lambda: play(lambda x, c: jnp.linalg.norm(x)),
        "loss gradient",
        "not finite in round 1",
        "has none at 0",
    ),
    (
        "a whole stream observed at once",
        lambda: taut.Player(LEARNER, PROBLEM).observe(COSTS),
        "loss",
        "an array of shape (20,)",
        "one round's data",
    ),
    (
        "a class to compare",
        lambda: taut.compare([taut.ClippedOGD], TUNED, COSTS),
        "learners",
        "the class ClippedOGD",
        "a learner, a card or the name",
    ),
    (
        "problem and stream swapped in compare",
        lambda: taut.compare(["half-space"], COSTS, TUNED),
        "problem",
        "an array of shape (20, 2)",
        "compare(learners, problem, stream)",
    ),
    (
        "text as the best decision",
        lambda: taut.metrics.regret(play(), "best"),
        "best",
        "<U4",
        "real numbers",
    ),
    (
        "text as a flag",
        lambda: taut.Problem(linear, diamond, BALL, None, "yes"),
        "domain_binds",
        "'yes'",
        "True or False",
    ),
    (
        "too many names",
        lambda: taut.Problem(linear, diamond, BALL, constraint_names=["a", "b"]),
        "constraint_names",
        "2 names",
        "1",
    ),
    (
        "a decision asked of a usual learner",
        lambda: taut.Player(LEARNER, PROBLEM).decide(COSTS[0]),
        "decide",
        "before a round is revealed",
        "player.decision",
    ),
    # Random keys and first decisions.
    (
        "a whole number as key",
        lambda: play(stream=lambda t, x, k: x, horizon=5, key=7),
        "key",
        "7",
        "jax.random.key(7)",
    ),
    (
        "a NumPy generator as key",
        lambda: PROBLEM.estimate_constants(COSTS, np.random.default_rng(0)),
        "key",
        "Generator",
        "jax.random.key(seed)",
    ),
    (
        "several keys",
        lambda: PROBLEM.estimate_constants(COSTS, jax.random.split(jax.random.key(0))),
        "key",
        "Array",
        "one key",
    ),
    (
        "a first decision outside",
        lambda: play(x1=[2.0, 2.0]),
        "x1",
        "[2. 2.], outside the domain",
        "problem.domain.project(x1)",
    ),
    (
        "a first decision of another shape",
        lambda: play(x1=[0.0] * 3),
        "x1",
        "shape (3,)",
        "(2,), that of the domain",
    ),
    # Live use.
    (
        "data of another shape",
        lambda: taut.Player(LEARNER, PROBLEM).observe(np.zeros(3)),
        "z",
        "loss(x, z) raised TypeError",
        "z of shape (3,)",
    ),
    (
        "nothing observed",
        lambda: taut.Player(LEARNER, PROBLEM).observe(),
        "z",
        "neither z nor measurements",
        "either z, or gradient, excess and jacobian",
    ),
    (
        "data and measurements",
        lambda: taut.Player(LEARNER, PROBLEM).observe(COSTS[0], gradient=COSTS[0]),
        "z",
        "both z and measurements",
        "either z, or",
    ),
    (
        "NaN observed",
        lambda: taut.Player(LEARNER, PROBLEM).observe([np.nan, 0.0]),
        "z",
        "not finite in round 1",
        "finite numbers",
    ),
    (
        "an unknown number of constraints",
        lambda: taut.Player(LEARNER, taut.Problem(linear, lambda x, c: c @ x - 1, BALL)),
        "count",
        "None",
        "Player(..., count=m)",
    ),
    # Models written in CVXPY.
    (
        "a concave loss",
        lambda: taut.from_cvxpy(cp.sqrt(cp.Variable(nonneg=True)), []),
        "loss",
        "do not prove convexity",
        "disciplined convex programming",
    ),
    (
        "a vector loss in CVXPY",
        lambda: taut.from_cvxpy(x2, [x2 <= 1]),
        "loss",
        "shape (2,)",
        "a scalar",
    ),
    (
        "no bounds",
        lambda: taut.from_cvxpy(cp.sum(x2), []),
        "constraints",
        "an unbounded feasible set",
        "a bounded one, bounds=[low, high] of the variables, or domain=...",
    ),
    (
        "whole decisions",
        lambda: taut.from_cvxpy(cp.sum(cp.Variable(2, integer=True, name="n")), []),
        "variable n",
        "integer=True",
        "real variables",
    ),
    (
        "data beyond the bounds",
        lambda: MODEL.arrange(np.array([[0.0, 0.5], [0.0, 3.0]])),
        "data",
        "3 for c[1] in round 2",
        "at most 1 (bounds)",
    ),
    (
        "data below the bounds",
        lambda: MODEL.arrange(np.array([[-4.0, 0.5]])),
        "data",
        "-4 for c[0] in round 1",
        "at least -1",
    ),
    (
        "data for another parameter",
        lambda: MODEL.arrange({"d": COSTS}),
        "data",
        "data for 'd'",
        "c",
    ),
    # Files.
    (
        "a file that is not there",
        lambda: taut.Run.load("nowhere.nc"),
        "path",
        "nowhere.nc",
        "a run that taut saved",
    ),
]


@pytest.mark.parametrize(
    ("call", "argument", "came", "mend"),
    [row[1:] for row in MISTAKES],
    ids=[row[0] for row in MISTAKES],
)
def test_a_mistake_gets_its_sentence(call, argument, came, mend):
    with pytest.raises((TypeError, ValueError, OSError)) as caught:
        call()
    message = str(caught.value)
    assert message.startswith((f"{argument}:", f"{argument} ")), message
    assert came in message, message
    assert mend in message, message
    assert len(message) < 1200, message
    assert message.index(came) <= message.index(mend), message
    assert "Tracer" not in message.split("raised", maxsplit=1)[0], message


def test_times_that_decrease_are_played_in_the_order_of_the_rows_with_a_warning():
    times = pd.date_range("2024-10-27 02:00", periods=20, freq="5min")
    back = times[:10].append(times[:10])
    with pytest.warns(
        UserWarning, match=r"decrease from 2024-10-27 02:45:00 to 2024-10-27 02:00:00 \(row 10\)"
    ):
        run = play(stream=TABLE.set_index(back))
    assert run.index.equals(back)


def test_columns_of_one_name_and_whole_numbers_are_taken_by_position():
    twice = pd.DataFrame(COSTS, columns=["price", "price"])
    np.testing.assert_array_equal(play(stream=twice).loss, play(stream=COSTS).loss)
    whole = pd.DataFrame({"a": pd.array([1, 2], "Int64"), "b": [0.5, 1.5]})
    np.testing.assert_array_equal(
        play(stream=whole).loss, play(stream=np.array([[1.0, 0.5], [2.0, 1.5]])).loss
    )


def test_the_table_is_long_and_its_mistakes_differ():
    assert len(MISTAKES) >= 60
    assert len({row[0] for row in MISTAKES}) == len(MISTAKES)


def test_a_saved_run_needs_its_problem(tmp_path):
    with pytest.raises(ValueError, match=r"^problem: got None; expected"):
        saved_run(tmp_path).certificate()


def test_a_simplex_like_its_sisters():
    assert (
        repr(taut.Simplex(2.0, shape=3))
        == repr(taut.Simplex(3, 2.0))
        == repr(taut.Simplex(shape=(3,), total=2.0))
    )


def test_what_came_is_said_in_few_words():
    assert shown(np.zeros((4000, 16))) == "an array of shape (4000, 16)"
    assert shown(PROBLEM) == "an object of class Problem"
    assert shown(linear) == "the function linear"
    assert shown([1, 2]) == "[1, 2]"
    assert shown(object()) == "an object of class object"
