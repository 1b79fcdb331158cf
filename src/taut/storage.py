"""Reading and writing files: writes are atomic, reads trust nothing in the file.

An array file is an uncompressed npz archive with a JSON header. The header contains a checksum of
the arrays. Nothing is ever unpickled or decompressed, and no array is allocated before the file is
known to contain its numbers.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import math
import os
import re
import secrets
import stat
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None


Array = np.ndarray[Any, Any]
LARGEST = 2**34
"""Bytes of a file, at most, that is read into memory."""
_DRAFT = re.compile(r"\.taut-(?P<name>.+)-(?P<host>[0-9a-f]{8})-(?P<pid>\d+)-[0-9a-f]{8}\.part")
_HOST = hashlib.sha256(os.uname().nodename.encode() if hasattr(os, "uname") else b"").hexdigest()[
    :8
]
_cleaned: set[Path] = set()
"""Files whose stale drafts this process has removed."""


def digest(arrays: Mapping[str, Array]) -> str:
    """Return a checksum (SHA-256) of arrays, with their names, types and shapes."""
    state = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        state.update(f"{name}:{array.dtype.str}{np.shape(arrays[name])}".encode())
        state.update(array.reshape(-1).view(np.uint8).data)
    return state.hexdigest()


def digest_of_file(path: Path) -> str:
    """Return a checksum (SHA-256) of the content of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_atomically(
    path: str | Path, content: bytes, durable: bool = True, follow: bool = True
) -> None:
    """Write a file so that readers, also after a crash at any moment, find either the old content
    or the new one.

    The permissions of an existing file are kept. A device or pipe is refused, since it would be
    replaced by a file.

    Arguments:
        path: the file.
        content: what it will contain.
        durable: whether to wait until the disk has stored it. Otherwise a power failure can lose or
            damage the file, but the end of a process cannot; for one of many small files that have
            a checksum and can be computed again.
        follow: whether a symbolic link is followed, as for a path that the user names. Otherwise it
            is replaced, so that a link in a folder of results that came from elsewhere cannot lead
            to another file.
    """
    named = Path(path)
    path = (
        Path(os.path.realpath(named))
        if follow
        else Path(os.path.realpath(named.parent)) / named.name
    )
    draft = path.with_name(f".taut-{path.name}-{_HOST}-{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            raise OSError(
                errno.EINVAL, "it is a folder, a device or a pipe; expected the name of a file"
            )
        if durable and path not in _cleaned:
            _cleaned.add(path)
            remove_stale_drafts(path.parent, path.name)
        try:
            with open(draft, "xb") as file:
                with contextlib.suppress(FileNotFoundError):
                    os.chmod(draft, stat.S_IMODE(path.stat().st_mode))
                file.write(content)
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            os.replace(draft, path)
            if durable:
                _sync_folder(path.parent)
        finally:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
    except OSError as error:  # name the file that was asked for, not the draft
        raise OSError(
            error.errno, f"{path} cannot be written: {error.strerror or error}"
        ) from error


def _sync_folder(folder: Path) -> None:
    """Make the new name of a file survive a power failure, where the system supports it."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def remove_stale_drafts(folder: Path, name: str | None = None) -> None:
    """Remove drafts in a folder, of all files or of one, whose process on this machine has
    ended."""
    for draft in folder.glob(".taut-*.part"):
        match = _DRAFT.fullmatch(draft.name)
        if (
            match
            and name in (None, match["name"])
            and match["host"] == _HOST
            and not _alive(int(match["pid"]))
        ):
            with contextlib.suppress(OSError):
                draft.unlink()


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


@contextlib.contextmanager
def lock_folder(folder: Path, name: str) -> Iterator[None]:
    """Hold a lock on a folder, or raise an error if another process or thread holds it. The lock
    ends with its process."""
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RuntimeError(
                f"{name}: {folder} is in use by another simulation. Wait until it has ended, or "
                "use another folder."
            ) from None
        except OSError:
            pass  # a file system without locks
        yield
    finally:
        os.close(handle)


def read_file(path: str | Path, name: str, expected: str) -> bytes:
    """Return the content of a file.

    `name` is what the user calls the path, and `expected` what the file should be, for error
    messages.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{name}: got {path}, where there is no file; expected {expected}")
    size = path.stat().st_size
    if size > LARGEST:
        raise ValueError(
            f"{name}: got {path} of {size} bytes; expected {expected}, of at most {LARGEST} bytes"
        )
    return path.read_bytes()


def write_arrays(
    path: str | Path,
    header: Mapping[str, Any],
    arrays: Mapping[str, Array],
    durable: bool = True,
    follow: bool = True,
) -> None:
    """Write arrays with a JSON header to one npz file, atomically; `durable` and `follow` as in
    `write_atomically`."""
    write_atomically(path, arrays_to_bytes(header, arrays), durable, follow)


def arrays_to_bytes(header: Mapping[str, Any], arrays: Mapping[str, Array]) -> bytes:
    """Return the content of an array file. Equal arrays and headers give equal bytes."""
    buffer = io.BytesIO()
    described = json.dumps({**header, "digest": digest(arrays)})
    parts: dict[str, Any] = {f"array/{name}": array for name, array in arrays.items()}
    np.savez(buffer, header=np.frombuffer(described.encode(), np.uint8), **parts)
    return buffer.getvalue()


def read_arrays(path: str | Path, name: str = "path") -> tuple[dict[str, Any], dict[str, Array]]:
    """Read what `write_arrays` wrote."""
    return arrays_from_bytes(read_file(path, name, "a file that taut wrote"), name, str(path))


def arrays_from_bytes(
    content: bytes, name: str, shown: str
) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return header and arrays of the content of an array file.

    `name` is what the user calls the content and `shown` where it comes from, for error messages.
    """
    try:
        members = _members(content)
        header = json.loads(members.pop("header").tobytes().decode())
        if not isinstance(header, dict):
            raise ValueError("its header is not a dictionary")
        arrays = {
            key.removeprefix("array/"): array
            for key, array in members.items()
            if key.startswith("array/")
        }
        if header.pop("digest", None) != digest(arrays):
            raise ValueError("its checksum is wrong")
    except Exception as error:  # a damaged file can raise anything
        raise ValueError(
            f"{name}: got {shown}, damaged or foreign ({error}); expected a file that taut wrote"
        ) from error
    return header, arrays


def _members(content: bytes) -> dict[str, Array]:
    """Return the arrays of an uncompressed npz archive."""
    arrays: dict[str, Array] = {}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for entry in archive.infolist():
            if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
                raise ValueError("it is compressed")
            if not 0 <= entry.file_size <= len(content):
                raise ValueError("an entry is larger than the file")
            key = entry.filename.removesuffix(".npy")
            if key in arrays:
                raise ValueError(f"it has two entries {key!r}")
            arrays[key] = _array(archive.read(entry))  # reading verifies the CRC of the entry
    return arrays


def _array(content: bytes) -> Array:
    file = io.BytesIO(content)
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"an array has the npy version {version}")
    read = (
        np.lib.format.read_array_header_1_0
        if version == (1, 0)
        else np.lib.format.read_array_header_2_0
    )
    shape, fortran, dtype = read(file)
    if dtype.kind not in "fiub":
        raise ValueError(f"an array has the type {dtype}")
    if (
        any(size < 0 for size in shape)
        or math.prod(shape) * dtype.itemsize != len(content) - file.tell()
    ):
        raise ValueError("an array has another shape than its numbers")
    numbers = np.frombuffer(content, dtype, offset=file.tell()).copy()
    return numbers.reshape(shape[::-1]).T if fortran else numbers.reshape(shape)
