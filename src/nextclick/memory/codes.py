"""How keys are written down in few bytes, and how they are turned so that less is lost."""

from __future__ import annotations

import re

import faiss
import numpy as np

from nextclick.errors import BadInputError
from nextclick.memory.base import Vectors

_SAMPLE = 2**14
"""Keys that a rotation is fitted to: 64 for each code word of a byte."""

_ROUNDS = 10
"""Rounds of fitting a rotation; 50 take five times as long and find hardly more."""


def fitting_codes(codes: str, dimension: int) -> str:
    """Return the codes as they can be for keys of this dimension, or refuse what FAISS lacks.

    There are at most as many parts as dimensions.

    Examples
    --------
    >>> fitting_codes("PQ16", 100), fitting_codes("PQ16", 10), fitting_codes("SQ8", 10)
    ('PQ16', 'PQ10', 'SQ8')
    """
    parts = parts_of(codes)
    if parts > dimension:
        return fitting_codes(codes.replace(f"PQ{parts}", f"PQ{dimension}"), dimension)
    try:
        index = faiss.index_factory(-(-dimension // parts) * parts, f"IVF1,{codes}")
    except RuntimeError:
        index = None
    if not isinstance(index, faiss.IndexIVF):
        raise BadInputError(
            f"memory codes {codes!r} are none that FAISS keeps in an inverted file; PQ8, PQ16, SQ8 "
            "and Flat are"
        )
    return codes


def parts_of(codes: str) -> int:
    """Return into how many parts, each coded on its own, a key is cut.

    Examples
    --------
    >>> parts_of("PQ16"), parts_of("SQ8")
    (16, 1)
    """
    product = re.match(r"PQ(\d+)", codes)
    return max(1, int(product[1])) if product else 1


def spread(dimension: int, parts: int) -> Vectors:
    """Return a matrix that adds dimensions of zeros until parts of one size can be cut.

    Each part gets some of them: one of nothing but zeros would have nothing to tell.

    Examples
    --------
    >>> (np.ones((1, 3), dtype=np.float32) @ spread(3, 2)).tolist()
    [[1.0, 1.0, 1.0, 0.0]]
    """
    width = -(-dimension // parts)
    pieces = np.array_split(np.arange(dimension), parts)
    places = np.concatenate([part * width + np.arange(len(p)) for part, p in enumerate(pieces)])
    matrix = np.zeros((dimension, width * parts), dtype=np.float32)
    matrix[np.arange(dimension), places] = 1
    return matrix


def rotation(keys: Vectors, parts: int) -> Vectors:
    """Return a matrix that turns keys so that coding their parts loses least (OPQ).

    The dimensions of the least variance are left out: those beyond parts of one size, and those
    beyond eight to a part, which a byte says next to nothing about and FAISS is slower with.
    """
    dimension = keys.shape[1]
    turn = faiss.OPQMatrix(dimension, parts, parts * min(8, dimension // parts))
    turn.niter = _ROUNDS
    turn.max_train_points = _SAMPLE
    turn.train(keys)
    matrix: Vectors = faiss.vector_to_array(turn.A).reshape(turn.d_out, dimension)
    return np.ascontiguousarray(matrix.T)


def turned(vectors: Vectors, matrix: Vectors) -> Vectors:
    """Return the product of each row with a matrix, the same whichever rows are beside it.

    Examples
    --------
    >>> turned(np.array([[1, 2]], dtype=np.float32), np.eye(2, dtype=np.float32)).tolist()
    [[1.0, 2.0]]
    """
    # A product of matrices may round by their shape; one of a vector for each row does not.
    product: Vectors = np.matmul(vectors[:, None, :], matrix)[:, 0]
    return product
