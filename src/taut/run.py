"""Run: what a simulation returns, as labelled arrays, with what produced it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import archive
from .learners import Learner

if TYPE_CHECKING:
    import xarray

    from .certificate import Certificate
    from .problem import Problem
    from .streams import Stream

__all__ = ["Run", "Totals"]

Array = np.ndarray[Any, Any]
FORMAT = 1


@dataclass(frozen=True)
class Totals:
    """Sums over all rounds, in 64 bits. Dims: `seed`, or `learner`, `seed`; then `constraint` where it says so."""

    loss: Array
    excess: Array
    """Signed, by constraint."""
    violation: Array
    """Clipped, by constraint."""
    squared: Array
    """Clipped and squared, by constraint."""
    peak: Array
    """Largest clipped value of any round, by constraint."""
    worst_excess: Array
    """Of max_i g_i, which is not a sum over constraints."""
    worst_violation: Array
    worst_squared: Array


@dataclass(frozen=True)
class Run:
    """Seeds x rounds of one learner on one problem (or learners x seeds x rounds of a sweep).

    `loss` and `excess` (that of the largest constraint) have dims (seed, round); `decisions` and `multipliers`, if
    recorded, hold rounds every, 2 every, 3 every, ... In a sweep all of them have a leading dim `learner`.
    """

    learner: Learner | tuple[Learner, ...]
    horizon: int
    seeds: int
    totals: Totals
    final: Array
    """The decision that would be played next."""
    loss: Array | None = None
    excess: Array | None = None
    decisions: Array | None = None
    multipliers: Array | None = None
    every: int = 1
    version: str = ""
    problem: Problem | None = field(default=None, repr=False, compare=False)
    stream: Stream | None = field(default=None, repr=False, compare=False)

    @property
    def swept(self) -> bool:
        """Whether several learners were swept."""
        return isinstance(self.learner, tuple)

    def __getitem__(self, index: int) -> Run:
        """The run of one learner of a sweep."""
        if not isinstance(self.learner, tuple):
            raise TypeError("run: got an index; expected a run of several learners to pick one from")
        pick = {name: None if value is None else value[index] for name, value in self._arrays().items()}
        totals = Totals(**{f.name: getattr(self.totals, f.name)[index] for f in fields(Totals)})
        return replace(self, learner=self.learner[index], totals=totals, **pick)

    def certificate(self, **options: Any) -> Certificate:
        """Measured regret and violations beside the guarantee, and the assumptions checked; see `taut.certify`."""
        from .certificate import certify

        return certify(self, **options)

    def to_xarray(self) -> xarray.Dataset:
        """All arrays with labelled dims; `attrs` say what produced them."""
        import xarray as xr

        lead = ("learner", "seed") if self.swept else ("seed",)
        axes = tuple(f"axis_{i}" for i in range(self.final.ndim - len(lead)))
        rounds = np.arange(1, self.horizon + 1)
        kept = rounds[self.every - 1 :: self.every]
        out = xr.Dataset(attrs={"taut": json.dumps(self._header())})
        for name, dims, coords in (
            ("loss", ("round",), {"round": rounds}),
            ("excess", ("round",), {"round": rounds}),
            ("decisions", ("kept_round", *axes), {"kept_round": kept}),
            ("multipliers", ("kept_round", "played_constraint"), {"kept_round": kept}),
        ):
            value = getattr(self, name)
            if value is not None:
                out[name] = xr.DataArray(value, dims=(*lead, *dims), coords=coords)
        out["final"] = xr.DataArray(self.final, dims=(*lead, *axes))
        for entry in fields(Totals):
            value = getattr(self.totals, entry.name)
            extra = ("constraint",) if value.ndim > len(lead) else ()
            out[f"total_{entry.name}"] = xr.DataArray(value, dims=(*lead, *extra))
        return out

    def save(self, path: str | Path) -> None:
        """Write a netCDF file, atomically; `Run.load` gives back every bit."""
        data = self.to_xarray()
        encoding = {name: {"_FillValue": None} for name in data.variables}
        archive.write_atomically(path, bytes(data.to_netcdf(engine="h5netcdf", encoding=encoding)))

    @classmethod
    def load(cls, path: str | Path) -> Run:
        """Read a file that `save` wrote. The problem and the stream are not in it."""
        import xarray as xr

        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(f"{path}: no such file")
        try:
            with xr.open_dataset(path, engine="h5netcdf") as data:
                data.load()
            header = json.loads(data.attrs["taut"])
        except Exception as error:  # whatever HDF5 makes of a damaged file
            raise ValueError(f"{path}: got a damaged or foreign file ({error}); expected a run that taut saved") from None
        if header.get("format") != FORMAT:
            raise ValueError(f"{path}: got format {header.get('format')!r}; expected {FORMAT}")
        learners = tuple(archive.unpack(packed) for packed in header["learners"])
        return cls(
            learner=learners if header["swept"] else learners[0],
            horizon=header["horizon"],
            seeds=header["seeds"],
            totals=Totals(**{f.name: data[f"total_{f.name}"].to_numpy() for f in fields(Totals)}),
            final=data["final"].to_numpy(),
            every=header["every"],
            version=header["version"],
            **{name: data[name].to_numpy() for name in ("loss", "excess", "decisions", "multipliers") if name in data},
        )

    def _arrays(self) -> dict[str, Array | None]:
        return {name: getattr(self, name) for name in ("loss", "excess", "decisions", "multipliers", "final")}

    def _header(self) -> dict[str, Any]:
        learners = self.learner if isinstance(self.learner, tuple) else (self.learner,)
        return {
            "format": FORMAT,
            "version": self.version,
            "learners": [archive.pack(learner) for learner in learners],
            "swept": self.swept,
            "horizon": self.horizon,
            "seeds": self.seeds,
            "every": self.every,
        }
