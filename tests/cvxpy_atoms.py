"""Atoms of the installed CVXPY that taut translates."""

from cvxpy.atoms.atom import Atom

from taut.modelling.translation.atoms.rules import RULES


def atom_classes():
    """All atom classes that the installed CVXPY defines, abstract ones included."""
    seen, queue = set(), [Atom]
    while queue:
        for kind in queue.pop().__subclasses__():
            if kind not in seen and kind.__module__.startswith("cvxpy."):
                seen.add(kind)
                queue.append(kind)
    return seen


SUPPORTED = {kind for kind in atom_classes() if kind.__name__ in RULES}
