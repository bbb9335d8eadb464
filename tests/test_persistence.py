"""A model is on disk whole or not at all, and damage to any of its files is named."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nextclick import __version__, persistence
from nextclick.catalog import Catalog
from nextclick.clicks import ClickLog, Contexts
from nextclick.errors import BadInputError
from nextclick.methods import METHODS, create
from nextclick.recommender import Recommender
from nextclick.runtime import Runtime

IDS = ["red shoes", "socks, 2 pairs", "naïve", "靴下", "🧦", 'quote"\\', "new\nline", "\ud800"]


@pytest.fixture(scope="module")
def log() -> ClickLog:
    random = np.random.default_rng(1)
    return ClickLog(
        np.repeat(np.arange(50), 4), random.integers(len(IDS), size=200), np.arange(200.0)
    )


@pytest.fixture
def model(log: ClickLog) -> Recommender:
    catalog = Catalog(IDS)
    catalog.describe("靴下", title="Socks", category="Clothes")
    return create("popularity", runtime=Runtime(seed=5)).fit(log, catalog=catalog)


@pytest.fixture(scope="module")
def man(tiny: Callable[[str], Recommender]) -> Recommender:
    """A model whose memory has grown so large that FAISS keeps it."""
    random = np.random.default_rng(4)
    model = tiny("man")
    walks = random.integers(40, size=(2_700, 5))
    log = ClickLog(np.repeat(np.arange(2_700), 5), walks.ravel(), np.arange(13_500.0))
    model.learn(log.transitions(), parts=["memory"])
    return model


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_everything_comes_back(model: Recommender, tmp_path: Path) -> None:
    persistence.save(model, tmp_path / "model")
    loaded = persistence.load(tmp_path / "model", Runtime(seed=99, threads=1))
    assert list(loaded.catalog) == list(model.catalog)
    assert loaded.catalog[3].title == "Socks"
    assert loaded.settings == model.settings
    assert (loaded.runtime.seed, loaded.runtime.threads) == (5, 1)
    state, expected = loaded.state(), model.state()
    assert state.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(state[name], array, strict=True)


def test_the_configuration_says_what_it_is(model: Recommender, tmp_path: Path) -> None:
    persistence.save(model, tmp_path / "model")
    config = persistence.read_config(tmp_path / "model")
    assert config["method"] == "popularity"
    assert config["settings"] == {"half_life": None}
    assert (config["seed"], config["nextclick"]) == (5, __version__)


def test_what_it_reads_can_learn_on(model: Recommender, tmp_path: Path) -> None:
    persistence.save(model, tmp_path / "model")
    loaded = persistence.load(tmp_path / "model")
    for one in (model, loaded):
        for _ in range(300):
            one.learn_one(["🧦"], "a new one")
    assert loaded.recommend_one(["🧦"], k=3) == model.recommend_one(["🧦"], k=3)
    assert loaded.recommend_one(["🧦"], k=1)[0].id == "a new one"


@pytest.mark.parametrize("method", ["popularity", "man"])
def test_damage_to_any_file_is_named(
    method: str, model: Recommender, man: Recommender, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    persistence.save(man if method == "man" else model, folder)
    assert (method == "man") == any(file.suffix == ".faiss" for file in folder.iterdir())
    for file in sorted(folder.iterdir()):
        good = file.read_bytes()
        for position in (0, len(good) // 2, len(good) - 1):
            file.write_bytes(good[:position])
            with pytest.raises(BadInputError, match=f"{file}: damaged"):
                persistence.load(folder)
            flipped = bytearray(good)
            flipped[position] ^= 1
            file.write_bytes(flipped)
            with pytest.raises(BadInputError, match=str(file)):
                persistence.load(folder)
        file.unlink()
        with pytest.raises(BadInputError, match=file.name):
            persistence.load(folder)
        file.write_bytes(good)
    persistence.load(folder)


def test_a_newer_format_is_refused(
    model: Recommender, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as newer:
        newer.setattr(persistence, "VERSION", persistence.VERSION + 1)
        persistence.save(model, tmp_path / "model")
    with pytest.raises(BadInputError, match=r"format version 2.*install a newer nextclick"):
        persistence.load(tmp_path / "model")


def test_a_model_replaces_a_model_and_nothing_else(model: Recommender, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    persistence.save(model, folder)
    model.learn_one(["socks, 2 pairs"], "hat")
    persistence.save(model, folder)
    assert "hat" in persistence.load(folder).catalog
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "to my aunt.txt").touch()
    with pytest.raises(BadInputError, match="letters exists and is not a nextclick model"):
        persistence.save(model, tmp_path / "letters")


def test_no_space_leaves_the_old_model(model: Recommender, small_disk: Path) -> None:
    persistence.save(model, small_disk / "model")
    before = contents(small_disk / "model")
    model.catalog.add(f"item {i:0500}" for i in range(200))
    with pytest.raises(BadInputError, match="model: no space left"):
        persistence.save(model, small_disk / "model")
    assert contents(small_disk / "model") == before
    assert [path.name for path in small_disk.iterdir()] == ["model"]
    persistence.load(small_disk / "model")


def test_what_is_not_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="no such model"):
        persistence.load(tmp_path / "absent")
    with pytest.raises(BadInputError, match="is not a nextclick model"):
        persistence.load(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(BadInputError, match="is not a nextclick model"):
        persistence.load(tmp_path / "file")


def test_nothing_is_unpickled(model: Recommender, tmp_path: Path) -> None:
    persistence.save(model, tmp_path / "model")
    for content in contents(tmp_path / "model").values():
        assert b"numpy._core" not in content
        assert not content.startswith(b"\x80")
    for name in ("config.json", "catalog.json", "manifest.json"):
        json.loads((tmp_path / "model" / name).read_bytes())


def test_an_index_comes_back(man: Recommender, tmp_path: Path) -> None:
    persistence.save(man, tmp_path / "model")
    loaded = persistence.load(tmp_path / "model")
    contexts = Contexts.of([[0], [1, 2, 3], [39, 39]])
    for _ in range(2):
        one, other = loaded.recommend(contexts, 10), man.recommend(contexts, 10)
        np.testing.assert_array_equal(one.items, other.items)
        np.testing.assert_array_equal(one.scores, other.scores)
        for model in (loaded, man):
            model.learn_one(["item 39"], "a new one")


@pytest.mark.parametrize("method", METHODS)
def test_every_method_saves_as_itself(
    method: str, tiny: Callable[[str], Recommender], tmp_path: Path
) -> None:
    model = tiny(method)
    persistence.save(model, tmp_path / "model")
    assert persistence.read_config(tmp_path / "model")["method"] == method
    contexts = Contexts.of([[0], [1, 2, 3], []])
    loaded = persistence.load(tmp_path / "model")
    answer, expected = loaded.recommend(contexts, 5), model.recommend(contexts, 5)
    np.testing.assert_array_equal(answer.items, expected.items)
    np.testing.assert_array_equal(answer.scores, expected.scores)
    assert loaded.label == model.label
