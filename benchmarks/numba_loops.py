"""The loops of `loops.c` in Numba with fast-math, as a Python user would write them to get the
speed of C."""

from __future__ import annotations

import math

import numba
import numpy as np

from .cases import Case
from .played import Play, Played

compiled = numba.njit(fastmath=True, cache=False)


@compiled
def _scored(totals, loss, g):
    v = max(g, 0.0)
    totals[0] += loss
    totals[1] += g
    totals[2] += v
    totals[3] += v * v
    totals[4] = max(totals[4], v)
    return v


@compiled
def _project(x, radius):
    squares = 0.0
    for k in range(x.size):
        squares += x[k] * x[k]
    if squares > radius * radius:
        scale = radius / math.sqrt(squares)
        for k in range(x.size):
            x[k] *= scale


@compiled
def _toy(data, d, m, fixed, eta, sigma, radius, x, loss, worst, totals):
    for t in range(loss.size):
        l = data[t, 0] * x[0] + data[t, 1] * x[1]
        g = abs(x[0]) + abs(x[1]) - 1
        loss[t], worst[t] = l, g
        w = _scored(totals, l, g) / sigma
        for k in range(2):
            x[k] -= eta * data[t, k] + w * np.sign(x[k])
        _project(x, radius)


@compiled
def _doubly_stochastic(data, d, m, fixed, eta, sigma, radius, x, loss, worst, totals):
    rows, columns = np.zeros(d), np.zeros(d)
    for t in range(loss.size):
        y = data[t].ravel()
        l, least = 0.0, x[0]
        columns[:] = -1.0
        for i in range(d):
            rows[i] = -1.0
            for j in range(d):
                v = x[i * d + j]
                rows[i] += v
                columns[j] += v
                l += (v - y[i * d + j]) ** 2
                least = min(least, v)
        best = -least
        for i in range(d):
            best = max(best, abs(rows[i]), abs(columns[i]))
        loss[t], worst[t] = 0.5 * l, best
        v = _scored(totals, 0.5 * l, best)
        active = 0
        for i in range(d):
            active += (abs(rows[i]) == best) + (abs(columns[i]) == best)
        low = 0
        if -least == best:
            for k in range(d * d):
                low += x[k] == least
        w = v / (sigma * max(active + low, 1))
        for i in range(d):
            by_row = w * np.sign(rows[i]) * (abs(rows[i]) == best)
            for j in range(d):
                k = i * d + j
                pull = by_row + w * np.sign(columns[j]) * (abs(columns[j]) == best)
                if low > 0 and x[k] == least:
                    pull -= w
                x[k] -= eta * (x[k] - y[k]) + pull
        _project(x, radius)


@compiled
def _dispatch(data, d, m, fixed, eta, sigma, radius, x, loss, worst, totals):
    a, b, e, limit, xi, cap = fixed[0:3], fixed[3:6], fixed[6:9], fixed[9:12], fixed[12], fixed[13]
    g = np.zeros(7)
    for t in range(loss.size):
        l, gap = 0.0, -data[t]
        g[0] = -cap
        for i in range(3):
            l += (0.5 * a[i] * x[i] + b[i]) * x[i]
            gap += x[i]
            g[0] += e[i] * x[i] * x[i]
            g[1 + i], g[4 + i] = -x[i], x[i] - limit[i]
        best = g[0]
        for k in range(1, 7):
            best = max(best, g[k])
        active = 0
        for k in range(7):
            active += g[k] == best
        l += xi * gap * gap
        loss[t], worst[t] = l, best
        w = _scored(totals, l, best) / (sigma * active)
        for i in range(3):
            pull = 2 * e[i] * x[i] * (g[0] == best) - (g[1 + i] == best) + (g[4 + i] == best)
            x[i] -= eta * (a[i] * x[i] + b[i] + 2 * xi * gap) + w * pull
        _project(x, radius)


@compiled
def _logistic(data, d, m, fixed, eta, sigma, radius, x, loss, worst, totals):
    size = d // m
    weights = np.zeros(m)
    excess, violation, squared, peak = (
        totals[1 : 1 + m],
        totals[1 + m : 1 + 2 * m],
        totals[1 + 2 * m : 1 + 3 * m],
        totals[1 + 3 * m : 1 + 4 * m],
    )
    largest = np.zeros(5)
    for t in range(loss.size):
        z = data[t].ravel()
        margin, best = 0.0, -1e308
        for i in range(m):
            squares = 1e-16
            for k in range(i * size, (i + 1) * size):
                margin += z[k] * x[k]
                squares += x[k] * x[k]
            norm = math.sqrt(squares)
            g = norm - fixed[0]
            v = max(g, 0.0)
            excess[i] += g
            violation[i] += v
            squared[i] += v * v
            peak[i] = max(peak[i], v)
            weights[i] = v / (sigma * norm)
            best = max(best, g)
        tail = math.exp(-abs(margin))
        l = math.log1p(tail) + max(-margin, 0.0)
        slope = -eta * (tail if margin > 0 else 1.0) / (1 + tail)
        loss[t], worst[t] = l, best
        _scored(largest, l, best)
        for i in range(m):
            for k in range(i * size, (i + 1) * size):
                x[k] -= slope * z[k] + weights[i] * x[k]
        _project(x, radius)
    totals[0] = largest[0]


@compiled
def _polyhedron(data, d, m, fixed, eta, sigma, radius, x, loss, worst, totals):
    rows, bounds = fixed[: m * d].reshape(m, d), fixed[m * d :]
    g = np.zeros(m)
    for t in range(loss.size):
        l, best = 0.0, -1e308
        for k in range(d):
            l += data[t, k] * x[k]
        for i in range(m):
            total = -bounds[i]
            for k in range(d):
                total += rows[i, k] * x[k]
            g[i] = total
            best = max(best, total)
        loss[t], worst[t] = l, best
        v = _scored(totals, l, best)
        active = 0
        for i in range(m):
            active += g[i] == best
        for k in range(d):
            x[k] -= eta * data[t, k]
        if v > 0:
            w = v / (sigma * active)
            for i in range(m):
                if g[i] == best:
                    for k in range(d):
                        x[k] -= w * rows[i, k]
        _project(x, radius)


LOOPS = {
    "toy": _toy,
    "doubly_stochastic": _doubly_stochastic,
    "dispatch": _dispatch,
    "logistic": _logistic,
    "polyhedron": _polyhedron,
}


def prepare(case: Case, seeds: int, rounds: int) -> Play:
    """Return a function that simulates one seed after the other."""
    data = np.ascontiguousarray(case.data(seeds)[:, :rounds])
    eta, sigma = case.steps
    loss, worst = np.zeros((seeds, rounds)), np.zeros((seeds, rounds))
    loop, fixed, radius, m = LOOPS[case.kind], case.fixed, case.radius, case.scored

    def play() -> Played:
        x = np.repeat(case.first.ravel()[None], seeds, axis=0)
        totals = np.zeros((seeds, 4 * m + 4))
        for s in range(seeds):
            loop(
                data[s],
                case.size,
                case.count,
                fixed,
                eta,
                sigma,
                radius,
                x[s],
                loss[s],
                worst[s],
                totals[s],
            )
        return Played(
            x.reshape(seeds, *case.problem.domain.shape), loss, worst, totals[:, 1 + m : 1 + 2 * m]
        )

    return play
