"""Figures of runs, players and judgements, in one style.

Read `style` and `families` first, then `curves`, `methods` (behind `run.plot()` and
`player.plot()`) and `of_judgement`. Figures read results and never simulate.
"""
