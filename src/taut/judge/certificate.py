"""Certificate: what was measured, what theory promises for it, and the assumptions checked, for any
run; as text, as HTML, as LaTeX and as JSON-able values."""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .. import arguments
from ..display import Grid, counted, latex, number, rounded, wrapped
from ..learners import Guarantee
from .assumptions import Assumption

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .hindsight import Hindsight


HOLDS, EXCEEDED, NOTHING_STANDS = "holds", "exceeded", "no guarantee stands"
"""The outcomes; the last one is that of a certificate without any bound that stands and says
something."""
FORMULA = 1e-9
"""Relative error that the evaluation of a bound may have."""
COLUMNS = ("quantity", "mean", "worst", "bound", "share", "theorem")
CHECKS = ("assumption", "status", "detail")
LABELS = {"violation": "clipped violation"}
"""What the table calls a quantity, if not by its name."""
READ_OUT = ("violation", "peak violation")
"""The violations that the verdict mentions, beside regret; others only if none of these has a
bound."""


@dataclass(frozen=True)
class Row:
    """One quantity: measured over the seeds, and what theory promises."""

    quantity: str
    mean: float | None
    worst: float | None
    guarantee: Guarantee | None
    refuted_assumptions: tuple[str, ...] = ()
    """Refuted assumptions on which the guarantee rests; it says nothing if there are any."""
    reasons: tuple[str, ...] = ()
    """Why no theorem gives a bound, for a quantity without any."""
    trivial: bool = False
    """Whether the bound holds for every learner, because losses and constraints have a bounded
    range: it says nothing."""
    limit: float | None = None
    """What every learner satisfies on these data; `None` if it is not known."""
    rounding: float = 0.0
    """How far rounding can have moved the measured value."""
    noise: float = 0.0
    """Measured values below this are nothing but rounding of single rounds, and printed as 0."""
    half_interval: float = math.inf
    """Half the 95 % confidence interval of the mean over seeds, for bounds on the expectation."""
    mend: str = ""
    """What would give a bound that says something, if this one does not."""

    @property
    def bound(self) -> float | None:
        """The guarantee's number; `None` if there is no guarantee, or none that its assumptions
        support."""
        return None if self.guarantee is None or self.refuted_assumptions else self.guarantee.bound

    @property
    def theorem(self) -> str:
        """Where the bound comes from; empty if there is none."""
        return self.guarantee.source if self.guarantee else ""

    @property
    def expected(self) -> bool:
        """Whether the bound is on the mean over seeds and says nothing about a single one."""
        return self.guarantee is not None and self.guarantee.expected

    @property
    def ratio(self) -> float | None:
        """Measured value over the bound: of the worst seed, or of the mean for a bound on the
        expectation."""
        value = self.mean if self.expected else self.worst
        if self.bound is None or value is None or self.bound < 0:
            return None
        if self.bound == 0:
            return 0.0 if value <= self.rounding else math.inf
        return value / self.bound

    @property
    def holds(self) -> bool | None:
        """Whether every seed is within the bound; `None` if there is none, or if the seeds cannot
        decide about a mean."""
        if self.bound is None or self.worst is None or self.mean is None:
            return None
        limit = self.bound + FORMULA * abs(self.bound) + self.rounding
        if not self.expected:
            return self.worst <= limit
        if self.mean + self.half_interval <= limit:
            return True
        return False if self.mean - self.half_interval > limit else None

    @property
    def useful(self) -> bool:
        """Whether the row has a bound that stands and says something."""
        return self.bound is not None and not self.trivial

    def to_dict(self) -> dict[str, Any]:
        """The row as JSON-able values."""
        names = ("quantity", "mean", "worst", "bound", "ratio", "holds", "trivial", "limit")
        return {
            **{name: getattr(self, name) for name in (*names, "expected", "theorem")},
            "ratio": None if self.ratio is None or math.isinf(self.ratio) else self.ratio,
            "refuted_assumptions": list(self.refuted_assumptions),
            "reasons": list(self.reasons),
        }


@dataclass(frozen=True, repr=False)
class Certificate:
    """What was measured, what was promised, and on what conditions. Print it to see all of it."""

    learner: str
    horizon: int
    seeds: int
    rows: tuple[Row, ...]
    assumptions: tuple[Assumption, ...]
    comparator: Hindsight | None
    """The best fixed decision in hindsight, against which regret is measured."""
    notes: tuple[str, ...] = ()
    violating_rounds: tuple[float, float] | None = None
    """Mean and largest over seeds of the number of rounds in which a constraint value is positive
    beyond rounding; None if the run did not record "excess"."""

    @property
    def violating_shares(self) -> tuple[float, float] | None:
        """The same as shares of all rounds."""
        if self.violating_rounds is None:
            return None
        mean, largest = self.violating_rounds
        return mean / self.horizon, largest / self.horizon

    @property
    def refuted(self) -> tuple[Assumption, ...]:
        """The assumptions for which a counterexample was found."""
        return tuple(assumption for assumption in self.assumptions if assumption.refuted)

    @property
    def outcome(self) -> str:
        """One of "holds", "exceeded" and "no guarantee stands".

        A run holds if a bound that says something stands and none is exceeded. Trivial bounds are
        no support.
        """
        if any(row.holds is False for row in self.rows):
            return EXCEEDED
        return HOLDS if any(row.holds and not row.trivial for row in self.rows) else NOTHING_STANDS

    @property
    def holds(self) -> bool | None:
        """True if bounds stand and none is exceeded, False if one is exceeded, `None` if no
        guarantee stands."""
        return {HOLDS: True, EXCEEDED: False}.get(self.outcome)

    @property
    def conclusion(self) -> str:
        """The outcome in one sentence: the guarantees hold, are exceeded, or do not stand."""
        exceeded = [row for row in self.rows if row.holds is False]
        if exceeded:
            listed = ", ".join(f"{_label(row)} {_against(row, 'above')}" for row in exceeded)
            return f"Exceeded: {listed}. An assumption that was not refuted must be false."
        support = [row for row in self.rows if row.holds and not row.trivial]
        if not support:
            reasons = sentences(self)
            first = reasons[0][0].lower() + reasons[0][1:] if reasons else "nothing was measured."
            return f"No guarantee stands: {first}"
        read_out = [
            row
            for row in support
            if "regret" in row.quantity or row.quantity.split(",")[0] in READ_OUT
        ]
        listed = ", ".join(
            f"{_label(row)} {_against(row, 'of at most')}" for row in read_out or support
        )
        return f"Holds: {listed}."

    @property
    def verdict(self) -> str:
        """What was played, and the outcome."""
        name = self.learner.split("(")[0] or "run"
        learner = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()
        size = f"{counted(self.seeds, 'seed')} x {counted(self.horizon, 'round')}"
        return f"{learner}, {size}. {self.conclusion}"

    def text(self, *, details: bool = False) -> str:
        """The certificate as plain text, as wide as the terminal but at most 100 columns: verdict,
        table, what has no bound, and the assumptions on which its bounds rest.

        Arguments:
            details: whether to add all other assumptions, and the learner with its parameters.
        """
        arguments.flag("details", details)
        columns = COLUMNS if any(row.useful for row in self.rows) else COLUMNS[:3]
        stands = self.outcome != NOTHING_STANDS
        shown = self.assumptions if details else self._rests_on()
        parts = [
            self.verdict,
            _grid(columns, map(cells, self.rows)),
            *sentences(self)[0 if stands else 1 :],
            *([_grid(CHECKS, map(_check, shown))] if shown else ()),
            *(
                f"Witness against {assumption.title}: {json.dumps(_plain(assumption.witness))}"
                for assumption in self.refuted
            ),
            *self._violating(),
            *self.notes,
        ]
        if details:
            parts.append(rounded(self.learner))
        elif len(shown) < len(self.assumptions):
            rest = len(self.assumptions) - len(shown)
            parts.append(f"{rest} more assumptions were checked: certificate.text(details=True).")
        lines: list[str] = []
        for part in parts:
            lines += ["", part.text(), ""] if isinstance(part, Grid) else wrapped(part, most=None)
        return re.sub("\n{3,}", "\n\n", "\n".join(lines))

    def plot(
        self, quantities: Sequence[str] | None = None, *, log: bool = True, ax: Any = None
    ) -> Axes:
        """Draw the largest measured value of each quantity as a share of its bound.

        Arguments:
            quantities: the quantities to draw, as the rows call them; by default all.
            log: whether the axis is logarithmic; it has a marked zero.
            ax: the Matplotlib axes to draw on; by default new ones.
        """
        from ..plots.of_judgement import plot_certificate

        return plot_certificate(self, quantities, arguments.flag("log", log), ax)

    def to_latex(self) -> str:
        """The table for an article, with the verdict as its caption (needs the package
        booktabs)."""
        lines = [
            r"\begin{table}",
            rf"\caption{{{latex(self.verdict)}}}",
            r"\begin{tabular}{lrrrl}",
            r"\toprule",
            r"quantity & mean & worst & bound & theorem \\",
            r"\midrule",
        ]
        for row in self.rows:
            name, mean, worst, bound, _, theorem = map(latex, cells(row))
            lines.append(rf"{name} & {mean} & {worst} & {bound} & {theorem} \\")
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}"])

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON-able values."""
        return {
            "learner": self.learner,
            "horizon": self.horizon,
            "seeds": self.seeds,
            "outcome": self.outcome,
            "holds": self.holds,
            "conclusion": self.conclusion,
            "verdict": self.verdict,
            "rows": [row.to_dict() for row in self.rows],
            "assumptions": [
                {
                    "name": assumption.name,
                    "status": assumption.status,
                    "detail": assumption.detail,
                    "witness": jax.tree.map(lambda a: np.asarray(a).tolist(), assumption.witness),
                }
                for assumption in self.assumptions
            ],
            "hindsight": self.comparator
            and {"solver": self.comparator.solver, "gap": float(np.max(self.comparator.gap))},
            "violating_rounds": _mean_and_worst(self.violating_rounds),
            "violating_share": _mean_and_worst(self.violating_shares),
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        size = f"{counted(self.seeds, 'seed')}, {counted(self.horizon, 'round')}"
        return f"<Certificate: {self.outcome}; {self.learner.split('(')[0]}, {size}>"

    def _repr_html_(self) -> str:
        """The certificate for a notebook; assumptions and notes are folded."""
        remarks = [
            *sentences(self),
            *self._violating(),
            *(f"Refuted: {assumption.title}: {assumption.detail}" for assumption in self.refuted),
        ]
        table = _grid(COLUMNS, map(cells, self.rows)).html()
        shown = f"<p><strong>{html.escape(self.verdict)}</strong></p>{table}{_paragraphs(remarks)}"
        checks = _grid(CHECKS, map(_check, self.assumptions)).html() if self.assumptions else ""
        folded = checks + _paragraphs([*self.notes, rounded(self.learner)])
        title = f"<summary>{len(self.assumptions)} assumptions, and notes</summary>"
        return f"<div>{shown}<details>{title}{folded}</details></div>"

    def _rests_on(self) -> tuple[Assumption, ...]:
        """The assumptions on which a bound in the table rests, and those that are refuted."""
        guarantees = [row.guarantee for row in self.rows if row.useful and row.guarantee]
        names = {name for guarantee in guarantees for name in guarantee.assumptions}
        return tuple(check for check in self.assumptions if check.refuted or check.name in names)

    def _violating(self) -> list[str]:
        """Say in how many rounds a constraint was violated, if it is known."""
        if self.violating_rounds is None or self.violating_shares is None:
            return []
        mean, worst = self.violating_rounds
        most = f" (at most {worst:g} with one seed)" if self.seeds > 1 else ""
        return [
            f"Violating rounds, beyond rounding: {number(mean)} of {self.horizon:,}{most}, "
            f"{self.violating_shares[0]:.3g} of all."
        ]


def sentences(certificate: Certificate) -> list[str]:
    """Say why rows have no bound that says something. Rows with the same reason are mentioned
    together."""
    groups: dict[str, list[str]] = {}
    for row in certificate.rows:
        if row.guarantee is None:
            why = f"No bound on {{}}: {row.reasons[0]}." if row.reasons else "No bound on {}."
        elif row.refuted_assumptions:
            names = " and ".join(name.replace("_", " ") for name in row.refuted_assumptions)
            verb = "is" if len(row.refuted_assumptions) == 1 else "are"
            why = f"No bound on {{}}, because {names} {verb} refuted."
        elif row.trivial:
            mend = f"; {row.mend}" if row.mend else ""
            why = (
                f"No useful bound on {{}}: {row.theorem} gives {_short(row.bound)}, and no method "
                f"can exceed {_short(row.limit)}{mend}."
            )
        elif row.worst is None:
            why = "{} is not measured."
        elif row.holds is None:
            why = "The seeds do not decide about {}."
        else:
            continue
        groups.setdefault(why, []).append(_label(row))
    made = (text.format(_listed(names)) for text, names in groups.items())
    return [text[0].upper() + text[1:] for text in made]


def cells(row: Row) -> tuple[str, ...]:
    """The entries of a row, as text. A bound that says nothing is left out."""
    mean = number(_clean(row.mean, row))
    if row.expected and math.isfinite(row.half_interval):
        mean += f" \u00b1 {row.half_interval:.2g}"
    measured = (_label(row), mean, number(_clean(row.worst, row)))
    if not row.useful:
        return (*measured, "", "", "")
    value = row.mean if row.expected else row.worst
    ratio = row.ratio if _clean(value, row) else 0.0
    share = "" if ratio is None else f"{max(ratio, 0.0):.2g}"
    if row.holds is False:
        share = f"{share} EXCEEDED".strip()
    return (*measured, number(row.bound), share, row.theorem)


def _label(row: Row) -> str:
    name, *rest = row.quantity.split(",")
    return ",".join([LABELS.get(name, name), *rest])


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _against(row: Row, words: str) -> str:
    """The measured value and its bound: of the mean, for a bound on an expectation."""
    value = row.mean if row.expected else row.worst
    return f"{_short(_clean(value, row), 2)} {words} {_short(row.bound)}"


def _clean(value: float | None, row: Row) -> float | None:
    """A measured value, or 0 if it is nothing but rounding."""
    return 0.0 if value is not None and abs(value) <= row.noise else value


def _grid(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Grid:
    fitting = tuple(row[: len(columns)] for row in rows)
    return Grid(columns, fitting, left=("quantity", "theorem", *CHECKS))


def _paragraphs(texts: Iterable[str]) -> str:
    return "".join(f"<p>{html.escape(text)}</p>" for text in texts)


def _mean_and_worst(pair: tuple[float, float] | None) -> dict[str, float] | None:
    return None if pair is None else {"mean": pair[0], "worst": pair[1]}


def _check(assumption: Assumption) -> tuple[str, ...]:
    status = assumption.status.upper() if assumption.refuted else assumption.status
    return assumption.title, status, assumption.detail


def _short(value: float | None, digits: int = 3) -> str:
    """So many significant digits, and all digits before the point."""
    if value is None:
        return ""
    as_integer = 10 ** (digits - 1) <= abs(value) < 1e9
    return f"{value:,.0f}" if as_integer else f"{value:.{digits}g}"


def _plain(witness: Any) -> Any:
    return jax.tree.map(
        lambda a: a if isinstance(a, int) else np.round(np.asarray(a, float), 6).tolist(), witness
    )
