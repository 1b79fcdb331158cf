"""Problems written in CVXPY. Their expressions are translated to JAX functions.

Read `model` first: `from_cvxpy` is what users call, and `Model` lists the stages. Each stage has a
folder: `translation` (expressions as JAX functions), `recourse` (variables that are chosen after
the data), `domains` (the set that decisions are projected on) and `constants` (constants of
theory). `remembering` has models with `taut.previous(x)`.
"""

from ..extras import optional

optional("cvxpy")
