"""What a run came to: the best decision in hindsight, bounds, checked assumptions, and the
certificate.

Read `certificate` first, then `guarantees` (bounds), `assumptions` (checks) and `hindsight` (the
comparator).
"""
