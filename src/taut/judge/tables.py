"""A certificate as text, as HTML, as LaTeX and as JSON-able values."""

from __future__ import annotations

import html
import json
import math
import re
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from ..display import Grid, counted, latex, number, rounded, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .assumptions import Assumption
    from .certificate import Certificate, Row

__all__ = [
    "as_dict",
    "as_html",
    "as_latex",
    "as_text",
    "conclusion",
    "sentences",
    "verdict",
]

NOTHING_STANDS = "no guarantee stands"
"""The outcome of a certificate without any bound that stands and says something."""

COLUMNS = ("quantity", "mean", "worst", "bound", "share", "theorem")
CHECKS = ("assumption", "status", "detail")
LABELS = {"violation": "clipped violation"}
"""What the table calls a quantity, if not by its name."""
READ_OUT = ("violation", "peak violation")
"""The violations that the verdict mentions, beside regret; others only if none of these has a
bound."""


def verdict(certificate: Certificate) -> str:
    """Say in one line what was played and whether the guarantees hold."""
    name = certificate.learner.split("(")[0] or "run"
    learner = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()
    size = f"{counted(certificate.seeds, 'seed')} x {counted(certificate.horizon, 'round')}"
    return f"{learner}, {size}. {conclusion(certificate)}"


def conclusion(certificate: Certificate) -> str:
    """Say whether the guarantees hold, are exceeded, or do not stand."""
    rows = certificate.rows
    exceeded = [row for row in rows if row.holds is False]
    if exceeded:
        listed = ", ".join(f"{_label(row)} {_against(row, 'above')}" for row in exceeded)
        return f"Exceeded: {listed}. An assumption that was not refuted must be false."
    support = [row for row in rows if row.holds and not row.trivial]
    if not support:
        reasons = sentences(certificate)
        first = reasons[0][0].lower() + reasons[0][1:] if reasons else "nothing was measured."
        return f"No guarantee stands: {first}"
    told = [row for row in support if _is_read_out(row)]
    listed = ", ".join(f"{_label(row)} {_against(row, 'of at most')}" for row in told or support)
    return f"Holds: {listed}."


def _is_read_out(row: Row) -> bool:
    return "regret" in row.quantity or row.quantity.split(",")[0] in READ_OUT


def sentences(certificate: Certificate) -> list[str]:
    """Say why rows have no bound that says something. Rows with the same reason are mentioned
    together."""
    groups: dict[str, list[Row]] = {}
    for row in certificate.rows:
        if row.guarantee is None:
            why = f": {row.reasons[0]}" if row.reasons else ""
            groups.setdefault(f"No bound on {{}}{why}.", []).append(row)
        elif row.refuted_assumptions:
            names = " and ".join(name.replace("_", " ") for name in row.refuted_assumptions)
            verb = "is" if len(row.refuted_assumptions) == 1 else "are"
            groups.setdefault(f"No bound on {{}}, because {names} {verb} refuted.", []).append(row)
        elif row.trivial:
            groups.setdefault(_trivial(row), []).append(row)
        elif row.worst is None:
            groups.setdefault("{} is not measured.", []).append(row)
        elif row.holds is None:
            groups.setdefault("The seeds do not decide about {}.", []).append(row)
    made = (text.format(_listed(rows)) for text, rows in groups.items())
    return [text[0].upper() + text[1:] for text in made]


def _trivial(row: Row) -> str:
    """Why the bound of a row says nothing, and what would give a better one."""
    mend = f"; {row.mend}" if row.mend else ""
    return (
        f"No useful bound on {{}}: {row.theorem} gives {_short(row.bound)}, and no method can "
        f"exceed {_short(row.limit)}{mend}."
    )


def _label(row: Row) -> str:
    name, *rest = row.quantity.split(",")
    return ",".join([LABELS.get(name, name), *rest])


def _against(row: Row, words: str) -> str:
    """The measured value and its bound: of the mean, for a bound on an expectation."""
    value = row.mean if row.expected else row.worst
    return f"{_short(_clean(value, row), 2)} {words} {_short(row.bound)}"


def _listed(rows: list[Row]) -> str:
    names = [_label(row) for row in rows]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def useful(row: Row) -> bool:
    """Whether a row has a bound that stands and says something."""
    return row.bound is not None and not row.trivial


def cells(row: Row) -> tuple[str, ...]:
    """The entries of a row, as text. A bound that says nothing is left out."""
    mean = number(_clean(row.mean, row))
    if row.expected and math.isfinite(row.half_interval):
        mean += f" \u00b1 {row.half_interval:.2g}"
    measured = (_label(row), mean, number(_clean(row.worst, row)))
    if not useful(row):
        return (*measured, "", "", "")
    value = row.mean if row.expected else row.worst
    ratio = row.ratio if _clean(value, row) else 0.0
    share = "" if ratio is None else f"{max(ratio, 0.0):.2g}"
    if row.holds is False:
        share = f"{share} EXCEEDED".strip()
    return (*measured, number(row.bound), share, row.theorem)


def _clean(value: float | None, row: Row) -> float | None:
    """A measured value, or 0 if it is nothing but rounding."""
    return 0.0 if value is not None and abs(value) <= row.noise else value


def rests_on(certificate: Certificate) -> tuple[Assumption, ...]:
    """The assumptions on which a bound in the table rests, and those that are refuted."""
    names = {
        name
        for row in certificate.rows
        if useful(row) and row.guarantee
        for name in row.guarantee.assumptions
    }
    return tuple(one for one in certificate.assumptions if one.refuted or one.name in names)


def as_text(certificate: Certificate, details: bool = False) -> str:
    """The certificate as plain text, as wide as the terminal but at most 100 columns: the verdict,
    the table, what has no bound, assumptions, and with `details` all other assumptions, notes and
    the learner."""
    columns = COLUMNS if any(map(useful, certificate.rows)) else COLUMNS[:3]
    stands = certificate.outcome != NOTHING_STANDS
    shown = certificate.assumptions if details else rests_on(certificate)
    parts = [
        verdict(certificate),
        _grid(columns, (cells(row) for row in certificate.rows)),
        *sentences(certificate)[0 if stands else 1 :],
        *([_grid(CHECKS, map(_check, shown))] if shown else ()),
        *(
            f"Witness against {one.name.replace('_', ' ')}: {json.dumps(_plain(one.witness))}"
            for one in certificate.refuted
        ),
        *_violating(certificate),
        *certificate.notes,
    ]
    if details:
        parts.append(rounded(certificate.learner))
    elif len(shown) < len(certificate.assumptions):
        rest = len(certificate.assumptions) - len(shown)
        parts.append(f"{rest} more assumptions were checked: certificate.text(details=True).")
    lines: list[str] = []
    for part in parts:
        lines += ["", part.text(), ""] if isinstance(part, Grid) else wrapped(part, most=None)
    return re.sub("\n{3,}", "\n\n", "\n".join(lines))


def _grid(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Grid:
    fitting = tuple(row[: len(columns)] for row in rows)
    return Grid(columns, fitting, left=("quantity", "theorem", *CHECKS))


def as_html(certificate: Certificate) -> str:
    """The certificate for a notebook; assumptions and notes are folded."""
    said = [
        *sentences(certificate),
        *_violating(certificate),
        *(f"Refuted: {one.name.replace('_', ' ')}: {one.detail}" for one in certificate.refuted),
    ]
    parts = [
        f"<p><strong>{html.escape(verdict(certificate))}</strong></p>",
        _grid(COLUMNS, map(cells, certificate.rows)).html(),
        *(f"<p>{html.escape(text)}</p>" for text in said),
    ]
    folded = [f"<p>{html.escape(note)}</p>" for note in certificate.notes]
    if certificate.assumptions:
        folded.insert(0, _grid(CHECKS, map(_check, certificate.assumptions)).html())
    folded.append(f"<p>{html.escape(rounded(certificate.learner))}</p>")
    title = f"<summary>{len(certificate.assumptions)} assumptions, and notes</summary>"
    return f"<div>{''.join(parts)}<details>{title}{''.join(folded)}</details></div>"


def as_latex(certificate: Certificate) -> str:
    """The table for an article, with the verdict as its caption (needs the package booktabs)."""
    lines = [
        r"\begin{table}",
        rf"\caption{{{latex(verdict(certificate))}}}",
        r"\begin{tabular}{lrrrl}",
        r"\toprule",
        r"quantity & mean & worst & bound & theorem \\",
        r"\midrule",
    ]
    for row in certificate.rows:
        name, mean, worst, bound, _, theorem = map(latex, cells(row))
        lines.append(rf"{name} & {mean} & {worst} & {bound} & {theorem} \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}"])


def as_dict(certificate: Certificate) -> dict[str, Any]:
    """The certificate as JSON-able values."""
    return {
        "learner": certificate.learner,
        "horizon": certificate.horizon,
        "seeds": certificate.seeds,
        "outcome": certificate.outcome,
        "holds": certificate.holds,
        "conclusion": conclusion(certificate),
        "verdict": verdict(certificate),
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
        f"Violating rounds, beyond rounding: {number(mean)} of {certificate.horizon:,}{most}, "
        f"{share:.3g} of all."
    )


def _mean_and_worst(pair: tuple[float, float] | None) -> dict[str, float] | None:
    return None if pair is None else {"mean": pair[0], "worst": pair[1]}


def _check(assumption: Assumption) -> tuple[str, ...]:
    status = assumption.status.upper() if assumption.refuted else assumption.status
    return assumption.name.replace("_", " "), status, assumption.detail


def _short(value: float | None, digits: int = 3) -> str:
    """So many significant digits, and all digits before the point."""
    if value is None:
        return ""
    whole = 10 ** (digits - 1) <= abs(value) < 1e9
    return f"{value:,.0f}" if whole else f"{value:.{digits}g}"


def _plain(witness: Any) -> Any:
    return jax.tree.map(
        lambda a: a if isinstance(a, int) else np.round(np.asarray(a, float), 6).tolist(), witness
    )
