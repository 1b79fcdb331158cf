"""A fleet on a real Dask cluster: the same numbers, and killed workers lose and double nothing."""

import os
import signal

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import taut

distributed = pytest.importorskip(
    "distributed", reason="fleets on a cluster need Dask, which taut[cluster] installs"
)
dask = pytest.importorskip("dask")
pytestmark = pytest.mark.filterwarnings("ignore")  # those of Dask

CLIPPED = taut.ClippedOGD(0.3, 5.0)
IDS = [f"m{i}" for i in range(12)]
FLOORS = {"floor": np.linspace(0.2, 0.8, len(IDS))}


def problem():
    return taut.Problem(
        lambda x, z: z["cost"] @ x,
        lambda x, z: z["floor"] - jnp.sum(x),
        taut.Box(0.0, 1.0, shape=2),
    )


@pytest.fixture(scope="module")
def client():
    settings = {"distributed.admin.log-format": "", "distributed.worker.daemon": True}
    with (
        dask.config.set(settings),
        distributed.LocalCluster(
            2, threads_per_worker=1, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def costs(count, seed):
    return {"cost": np.random.default_rng(seed).normal(size=(count, 2))}


def same(ours, theirs):
    assert ours.ids == theirs.ids
    np.testing.assert_array_equal(ours.decisions(), theirs.decisions())
    np.testing.assert_array_equal(ours.rounds(), theirs.rounds())
    np.testing.assert_array_equal(ours.skipped(), theirs.skipped())
    np.testing.assert_array_equal(ours.totals().loss, theirs.totals().loss)
    np.testing.assert_array_equal(ours.parameters()["floor"], theirs.parameters()["floor"])


def kill_a_worker(client):
    pids = client.run(os.getpid)
    os.kill(sorted(pids.values())[0], signal.SIGKILL)


def test_the_same_interface_and_numbers_although_a_worker_is_killed(client, tmp_path):
    alone = taut.Fleet(CLIPPED, problem(), IDS, FLOORS)
    fleet = taut.DaskFleet(client, CLIPPED, problem(), IDS, FLOORS, folder=tmp_path)
    for t in range(4):
        some = IDS[t % 2 :: 1 + t % 2]
        for each in (alone, fleet):
            assert each.observe(some, costs(len(some), t)) == {}
        if t == 1:
            kill_a_worker(client)
    for each in (alone, fleet):
        each.leave(IDS[:2])
        each.join(["new", IDS[0]], {"floor": [0.5, 0.6]})
        each.skip(["new"], reason="no report")
        each.set_parameters([IDS[3]], {"floor": [0.3]})
    same(fleet, alone)
    broken = costs(3, 9)
    broken["cost"][1, 1] = np.inf
    answers = [
        each.observe(IDS[4:7], broken, rounds=each.rounds(IDS[4:7])) for each in (alone, fleet)
    ]
    assert answers[0] == answers[1]
    assert list(answers[0]) == [IDS[5]]
    with pytest.raises(ValueError, match="z: got data of shape"):
        fleet.observe(IDS[3:5], {"cost": np.zeros((2, 5))})
    table = pd.DataFrame({"cost": [0.1, 0.2]}, index=[IDS[4], IDS[3]])
    with pytest.raises(ValueError, match="expected"):
        fleet.observe([IDS[3], IDS[4]], table)
    with pytest.raises(ValueError, match="not in the fleet"):
        fleet.decisions(["nobody"])
    same(fleet, alone)
    assert str(fleet.certificate(IDS[4])) == str(alone.certificate(IDS[4]))
    pd.testing.assert_frame_equal(fleet.to_dataframe("totals"), alone.to_dataframe("totals"))
    other = taut.DaskFleet.load(client, tmp_path, problem(), CLIPPED)
    order = [other.ids.index(each) for each in alone.ids]
    np.testing.assert_array_equal(other.decisions()[order], alone.decisions())
    with pytest.raises(ValueError, match="with a fleet; expected another folder"):
        taut.DaskFleet(client, CLIPPED, problem(), IDS, FLOORS, folder=tmp_path)


def test_advice_counts_until_its_round_is_over(client, tmp_path):
    demand = taut.Problem(
        lambda x, z: (x[0] - z["need"]) ** 2,
        lambda x, z: x[0] - z["most"],
        taut.Box(0.0, 3.0, shape=1),
    )
    learner, most = taut.Advised(taut.learner("half-space", demand)), {"most": [2.0, 2.0, 2.0]}
    alone = taut.Fleet(learner, demand, ["a", "b", "c"], most)
    fleet = taut.DaskFleet(client, learner, demand, ["a", "b", "c"], most, folder=tmp_path, parts=1)
    for each in (alone, fleet):
        each.decisions(advice=[[1.0], [2.5], [0.5]])
        each.set_parameters(["c"], {"most": [1.5]})  # which forgets advice
        refused = each.observe(["a", "b"], {"need": np.array([0.5, np.nan])})
        assert list(refused) == ["b"]
    np.testing.assert_array_equal(fleet.decisions(), alone.decisions())
    fleet.close()  # the next call starts the part again, as if its worker had been lost
    refused = fleet.observe(["a", "b", "c"], {"need": np.ones(3)})
    assert list(refused) == ["b"]
    assert refused["b"].startswith("advice: it was lost with a worker")
    fleet.decisions(["b"], advice=[[2.5]])
    assert fleet.observe(["b"], {"need": np.ones(1)}) == {}
    assert alone.observe(["a", "b", "c"], {"need": np.ones(3)}) == {}
    np.testing.assert_array_equal(fleet.decisions(), alone.decisions())
    np.testing.assert_array_equal(fleet.totals().loss, alone.totals().loss)
