"""The decision chart of the guide on choosing a learner, as SVG with text that can be selected."""

from __future__ import annotations

import html
import textwrap

QUESTIONS = (
    (
        "Are the data of a round known before its decision, with a budget for all rounds?",
        "yes",
        "dual-mirror",
    ),
    ("Are constraint values noisy?", "yes", "averaged, averaged-smooth or averaged-blocks"),
    ("Are rounds revealed some rounds later?", "yes", "delay-tolerant"),
    ("Are only values observed, no gradients?", "yes", "two-point"),
    ("Is the projection onto the feasible set cheap?", "yes", "projected-ogd: no violation"),
    ("Are the losses strongly convex, with a known modulus?", "yes", "half-space-strong"),
    (
        "Must no round violate a fixed constraint, and is a Slater point known?",
        "yes",
        "half-space-margin",
    ),
    (
        "Do you need the smallest proven bound for a known number of rounds?",
        "yes",
        "taut.recommend(problem, T)",
    ),
    ("Otherwise", "", "half-space (the default)"),
)
WIDTH, STEP, BOX = 560, 92, 58
QUESTION, LEARNER = (8, 300), (352, 200)
"""Left edge and width of the boxes with questions and with learners."""


def decision_chart() -> str:
    """Return the chart: one question per row, the learner to its right. It is narrow enough for a
    phone."""
    height = STEP * len(QUESTIONS) + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        'font-family="sans-serif" font-size="14" role="img"><title>Which learner to '
        f'choose</title><rect width="{WIDTH}" height="{height}" fill="white"/><defs><marker '
        'id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        'orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#444"/></marker></defs>'
    ]
    left, right = QUESTION[0] + QUESTION[1], LEARNER[0]
    for i, (question, answer, learner) in enumerate(QUESTIONS):
        y = 10 + STEP * i
        parts += [
            _box(*QUESTION, y, question, 40, "#eef2fb", "#3f51b5"),
            _box(*LEARNER, y, learner, 26, "#e8f5ec", "#2e7d32"),
            f'<line x1="{left}" y1="{y + 29}" x2="{right - 2}" y2="{y + 29}" stroke="#444" '
            'marker-end="url(#a)"/>',
            f'<text x="{(left + right) / 2 - 3}" y="{y + 22}" text-anchor="middle" '
            f'fill="#444">{answer}</text>',
        ]
        if i + 1 < len(QUESTIONS):
            middle = QUESTION[0] + QUESTION[1] / 2
            parts.append(
                f'<line x1="{middle}" y1="{y + BOX}" x2="{middle}" y2="{y + STEP - 2}" '
                f'stroke="#444" marker-end="url(#a)"/><text x="{middle + 13}" y="{y + 78}" '
                'fill="#444">no</text>'
            )
    return "".join(parts) + "</svg>"


def _box(x: float, width: float, y: float, text: str, letters: int, fill: str, stroke: str) -> str:
    lines = textwrap.wrap(text, letters)
    shown = [
        f'<text x="{x + width / 2}" y="{y + 34 + 18 * k - 9 * (len(lines) - 1)}" text-anchor="middle" fill="#222">'
        f"{html.escape(line)}</text>"
        for k, line in enumerate(lines)
    ]
    box = (
        f'<rect x="{x}" y="{y}" width="{width}" height="{BOX}" rx="6" fill="{fill}" '
        f'stroke="{stroke}"/>'
    )
    return box + "".join(shown)
