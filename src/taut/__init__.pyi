from .modelling.model import from_cvxpy as from_cvxpy
from .modelling.translation.parameters import previous as previous
from .modelling.translation.reading import recourse as recourse
from .public import *
from .public import __all__ as __all__, __version__ as __version__
