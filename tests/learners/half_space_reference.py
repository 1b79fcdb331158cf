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
        for _ in range(10_000 if sweeps is None else sweeps):
            if memory.excess(y) <= tolerance + 8 * np.finfo(float).eps * np.abs(y).max():
                break
            for slot in memory.kept:
                e = slot[0] @ y - slot[1]
                if e > 0:
                    y, slot[2] = y - e * slot[0], t
            y, tolerance = project(y), diameter / (t + 1) ** 2
        x = y
    return np.array(decisions), np.array(values)
