from .modelling.model import from_cvxpy as from_cvxpy
from .modelling.recourse.recourse import recourse as recourse
from .modelling.translation.parameters import previous as previous
from .public import *
from .public import __all__ as __all__
from .public import __version__ as __version__
