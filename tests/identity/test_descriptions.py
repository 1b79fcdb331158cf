"""What a function reaches: whatever changes its result changes its description, and nothing else
does."""

import functools
import importlib.util
import json
import os
import subprocess
import sys
import textwrap
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from small_games import GAME, targets
from taut.identity import Descriptions, programs
from taut.identity.programs import NUMERICS, numerics
from taut.sweeps.cell import prepare
from taut.sweeps.sweep import Identities

HEAD = """
import dataclasses, enum, functools
import jax, jax.numpy as jnp, numpy as np
from collections import OrderedDict
from typing import NamedTuple
"""

CHANGES = {
    "number": ("K = 1.0\ndef draw(): return K", "K = 2.0"),
    "tuple": ("K = (1.0, 2.0)\ndef draw(): return K", "K = (1.0, 3.0)"),
    "list": ("K = [1.0, 2.0]\ndef draw(): return K[0]", "K = [1.0, 3.0]"),
    "dict": ("K = {'a': 1.0}\ndef draw(): return K['a']", "K = {'a': 3.0}"),
    "nested": ("K = {'a': [(1.0, {2})]}\ndef draw(): return K", "K = {'a': [(1.0, {3})]}"),
    "ordered": ("K = OrderedDict(a=1)\ndef draw(): return K", "K = OrderedDict(a=2)"),
    "numpy": ("K = np.arange(40.0)\ndef draw(): return K", "K = np.arange(40.0) + 1e-9"),
    "objects": ("K = np.array([None, 1])\ndef draw(): return K", "K = np.array([None, 2])"),
    "jax": ("K = jnp.arange(3.0)\ndef draw(): return K", "K = jnp.arange(3.0) + 1e-9"),
    "generator": (
        "K = np.random.default_rng(1)\ndef draw(): return K.normal()",
        "K = np.random.default_rng(2)",
    ),
    "dtype": ("K = np.dtype('f8')\ndef draw(): return K", "K = np.dtype('f4')"),
    "enum": (
        "class E(enum.Enum):\n    A = 1\ndef draw(): return E.A.value",
        "class E(enum.Enum):\n    A = 2",
    ),
    "dataclass": (
        "@dataclasses.dataclass\nclass D:\n    a: float\nK = D(1.0)\ndef draw(): return K.a",
        "@dataclasses.dataclass\nclass D:\n    a: float\nK = D(2.0)",
    ),
    "namedtuple": (
        "class D(NamedTuple):\n    a: float\nK = D(1.0)\ndef draw(): return K.a",
        "class D(NamedTuple):\n    a: float\nK = D(2.0)",
    ),
    "object": (
        "class D:\n    def __init__(self): self.a = 1.0\nK = D()\ndef draw(): return K.a",
        "class D:\n    def __init__(self): self.a = 2.0\nK = D()",
    ),
    "helper": ("def help(): return 1\ndef draw(): return help()", "def help(): return 2"),
    "constant of a helper": ("K = [1]\ndef help(): return K\ndef draw(): return help()", "K = [2]"),
    "cached helper": (
        "@functools.lru_cache\ndef help(): return 1\ndef draw(): return help()",
        "@functools.lru_cache\ndef help(): return 2",
    ),
    "constant of a cached helper": (
        "K = {1: 2}\n@functools.cache\ndef help(): return K[1]\ndef draw(): return help()",
        "K = {1: 3}",
    ),
    "jitted helper": (
        "@jax.jit\ndef help(x): return x + 1\ndef draw(): return help(1.0)",
        "@jax.jit\ndef help(x): return x + 2",
    ),
    "helper with a rule": (
        "@jax.custom_jvp\ndef help(x): return x\n"
        "@help.defjvp\ndef rule(p, t): return p[0], t[0]\ndef draw(): return jax.grad(help)(1.0)",
        "@jax.custom_jvp\ndef help(x): return x\n"
        "@help.defjvp\ndef rule(p, t): return p[0], 2 * t[0]",
    ),
    "decorated helper": (
        "def twice(f):\n    @functools.wraps(f)\n    def inner(): return 2 * f()\n    return inner\n"
        "@twice\ndef help(): return 1\ndef draw(): return help()",
        "def twice(f):\n    @functools.wraps(f)\n    def inner(): return 3 * f()\n    return inner\n"
        "@twice\ndef help(): return 1",
    ),
    "partial": (
        "def help(a): return a\nK = functools.partial(help, 1)\ndef draw(): return K()",
        "def help(a): return a\nK = functools.partial(help, 2)",
    ),
    "class": (
        "class C:\n    def go(self): return 1\ndef draw(): return C().go()",
        "class C:\n    def go(self): return 2",
    ),
    "class attribute": ("class C:\n    K = (1,)\ndef draw(): return C.K", "class C:\n    K = (2,)"),
    "base class": (
        "class B:\n    def go(self): return 1\nclass C(B): pass\ndef draw(): return C().go()",
        "class B:\n    def go(self): return 2\nclass C(B): pass",
    ),
    "property": (
        "class C:\n    @property\n    def go(self): return 1\ndef draw(): return C().go",
        "class C:\n    @property\n    def go(self): return 2",
    ),
    "static method": (
        "class C:\n    @staticmethod\n    def go(): return 1\ndef draw(): return C.go()",
        "class C:\n    @staticmethod\n    def go(): return 2",
    ),
    "default": ("def draw(a=1): return a", "def draw(a=2): return a"),
    "keyword default": ("def draw(*, a=1): return a", "def draw(*, a=2): return a"),
    "keyword default of a helper": (
        "def help(*, a=(1,)): return a\ndef draw(): return help()",
        "def help(*, a=(2,)): return a",
    ),
    "attribute of a function": (
        "def help(): return help.k\nhelp.k = [1]\ndef draw(): return help()",
        "def help(): return help.k\nhelp.k = [2]",
    ),
    "recipe with __call__": (
        "@dataclasses.dataclass\nclass R:\n    a: int\n    def __call__(self): return self.a\n"
        "draw = R(1)",
        "@dataclasses.dataclass\nclass R:\n    a: int\n    def __call__(self): return self.a + 1\n"
        "draw = R(1)",
    ),
    "field of a recipe": (
        "@dataclasses.dataclass\nclass R:\n    a: int\n    def __call__(self): return self.a\n"
        "draw = R(1)",
        "@dataclasses.dataclass\nclass R:\n    a: int\n    def __call__(self): return self.a\n"
        "draw = R(2)",
    ),
    "constant of a recipe": (
        "K = [1]\nclass R:\n    def __call__(self): return K\ndraw = R()",
        "K = [2]\nclass R:\n    def __call__(self): return K\ndraw = R()",
    ),
    "inherited __call__": (
        "class B:\n    def __call__(self): return 1\nclass R(B): pass\ndraw = R()",
        "class B:\n    def __call__(self): return 2\nclass R(B): pass\ndraw = R()",
    ),
    "bound method": (
        "class R:\n    def go(self): return 1\ndraw = R().go",
        "class R:\n    def go(self): return 2\ndraw = R().go",
    ),
    "object of a bound method": (
        "class R:\n    def __init__(self, a): self.a = a\n    def go(self): return self.a\n"
        "draw = R(1).go",
        "class R:\n    def __init__(self, a): self.a = a\n    def go(self): return self.a\n"
        "draw = R(2).go",
    ),
    "lambda in a dict": (
        "K = {'f': lambda: 1}\ndef draw(): return K['f']()",
        "K = {'f': lambda: 2}",
    ),
    "inner function": (
        "K = (1,)\ndef draw():\n    def inner(): return K\n    return inner()",
        "K = (2,)",
    ),
    "closure": (
        "def make(a):\n    def draw(): return a\n    return draw\ndraw = make([1])",
        "def make(a):\n    def draw(): return a\n    return draw\ndraw = make([2])",
    ),
    "bound builtin": ("K = [1].copy\ndef draw(): return K()", "K = [2].copy"),
}


@pytest.fixture(autouse=True)
def load_what_is_written(monkeypatch):
    """Stored bytecode of a module that is written twice in a second, with as many characters,
    would be loaded in the place of the new text."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)


def module_of(source, folder, name="recipes"):
    path = folder / f"{name}.py"
    path.write_text(HEAD + source)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def text_of(function):
    return json.dumps(Descriptions().of(function, "stream"))


@pytest.mark.parametrize("kind", CHANGES)
def test_a_change_of_what_a_function_reads_is_noticed(kind, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "recipes", None)
    before, changed = CHANGES[kind]
    after = changed if "draw" in changed else f"{before}\n{changed}"
    described = [text_of(module_of(source, tmp_path).draw) for source in (before, before, after)]
    assert described[0] == described[1]
    assert described[0] != described[2]


def test_functions_of_other_modules_are_noticed_however_they_are_imported(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("recipes", "helpers"):
        monkeypatch.setitem(sys.modules, name, None)
    for draw in (
        "import helpers\ndef draw(): return helpers.go()",
        "from helpers import go\ndef draw(): return go()",
        "import helpers as h\ndef draw(): return h.K",
        "def draw():\n    import helpers\n    return helpers.K",
        "def draw():\n    from helpers import K\n    return K",
    ):
        described = []
        for number in (1, 1, 2):
            module_of(f"K = [{number}]\ndef go(): return K", tmp_path, "helpers")
            described.append(text_of(module_of(draw, tmp_path).draw))
        assert described[0] == described[1] != described[2], draw


def test_a_recursive_function_and_a_cycle_of_objects_have_a_description(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "recipes", None)
    source = """
    def even(n): return n == 0 or odd(n - 1)
    def odd(n): return n > 0 and even(n - 1)
    class Node:
        def __init__(self): self.next = self
    NODE = Node()
    def draw(): return even(NODE.next is NODE)
    """
    assert text_of(module_of(textwrap.dedent(source), tmp_path).draw)


def test_code_of_packages_is_described_by_name_and_version(monkeypatch):
    described = text_of(functools.partial(np.linspace, 0, 1))
    assert np.__version__ in described
    monkeypatch.setattr(np, "__version__", "0.0.1")
    assert text_of(functools.partial(np.linspace, 0, 1)) != described
    assert len(text_of(lambda: jnp.sum(jax.nn.relu(1.0)))) < 2000


LOCK = threading.Lock()


def locked():
    with LOCK:
        return 1


def draws_locked():
    return locked()


def test_what_cannot_be_described_is_named():
    with pytest.raises(
        TypeError, match=r"stream: got draws_locked -> locked -> locked -> LOCK, of class lock"
    ):
        Descriptions().of(draws_locked, "stream")
    cell = taut.Cell("clipped-ogd", GAME, targets(), measure=lambda run: {"a": locked()})
    with pytest.raises(TypeError, match=r"measure: got .*LOCK, of class lock"):
        Identities().of(prepare(cell, {}))


PROGRAM = """
import functools, json, sys
import numpy as np
from taut.identity import Descriptions
sys.path.insert(0, sys.argv[1])
import recipes
print(json.dumps(Descriptions().of(functools.partial(recipes.draw, {"b", "a", "c"}), "stream")))
"""


def test_descriptions_are_the_same_in_every_process(tmp_path):
    source = "\n".join(
        before.replace("draw", f"draw{i}").replace("K", f"K{i}")
        for i, (before, _) in enumerate(CHANGES.values())
    )
    names = ", ".join(f"draw{i}" for i in range(len(CHANGES)))
    (tmp_path / "recipes.py").write_text(f"{HEAD}\n{source}\ndef draw(a): return {names}\n")
    printed = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path)],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    ]
    assert printed[0] == printed[1]
    assert len(printed[0]) > 5000


def test_a_cell_carries_a_checksum_of_the_source(tmp_path, monkeypatch):
    for folder in NUMERICS:
        (tmp_path / folder / "inner").mkdir(parents=True)
        (tmp_path / folder / "inner" / "a.py").write_text("x = 1")
    (tmp_path / "cli.py").write_text("x = 1")
    before = numerics.__wrapped__(tmp_path)
    (tmp_path / "cli.py").write_text("x = 2")
    assert numerics.__wrapped__(tmp_path) == before
    for folder in NUMERICS:
        (tmp_path / folder / "inner" / "a.py").write_text("x = 2")
        after = numerics.__wrapped__(tmp_path)
        assert after != before
        before = after
    cell = prepare(taut.Cell("clipped-ogd", GAME, targets()), {})
    known = Identities().of(cell)
    monkeypatch.setitem(Identities.of.__globals__, "numerics", lambda: "other code")
    assert Identities().of(cell) != known


def test_programs_that_contain_themselves_are_walked_once():
    """In JAX 0.12 a traced program is its own `jaxpr`."""

    class Program:
        consts, eqns = (np.arange(3.0),), ()

        @property
        def jaxpr(self):
            return self

    (number,) = programs._numbers(Program())
    np.testing.assert_array_equal(number, np.arange(3.0))
