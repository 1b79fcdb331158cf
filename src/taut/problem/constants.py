"""Constants: the numbers that a problem's guarantees are made of, each given, exact or marked as
estimated."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .. import arguments, files

SYMBOLS = {
    "radius": "R",
    "loss_lipschitz": "G_f",
    "constraint_lipschitz": "G_g",
    "loss_range": "F",
    "constraint_range": "B_g",
    "strong_convexity": "H",
    "constraint_smoothness": "L",
    "constraint_count": "m",
    "slater": "epsilon",
    "error_bound": "kappa",
    "half_spaces": "M",
}


@dataclass(frozen=True, kw_only=True)
class Constants:
    r"""What is known of a problem, over its whole domain B; `None` means unknown.

    Arguments:
        radius: R, the largest distance from the first decision (the domain's centre) to a point of
            the domain.
        loss_lipschitz: G_f, a bound on the norm of every loss gradient.
        constraint_lipschitz: G_g, a bound on the norm of every constraint gradient. Kept apart from
            G_f: merging them into one G, as the paper does, makes steps useless when the two
            differ.
        loss_range: F, a bound on |f_t(x) - f_t(y)|. At most `loss_lipschitz` times the diameter.
        constraint_range: D, a bound on |g_i(x)|, absolute value (the paper writes max g_i, which is
            too small).
        strong_convexity: H, a modulus that every loss has; 0 for losses that are only convex.
        constraint_smoothness: L, a Lipschitz constant of every constraint gradient; `None` where
            not smooth.
        constraint_count: m.
        slater: epsilon > 0 such that some decision has g_i <= -epsilon for all i.
        error_bound: kappa > 0 such that max_i [g_i(x)]_+ >= kappa * distance(x, feasible set).
        half_spaces: M, if all linear models of constraints are among M half-spaces.
        gap: how far log-sum-exp lies over the maximum that it stands for, at most.
        estimated: names of the entries that come from sampling: lower bounds on the truth, not
            proofs.
        exact: names of the entries that were computed from structure, not typed by the user: the
            number itself, or a bound that is never exceeded.
        basis: what the estimated entries were sampled from, and how sure they are.
    """

    radius: float | None = None
    loss_lipschitz: float | None = None
    constraint_lipschitz: float | None = None
    loss_range: float | None = None
    constraint_range: float | None = None
    strong_convexity: float = 0.0
    constraint_smoothness: float | None = None
    constraint_count: int | None = None
    slater: float | None = None
    error_bound: float | None = None
    half_spaces: int | None = None
    gap: float = 0.0
    estimated: frozenset[str] = frozenset()
    exact: frozenset[str] = frozenset()
    basis: str = ""

    def __new__(cls, *positional: Any, **values: Any) -> Constants:
        """Refuse names that do not exist, with the names that do."""
        if positional:
            came = ", ".join(map(arguments.shown, positional))
            raise TypeError(
                f"Constants: got {came} without a name; expected names, as in "
                "taut.Constants(loss_lipschitz=1.0)"
            )
        known = tuple(field.name for field in dataclasses.fields(cls))
        for name in values:
            if name not in known:
                symbols = {symbol.lower(): constant for constant, symbol in SYMBOLS.items()}
                meant = symbols.get(name.lower())
                expected = arguments.expected_one_of(meant or name, SYMBOLS)
                raise TypeError(f"{name}: got a constant that does not exist{expected}")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        for name in (*SYMBOLS, "gap"):
            value = getattr(self, name)
            if value is None:
                continue
            if name in ("constraint_count", "half_spaces"):
                value = arguments.count(name, value)
            # Lipschitz constants and ranges may be 0 (a loss that never changes), these not.
            elif name in ("radius", "slater", "error_bound"):
                value = arguments.positive(name, value)
            else:
                value = arguments.non_negative(name, value)
            object.__setattr__(self, name, value)
        for name in ("estimated", "exact"):
            marked = getattr(self, name)
            if (
                isinstance(marked, str)
                or not isinstance(marked, Iterable)
                or not set(marked) <= set(SYMBOLS)
            ):
                raise ValueError(
                    f"{name}: got {marked!r}; expected names among {', '.join(SYMBOLS)}"
                )
            object.__setattr__(self, name, frozenset(marked))

    def need(self, *names: str) -> tuple[Any, ...]:
        """The named entries, or an error that says which are missing and how to get them."""
        missing = [name for name in names if self._is_unknown(name)]
        if missing:
            listed = ", ".join(f"{n} ({SYMBOLS[n]})" for n in missing)
            raise ValueError(
                f"constants: {listed} unknown; expected a number for each. State it in "
                "taut.Constants(...), let problem.estimate_constants(stream, key) sample it, or "
                "use the learner half-space, which needs none"
            )
        return tuple(getattr(self, n) for n in names)

    def _is_unknown(self, name: str) -> bool:
        value = getattr(self, name)
        return value is None or (name == "strong_convexity" and value == 0)

    def positive(self, *names: str) -> tuple[float, ...]:
        """The named entries, as `need` returns them, for steps that divide by them: not 0."""
        entries = zip(names, self.need(*names), strict=True)
        return tuple(arguments.positive(name, value) for name, value in entries)

    def with_values(
        self, *, estimated: bool = False, exact: bool = False, **values: Any
    ) -> Constants:
        """A copy with some entries replaced, marked as estimated or exact, or as given."""
        arguments.flag("estimated", estimated)
        arguments.flag("exact", exact)
        names = frozenset(values)
        return dataclasses.replace(
            self,
            **values,
            estimated=(self.estimated | names) if estimated else (self.estimated - names),
            exact=(self.exact | names) if exact else (self.exact - names),
        )

    def merged(self, other: Constants) -> Constants:
        """These constants, with what is unknown here taken from `other`, marks included."""
        taken = {}
        for name in SYMBOLS:
            if self._is_unknown(name) and not other._is_unknown(name):
                taken[name] = getattr(other, name)
        names = frozenset(taken)
        return dataclasses.replace(
            self,
            **taken,
            gap=max(self.gap, other.gap),
            estimated=self.estimated | (other.estimated & names),
            exact=self.exact | (other.exact & names),
            basis=other.basis if other.estimated & names else self.basis,
        )

    def source(self, name: str) -> str:
        """Where an entry comes from: "unknown", "estimated", "exact" or "given"."""
        if getattr(self, name) is None:
            return "unknown"
        if name in self.estimated:
            return "estimated"
        return "exact" if name in self.exact else "given"

    def __repr__(self) -> str:
        parts = []
        for name in (*SYMBOLS, "gap"):
            value = getattr(self, name)
            if self._is_unknown(name) or (name == "gap" and value == 0):
                continue
            mark = " (estimated)" if name in self.estimated else ""
            parts.append(
                f"{name}={value:.6g}{mark}" if isinstance(value, float) else f"{name}={value}{mark}"
            )
        return f"Constants({', '.join(parts)})"


def checked_constants(value: Any) -> Constants:
    """Return the user's constants, which must be `taut.Constants`."""
    return arguments.instance("constants", value, Constants, "taut.Constants(...)")


def _to_file(constants: Constants) -> dict[str, Any]:
    plain = {f.name: getattr(constants, f.name) for f in dataclasses.fields(constants)}
    return {
        name: sorted(value) if isinstance(value, frozenset) else value
        for name, value in plain.items()
    }


def _from_file(entries: dict[str, Any]) -> Constants:
    read: dict[str, Any] = {
        name: frozenset(v) if isinstance(v, list) else v for name, v in entries.items()
    }
    return Constants(**read)


files.add_format("constants", Constants, _to_file, _from_file)
