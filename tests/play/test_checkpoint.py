"""Checkpoints: whatever stops a simulation, it ends bit for bit as if it had not; foreign ones are
refused."""

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taut
from small_games import ALL, BALL, GAME, assert_bit_equal, distance, targets
from taut import storage
from taut.engine import register_dataclass
from taut.learners import Learner

CHUNK, ROUNDS = 10, 57
CLIPPED = taut.ClippedOGD(0.3, 5.0)


class Stop(Exception):
    pass


def failing(z, after):
    """The stream as a function that fails when asked for a chunk that begins at or after round
    `after`."""

    def chunk(start, length):
        if start >= after:
            raise Stop
        return z[..., start : start + length, :]

    return chunk


def play(stream, folder=None, learner=CLIPPED, problem=GAME, **options):
    options = {"horizon": ROUNDS, "record": ALL, "chunk": CHUNK, "every": 5, **options}
    return taut.simulate(learner, problem, stream, checkpoint=folder, **options)


@pytest.mark.parametrize(("seeds", "after"), [(None, 10), (None, 50), (2, 20)])
def test_resume_is_bit_identical(tmp_path, after, seeds):
    z = targets(seeds=seeds, rounds=ROUNDS)
    whole = play(failing(z, ROUNDS), seeds=seeds)
    with pytest.raises(Stop):
        play(failing(z, after), tmp_path, seeds=seeds)
    asked = []

    def counting(start, length):
        asked.append(start)
        return failing(z, ROUNDS)(start, length)

    resumed = play(counting, tmp_path, seeds=seeds)
    assert_bit_equal(resumed, whole)
    assert resumed.loss.shape == (seeds or 1, ROUNDS)
    assert sorted(set(asked)) == list(
        range(0, ROUNDS, CHUNK)
    )  # chunks played before are compared, all others are new


def test_resume_a_sweep_of_doubling_learners_with_totals_only(tmp_path):
    learners = [
        taut.Doubling.of(lambda horizon, c=c: taut.ClippedOGD(c / horizon**0.5, 5.0))
        for c in (0.2, 0.7)
    ]
    z = targets(rounds=ROUNDS)
    whole = play(failing(z, ROUNDS), learner=learners, record=())
    with pytest.raises(Stop):
        play(failing(z, 30), tmp_path, learner=learners, record=())
    assert [file.name for file in tmp_path.iterdir()] == ["state.npz"]
    assert_bit_equal(play(failing(z, ROUNDS), tmp_path, learner=learners, record=()), whole)


def test_resume_against_an_adversary(tmp_path, monkeypatch):
    def reveal(t, x, key):
        return jax.random.normal(key, (2,), x.dtype) - x

    options = {"key": jax.random.key(3), "seeds": 2}
    whole = play(reveal, **options)
    written = []
    write = storage.write_arrays

    def stop(path, header, arrays, **options):
        write(path, header, arrays, **options)
        written.append(path.name)
        if written.count("state.npz") == 3:
            raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(storage, "write_arrays", stop)
        with pytest.raises(Stop):
            play(reveal, tmp_path, **options)
    assert_bit_equal(play(reveal, tmp_path, **options), whole)
    with pytest.raises(ValueError, match=r"belongs to a call with a different key\."):
        play(reveal, tmp_path, **{**options, "key": jax.random.key(4)})


def test_a_crash_between_records_and_state_loses_one_chunk_only(tmp_path, monkeypatch):
    z = targets(rounds=ROUNDS)
    whole = play(z)
    write = storage.write_arrays

    def crash(path, header, arrays, **options):
        if path.name == "state.npz" and header["done"] == 30:
            raise Stop
        write(path, header, arrays, **options)

    with monkeypatch.context() as patch:
        patch.setattr(storage, "write_arrays", crash)
        with pytest.raises(Stop):
            play(z, tmp_path)
    assert storage.read_arrays(tmp_path / "state.npz")[0]["done"] == 20
    assert (tmp_path / "records-30.npz").exists()
    assert_bit_equal(play(z, tmp_path), whole)


class Walk(NamedTuple):
    x: Any
    key: Any


@register_dataclass
@dataclass(frozen=True)
class Drunk(Learner):
    """Has a random key in its state, which must survive as well."""

    stride: Any

    def init(self, x1, count):
        return Walk(x1, jax.random.key(5))

    def step(self, state, round):
        key, now = jax.random.split(state.key)
        return Walk(
            round.project(
                state.x + self.stride * jax.random.normal(now, state.x.shape, state.x.dtype)
            ),
            key,
        )


def test_resume_a_learner_with_a_random_key_in_its_state(tmp_path):
    z = targets(rounds=ROUNDS)
    whole = play(z, learner=Drunk(0.2))
    with pytest.raises(Stop):
        play(failing(z, 30), tmp_path, learner=Drunk(0.2))
    assert_bit_equal(play(failing(z, ROUNDS), tmp_path, learner=Drunk(0.2)), whole)
    assert np.ptp(whole.decisions) > 0.1


def test_padded_seeds_can_have_random_keys_too():
    box = taut.Problem(
        lambda x, z: jnp.sum((x - z) ** 2), lambda x: x - 0.5, taut.Box(-np.ones(3), np.ones(3))
    )
    z = np.zeros((10, 20, 3))
    run = taut.simulate(Drunk(0.2), box, z, seeds=10)
    np.testing.assert_array_equal(
        run.final, np.tile(taut.simulate(Drunk(0.2), box, z[0]).final, (10, 1))
    )


def test_a_finished_checkpoint_is_not_played_again(tmp_path, monkeypatch):
    z = targets(rounds=1)
    whole = play(z, tmp_path, horizon=1)
    monkeypatch.setattr("taut.play.simulation.Simulation._play_chunk", None)
    assert_bit_equal(play(z, tmp_path, horizon=1), whole)


CHILD = """
import sys, time
sys.path.insert(0, {tests!r})
import jax
jax.config.update("jax_enable_x64", True)
import taut
from small_games import GAME, targets
z = targets(rounds=2000)
def chunk(start, length):
    time.sleep(0.02)
    return z[start:start + length]
taut.simulate(taut.ClippedOGD(0.3, 5.0), GAME, chunk, horizon=2000, chunk=10, every=5, checkpoint={folder!r},
              record=("loss", "excess", "decisions", "multipliers"))
"""


def test_resume_after_kill_9_is_bit_identical(tmp_path):
    """A process of its own, killed without warning in the middle of 200 chunks; only the folder is
    left of it."""
    folder = tmp_path / "checkpoint"
    script = CHILD.format(tests=str(Path(__file__).parent.parent), folder=str(folder))
    child = subprocess.Popen([sys.executable, "-c", script])
    try:
        while child.poll() is None and len(list(folder.glob("records-*.npz"))) < 5:
            time.sleep(0.01)
    finally:
        os.kill(child.pid, signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
    done = storage.read_arrays(folder / "state.npz")[0]["done"]
    assert 40 <= done < 1900
    z = targets(rounds=2000)
    whole = play(lambda start, length: z[start : start + length], horizon=2000)
    assert_bit_equal(
        play(lambda start, length: z[start : start + length], folder, horizon=2000), whole
    )


# Checkpoints that belong to something else.


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stopped")
    with pytest.raises(Stop):
        play(failing(targets(rounds=ROUNDS), 30), folder)
    return folder


def moved(x, z):
    return 0.5 * jnp.sum((x - z + 1e-9) ** 2)


@pytest.mark.parametrize(
    ("what", "changes"),
    [
        ("learner", {"learner": taut.ClippedOGD(0.3, np.nextafter(5.0, 6))}),
        ("learner", {"learner": taut.ProjectedOGD(0.3, taut.L1Ball(1.0, shape=2))}),
        ("horizon", {"horizon": ROUNDS - 1}),
        ("record", {"record": ("loss",)}),
        ("every", {"every": 2}),
        ("chunk", {"chunk": 15}),
        ("x1", {"x1": [0.0, 1e-12]}),
        ("problem", {"problem": taut.Problem(moved, lambda x: jnp.sum(jnp.abs(x)) - 1, BALL)}),
        (
            "problem",
            {"problem": taut.Problem(distance, lambda x: jnp.sum(jnp.abs(x)) - 1.001, BALL)},
        ),
        (
            "problem",
            {
                "problem": taut.Problem(
                    distance, lambda x: jnp.sum(jnp.abs(x)) - 1, taut.Ball(1.6, shape=2)
                )
            },
        ),
        ("problem", {"score": taut.Problem(distance, jnp.sum, BALL)}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_another_call_is_refused_and_named(stopped, what, changes):
    before = {file.name: file.read_bytes() for file in stopped.iterdir()}
    with pytest.raises(
        ValueError,
        match=rf"The checkpoint in .* belongs to a call with a different .*{what}.*\. Use another",
    ):
        play(targets(rounds=ROUNDS), stopped, **changes)
    assert {file.name: file.read_bytes() for file in stopped.iterdir()} == before


@pytest.mark.parametrize("changed", [0, 15, 29])
def test_another_stream_is_refused(stopped, changed):
    z = targets(rounds=ROUNDS)
    z[changed, 1] += 1e-9
    with pytest.raises(ValueError, match=r"belongs to a call with a different .*stream"):
        play(z, stopped)


def test_a_checkpoint_of_another_version_is_refused(stopped, monkeypatch):
    monkeypatch.setattr("taut.play.checkpoint.VERSION", "99.0")
    with pytest.raises(ValueError, match="a call with a different version of taut or jax"):
        play(targets(rounds=ROUNDS), stopped)


@pytest.mark.parametrize("name", ["state.npz", "records-20.npz"])
@pytest.mark.parametrize("part", [0.0, 0.6])
def test_a_truncated_checkpoint_is_named(stopped, tmp_path, name, part):
    for file in stopped.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    content = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(content[: int(part * len(content))])
    with pytest.raises(
        ValueError, match=rf"checkpoint: got .*{name}, damaged or foreign .*; expected a file"
    ):
        play(targets(rounds=ROUNDS), tmp_path)


def test_what_is_no_checkpoint_is_named(stopped, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"checkpoint: got .*file, a file; expected a folder"):
        play(targets(rounds=ROUNDS), tmp_path / "file")
    header, arrays = storage.read_arrays(stopped / "state.npz")
    storage.write_arrays(tmp_path / "state.npz", {**header, "format": 99}, arrays)
    with pytest.raises(ValueError, match="in format 99; expected format 6"):
        play(targets(rounds=ROUNDS), tmp_path)
    storage.write_arrays(tmp_path / "state.npz", header, arrays)
    with pytest.raises(
        FileNotFoundError, match=r"checkpoint: got .*records-10.npz, where there is no file"
    ):
        play(targets(rounds=ROUNDS), tmp_path)


def test_only_stale_drafts_of_our_own_are_removed(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    host = storage._HOST
    stale = tmp_path / f".taut-state.npz-{host}-{dead.pid}-0123abcd.part"
    kept = [
        tmp_path / name
        for name in (
            ".thesis.part",
            ".notes.npz.123.part",
            f".taut-state.npz-{host}-{os.getpid()}-0123abcd.part",  # of a process that is alive
            f".taut-state.npz-00000000-{dead.pid}-0123abcd.part",  # of another machine
            f".taut-other.npz-{host}-{dead.pid}-0123abcd.part",  # of another file
        )
    ]
    for draft in (stale, *kept):
        draft.write_text("a draft")
    play(targets(rounds=ROUNDS), tmp_path)
    assert not stale.exists()
    assert all(draft.exists() for draft in kept)


def copied(folder, target):
    for file in folder.iterdir():
        shutil.copy(file, target / file.name)


def test_records_of_another_run_are_refused(stopped, tmp_path):
    other, mixed = tmp_path / "other", tmp_path / "mixed"
    with pytest.raises(Stop):
        play(failing(targets(rounds=ROUNDS), 30), other)
    for name in ("records-10.npz", "records-30.npz"):
        mixed.mkdir(exist_ok=True)
        copied(stopped, mixed)
        shutil.copy(other / name, mixed / name)  # the same call, but another run of it
        with pytest.raises(
            ValueError, match=rf"damaged or foreign \({name} belongs to another run"
        ):
            play(targets(rounds=ROUNDS), mixed)


def test_swapped_changed_and_missing_records_are_refused(stopped, tmp_path):
    copied(stopped, tmp_path)
    shutil.copy(stopped / "records-10.npz", tmp_path / "records-20.npz")
    with pytest.raises(
        ValueError, match=r"records-20.npz belongs to another run or to other rounds"
    ):
        play(targets(rounds=ROUNDS), tmp_path)
    for name in ("records-20.npz", "records-30.npz"):  # new numbers under the old header
        copied(stopped, tmp_path)
        header, arrays = storage.read_arrays(tmp_path / name)
        storage.write_arrays(tmp_path / name, header, {**arrays, "loss": arrays["loss"] + 1})
        with pytest.raises(ValueError, match="damaged or foreign"):
            play(targets(rounds=ROUNDS), tmp_path)
        storage.write_arrays(tmp_path / name, header, {**arrays, "loss": arrays["loss"][..., 1:]})
        with pytest.raises(ValueError, match=rf"damaged or foreign \({name} holds other records"):
            play(targets(rounds=ROUNDS), tmp_path)
    copied(stopped, tmp_path)
    header, arrays = storage.read_arrays(tmp_path / "state.npz")
    storage.write_arrays(tmp_path / "state.npz", {**header, "ends": header["ends"][1:]}, arrays)
    with pytest.raises(ValueError, match="damaged or foreign"):
        play(targets(rounds=ROUNDS), tmp_path)
    storage.write_arrays(tmp_path / "state.npz", {**header, "done": 40}, arrays)
    with pytest.raises(ValueError, match="damaged or foreign"):
        play(targets(rounds=ROUNDS), tmp_path)


def far_away(x, z):
    """Equal to `distance` wherever the checkpoint's probes look, but not for large data."""
    return jnp.where(jnp.max(jnp.abs(z)) > 1.5, 2.0, 1.0) * distance(x, z)


def test_a_loss_that_differs_for_some_data_only_is_noticed(stopped):
    problem = taut.Problem(far_away, lambda x: jnp.sum(jnp.abs(x)) - 1, BALL)
    with pytest.raises(ValueError, match="belongs to a call with a different problem"):
        play(targets(rounds=ROUNDS), stopped, problem=problem)


def test_a_constant_in_a_closure_is_noticed(tmp_path):
    def problem(scale):
        weights = np.array([1.0, scale])
        return taut.Problem(lambda x, z: jnp.sum(weights * (x - z) ** 2), lambda x: x - 2, BALL)

    with pytest.raises(Stop):
        play(failing(targets(rounds=ROUNDS), 30), tmp_path, problem=problem(1.0))
    with pytest.raises(ValueError, match="belongs to a call with a different problem"):
        play(targets(rounds=ROUNDS), tmp_path, problem=problem(1.0 + 1e-15))
    assert play(targets(rounds=ROUNDS), tmp_path, problem=problem(1.0)).horizon == ROUNDS


@pytest.mark.parametrize("branches", [False, True])
def test_a_table_inside_a_jitted_helper_of_the_loss_is_noticed(tmp_path, branches):
    def problem(entry):
        table = jnp.ones(24).at[17].set(entry)

        @jax.jit
        def looked_up(z):
            return table[jnp.clip(jnp.round(jnp.abs(z[0]) * 20), 0, 23).astype(int)]

        def weight(z):
            if not branches:
                return looked_up(z)
            return jax.lax.cond(z[0] > 0.5, lambda: 1.0, lambda: looked_up(z))

        return taut.Problem(lambda x, z: weight(z) * jnp.sum((x - z) ** 2), lambda x: x - 2, BALL)

    with pytest.raises(Stop):
        play(failing(targets(rounds=ROUNDS), 30), tmp_path, problem=problem(1.0))
    with pytest.raises(ValueError, match="belongs to a call with a different problem"):
        play(targets(rounds=ROUNDS), tmp_path, problem=problem(3.0))
    assert play(targets(rounds=ROUNDS), tmp_path, problem=problem(1.0)).horizon == ROUNDS


def test_a_changed_method_of_ones_own_is_noticed(tmp_path):
    def method(factor):
        @taut.learner_dataclass
        class Mine(taut.ClippedOGD):
            def step(self, state, round):
                return super().step(state, round)._replace(x=state.x * factor)

        return Mine(0.1, 5.0)

    with pytest.raises(Stop):
        play(failing(targets(rounds=ROUNDS), 30), tmp_path, learner=method(0.5))
    with pytest.raises(ValueError, match="belongs to a call with a different learner"):
        play(targets(rounds=ROUNDS), tmp_path, learner=method(0.25))


def test_a_folder_in_use_is_refused_until_its_user_ends(tmp_path):
    def nested(start, length):
        if start == 10:
            with pytest.raises(
                RuntimeError, match=r"checkpoint: .* is in use by another simulation. Wait until"
            ):
                play(targets(rounds=ROUNDS), tmp_path)
        return targets(rounds=ROUNDS)[start : start + length]

    whole = play(nested, tmp_path)
    assert_bit_equal(play(nested, tmp_path), whole)


def test_a_finished_checkpoint_is_read_where_nothing_can_be_written(tmp_path, monkeypatch):
    whole = play(targets(rounds=ROUNDS), tmp_path)

    def refuse(*arguments, **options):
        raise OSError(30, "Read-only file system")

    for name in ("replace", "fsync"):
        monkeypatch.setattr(os, name, refuse)
    assert_bit_equal(play(targets(rounds=ROUNDS), tmp_path), whole)
    with pytest.raises(OSError, match=r"other.* cannot be written: Read-only file system"):
        play(targets(rounds=ROUNDS), tmp_path / "other")
