"""Runs: files give back every bit and what produced it; metrics say what they say; dims have
names."""

import dataclasses
import json

import h5py
import jax.numpy as jnp
import numpy as np
import pytest
import xarray

import small_games
import taut
from small_games import ALL, BALL, FOUR, GAME, ROUNDS, assert_bit_equal, distance, targets
from taut import files
from taut.engine import register_dataclass
from taut.runs import file as run_file, metrics


@pytest.fixture(scope="module")
def run():
    return taut.simulate(
        taut.ClippedOGD(0.3, 20.0),
        FOUR,
        targets(seeds=3),
        seeds=3,
        record=ALL,
        every=4,
        x1=[0.1, 0.7],
    )


@pytest.fixture(scope="module")
def sweep():
    learners = [taut.ClippedOGD(eta, 20.0) for eta in (0.1, 1 / 3)]
    return taut.simulate(learners, FOUR, targets(seeds=3), seeds=3, record=ALL, every=4)


# Files.


def test_save_and_load_give_back_every_bit(run, tmp_path):
    run.save(tmp_path / "a.nc")
    back = taut.Run.load(tmp_path / "a.nc")
    assert_bit_equal(run, back)
    assert back.learner == run.learner
    assert (back.horizon, back.seeds, back.every, back.version) == (ROUNDS, 3, 4, taut.__version__)
    assert back.problem is back.stream is None


def test_save_and_load_a_sweep(sweep, tmp_path):
    sweep.save(tmp_path / "deep" / "folder" / "sweep.nc")
    back = taut.Run.load(tmp_path / "deep" / "folder" / "sweep.nc")
    assert_bit_equal(sweep, back)
    assert back.learner == sweep.learner
    assert back.swept
    assert_bit_equal(back[1], sweep[1])


def test_save_and_load_a_float32_run_without_records(tmp_path):
    run = taut.simulate(
        taut.ClippedOGD(0.1, 5.0), GAME, targets(), x1=np.zeros(2, np.float32), record=()
    )
    run.save(tmp_path / "b.nc")
    back = taut.Run.load(tmp_path / "b.nc")
    assert back.final.dtype == np.float32
    assert_bit_equal(run, back)


def test_numbers_that_are_not_numbers_survive(run, tmp_path):
    """A file format with fill values could turn these into others."""
    odd = np.array([np.nan, -0.0, 5e-324, 9.969209968386869e36, 1.7976931348623157e308])
    loss = np.resize(odd, run.loss.shape)
    changed = taut.Run(run.learner, run.horizon, run.seeds, run.totals, run.final, loss=loss)
    changed.save(tmp_path / "odd.nc")
    assert taut.Run.load(tmp_path / "odd.nc").loss.tobytes() == loss.tobytes()


@pytest.mark.parametrize("name", list(taut.LEARNERS))
def test_every_learner_survives_its_description(name):
    learner = small_games.learner(name, 1000)
    text = json.dumps(files.pack(learner))
    back = files.unpack(json.loads(text))
    assert type(back) is type(learner)
    assert repr(back) == repr(learner)
    assert json.dumps(files.pack(back)) == text
    left, right = files.flat(learner), files.flat(back)
    assert {k: v.tobytes() for k, v in left.items()} == {k: v.tobytes() for k, v in right.items()}


def test_constants_and_domains_survive_their_description():
    known = GAME.constants.with_values(slater=0.1, estimated=True)
    assert files.unpack(json.loads(json.dumps(files.pack(known)))) == known
    box = taut.Box([0.1, 0.2], [1 / 3, 7.0])
    back = files.unpack(json.loads(json.dumps(files.pack(box))))
    assert back.to_dict() == box.to_dict()


@pytest.mark.parametrize("part", [0.0, 0.1, 0.5, 0.99])
def test_a_truncated_file_is_named(run, tmp_path, part):
    path = tmp_path / "cut.nc"
    run.save(path)
    content = path.read_bytes()
    path.write_bytes(content[: int(part * len(content))])
    with pytest.raises(
        ValueError, match=r"path: got .*cut\.nc, damaged or foreign .*; expected a run"
    ):
        taut.Run.load(path)


def test_foreign_and_missing_files_are_named(run, tmp_path):
    (tmp_path / "text.nc").write_text("no run")
    xarray.Dataset({"loss": ("round", np.zeros(3))}).to_netcdf(
        tmp_path / "other.nc", engine="h5netcdf"
    )
    newer = run.to_xarray()
    newer.attrs["taut"] = json.dumps({**json.loads(newer.attrs["taut"]), "format": 99})
    run_file.write(tmp_path / "newer.nc", run_file.content(newer))
    for name in ("text.nc", "other.nc"):
        with pytest.raises(ValueError, match=f"path: got .*{name}, damaged or foreign"):
            taut.Run.load(tmp_path / name)
    with pytest.raises(ValueError, match="in format 99; expected format 2"):
        taut.Run.load(tmp_path / "newer.nc")
    with pytest.raises(FileNotFoundError, match=r"path: got .*nothing.nc, where there is no file"):
        taut.Run.load(tmp_path / "nothing.nc")


@pytest.mark.parametrize("fails", ["write", "replace"])
def test_a_crash_while_saving_leaves_the_old_file(run, sweep, tmp_path, monkeypatch, fails):
    path = tmp_path / "run.nc"
    run.save(path)
    before = path.read_bytes()

    def crash(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(
        "taut.storage.os.fsync" if fails == "write" else "taut.storage.os.replace", crash
    )
    with pytest.raises(KeyboardInterrupt):
        sweep.save(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["run.nc"]


# Labels.


def test_dims_are_labelled(run, sweep):
    data = run.to_xarray()
    assert data["loss"].dims == ("seed", "round")
    assert data["excess"].dims == ("seed", "round")
    assert data["decisions"].dims == ("seed", "kept_round", "axis_0")
    assert data["multipliers"].dims == ("seed", "kept_round", "played_constraint")
    assert data["final"].dims == ("seed", "axis_0")
    assert data["total_violation"].dims == ("seed", "constraint")
    assert data["total_loss"].dims == ("seed",)
    assert data["round"].to_numpy().tolist() == list(range(1, ROUNDS + 1))
    assert data["kept_round"].to_numpy().tolist() == list(range(4, ROUNDS + 1, 4))
    np.testing.assert_array_equal(data["decisions"].sel(kept_round=8), run.decisions[:, 1])
    assert json.loads(data.attrs["taut"])["version"] == taut.__version__
    many = sweep.to_xarray()
    assert many["loss"].dims == ("learner", "seed", "round")
    assert many["total_peak"].dims == ("learner", "seed", "constraint")
    assert many["first"].dims == ("axis_0",)


# Metrics.


def test_metrics_of_the_whole_run_and_of_prefixes(run):
    z = targets(seeds=3)
    full = taut.simulate(taut.ClippedOGD(0.3, 20.0), FOUR, z, seeds=3, record=ALL, x1=[0.1, 0.7])
    losses = 0.5 * ((full.decisions - z) ** 2).sum(axis=-1)
    values = (
        np.stack([full.decisions @ side for side in ([1, 1], [1, -1], [-1, 1], [-1, -1])], axis=-1)
        - 1
    )
    worst = values.max(axis=-1)
    clipped = np.maximum(worst, 0)
    for rounds in (None, 1, 17, [1, 30, ROUNDS]):
        upto = [ROUNDS] if rounds is None else np.atleast_1d(rounds)
        upto_axis = np.asarray(upto if isinstance(rounds, list) else upto[0])

        def sums(terms, upto=upto, rounds=rounds):
            out = np.stack([terms[:, :t].sum(axis=1) for t in upto], axis=-1)
            return out if isinstance(rounds, list) else out[:, 0]

        for measured, by_hand in (
            (metrics.loss(run, rounds), sums(losses)),
            (metrics.largest_excess(run, rounds), sums(worst)),
            (metrics.violation(run, rounds), sums(clipped)),
            (metrics.largest_squared_violation(run, rounds), sums(clipped**2)),
            (metrics.violating_rounds(run, rounds, above=0.05), sums(worst > 0.05)),
            (metrics.violating_share(run, rounds, above=0.05) * upto_axis, sums(worst > 0.05)),
            (metrics.regret(run, 2.5, rounds), sums(losses) - 2.5),
        ):
            np.testing.assert_allclose(measured, by_hand, rtol=1e-11)
    peaks = np.stack([clipped[:, :t].max(axis=1) for t in (2, 40)], axis=-1)
    np.testing.assert_allclose(metrics.peak_violation(run, [2, 40]), peaks, rtol=1e-12)
    np.testing.assert_allclose(metrics.peak_violation(run), clipped.max(axis=1), rtol=1e-12)
    np.testing.assert_allclose(
        metrics.violation(run, per_constraint=True), np.maximum(values, 0).sum(axis=1), rtol=1e-11
    )


def test_two_sums_over_several_constraints_have_two_names(sweep):
    run = sweep[0]
    values = run.totals
    np.testing.assert_array_equal(metrics.excess(run), values.excess.max(axis=-1))
    np.testing.assert_array_equal(metrics.squared_violation(run), values.squared.sum(axis=-1))
    assert (metrics.excess(run) < metrics.largest_excess(run) - 1e-6).all()
    assert (metrics.squared_violation(run) >= metrics.largest_squared_violation(run)).all()
    assert list(metrics.measured(run)) == [
        "violation",
        "squared violation",
        "peak violation",
        "excess",
    ]
    for metric in (metrics.excess, metrics.squared_violation):
        with pytest.raises(ValueError, match=f"largest_{metric.__name__}"):
            metric(run, 5)


def test_metrics_of_a_sweep(sweep):
    for metric in (metrics.loss, metrics.largest_excess, metrics.violation, metrics.peak_violation):
        assert metric(sweep).shape == (2, 3)
        assert metric(sweep, [5, 6]).shape == (2, 3, 2)
        np.testing.assert_array_equal(metric(sweep)[1], metric(sweep[1]))


def test_prefix_sums_of_a_float32_run_are_kept_in_64_bits():
    run = taut.simulate(
        taut.ClippedOGD(0.1, 5.0), GAME, targets(rounds=20_000), x1=np.zeros(2, np.float32)
    )
    exact = run.loss.astype(float).sum(axis=-1)
    np.testing.assert_allclose(metrics.loss(run, run.horizon), exact, rtol=1e-12)


@pytest.mark.parametrize(
    ("question", "error", "message"),
    [
        (
            lambda run: metrics.loss(run, 0),
            ValueError,
            "rounds: got 0; expected prefixes between 1 and 60",
        ),
        (
            lambda run: metrics.loss(run, [3, 61]),
            ValueError,
            "rounds: got .*61.*; expected prefixes between 1 and 60",
        ),
        (lambda run: metrics.loss(run, 2.5), TypeError, "rounds: got 2.5; expected whole numbers"),
        (
            lambda run: metrics.violation(run, 5, per_constraint=True),
            ValueError,
            "per_constraint: got True",
        ),
        (
            lambda run: run[0],
            TypeError,
            r"run\[i\] selects one learner of a sweep, but this run has only one learner",
        ),
    ],
)
def test_questions_a_run_cannot_answer(run, question, error, message):
    with pytest.raises(error, match=message):
        question(run)


def test_a_run_without_records_says_so():
    bare = taut.simulate(taut.ClippedOGD(0.1, 5.0), GAME, targets(), record=())
    assert metrics.violation(bare).shape == (1,)
    with pytest.raises(
        ValueError,
        match=r'run: got a run that did not record "excess"; expected simulate\(.*record=',
    ):
        metrics.violation(bare, 5)


def test_a_learner_that_no_file_can_hold_is_named(tmp_path):
    import dataclasses

    @register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Secretive(taut.ClippedOGD):
        why: object = dataclasses.field(default=print, metadata={"static": True})

    run = taut.simulate(Secretive(0.1, 5.0), taut.Problem(distance, jnp.sum, BALL), targets())
    with pytest.raises(
        TypeError, match="learner: got a field of type builtin_function_or_method; expected numbers"
    ):
        run.save(tmp_path / "never.nc")
    assert not list(tmp_path.iterdir())


# Damaged and hostile files.


def test_flipped_bits_are_noticed_before_anything_is_read(run, tmp_path, monkeypatch):
    path = tmp_path / "run.nc"
    run.save(path)
    content = path.read_bytes()
    mark = run_file.MARK
    monkeypatch.setattr(run_file, "_read", None)  # HDF5 is not even asked, so it cannot hang
    for bit in np.random.default_rng(0).integers(0, 8 * (len(content) - len(mark) - 64), 200):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        with pytest.raises(ValueError, match=r"damaged or foreign \(its checksum is wrong"):
            taut.Run.load(path)


def test_a_run_without_its_checksum_is_refused(run, tmp_path):
    path = tmp_path / "run.nc"
    run.save(path)
    content = path.read_bytes()[: -len(run_file.MARK) - 64]
    path.write_bytes(content)
    with pytest.raises(ValueError, match="its checksum is missing"):
        taut.Run.load(path)


def test_other_readers_of_netcdf_ignore_the_checksum(run, tmp_path):
    run.save(tmp_path / "run.nc")
    with xarray.open_dataset(tmp_path / "run.nc", engine="h5netcdf") as data:
        np.testing.assert_array_equal(data["loss"], run.loss)


def rewritten(run, path, change):
    """A run file whose content `change` modifies through h5py, with a correct checksum."""
    run.save(path)
    content = path.read_bytes()[: -len(run_file.MARK) - 64]
    path.write_bytes(content)
    with h5py.File(path, "r+") as file:
        change(file)
    run_file.write(path, path.read_bytes())


def header(**changes):
    def change(file):
        file.attrs["taut"] = json.dumps({**json.loads(file.attrs["taut"]), **changes})

    return change


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"horizon": -3}, "horizon"),
        ({"horizon": 61}, "shape"),
        ({"horizon": 60.0}, "horizon is 60.0"),
        ({"seeds": "x"}, "seeds is 'x'"),
        ({"seeds": 2}, "shape"),
        ({"seeds": True}, "seeds is True"),
        ({"every": 0}, "every"),
        ({"every": 2**40}, "every"),
        ({"swept": 1}, "learners"),
        ({"learners": []}, "learners"),
        ({"learners": [{"kind": "Path", "fields": {}}]}, "Path"),
        ({"learners": [{"kind": "ClippedOGD", "fields": {"a": 1}}]}, "a"),
        ({"learners": 7}, "learners"),
        ({"version": 99}, "version is 99"),
        ({"version": "99.0.0"}, "written by taut 99.0.0"),
        ({"feedback": files.pack(taut.ClippedOGD(0.1, 4.0))}, "header does not describe feedback"),
        ({"feedback": 7}, ""),
        ({"key": [[1, 2]]}, "keys are not 3 pairs"),
        ({"key": {"a": 1}}, "keys are not 3 pairs"),
        ({"key": [[1, 2.0]] * 3}, "keys are not 3 pairs"),
        ({"key": [[True, 1]] * 3}, "keys are not 3 pairs"),
        ({"key": [[1, 2**32]] * 3}, "keys are not numbers of 32"),
        ({"key": [[-1, 1]] * 3}, "keys are not numbers of 32"),
    ],
)
def test_every_field_of_a_header_is_checked(run, tmp_path, changes, reason):
    rewritten(run, tmp_path / "run.nc", header(**changes))
    with pytest.raises(ValueError, match=rf"path: got .*run.nc, damaged or foreign .*{reason}"):
        taut.Run.load(tmp_path / "run.nc")


def hostile(kind, secret):
    def change(file):
        shape = file["first"].shape
        del file["first"]
        if kind == "external":
            file.create_dataset("first", shape, "f8", external=[(str(secret), 0, 16)])
        elif kind == "external link":
            file["first"] = h5py.ExternalLink(str(secret), "/first")
        elif kind == "soft link":
            file["first"] = h5py.SoftLink("/final")
        elif kind == "virtual":
            layout = h5py.VirtualLayout(shape, "f8")
            layout[:] = h5py.VirtualSource(str(secret), "first", shape)
            file.create_virtual_dataset("first", layout)
        elif kind == "compressed":
            file.create_dataset(
                "first", (10**7,), "f8", data=np.zeros(10**7), compression="gzip", chunks=(10**6,)
            )
        elif kind == "object":
            file.create_dataset("first", shape, h5py.string_dtype())
        elif kind == "huge":
            file.create_dataset("first", (10**12,), "f8")
        elif kind == "group":
            file.create_group("first")

    return change


KINDS = (
    "external",
    "external link",
    "soft link",
    "virtual",
    "compressed",
    "object",
    "huge",
    "group",
)


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_files_are_refused(run, tmp_path, kind):
    secret = tmp_path / "secret.txt"
    secret.write_bytes(b"sixteen letters.")
    rewritten(run, tmp_path / "run.nc", hostile(kind, secret))
    with pytest.raises(
        ValueError, match=r"path: got .*run.nc, damaged or foreign .*'first' (is|lies)"
    ):
        taut.Run.load(tmp_path / "run.nc")


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_rounding_is_no_violating_round_whatever_the_scale(scale):
    """Values of the size of rounding do not count; what is larger does, and so do tolerances."""
    game = taut.Problem(
        lambda x, z: z @ x, lambda x: scale * (x.sum() - 1), taut.Ball(1.0, shape=2)
    )
    run = taut.simulate(taut.ClippedOGD(0.01, 1.0), game, np.ones((4, 2)))
    unit = np.finfo(float).eps * scale
    run = dataclasses.replace(run, excess=np.array([[-scale, 8 * unit, 800 * unit, 0.5 * scale]]))
    assert metrics.violating_rounds(run).tolist() == [2]
    assert metrics.violating_share(run).tolist() == [0.5]
    assert metrics.violating_rounds(run, [2, 4], above=0.1 * scale).tolist() == [[0, 1]]
    assert metrics.violating_rounds(run, above=0.5 * scale).tolist() == [0]
    with pytest.raises(ValueError, match="above: got -1"):
        metrics.violating_rounds(run, above=-1)
    with pytest.raises(ValueError, match="did not record"):
        metrics.violating_share(dataclasses.replace(run, excess=None))


def test_violating_rounds_are_printed_and_certified():
    game = taut.Problem(lambda x, z: z @ x, lambda x: x.sum() - 0.2, taut.Ball(1.0, shape=2))
    run = taut.simulate(taut.ClippedOGD(0.1, 1.0), game, -np.ones((2, 9, 2)), seeds=2)
    by_hand = int((run.excess[0] > 1e-12).sum())
    assert 0 < by_hand < 9
    assert f"violating rounds {by_hand}" in " ".join(str(run).split())
    certificate = run.certificate(check=False)
    assert certificate.violating_rounds == (by_hand, by_hand)
    said = certificate.to_dict()
    assert said["violating_rounds"] == {"mean": by_hand, "worst": by_hand}
    assert said["violating_share"]["mean"] == pytest.approx(by_hand / 9)
    assert f"Violating rounds, beyond rounding: {by_hand} of 9 (at most" in str(certificate)
    without = dataclasses.replace(run, excess=None).certificate(check=False)
    assert without.violating_rounds is without.to_dict()["violating_share"] is None
