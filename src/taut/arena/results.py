"""Results of the arena on disk: one small file per cell, written once, and a table of all of
them."""

from __future__ import annotations

import hashlib
import json
import math
import platform
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import arguments, storage
from ..extras import optional
from ..learners.guarantee import QUANTITIES as BOUNDED

if TYPE_CHECKING:
    import pandas


FORMAT = 1
"""The version of the file format."""
MACHINE, TIMES, LEFT_OUT = "machine.json", "times.json", "left_out.json"
"""Files beside the results: on which machine they were played, how many seconds a round took by the
file of a result, and why learners did not play, by stream and learner."""
QUANTITIES = (*BOUNDED, "shifting regret", "violating rounds")
"""What is measured: the quantities that theorems bound, regret against a comparator that changes
its decision, and the number of rounds with g > 0."""
CHECKSUM = "sha256"
"""The entry with a checksum of the others."""


@dataclass(frozen=True)
class Result:
    """What one learner with given parameters measured on one stream for a number of rounds, by
    seed."""

    stream: str
    stream_version: int
    learner: str
    variant: str
    horizon: int
    values: Mapping[str, tuple[float, ...]]
    """By quantity, one of `QUANTITIES`, the value of each seed."""
    parameters: str = ""
    bounds: Mapping[str, float] = field(default_factory=dict)
    """The bounds that apply, by quantity."""
    broken: tuple[str, ...] = ()
    """Bounds that the measured values exceed; there must be none."""
    origin: str = "taut"
    """ "taut" for what `taut arena run` played, else who submitted it."""
    version: str = ""
    """The version of taut, or of what was played elsewhere."""

    def __post_init__(self) -> None:
        for name in ("stream", "learner", "variant", "parameters", "origin", "version"):
            text = getattr(self, name)
            if not isinstance(text, str) or not (text or name in ("parameters", "version")):
                raise TypeError(f"{name}: got {text!r}; expected a text")
        for name in ("horizon", "stream_version"):
            arguments.count(name, getattr(self, name))
        for name in ("regret", "violation"):
            if name not in self.values:
                raise ValueError(
                    f"values: got none for {name!r}; expected at least regret and violation, by "
                    "seed"
                )
        for name, values in self.values.items():
            arguments.one_of("values", name, QUANTITIES)
            numbers = all(isinstance(v, (int, float)) and math.isfinite(v) for v in values)
            if not values or not numbers:
                raise ValueError(
                    f"values: got {values!r} for {name!r}; expected a finite number per seed"
                )
            if not name.endswith(("regret", "excess")) and min(values) < 0:
                raise ValueError(
                    f"values: got {min(values)} for {name!r}; expected numbers that are not "
                    "negative"
                )
        sizes = {len(values) for values in self.values.values()}
        if len(sizes) > 1:
            raise ValueError(
                f"values: got {sorted(sizes)} seeds; expected the same number for all quantities"
            )
        for name, bound in self.bounds.items():
            arguments.one_of("bounds", name, BOUNDED)
            arguments.real("bounds", bound)
        if not all(isinstance(text, str) for text in self.broken):
            raise TypeError(f"broken: got {self.broken!r}; expected texts")

    @property
    def seeds(self) -> int:
        """The number of seeds."""
        return len(self.values["regret"])

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What a table shows one result for: stream, learner, variant, horizon."""
        return self.stream, self.learner, self.variant, self.horizon

    @property
    def file(self) -> str:
        """The file's name, which says what was played and with which versions, but not what was
        measured."""
        facts = (
            FORMAT,
            *self.key,
            self.stream_version,
            self.parameters,
            self.seeds,
            self.origin,
            self.version,
        )
        short = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:12]
        safe = "".join(c if c.isalnum() or c in "-." else "_" for c in self.learner)
        return f"{self.stream}/{safe}-{self.horizon}-{short}.json"


def write(folder: Path, result: Result) -> bool:
    """Write a result once; return whether it is new. A result that differs from a stored one of the
    same name is refused."""
    path = folder / "results" / result.file
    if path.exists():
        if read(path) != result:
            raise ValueError(
                f"{path}: got other numbers than the stored ones for the same cell and versions; "
                "results are never overwritten. Use another folder, or find out why they differ"
            )
        return False
    _write_checked(path, {"format": FORMAT, **asdict(result)})
    return True


def _write_checked(path: Path, entries: Mapping[str, Any]) -> None:
    entries = json.loads(json.dumps(entries))
    content = json.dumps({**entries, CHECKSUM: _checksum(entries)}, indent=1, sort_keys=True)
    storage.write_atomically(path, content.encode())


def _checksum(entries: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(entries, sort_keys=True).encode()).hexdigest()


@contextmanager
def _checked(path: Path, mend: str) -> Iterator[dict[str, Any]]:
    """The entries of a file; what is wrong with them is blamed on the file."""
    try:
        entries = json.loads(storage.read_file(path, "folder", "a file of the arena"))
        if entries.pop(CHECKSUM) != _checksum(entries):
            raise ValueError("its checksum is wrong")
        yield entries
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path}: got a damaged or foreign file ({error}); {mend}") from error


def read(path: Path) -> Result:
    """Read one file."""
    with _checked(path, "expected a result of the arena") as entries:
        if entries.pop("format") != FORMAT:
            raise ValueError("it has another format")
        values = {name: tuple(column) for name, column in entries.pop("values").items()}
        result = Result(values=values, broken=tuple(entries.pop("broken")), **entries)
        if not path.as_posix().endswith(result.file):
            raise ValueError(f"it contains the result that belongs into {result.file}")
        return result


def read_all(folder: Path) -> dict[tuple[str, str, str, int], Result]:
    """Return the results by (stream, learner, variant, horizon); of several versions the newest,
    then that with most seeds."""
    newest: dict[tuple[str, str, str, int], Result] = {}
    for path in sorted((folder / "results").glob("*/*.json")):
        result = read(path)
        known = newest.get(result.key)
        if known is None or _order(result) >= _order(known):
            newest[result.key] = result
    if not newest:
        raise FileNotFoundError(
            f"{folder}: got a folder without results; expected one that `taut arena run` wrote"
        )
    return newest


def read_json(path: Path) -> dict[str, Any]:
    """Return what a file beside the results holds; nothing if there is none. A damaged file is
    refused."""
    if not path.is_file():
        return {}
    with _checked(path, "delete it, and `taut arena run` writes it anew") as entries:
        return dict(entries)


def update_json(path: Path, entries: Mapping[str, Any]) -> None:
    """Add entries to what a file beside the results holds."""
    _write_checked(path, {**read_json(path), **entries})


def _order(result: Result) -> tuple[Any, ...]:
    number = tuple(int(part) if part.isdigit() else 0 for part in result.version.split("."))
    return result.stream_version, number, result.seeds


def index(folder: Path, results: Iterable[Result]) -> pandas.DataFrame:
    """Return one row per result and seed, and write it to index.parquet if a package for Parquet is
    installed."""
    pd = optional("pandas")

    rows = [
        {
            **{name: getattr(result, name) for name in ("stream", "learner", "variant", "horizon")},
            "seed": seed,
            **{name: values[seed] for name, values in result.values.items()},
            "stream version": result.stream_version,
            **{name: getattr(result, name) for name in ("origin", "version", "parameters", "file")},
        }
        for result in results
        for seed in range(result.seeds)
    ]
    table = pd.DataFrame(rows)
    try:
        content = table.to_parquet(None, index=False)
    except ImportError:  # pyarrow is optional; the files are the truth
        return table
    storage.write_atomically(folder / "index.parquet", content)
    return table


def write_machine(folder: Path) -> None:
    """Note on which machine, when and with which versions a folder was played last. Times depend on
    them, results do not."""
    from datetime import UTC, datetime

    import jax

    from ..engine import VERSION
    from ..sweeps.executors import cores

    facts = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.system()} {platform.machine()}, {cores()} cores",
        "python": platform.python_version(),
        "jax": jax.__version__,
        "taut": VERSION,
    }
    update_json(folder / MACHINE, facts)
