"""A page per learner, generated from its card and the docstring of its file, with a figure on the
same two streams."""

from __future__ import annotations

import inspect
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import taut
from taut.learners import Card

from .equations import growth, to_latex
from .pictures import adaptive
from .prose import with_formulas

ROUNDS, SEEDS = 1000, 5
NEEDS = {
    "radius": "R",
    "loss_lipschitz": "G_f",
    "constraint_lipschitz": "G_g",
    "constraint_range": "B_g",
    "loss_range": "F",
    "strong_convexity": "H",
    "constraint_count": "m",
    "slater": "\\varepsilon",
    "error_bound": "\\kappa",
}


def _linear(x: Any, c: Any) -> Any:
    return c @ x


def _distance(x: Any, z: Any) -> Any:
    return 0.5 * jnp.sum((x - z) ** 2)


def _diamond(x: Any) -> Any:
    return jnp.sum(jnp.abs(x)) - 1


@cache
def streams() -> list[tuple[str, taut.Problem, Any, Any]]:
    """Return the two streams of all figures: (title, problem, data, loss of the best fixed decision
    in each round)."""
    rng = np.random.default_rng(1)
    known = taut.Constants(constraint_lipschitz=2**0.5, error_bound=1.0, slater=1.0)
    costs = rng.uniform(size=(SEEDS, ROUNDS, 2)) / 2**0.5
    linear = taut.Problem(
        _linear, _diamond, taut.Ball(1.0, shape=2), known.with_values(loss_lipschitz=1.0)
    )
    centres = np.array([[1.2, 0.2], [-0.4, 1.0], [0.9, -0.8], [0.2, 1.3]])[
        np.arange(ROUNDS) * 4 // ROUNDS
    ]
    targets = centres + rng.normal(scale=0.2, size=(SEEDS, ROUNDS, 2))
    targets /= np.maximum(1, np.linalg.norm(targets, axis=-1, keepdims=True) / 2)
    moving = taut.Problem(
        _distance,
        _diamond,
        taut.Ball(1.5, shape=2),
        known.with_values(loss_lipschitz=3.5, strong_convexity=1.0),
    )
    found = []
    for title, problem, data in (
        ("random linear costs", linear, costs),
        ("targets that jump three times", moving, targets),
    ):
        best = taut.hindsight(problem, data, seeds=SEEDS).decision
        each = jax.vmap(jax.vmap(problem.loss, in_axes=(None, 0)))(
            jnp.asarray(best), jnp.asarray(data)
        )
        found.append((title, problem, data, np.asarray(each)))
    return found


def figure(card: Card, folder: Path) -> dict[str, str]:
    """Draw regret and violation of a learner on the streams that it can play; return the reasons
    why it cannot play others.

    A second figure, for narrow screens, has its panels one below the other.
    """
    runs: list[tuple[str, taut.Run, Any]] = []
    reasons: dict[str, str] = {}
    if card.request_first:
        reason = (
            "it decides after the data of a round are revealed, and they have no budget for all "
            "rounds"
        )
        return {title: reason for title, *_ in streams()}
    for title, problem, data, best in streams():
        try:
            learner = card.build(
                problem, ROUNDS if card.needs_horizon else None, feasible=taut.L1Ball(1.0, shape=2)
            )
            runs.append((title, taut.simulate(learner, problem, data, seeds=SEEDS), best))
        except (TypeError, ValueError) as error:
            reasons[title] = str(error).split("; expected")[0].split(". ")[0]
    for narrow in (False, True) if runs else ():
        count = len(runs)
        rows, columns = (2 * count, 1) if narrow else (2, count)
        size = (3.9, 2.1 * rows) if narrow else (3.6 * columns, 4.6)
        made, panels = plt.subplots(
            rows, columns, figsize=size, layout="constrained", squeeze=False
        )
        for (title, run, best), column in zip(
            runs, panels.reshape(count, 2) if narrow else panels.T, strict=True
        ):
            _panels(column, title, run, best)
        made.savefig(folder / f"{card.name}{'-narrow' if narrow else ''}.png", dpi=140)
        plt.close(made)
    return reasons


def _panels(column: Any, title: str, run: taut.Run, best: Any) -> None:
    assert run.loss is not None
    regret = np.cumsum(run.loss - best, axis=1)
    rounds = np.arange(1, ROUNDS + 1)
    column[0].plot(rounds, regret.mean(axis=0), color="#0072B2")
    column[0].fill_between(
        rounds, regret.min(axis=0), regret.max(axis=0), color="#0072B2", alpha=0.16
    )
    column[0].set(title=title, ylabel="regret")
    column[0].axhline(0, color="#999999", linewidth=0.7)
    run.plot("violation", ax=column[1])
    for axes in column:
        axes.grid(color="#e4e4e4")
        axes.spines[["top", "right"]].set_visible(False)


def _on_streams(card: Card, folder: Path) -> list[str]:
    """Return the section with the figure, and what is to be said about streams that the learner
    cannot play."""
    reasons = figure(card, folder)
    lines = ["## On two streams", ""]
    if len(reasons) < len(streams()):
        text = f"Regret and cumulative clipped violation of {card.title}"
        lines += [
            adaptive(f"../{card.name}.png", f"../{card.name}-narrow.png", text),
            "",
            rf"Mean and range over {SEEDS} seeds with {ROUNDS} rounds each. The constraint is "
            r"$\lvert x_1 \rvert + \lvert x_2 \rvert \le 1$. All learners are shown on the same two streams, with their default "
            "parameters.",
            "",
        ]
    if len(set(reasons.values())) == 1 and len(reasons) == len(streams()):
        (reason,) = set(reasons.values())
        lines += [
            f"It cannot play the two streams that the pages of other learners show: {reason}.",
            "",
        ]
    else:
        lines += [
            f'It cannot play the stream "{title}": {reason}.\n' for title, reason in reasons.items()
        ]
    return lines


def page(card: Card, folder: Path, draw: bool = True) -> str:
    """Return the page of a learner in Markdown; the figure is saved in the folder."""
    source = _source(card)
    lines = [
        *("---", f"title: {card.name}", "search:", f"  boost: {_boost(card)}", "---", ""),
        *(f"# {card.name}", "", f"**{card.title}**", ""),
        *(f'`taut.learner("{card.name}", problem{_call(card)})`', ""),
    ]
    if card.reference:
        lines += [f"Reference: {_linked(card.reference)}.", ""]
    about = _paragraphs(source.__doc__ or "")
    lines += ["## Update", ""]
    for kind, text in about:
        lines += [
            f"$$ {to_latex(text.splitlines())} $$" if kind == "equations" else with_formulas(text),
            "",
        ]
    lines += [
        "## Guarantee",
        "",
        f"For {card.losses} losses. It rests on these assumptions: {'; '.join(card.assumptions)}.",
        "",
    ]
    if card.growth:
        lines += ["| quantity | growth with the horizon T | condition |", "|---|---|---|"]
        lines += [
            f"| {q} | ${growth(g.text)}$ | {g.condition or 'none beyond the assumptions'} |"
            for q, g in card.growth.items()
        ]
    else:
        lines += ["No growth rate is stated for this method."]
    lines += ["", "A certificate prints the bounds as numbers. $b$ is the parameter `beta`.", ""]
    lines += ["## When to use it, and when not", "", *(f"- {entry}" for entry in _advice(card)), ""]
    lines += [
        "## Cost and parameters",
        "",
        f"Work per round besides the gradient of the loss: {with_formulas(card.cost)}.",
        "",
    ]
    if card.needs:
        lines += [
            "Constants it needs: "
            + ", ".join(f"`{n}` (${NEEDS.get(n, n)}$)" for n in card.needs)
            + ".",
            "",
        ]
    if card.options:
        meanings = _meanings(card)
        lines += ["| option | default | meaning |", "|---|---|---|"]
        lines += [
            f"| `{name}` | {'required' if value is inspect.Parameter.empty else f'`{value!r}`'} | "
            f"{with_formulas(meanings.get(name, ''))} |"
            for name, value in card.options.items()
        ]
        lines += [""]
    if draw:
        lines += _on_streams(card, folder)
    return "\n".join(lines)


def _boost(card: Card) -> float:
    """Return the weight of a page in the search: names with fewer words come first, so that "ogd"
    does not find "a-ogd" before."""
    return 2.0 - 0.25 * len(card.name.split("-"))


FILTER = """<div class="filter">
<label>Filter <input type="search" placeholder="strongly convex, no horizon, noise ..." aria-label="Words that a row must contain"></label>
<label>sees <select aria-label="What the learner sees"><option value="">anything</option><option>gradients</option><option>noise</option>
<option>delays</option><option>values</option><option>requests</option></select></label>
<output></output>
</div>
"""
SEES = {"full": "gradients", "noisy": "noise", "delayed": "delays", "bandit": "values only"}


def overview(cards: list[Card]) -> str:
    """Return the list of all learners, with a filter."""
    rows = [
        "| learner | losses | sees | horizon | regret | violation |",
        "|---|---|---|---|---|---|",
    ]
    for card in cards:
        sees = ["requests first"] if card.request_first else []
        sees += [word for kind in card.feedback for name, word in SEES.items() if name in str(kind)]
        rows.append(
            f"| [{card.name}]({card.name}.md) | {card.losses} | {', '.join(dict.fromkeys(sees))} | "
            f"{'needed' if card.needs_horizon else 'no horizon'} | {with_formulas(card.regret)} | "
            f"{re.sub(', (?=squared|peak)', '<br>', with_formulas(card.violation))} |"
        )
    return "\n".join(
        [
            "# Learners",
            "",
            "If you do not know better, take [half-space](half-space.md), the default. "
            "[Choose a learner](../guides/choosing.md) says when another one is better. The "
            "page of a learner has its update, guarantees, options and two pictures.",
            "",
            FILTER,
            '<div class="learners" markdown>',
            "",
            *rows,
            "",
            "</div>",
            "",
        ]
    )


def _meanings(card: Card) -> dict[str, str]:
    """Return what the docstrings of a method say about its arguments."""
    owner = getattr(card.make, "__self__", None)
    meanings: dict[str, str] = {}
    for source in (owner, card.make):
        doc = inspect.cleandoc(getattr(source, "__doc__", None) or "")
        _, _, part = doc.partition("Arguments:\n")
        name = ""
        for row in part.split("\n\n")[0].splitlines():
            head = re.match(r"    (\w+): (.*)", row)
            if head:
                name = head[1]
                meanings[name] = head[2]
            elif name and row.startswith("        "):
                meanings[name] += f" {row.strip()}"
    return {name: text.replace("|", "\\|") for name, text in meanings.items()}


def _linked(reference: str) -> str:
    return reference.replace("docs/theory.md", "[theory](../theory.md)")


def _call(card: Card) -> str:
    return ", horizon=T" * card.needs_horizon + ", feasible=set" * card.needs_feasible


def _source(card: Card) -> Any:
    owner = getattr(card.make, "__self__", None) or card.make
    return sys.modules[
        inspect.unwrap(owner).__module__ if not inspect.isclass(owner) else owner.__module__
    ]


def _paragraphs(doc: str) -> list[tuple[str, str]]:
    """Return the docstring as paragraphs; indented ones are equations."""
    found = []
    for part in re.split(r"\n\s*\n", inspect.cleandoc(doc)):
        indented = all(line.startswith("    ") for line in part.splitlines())
        found.append(
            ("equations", inspect.cleandoc(part)) if indented else ("text", part.replace("\n", " "))
        )
    return found


def _advice(card: Card) -> list[str]:
    advice = []
    if card.needs_horizon:
        advice.append(
            "Use it if the number of rounds is known in advance. Otherwise take an anytime "
            "method or a doubling one."
        )
    else:
        advice.append(
            "Use it if the number of rounds is not known: its parameters do not depend on it."
        )
    if card.losses == "strongly convex":
        advice.append(
            "It needs losses with a known modulus of strong convexity. Do not use it for linear "
            "losses."
        )
    clipped = [q for q in ("violation", "squared violation", "peak violation") if q in card.growth]
    if clipped:
        advice.append(
            f"It bounds the {' and the '.join(clipped)}: slack in one round does not offset a "
            "violation in another."
        )
    else:
        advice.append(
            "It does not bound the clipped violation. Do not use it if every round must hold."
        )
    if card.needs_feasible:
        advice.append(
            "It projects onto the feasible set in every round. Use it only if that projection is "
            "cheap."
        )
    if card.aggregated:
        advice.append("It plays one constraint; join several with `taut.max_of(problem)`.")
    if card.fixed_constraints:
        advice.append("Do not use it if the constraints change with the round.")
    if card.request_first:
        advice.append("The data of a round are revealed before its decision.")
    return advice
