"""A certificate as text, as rich tables, as HTML and as JSON-able values."""

from __future__ import annotations

import html
import json
import math
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from ..display import Grid, rounded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .assumptions import Assumption
    from .certificate import Certificate, Row

__all__ = ["as_dict", "as_html", "as_text", "conclusion", "rich_parts"]

COLUMNS = (
    "quantity",
    "measured (mean)",
    "measured (worst)",
    "bound",
    "measured / bound",
    "theorem",
)


def conclusion(certificate: Certificate) -> str:
    """Say in one sentence whether the guarantees hold, are exceeded, or do not stand."""
    rows = certificate.rows
    exceeded = [row for row in rows if row.holds is False]
    support = [row for row in rows if row.holds and not row.trivial]
    if exceeded:
        verb = "is" if len(exceeded) == 1 else "are"
        why = "so an assumption that was not refuted must be false"
        return f"Exceeded: the measured {_listed(exceeded)} {verb} above the bound, {why}."
    if not support:
        return f"No guarantee stands: {_why_not(list(rows))}."
    others = [row for row in rows if not row.holds or row.trivial]
    if len(support) == 1:
        text = f"Holds: {support[0].quantity} is within its bound"
    else:
        text = f"Holds: {_listed(support)} are within their bounds"
    return f"{text}; {_why_not(others)}." if others else f"{text}."


def _why_not(rows: list[Row]) -> str:
    """Say why rows are no support. Rows with the same reason are mentioned together."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        if row.guarantee is None:
            reason = "there is no bound on {}"
        elif row.refuted_assumptions:
            refuted = ", ".join(name.replace("_", " ") for name in row.refuted_assumptions)
            reason = f"the bound on {{}} is void ({refuted} refuted)"
        elif row.trivial:
            reason = "the bound on {} is trivial"
        else:
            reason = (
                "{} is not measured" if row.worst is None else "the seeds do not decide about {}"
            )
        groups.setdefault(reason, []).append(row)
    return "; ".join(reason.format(_listed(group)) for reason, group in groups.items())


def _listed(rows: list[Row]) -> str:
    names = [row.quantity for row in rows]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def remark(row: Row) -> str:
    """Where the bound of a row comes from, or why there is none."""
    if row.guarantee is None:
        return "no bound" + (f": {row.reasons[0]}" if row.reasons else "")
    if row.refuted_assumptions:
        return (
            f"void: {', '.join(name.replace('_', ' ') for name in row.refuted_assumptions)} "
            f"refuted ({row.theorem})"
        )
    if row.trivial:
        return f"trivial (at most {_number(row.limit)} for every learner): {row.theorem}"
    return row.theorem


def cells(row: Row) -> tuple[str, ...]:
    """The entries of a row, as text."""
    ratio = "" if row.ratio is None else f"{row.ratio:.3g}"
    if row.holds is False:
        ratio = f"{ratio}  EXCEEDED".strip()
    mean = _number(row.mean)
    if row.expected and math.isfinite(row.half_interval):
        mean += f" \u00b1 {row.half_interval:.2g}"
    return row.quantity, mean, _number(row.worst), _number(row.bound), ratio, remark(row)


def rich_parts(certificate: Certificate) -> Iterator[Any]:
    """Yield what a rich console prints: two tables, witnesses, notes and the conclusion."""
    from rich.table import Table

    values = Table(title=_title(certificate), title_justify="left")
    for name in COLUMNS:
        values.add_column(name, justify="left" if name in ("quantity", "theorem") else "right")
    for row in certificate.rows:
        values.add_row(*cells(row))
    yield values
    if certificate.assumptions:
        checks = Table(title="assumptions", title_justify="left")
        for name in ("assumption", "status", "detail"):
            checks.add_column(name)
        for assumption in certificate.assumptions:
            checks.add_row(*_check(assumption), style="bold red" if assumption.refuted else None)
        yield checks
    for assumption in certificate.refuted:
        name = assumption.name.replace("_", " ")
        yield (
            f"refuted: {name}: {assumption.detail}; witness "
            f"{json.dumps(_plain(assumption.witness))}"
        )
    yield from _violating(certificate)
    yield from certificate.notes
    yield conclusion(certificate)


def as_text(certificate: Certificate) -> str:
    """The certificate as plain text."""
    from rich.console import Console

    console = Console(width=120, color_system=None)
    with console.capture() as capture:
        console.print(certificate)
    return capture.get()


def as_html(certificate: Certificate) -> str:
    """The certificate for a notebook."""
    checks = tuple(_check(assumption) for assumption in certificate.assumptions)
    parts = [
        f"<p><strong>{html.escape(conclusion(certificate))}</strong></p>",
        f"<p>{html.escape(_title(certificate))}</p>",
        Grid(
            COLUMNS, tuple(cells(row) for row in certificate.rows), left=("quantity", "theorem")
        ).html(),
        *(f"<p>{html.escape(note)}</p>" for note in (*_violating(certificate), *certificate.notes)),
    ]
    if checks:
        names = ("assumption", "status", "detail")
        table = Grid(names, checks, left=names).html()
        parts.append(f"<details><summary>{len(checks)} assumptions</summary>{table}</details>")
    return f"<div>{''.join(parts)}</div>"


def as_dict(certificate: Certificate) -> dict[str, Any]:
    """The certificate as JSON-able values."""
    return {
        "learner": certificate.learner,
        "horizon": certificate.horizon,
        "seeds": certificate.seeds,
        "outcome": certificate.outcome,
        "holds": certificate.holds,
        "conclusion": conclusion(certificate),
        "rows": [
            {
                "quantity": row.quantity,
                "mean": row.mean,
                "worst": row.worst,
                "bound": row.bound,
                "ratio": None if row.ratio is None or math.isinf(row.ratio) else row.ratio,
                "holds": row.holds,
                "trivial": row.trivial,
                "limit": row.limit,
                "expected": row.expected,
                "theorem": row.theorem,
                "refuted_assumptions": list(row.refuted_assumptions),
                "reasons": list(row.reasons),
            }
            for row in certificate.rows
        ],
        "assumptions": [
            {
                "name": assumption.name,
                "status": assumption.status,
                "detail": assumption.detail,
                "witness": jax.tree.map(lambda a: np.asarray(a).tolist(), assumption.witness),
            }
            for assumption in certificate.assumptions
        ],
        "hindsight": certificate.comparator
        and {
            "solver": certificate.comparator.solver,
            "gap": float(np.max(certificate.comparator.gap)),
        },
        "violating_rounds": _mean_and_worst(certificate.violating_rounds),
        "violating_share": _mean_and_worst(certificate.violating_shares),
        "notes": list(certificate.notes),
    }


def _violating(certificate: Certificate) -> Iterator[str]:
    """Say in how many rounds a constraint was violated, if it is known."""
    if certificate.violating_rounds is None or certificate.violating_shares is None:
        return
    mean, worst = certificate.violating_rounds
    share = certificate.violating_shares[0]
    most = f" (at most {worst:g} with one seed)" if certificate.seeds > 1 else ""
    yield (
        f"Violating rounds, beyond rounding: {_number(mean)} of {certificate.horizon:,}{most}, "
        f"{share:.3g} of all."
    )


def _mean_and_worst(pair: tuple[float, float] | None) -> dict[str, float] | None:
    return None if pair is None else {"mean": pair[0], "worst": pair[1]}


def _title(certificate: Certificate) -> str:
    seeds = "1 seed" if certificate.seeds == 1 else f"{certificate.seeds} seeds"
    return f"{rounded(certificate.learner)}: {seeds}, {certificate.horizon:,} rounds"


def _check(assumption: Assumption) -> tuple[str, ...]:
    status = assumption.status.upper() if assumption.refuted else assumption.status
    return assumption.name.replace("_", " "), status, assumption.detail


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _plain(witness: Any) -> Any:
    return jax.tree.map(
        lambda a: a if isinstance(a, int) else np.round(np.asarray(a, float), 6).tolist(), witness
    )
