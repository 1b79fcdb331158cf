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
    g = np.zeros(m)
    for t in range(loss.size):
        y = data[t].ravel()
        l = 0.0
        g[: 4 * d] = 0.0
        for i in range(d):
            for j in range(d):
                k = i * d + j
                g[i] += x[k]
                g[2 * d + j] += x[k]
                g[4 * d + k] = -x[k]
                l += (x[k] - y[k]) ** 2
        for i in range(d):
            g[i] -= 1
            g[2 * d + i] -= 1
            g[d + i], g[3 * d + i] = -g[i], -g[2 * d + i]
        active = np.argmax(g)
        loss[t], worst[t] = 0.5 * l, g[active]
        w = _scored(totals, 0.5 * l, g[active]) / sigma
        for k in range(d * d):
            x[k] -= eta * (x[k] - y[k])
        if active >= 4 * d:
            x[active - 4 * d] += w
        else:
            i, sign = active % d, w if active // d % 2 == 0 else -w
            for j in range(d):
                x[i * d + j if active < 2 * d else j * d + i] -= sign
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
        active = np.argmax(g)
        l += xi * gap * gap
        loss[t], worst[t] = l, g[active]
        w = _scored(totals, l, g[active]) / sigma
        for i in range(3):
            pull = 2 * e[i] * x[i] * (active == 0) - (active == 1 + i) + (active == 4 + i)
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
        l = 0.0
        for k in range(d):
            l += data[t, k] * x[k]
        for i in range(m):
            total = -bounds[i]
            for k in range(d):
                total += rows[i, k] * x[k]
            g[i] = total
        active = np.argmax(g)
        loss[t], worst[t] = l, g[active]
        w = _scored(totals, l, g[active]) / sigma
        for k in range(d):
            x[k] -= eta * data[t, k] + w * rows[active, k]
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
