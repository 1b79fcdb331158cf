"""Half-space learners in plain NumPy, written from docs/theory.md, with wrong rules that the tests
must tell apart."""

import numpy as np


class Steps:
    """R / sqrt(w max |p|^2 + sum |p|^2)."""

    def __init__(self, radius, weight=100.0):
        self.radius, self.weight, self.largest, self.total = radius, weight, 0.0, 0.0

    def __call__(self, t, p):
        square = float(np.sum(p * p))
        self.largest, self.total = max(self.largest, square), self.total + square
        weighted = self.weight * self.largest + self.total
        return self.radius / np.sqrt(weighted) if weighted > 0 else 0.0


class Memory:
    """Kept cuts [normal, offset, last active round]; `store` and `parallel` choose the right rule
    or a wrong one."""

    def __init__(self, size, store="right", parallel="tighter"):
        self.slots, self.store, self.parallel = [None] * size, store, parallel

    def add(self, a, o, v, l, t):
        if not (l > 0 if self.store == "active at y" else (v > 0 or l > 0)) or not self.slots:
            return
        for slot in self.slots:
            if slot is not None and np.sum((slot[0] - a) ** 2) < 2e-12:
                if o < slot[1] or self.parallel == "overwrite":
                    slot[:2] = a, o
                slot[2] = t
                return
        j = min(
            range(len(self.slots)), key=lambda i: 0 if self.slots[i] is None else self.slots[i][2]
        )
        self.slots[j] = [a, o, t]

    @property
    def kept(self):
        return [slot for slot in self.slots if slot is not None]

    def excess(self, y):
        return max((slot[0] @ y - slot[1] for slot in self.kept), default=-np.inf)


def play(x, rounds, eta, project, diameter, memory=None, sweeps=2, margin=0.0):
    """Decisions x_1, ..., x_T and violations; `rounds` yields functions x -> (gradient, value,
    constraint gradient)."""
    memory = Memory(0) if memory is None else memory
    decisions, values = [], []
    for t, reveal in enumerate(rounds, 1):
        p, v, s = reveal(x)
        decisions.append(x)
        values.append(v)
        y, length = x - eta(t, p) * p, np.linalg.norm(s)
        if length > 0:
            a, distance = s / length, (v + margin) / length
            l = distance + a @ (y - x)
            y = y - max(l, 0.0) * a
            memory.add(a, a @ x - distance, distance, l, t)
        y, tolerance = project(y), 0.0
        for _ in range(sweeps or 0):
            if memory.excess(y) <= tolerance + 8 * np.finfo(float).eps * np.abs(y).max():
                break
            for slot in memory.kept:
                e = slot[0] @ y - slot[1]
                if e > 0:
                    y, slot[2] = y - e * slot[0], t
            y, tolerance = project(y), diameter / (t + 1) ** 2
        if memory.excess(y) > tolerance + 8 * np.finfo(float).eps * np.abs(y).max():
            normals = np.array([slot[0] for slot in memory.kept])
            offsets = np.array([slot[1] for slot in memory.kept])
            y, weights = exact_projection(project, y, normals, offsets, diameter)
            for slot, weight in zip(memory.kept, weights, strict=True):
                slot[2] = t if weight > 0 else slot[2]
        x = y
    return np.array(decisions), np.array(values)


def exact_projection(project, y, normals, offsets, diameter, limit=400):
    """The dual active-set method with least squares instead of a dual basis, for cuts that do not
    contradict each other. Returns the point and the multipliers of the cuts."""
    count, size = normals.shape
    places = size + 1
    b = np.vstack([normals, np.zeros((places, size))])
    c = np.concatenate([offsets, np.zeros(places)])
    known = np.arange(count + places) < count
    x, working, weights = y, [], {}
    for _ in range(limit):
        z, rounding = project(x), 8 * np.finfo(float).eps * np.abs(x).max()
        if np.max(normals @ z - offsets) <= 1e3 * np.finfo(float).eps * diameter + rounding:
            break
        excess = b @ x - c
        p = max(
            (j for j in range(len(c)) if known[j] and j not in working),
            key=lambda j: excess[j],
            default=None,
        )
        if p is None or excess[p] <= rounding:
            if np.linalg.norm(x - z) <= rounding:
                break
            p = min(j for j in range(count, len(c)) if j not in working)
            b[p] = (x - z) / np.linalg.norm(x - z)
            c[p], known[p] = b[p] @ z, True
        weights[p] = 0.0
        while p not in working:
            basis = b[working].T
            shares = np.linalg.lstsq(basis, b[p], rcond=None)[0] if working else np.zeros(0)
            rest = b[p] - basis @ shares
            free = np.linalg.norm(rest) > 1e-10
            whole = (b[p] @ x - c[p]) / (rest @ rest) if free else np.inf
            ratios = {j: weights[j] / r for j, r in zip(working, shares, strict=True) if r > 1e-12}
            last = min(ratios, key=ratios.get, default=None)
            length = min(whole, ratios.get(last, np.inf))
            if np.isinf(length):  # the cut depends on others, up to rounding
                return project(x), np.array([weights.get(j, 0.0) for j in range(count)])
            x = x - length * rest if free else x
            for j, r in zip(working, shares, strict=True):
                weights[j] = max(weights[j] - length * r, 0.0)
            weights[p] += length
            if whole <= length:
                working.append(p)
                misses = b[working] @ x - c[working]
                x = x - np.linalg.lstsq(b[working], misses, rcond=None)[0]
            else:
                working.remove(last)
                weights[last] = 0.0
    return z, np.array([weights.get(j, 0.0) for j in range(count)])
