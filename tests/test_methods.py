"""Methods by name, settings by key, and what is said when one of them is wrong."""

import pytest

from nextclick.errors import BadInputError
from nextclick.methods import METHODS, create, merged, name_of


@pytest.mark.parametrize("name", METHODS)
def test_every_method_knows_its_name(name: str) -> None:
    assert name_of(create(name)) == name


def test_a_name_goes_with_settings_that_differ() -> None:
    assert name_of(create("narm", {"encoder": {"hidden": 16}})) == "narm"
    assert name_of(create("man", {"neural": {"encoder": {"kind": "gru4rec"}}})) == "man"


def test_settings_are_laid_over_the_methods_own() -> None:
    model = create("gru4rec", {"encoder": {"hidden": 16}, "training": {"epochs": 2}})
    assert model.settings.encoder.kind == "gru4rec"
    assert model.settings.encoder.hidden == 16
    assert model.settings.training.epochs == 2


def test_merging_leaves_both_as_they_were() -> None:
    base, over = {"a": {"b": 1, "c": {"d": 2}}}, {"a": {"c": {"d": 3}}, "e": 4}
    assert merged(base, over) == {"a": {"b": 1, "c": {"d": 3}}, "e": 4}
    assert base == {"a": {"b": 1, "c": {"d": 2}}}
    assert over == {"a": {"c": {"d": 3}}, "e": 4}
    assert merged({"a": 1}, {"a": {"b": 2}}) == {"a": {"b": 2}}


@pytest.mark.parametrize(
    ("name", "settings", "complaints"),
    [
        ("narm", {"encoder": {"hiden": 3}}, ["encoder.hiden: unknown key; did you mean 'hidden'?"]),
        ("narm", {"zzzz": 3}, ["zzzz: unknown key"]),
        (
            "man",
            {"neural": {"encoder": {"kind": "gru4rec", "hidden": "many"}}, "memory": {"size": 0}},
            [
                "neural.encoder.hidden: input should be a valid integer, unable to parse string as "
                "an integer, not 'many'",
                "memory.size: input should be greater than or equal to 1, not 0",
            ],
        ),
        (
            "man",
            {"memory": {"kind": "vast"}},
            ["memory.kind: input should be 'clustered' or 'exact'"],
        ),
        ("man", {"neural": {"encoder": {"kind": "x"}}}, ["no encoder is called 'x'"]),
        ("man", {"gate": 3}, ["gate: input should be a valid dictionary"]),
        ("s-sknn", {"k": 0}, ["k: input should be greater than or equal to 1, not 0"]),
    ],
)
def test_wrong_settings_are_named(name: str, settings: object, complaints: list[str]) -> None:
    with pytest.raises(BadInputError) as caught:
        create(name, settings, source="a.toml")  # type: ignore[arg-type] # values of many types
    lines = str(caught.value).splitlines()
    assert len(lines) == len(complaints)
    for line, complaint in zip(lines, complaints, strict=True):
        assert line.startswith("a.toml: ")
        assert complaint in line


def test_an_unknown_method_is_named() -> None:
    with pytest.raises(BadInputError, match="no method 'best'; there are: man, man-mix, narm"):
        create("best")
