"""Storage: writes are atomic and keep what they should, damaged and hostile array files are
refused."""

import io
import json
import os
import stat
import warnings
import zipfile

import numpy as np
import pytest

from taut import storage

ARRAYS = {"a": np.arange(6.0).reshape(2, 3), "b": np.array(7), "c": np.zeros((0, 2), np.int32)}


def written(folder, name="x.npz"):
    storage.write_arrays(folder / name, {"what": "test"}, ARRAYS)
    return folder / name


def test_arrays_survive(tmp_path):
    header, arrays = storage.read_arrays(written(tmp_path))
    assert header == {"what": "test"}
    for name, array in ARRAYS.items():
        assert (arrays[name].dtype, arrays[name].shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(arrays[name], array)
    assert [file.name for file in tmp_path.iterdir()] == ["x.npz"]


def test_every_flipped_bit_is_noticed_or_harmless(tmp_path):
    path = written(tmp_path)
    content = path.read_bytes()
    refused = 0
    for bit in range(0, 8 * len(content), 37):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        try:
            header, arrays = storage.read_arrays(path)
        except ValueError:
            refused += 1
        else:  # dates and the like
            assert header == {"what": "test"}
            assert storage.digest(arrays) == storage.digest(ARRAYS)
    assert refused > 50


def test_a_wrong_checksum_is_noticed(tmp_path):
    path = tmp_path / "x.npz"
    header = json.dumps({"digest": storage.digest(ARRAYS)}).encode()
    parts = {f"array/{name}": array for name, array in {**ARRAYS, "b": np.array(8)}.items()}
    np.savez(path, header=np.frombuffer(header, np.uint8), **parts)
    with pytest.raises(ValueError, match=r"damaged or foreign .its checksum is wrong"):
        storage.read_arrays(path)


def test_files_without_a_checksum_are_refused(tmp_path):
    header = np.frombuffer(json.dumps({"what": "old"}).encode(), np.uint8)
    np.savez(tmp_path / "old.npz", header=header, **{"array/a": ARRAYS["a"]})
    with pytest.raises(ValueError, match=r"damaged or foreign .its checksum is wrong"):
        storage.read_arrays(tmp_path / "old.npz")


def archive(path, entries, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of two entries with the same name
        for name, content in entries:
            file.writestr(name, content)


def npy(array, shape=None):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=True)
    content = buffer.getvalue()
    return (
        content
        if shape is None
        else content.replace(str(array.shape).encode(), str(shape).encode())
    )


HEADER = ("header.npy", npy(np.frombuffer(b"{}", np.uint8)))


@pytest.mark.parametrize(
    ("entries", "compression", "reason"),
    [
        ([HEADER, ("array/a.npy", npy(np.zeros(10**6)))], zipfile.ZIP_DEFLATED, "compressed"),
        ([HEADER, ("array/a.npy", npy(np.zeros(3), "(9,)"))], zipfile.ZIP_STORED, "another shape"),
        (
            [HEADER, ("array/a.npy", npy(np.zeros(3), "(99999999999,)"))],
            zipfile.ZIP_STORED,
            "another shape|damaged",
        ),
        (
            [HEADER, ("array/a.npy", npy(np.array([print], object)))],
            zipfile.ZIP_STORED,
            "type object",
        ),
        ([HEADER, ("array/a.npy", npy(np.array(["text"])))], zipfile.ZIP_STORED, "type <U4"),
        ([("array/a.npy", npy(np.zeros(3)))], zipfile.ZIP_STORED, "header"),
        ([HEADER, ("array/a.npy", b"nonsense")], zipfile.ZIP_STORED, "damaged"),
        ([HEADER, *2 * [("array/a.npy", npy(np.zeros(3)))]], zipfile.ZIP_STORED, "two entries"),
    ],
)
def test_hostile_archives_are_refused(tmp_path, entries, compression, reason):
    archive(tmp_path / "x.npz", entries, compression)
    with pytest.raises(ValueError, match=f"damaged or foreign .*({reason})|{reason}"):
        storage.read_arrays(tmp_path / "x.npz")


def test_a_link_is_followed_and_the_mode_is_kept(tmp_path):
    real, link = tmp_path / "real.npz", tmp_path / "link.npz"
    real.write_bytes(b"old")
    real.chmod(0o640)
    link.symlink_to(real)
    storage.write_atomically(link, b"new")
    assert link.is_symlink()
    assert real.read_bytes() == b"new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    storage.write_atomically(tmp_path / "fresh", b"")
    (tmp_path / "plain").write_bytes(b"")
    assert (tmp_path / "fresh").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_full_disk_is_named_and_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "x"
    path.write_bytes(b"old")

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"x cannot be written: No space left on device") as caught:
        storage.write_atomically(path, b"new")
    assert caught.value.errno == 28
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_folder_is_synchronised(tmp_path, monkeypatch):
    synced = []
    fsync = os.fsync
    monkeypatch.setattr(
        os,
        "fsync",
        lambda handle: (synced.append(stat.S_ISDIR(os.fstat(handle).st_mode)), fsync(handle)),
    )
    storage.write_atomically(tmp_path / "x", b"")
    assert synced == [False, True]


def test_large_files_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "LARGEST", 10)
    with pytest.raises(ValueError, match="of at most 10 bytes"):
        storage.read_arrays(written(tmp_path))


def test_devices_pipes_and_links_in_folders_are_not_written_through(tmp_path):
    """As root, replacing a device such as /dev/null by a file would break the machine."""
    pipe, mine, link = tmp_path / "pipe", tmp_path / "mine", tmp_path / "link"
    os.mkfifo(pipe)
    (tmp_path / "to_pipe").symlink_to(pipe)
    mine.write_bytes(b"mine")
    link.symlink_to(mine)
    for name in (pipe, tmp_path / "to_pipe", tmp_path):
        with pytest.raises(OSError, match="cannot be written: it is a folder, a device or a pipe"):
            storage.write_atomically(name, b"new")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    storage.write_atomically(link, b"new", follow=False)
    assert (mine.read_bytes(), link.read_bytes(), link.is_symlink()) == (b"mine", b"new", False)
