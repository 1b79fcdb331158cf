"""Data files that other distributions contain. They are read without importing the packages."""

from __future__ import annotations

import gzip
import io
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy as np

from ..engine import Array
from .stream import Missing

__all__ = ["csv_of", "file_of"]


def file_of(package: str, path: str) -> bytes:
    """Return the content of a file of an installed distribution, decompressed if its name ends with
    .gz."""
    try:
        found = Path(str(distribution(package).locate_file(path)))
    except PackageNotFoundError:
        raise Missing(
            f"the package {package} is not installed, whose file {path} has the data"
        ) from None
    if not found.is_file():
        raise Missing(
            f"the installed package {package} has no file {path}; another version may have it"
        )
    content = found.read_bytes()
    return gzip.decompress(content) if path.endswith(".gz") else content


def csv_of(package: str, path: str, delimiter: str = ",", skip: int = 0) -> Array:
    """Return the numbers of such a file."""
    return np.loadtxt(
        io.BytesIO(file_of(package, path)), delimiter=delimiter, skiprows=skip, ndmin=2
    )
