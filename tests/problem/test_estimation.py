"""Estimated constants against the truth: sparse data, one extreme round, large decisions, zero
losses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from taut.problem import estimation, sampling
from taut.problem.streams import as_stream

KEY = jax.random.key(0)
SIZE = 4
BALL = taut.Ball(1.0, shape=SIZE)
CLICKS = taut.Problem(lambda x, z: z @ x, lambda x: x @ x - 0.5, BALL)


def sparse(rounds, share, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rounds, SIZE)) * (rng.uniform(size=(rounds, 1)) < share)


def test_rounds_without_data_do_not_hide_the_others():
    data = sparse(20_000, 0.0015)
    found = CLICKS.estimate_constants(data, KEY)
    assert found.loss_lipschitz == pytest.approx(np.linalg.norm(data, axis=1).max(), rel=1e-12)
    assert found.loss_range == pytest.approx(2 * np.linalg.norm(data, axis=1).max(), rel=1e-6)
    assert "loss_lipschitz" in found.estimated
    assert "all 20,000 rounds" in found.basis
    assert "half of the decisions reach 100%" in found.basis


def test_one_extreme_round_is_found_although_its_data_are_small():
    """The loss is steep where the data are small: a scan of all rounds finds it, a sample of rounds
    does not."""
    problem = taut.Problem(lambda x, z: jnp.sum(x) / z, lambda x: x @ x - 0.5, BALL)
    data = np.ones(5_000)
    data[3_210] = 1e-3
    assert problem.estimate_constants(data, KEY).loss_lipschitz == pytest.approx(
        1e3 * np.sqrt(SIZE), rel=1e-12
    )


def test_a_loss_whose_gradient_is_always_zero_is_refused_with_advice():
    with pytest.raises(
        ValueError,
        match=r"loss: the gradient is zero in all of 9 sampled rounds .* give loss_lipschitz in",
    ):
        CLICKS.estimate_constants(np.zeros((9, SIZE)), KEY)
    known = CLICKS.with_constants(taut.Constants(loss_lipschitz=0.0))
    assert known.estimate_constants(np.zeros((9, SIZE)), KEY).loss_lipschitz == 0.0


def test_the_work_does_not_grow_with_the_size_of_decisions(monkeypatch):
    pairs = []
    honest = estimation._first_order

    def counted(problem, points, data):
        pairs.append(len(points) * len(jax.tree.leaves(data)[0]) * points[0].size)
        return honest(problem, points, data)

    monkeypatch.setattr(estimation, "_first_order", counted)
    size = 3_000
    problem = taut.Problem(
        lambda x, z: jnp.sum((x - z) ** 2), lambda x: x @ x - 0.5, taut.Ball(1.0, shape=size)
    )
    data = np.random.default_rng(1).normal(size=(64, size))
    found = problem.estimate_constants(data, KEY)
    assert pairs[0] <= 2 * estimation.ENTRIES
    assert found.loss_lipschitz == pytest.approx(
        2 * (1 + np.linalg.norm(data, axis=1).max()), rel=1e-6
    )


def test_streams_too_long_to_read_are_read_in_part(monkeypatch):
    monkeypatch.setattr(sampling, "READ", 4_000)
    monkeypatch.setattr(sampling, "BLOCK", 400)
    monkeypatch.setattr(estimation, "SCANNED", 0)
    data, read = sampling.sample_large_rounds(as_stream(sparse(10_000, 0.5)), KEY, 64)
    assert data.shape == (64, SIZE)
    assert np.all(data.any(axis=1))
    assert read == 1_000
    assert (
        "chosen by the size of their data among 1,000"
        in CLICKS.estimate_constants(sparse(10_000, 0.5), KEY).basis
    )
    bad = np.ones((500, SIZE))
    bad[7, 2] = np.nan
    with pytest.raises(ValueError, match="stream: got a value that is not finite in round 8"):
        CLICKS.estimate_constants(bad, KEY)


def test_the_basis_is_kept_in_files_and_old_files_load():
    from taut.problem.constants import _from_file, _to_file

    found = CLICKS.estimate_constants(sparse(200, 0.5), KEY)
    assert _from_file(_to_file(found)) == found
    old = {name: value for name, value in _to_file(found).items() if name != "basis"}
    assert _from_file(old).basis == ""
