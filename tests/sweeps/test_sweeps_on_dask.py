"""Sweeps on a real Dask cluster of processes: workers, cells and the scheduler may die, and the
bits stay the same."""

import contextlib
import functools
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import taut
from small_games import GAME, ROUNDS, assert_bit_equal, targets
from taut.sweeps import dask_workers, driver

distributed = pytest.importorskip(
    "distributed", reason="sweeps on a cluster need Dask, which taut[cluster] installs"
)
dask = pytest.importorskip("dask")
pytestmark = pytest.mark.filterwarnings("ignore")  # those of Dask


@pytest.fixture(scope="module")
def client():
    settings = {
        "distributed.scheduler.allowed-failures": 0,  # the sweep itself plays again what was lost
        "distributed.admin.log-format": "",
        "distributed.worker.daemon": True,
    }
    with (
        dask.config.set(settings),
        distributed.LocalCluster(
            2, threads_per_worker=1, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def draw(seed):
    return targets(seeds=2, seed=seed)


def slow(run):
    time.sleep(0.05)
    return {}


def die(run):
    os.kill(os.getpid(), signal.SIGKILL)


def hang(run):
    time.sleep(3600)


def saved(run):
    """A worker can write a run file, although xarray would take a lock of the cluster."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        run.save(f"{folder}/run.nc")
        return {
            "same": float(taut.Run.load(f"{folder}/run.nc").totals.loss[0] == run.totals.loss[0])
        }


def endless(start, length):
    time.sleep(0.005)
    return targets()[np.arange(start, start + length) % ROUNDS]


def cells(measure=None, count=8):
    return [
        taut.Cell(
            taut.ClippedOGD(0.1 * (i + 1), 5.0),
            GAME,
            functools.partial(draw, i),
            seeds=2,
            name=str(i),
            measure=measure,
        )
        for i in range(count)
    ]


def assert_same(found, listed):
    for cell in listed:
        assert_bit_equal(
            found[cell.name],
            taut.simulate(cell.learner, cell.problem, cell.stream(), seeds=2, record=()),
        )


def test_a_cluster_gives_the_same_bits(client, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # as in a terminal
    listed = cells(saved, 4)
    found = taut.sweep(listed, client, folder=tmp_path, progress=True)
    assert_same(found, listed)
    assert all(found.measures(cell.name)["same"] for cell in listed)
    assert {one["x64"] for one in found.environments} == {True}
    assert os.getpid() not in {one["pid"] for one in found.environments}
    assert "4/4" in capsys.readouterr().err
    assert_same(taut.sweep(listed[:2], client.get_executor()), listed[:2])
    assert_same(taut.sweep(listed[:2], client.scheduler.address), listed[:2])


def kill_when_begun(folder, pids):
    """Kill a process as soon as a cell is written."""
    for _ in range(6000):
        if list(folder.glob("cells/*.npz")):
            break
        time.sleep(0.01)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def test_a_worker_that_is_killed_costs_nothing(client, tmp_path):
    listed = cells(slow, 12)
    pid = min(pids(client))
    killer = threading.Thread(target=kill_when_begun, args=(tmp_path, [pid]))
    killer.start()
    found = taut.sweep(listed, client, folder=tmp_path)
    killer.join()
    assert found.failed == ()
    assert_same(found, listed)
    assert not list(tmp_path.glob("cells/*.part"))


ONE = functools.partial(taut.Cell, taut.ClippedOGD(0.1, 5.0), GAME)


def test_cells_that_raise_or_kill_or_play_without_end(client, tmp_path):
    bad = [
        ONE(draw(0), seeds=2, name="raises", measure=len),
        ONE(draw(0), seeds=2, name="kills", measure=die),
        ONE(endless, horizon=2**31 - 1, name="endless"),
    ]
    listed = cells(count=3)
    found = taut.sweep([*bad, *listed], client, folder=tmp_path, timeout=0.5)
    kinds = {one.name: one.kind for one in found.failed}
    assert kinds == {"raises": "TypeError", "kills": "KilledWorker", "endless": "TimeoutError"}
    assert "time limit of 0.5 s ended after" in next(
        one.message for one in found.failed if one.name == "endless"
    )
    assert_same(found, listed)
    assert taut.sweep([*bad, *listed], client, folder=tmp_path).played == 0


def test_a_worker_that_hangs_is_replaced(client, monkeypatch):
    monkeypatch.setattr(driver, "GRACE", 1.0)
    before = pids(client)
    found = taut.sweep([ONE(draw(0), seeds=2, name="hangs", measure=hang)], client, timeout=1.0)
    assert [(one.name, one.kind) for one in found.failed] == [("hangs", "TimeoutError")]
    assert "process was ended" in found.failed[0].message
    assert len(before & pids(client, other=before)) == 1


def pids(client, other=()):
    """The process ids of both workers, as soon as there are two of them and they are not `other`
    ones."""
    found = set()
    for _ in range(2400):  # some two minutes, because a machine may be busy
        with contextlib.suppress(OSError):  # a worker that has just ended
            found = set(client.run(os.getpid, on_error="ignore").values())
        if len(found) >= 2 and found != other:
            return found
        if len(client.cluster.workers) < 2:
            client.cluster.scale(2)  # Dask gives up a worker that is ended as it starts
        time.sleep(0.05)
    return pytest.fail(f"Dask has not started a worker in the place of another: {found}")


def start(*arguments):
    paths = os.pathsep.join(
        [*sys.path, os.path.dirname(__file__)]
    )  # a worker must be able to import this module
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(
        [sys.executable, "-m", *arguments], env={**os.environ, "PYTHONPATH": paths}, **quiet
    )


@pytest.fixture
def cluster():
    """The commands that start a scheduler and a worker, its address, and processes that are ended
    afterwards."""
    from distributed.utils import open_port

    port = open_port()
    address = f"tcp://127.0.0.1:{port}"
    place = ("--host", "127.0.0.1", "--port", str(port), "--no-dashboard")
    scheduler = ("distributed.cli.dask_scheduler", *place)
    options = ("--nthreads", "1", "--no-nanny", "--no-dashboard")
    worker = ("distributed.cli.dask_worker", address, *options)
    started = [start(*scheduler), start(*worker)]
    yield address, scheduler, worker, started
    for process in started:
        process.kill()
        process.wait()


def test_a_scheduler_that_is_killed_and_started_again_with_a_worker_costs_nothing(
    tmp_path, cluster
):
    address, scheduler, worker, started = cluster
    listed = cells(slow, 12)
    with distributed.Client(address, timeout=300) as client:

        def replace():
            kill_when_begun(tmp_path / "again", [started[0].pid])
            started.extend([start(*scheduler), start(*worker)])

        replacing = threading.Thread(target=replace)
        replacing.start()
        found = taut.sweep(listed, client, folder=tmp_path / "again")
        replacing.join()
    assert found.failed == ()
    assert_same(found, listed)


@pytest.mark.long
def test_a_scheduler_that_is_killed_without_workers_or_for_good(tmp_path, cluster, monkeypatch):
    """The sweep ends with a sentence. One cluster serves both, because it takes long to start."""
    address, scheduler, _, started = cluster
    monkeypatch.setattr(dask_workers, "PATIENCE", 5.0)
    with dask.config.set({"distributed.comm.timeouts.connect": "3s"}):
        for comes_back, expected in ((True, "has had no workers for 5 s"), (False, "executor: ")):
            folder = tmp_path / str(comes_back)
            # Without workers no cell is ever written, so the scheduler is killed at once.
            running = [one for one in started if one.poll() is None]
            killing = kill_when_begun if comes_back else kill_soon
            client = distributed.Client(address, timeout=300)

            def end(folder=folder, running=running, killing=killing, comes_back=comes_back):
                killing(folder, [one.pid for one in running])
                if comes_back:
                    started.append(start(*scheduler))

            ending = threading.Thread(target=end)
            ending.start()
            with pytest.raises(ConnectionError, match=expected) as caught:
                taut.sweep(cells(slow, 40), client, folder=folder)
            ending.join()
            client.close()
            assert "call taut.sweep again with the same arguments to go on" in str(caught.value)


def kill_soon(folder, pids):
    """Kill processes after a sweep has made its folder and submitted its tasks."""
    while not folder.exists():
        time.sleep(0.01)
    time.sleep(1.0)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
