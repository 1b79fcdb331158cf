"""What a run came to: the best decision in hindsight, bounds, checked assumptions, and the
certificate.

Read `certify` first, which is a list of stages on a `Case`, then `rows` (the table), `guarantees`
(bounds), `assumptions` (checks) and `hindsight` (the comparator).
"""
