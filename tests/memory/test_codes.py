import numpy as np
import pytest

from nextclick.memory.codes import rotation, spread, turned


@pytest.mark.parametrize("width", [128, 1024])
def test_a_row_is_turned_alike_alone_and_in_any_batch(width):
    random = np.random.default_rng(0)
    vectors = random.standard_normal((200, 200), dtype=np.float32)
    matrix = random.standard_normal((200, width), dtype=np.float32)
    batch = turned(vectors, matrix)
    assert np.allclose(batch, vectors @ matrix, atol=1e-3)
    for row in range(200):
        assert np.array_equal(turned(vectors[row : row + 1], matrix)[0], batch[row])


@pytest.mark.parametrize(("dimension", "parts"), [(100, 8), (100, 16), (16, 16), (7, 1)])
def test_spreading_keeps_distances_and_leaves_no_part_empty(dimension, parts):
    matrix = spread(dimension, parts)
    assert matrix.shape[1] % parts == 0
    assert np.array_equal(matrix @ matrix.T, np.eye(dimension))
    assert matrix.reshape(dimension, parts, -1).any(axis=(0, 2)).all()


def test_a_rotation_turns_and_does_not_stretch():
    keys = np.random.default_rng(0).standard_normal((2_000, 20)).astype(np.float32)
    matrix = rotation(keys, 2)
    assert matrix.shape == (20, 16)
    assert np.allclose(matrix.T @ matrix, np.eye(16), atol=1e-4)
