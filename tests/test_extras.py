"""Features whose package is not installed say which extra to install."""

import sys

import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.extras import EXTRAS, optional


@pytest.fixture(scope="module")
def run():
    problem = taut.Problem(
        lambda x, c: c @ x, lambda x: jnp.abs(x).sum() - 1, taut.Ball(1.0, shape=2)
    )
    return taut.simulate(problem, np.ones((10, 2)))


@pytest.mark.parametrize("name", EXTRAS)
def test_every_optional_package_names_its_extra(name, monkeypatch):
    assert optional(name).__name__ == name
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ModuleNotFoundError) as error:
        optional(name)
    extra, purpose = EXTRAS[name]
    assert f'pip install "taut[{extra}]"' in str(error.value)
    assert purpose in str(error.value)


CALLS = {
    "a run file": ("h5netcdf", lambda run, folder: run.save(folder / "run.nc")),
    "a labelled result": ("xarray", lambda run, folder: run.to_xarray()),
    "a table": ("pandas", lambda run, folder: run.to_dataframe()),
    "a player's table": ("pandas", lambda run, folder: taut.Player(run.problem).to_dataframe()),
    "a fleet's table": (
        "pandas",
        lambda run, folder: taut.Fleet(None, run.problem, ["a"]).to_dataframe(),
    ),
    "a domain in CVXPY": ("cvxpy", lambda run, folder: run.problem.domain.to_cvxpy(None)),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_feature_without_its_package_says_what_to_install(call, run, tmp_path, monkeypatch):
    name, feature = CALLS[call]
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install \"taut\["):
        feature(run, tmp_path)


def test_a_model_without_cvxpy_says_what_to_install(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("taut.modelling")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(vars(taut), "from_cvxpy", raising=False)  # loaded by another test
    monkeypatch.setitem(sys.modules, "cvxpy", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install \"taut\[cvxpy\]\""):
        taut.from_cvxpy  # noqa: B018


def test_the_core_certifies_and_plots_without_optional_packages(run, monkeypatch):
    for name in EXTRAS:
        monkeypatch.setitem(sys.modules, name, None)
    assert run.certificate().holds
    assert run.plot() is not None
