"""Lookups in the stored datasets of the experiments, shared by claims, figures and report."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray


def cases(data: xarray.Dataset, prefix: str) -> list[str]:
    """Return the cases of the theory experiment whose name starts with `prefix`."""
    return [str(case) for case in data["case"].values if str(case).startswith(prefix)]


def names(data: xarray.Dataset) -> list[str]:
    """Return the names of the contestants in a dataset."""
    return [str(name) for name in data["contestant"].values]


def title_of(data: xarray.Dataset, name: str) -> str:
    """Return a contestant's label as plain text, because rendering formulas is slow and the page
    needs text anyway."""
    label = str(data["label"].sel(contestant=name).item())
    return label.replace("$\\beta=", "\u03b2 = ").replace("$", "")


def bounds_of(data: xarray.Dataset, quantity: str) -> xarray.DataArray:
    """Return the explicit bounds by (case, horizon). Trivial bounds, which hold for every learner,
    are NaN."""
    bound = data[f"bound_{quantity}"]
    return bound.where(bound < data[f"trivial_{quantity}"])
