"""Submissions: decisions of a method that is not in taut, from which its results are computed here.

A submission is a folder with a file submission.json and one array of decisions per stream and
horizon. docs/arena.md describes the format. Regret and violations are computed from the decisions,
so that nobody has to trust reported numbers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .. import arguments, storage
from ..engine import Array
from . import results, suite
from .comparators import comparator_loss
from .entries import known_card, stream_of
from .results import Result
from .stream import Stream

FORMAT = 1
FILE = "submission.json"
OUTSIDE = 1e-6
"""How far a decision may be outside of the domain, relative to the domain's diameter."""
UNITS = 64
"""Units in the last place up to which a constraint value counts as rounding."""
_TEXTS = ("learner", "origin", "version", "parameters", "variant", "seeds")


@dataclass(frozen=True)
class Checked:
    """What `check` found."""

    results: tuple[Result, ...]
    """The results of the entries without complaints."""
    complaints: tuple[str, ...]
    """What is wrong, one sentence each."""


def measure(stream: Stream, data: Any, decisions: Array) -> dict[str, Array]:
    """Return every quantity of decisions (seed, round, ...), by seed.

    >>> import numpy as np
    >>> from taut.arena import STREAMS
    >>> stream = STREAMS["toy"]
    >>> data = stream.data(1, 4)
    >>> measured = measure(stream, data, np.tile([1.0, 0.5], (1, 4, 1)) / 2)
    >>> measured["violation"].tolist(), measured["violating rounds"].tolist()
    ([0.0], [0.0])
    """
    decisions = np.asarray(decisions, float)
    losses, values = map(np.asarray, jax.jit(jax.vmap(jax.vmap(_scored(stream))))(decisions, data))
    clipped = np.maximum(values, 0)
    reach = float(stream.rows.constants.constraint_range or 0.0)
    size = np.maximum(np.abs(values.max(axis=2)).max(axis=1), reach)
    rounding = UNITS * np.finfo(float).eps * size[:, None]
    total = losses.sum(axis=1)
    measured = {"regret": total - comparator_loss(stream, data)}
    if stream.shifting is not None:
        best = comparator_loss(stream, data, shifting=True)
        measured["shifting regret"] = total - best
    return measured | {
        "violation": clipped.max(axis=2).sum(axis=1),
        "squared violation": (clipped**2).sum(axis=(1, 2)),
        "peak violation": clipped.max(axis=(1, 2)),
        "excess": values.sum(axis=1).max(axis=1),
        "violating rounds": np.sum(values.max(axis=2) > rounding, axis=1).astype(float),
    }


def _scored(stream: Stream) -> Any:
    """(decision, data of a round) -> the loss and the constraint values."""

    def scored(x: jax.Array, z: Any) -> tuple[jax.Array, jax.Array]:
        seen = stream.rows.round(z)
        return seen.loss(x), jax.numpy.ravel(seen.constraints(x).values)

    return scored


def check(folder: str | Path) -> Checked:
    """Compute the results of a submission from its decisions, and say what is wrong with it.

    Streams, their versions, the suite, the number of rounds, seeds (by a checksum of the data) and
    the domain are verified.
    """
    folder = arguments.path("folder", folder)
    submitted = _read(folder)
    accepted, complaints = [], []
    for i, entry in enumerate(submitted["entries"]):
        where = f"entry {i} ({entry.get('stream')}, {entry.get('horizon')} rounds)"
        try:
            accepted.append(_checked(folder, submitted, entry))
        except (ValueError, TypeError, KeyError) as error:
            text = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            complaints.append(f"{where}: {text}")
    return Checked(tuple(accepted), tuple(complaints))


def _read(folder: Path) -> dict[str, Any]:
    path = folder / FILE
    try:
        submitted = json.loads(storage.read_file(path, "folder", "a submission"))
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{path}: got a file that cannot be read ({error})") from error
    if not isinstance(submitted, dict) or submitted.get("format") != FORMAT:
        raise ValueError(f'{path}: got another format; expected "format": {FORMAT}')
    if submitted.get("suite") != suite.NAME:
        raise ValueError(
            f"{path}: got the suite {submitted.get('suite')!r}; expected {suite.NAME!r}, the "
            "one of this version"
        )
    wrong = [name for name in _TEXTS if not isinstance(submitted.get(name), str)]
    listed = submitted.get("entries")
    objects = isinstance(listed, list) and all(isinstance(entry, dict) for entry in listed)
    if wrong or not objects or not listed:
        raise ValueError(
            f"{path}: got no {wrong[0] if wrong else 'entries'}; expected texts for "
            f"{', '.join(_TEXTS)}, and a list of objects called entries"
        )
    check_names(submitted["learner"], submitted["origin"])
    return submitted


def check_names(learner: str, origin: str) -> None:
    """Refuse the names of learners and the origin of taut's own results."""
    known = known_card(learner) is not None
    if known or origin in ("", "taut"):
        what, got = ("learner", learner) if known else ("origin", origin)
        raise ValueError(
            f"{what}: got {got!r}; expected a name that taut does not use, so that results are "
            "not confused"
        )


def _checked(folder: Path, submitted: Mapping[str, Any], entry: Mapping[str, Any]) -> Result:
    stream, rounds = stream_of(entry["stream"]), arguments.count("horizon", entry["horizon"])
    if entry["stream_version"] != stream.version or not suite.in_suite(stream):
        raise ValueError(
            f"stream_version: got {entry['stream_version']}; expected "
            f"{suite.STREAM_VERSIONS.get(stream.name)}, as in {suite.NAME}"
        )
    if stream.missing():
        raise ValueError(f"stream: {stream.missing()}")
    if stream.feedback is not None:
        raise ValueError(
            "stream: got one with noisy or bandit feedback, where decisions alone do not show "
            "what a method has seen; it must be played with taut arena run"
        )
    if not stream.horizons((rounds,)):
        raise ValueError(
            f"horizon: got {rounds}; the stream has {stream.shortest} to {stream.longest} rounds"
        )
    decisions = _decisions(folder / str(entry["decisions"]), folder)
    shape = (rounds, *np.shape(stream.rows.domain.centre))
    if decisions.shape[1:] != shape or not 1 <= len(decisions) <= suite.SEEDS:
        raise ValueError(
            f"decisions: got the shape {decisions.shape}; expected (seed, "
            f"{', '.join(map(str, shape))}) with up to {suite.SEEDS} seeds"
        )
    if not np.all(np.isfinite(decisions)):
        raise ValueError("decisions: got numbers that are not finite")
    data = stream.data(suite.seeds_of(submitted["seeds"], len(decisions)), rounds)
    expected = suite.checksum(data)
    if entry["data"] != expected:
        raise ValueError(
            f"data: got the checksum {str(entry['data'])[:12]}; expected {expected[:12]}, that of "
            f"the seeds {submitted['seeds']!r}: other seeds or other data were played"
        )
    _check_domain(stream, decisions)
    measured = measure(stream, data, decisions)
    return Result(
        stream=stream.name,
        stream_version=stream.version,
        learner=submitted["learner"],
        variant=submitted["variant"],
        horizon=rounds,
        values={name: tuple(map(float, column)) for name, column in measured.items()},
        parameters=submitted["parameters"],
        origin=submitted["origin"],
        version=submitted["version"],
    )


def _decisions(path: Path, folder: Path) -> Array:
    if folder.resolve() not in path.resolve().parents:
        raise ValueError(f"decisions: got {path}; expected a file inside of the submission")
    try:
        decisions = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f"decisions: got {path}, which is no array in a .npy file") from error
    if not isinstance(decisions, np.ndarray) or decisions.dtype.kind not in "fiu":
        raise ValueError(
            f"decisions: got {path} without real numbers; expected a .npy file of them"
        )
    return np.asarray(decisions, float)


def _check_domain(stream: Stream, decisions: Array) -> None:
    domain = stream.rows.domain
    flat = decisions.reshape(-1, *decisions.shape[2:])
    nearest = np.asarray(jax.jit(jax.vmap(domain.project))(flat))
    away = np.linalg.norm((nearest - flat).reshape(len(flat), -1), axis=1).max()
    if away > OUTSIDE * float(domain.diameter):
        raise ValueError(
            f"decisions: got one that is {away:.3g} outside of the domain; expected decisions in "
            f"{domain!r}"
        )


def add_submission(folder: str | Path, submission: str | Path) -> tuple[Result, ...]:
    """Check a submission and store all its results; one complaint, and nothing is stored."""
    folder = arguments.path("folder", folder)
    checked = check(submission)
    if checked.complaints:
        raise ValueError(f"{submission}: {checked.complaints[0]}")
    if _read(arguments.path("submission", submission))["seeds"] != suite.PUBLIC:
        raise ValueError(
            f"{submission}: got other seeds than the public ones. `taut arena check` verifies "
            "them; only results on public seeds join a board, so that all entries have the same"
        )
    for result in checked.results:
        results.write(folder, result)
    results.index(folder, results.read_all(folder).values())
    return checked.results


def write_submission(
    folder: str | Path,
    decisions: Mapping[tuple[str, int], Array],
    *,
    learner: str,
    origin: str,
    version: str = "",
    parameters: str = "",
    variant: str = "theory",
    seeds: str = suite.PUBLIC,
) -> Path:
    """Write a submission; return its folder.

    Arguments:
        folder: where to write it.
        decisions: (name of the stream, number of rounds) -> decisions (seed, round, ...).
        learner, origin, version, parameters, variant: what was played, by whom and with what.
        seeds: "public", or the name of a release whose seeds were played.
    """
    folder = arguments.path("folder", folder)
    entries = []
    for (name, rounds), played in decisions.items():
        stream, file = stream_of(name), f"{name}-{rounds}.npy"
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / file, np.asarray(played, float), allow_pickle=False)
        data = stream.data(suite.seeds_of(seeds, len(played)), rounds)
        entries.append(
            {
                "stream": name,
                "stream_version": stream.version,
                "horizon": rounds,
                "decisions": file,
                "data": suite.checksum(data),
            }
        )
    told = learner, origin, version, parameters, variant, seeds
    about = dict(zip(_TEXTS, told, strict=True))
    content = {"format": FORMAT, "suite": suite.NAME, **about, "entries": entries}
    storage.write_atomically(folder / FILE, json.dumps(content, indent=1).encode())
    return folder
