"""Figures of runs, players and judgements, in one style.

Read `style` first, then `methods` (behind `run.plot()` and `player.plot()`), `of_run` and
`of_judgement`. Figures read results and never simulate.
"""
