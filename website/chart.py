"""The decision chart of the guide on choosing a learner, as SVG with text that can be selected."""

from __future__ import annotations

import html

QUESTIONS = (
    ("Are the data of a round known before its decision, with a budget for all rounds?", "yes", "dual-mirror"),
    ("Are constraint values noisy?", "yes", "bounded-game or drift-plus-penalty"),
    ("Is the projection onto the feasible set cheap?", "yes", "projected-ogd: no violation"),
    ("Are the losses strongly convex, with a known modulus?", "yes", "half-space-strong"),
    ("Must no round violate a fixed constraint, and is a Slater point known?", "yes", "half-space-margin"),
    ("Do you need the smallest proven bound for a known number of rounds?", "yes", "taut.recommend(problem, T)"),
    ("Otherwise", "", "half-space (the default)"),
)
WIDTH, STEP = 760, 92


def decision_chart() -> str:
    """Return the chart: one question per row, the learner to its right."""
    height = STEP * len(QUESTIONS) + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="14" '
        'role="img"><title>Which learner to choose</title>'
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>'
        '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#444"/></marker></defs>'
    ]
    for i, (question, answer, learner) in enumerate(QUESTIONS):
        y = 10 + STEP * i
        words, lines = question.split(), [""]
        for word in words:
            lines = [*lines[:-1], f"{lines[-1]} {word}".strip()] if len(lines[-1]) + len(word) < 42 else [*lines, word]
        parts.append(f'<rect x="8" y="{y}" width="330" height="58" rx="6" fill="#eef2fb" stroke="#3f51b5"/>')
        for k, line in enumerate(lines):
            offset = y + 34 + 18 * k - 9 * (len(lines) - 1)
            parts.append(f'<text x="173" y="{offset}" text-anchor="middle" fill="#222">{html.escape(line)}</text>')
        parts.append(f'<line x1="338" y1="{y + 29}" x2="428" y2="{y + 29}" stroke="#444" marker-end="url(#a)"/>')
        parts.append(f'<text x="380" y="{y + 22}" text-anchor="middle" fill="#444">{answer}</text>')
        parts.append(f'<rect x="430" y="{y + 6}" width="322" height="46" rx="6" fill="#e8f5ec" stroke="#2e7d32"/>')
        parts.append(f'<text x="591" y="{y + 34}" text-anchor="middle" fill="#222">{html.escape(learner)}</text>')
        if i + 1 < len(QUESTIONS):
            parts.append(
                f'<line x1="173" y1="{y + 58}" x2="173" y2="{y + STEP - 2}" stroke="#444" marker-end="url(#a)"/>'
            )
            parts.append(f'<text x="186" y="{y + 78}" fill="#444">no</text>')
    return "".join(parts) + "</svg>"
