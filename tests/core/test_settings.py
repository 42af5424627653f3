"""texts -> settings: every type from a text and from TOML, and layers."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from kumihimo.core.errors import SettingsError
from kumihimo.core.settings import Setting, resolve_settings

Mode = Literal["hybrid", "low", "high"]
DEFINITIONS = {
    "chunks": {"size": Setting("size", int, 600), "overlap": Setting("overlap", int, 100)},
    "naive": {"k": Setting("k", int, 20), "words": Setting("words", bool, True)},
}


def read(kind: Any, value: object) -> object:
    return Setting("it", kind, None).parse("scope", value)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (int, "300", 300),
        (int, " -7 ", -7),
        (int, 300, 300),
        (float, "0.5", 0.5),
        (float, "1e3", 1000.0),
        (float, 2, 2.0),
        (float, 0.5, 0.5),
        (bool, "true", True),
        (bool, "Yes", True),
        (bool, "ON", True),
        (bool, "false", False),
        (bool, "no", False),
        (bool, "off", False),
        (bool, True, True),
        (bool, False, False),
        (str, "", ""),
        (str, "o200k_base", "o200k_base"),
        (str, "none", "none"),
        (Mode, "low", "low"),
        (Literal[1, 2], "2", 2),
        (Literal[1, 2], 2, 2),
        (tuple[str, ...], "a, b ,c", ("a", "b", "c")),
        (tuple[str, ...], ["a", "b"], ("a", "b")),
        (tuple[str, ...], '["a, b", "c"]', ("a, b", "c")),
        (tuple[float, ...], "[1, 2.5]", (1.0, 2.5)),
        (tuple[str, ...], ("a",), ("a",)),
        (tuple[str, ...], [], ()),
        (int | None, "none", None),
        (int | None, None, None),
        (int | None, "5", 5),
        (None | int, 5, 5),
    ],
)
def test_a_value_is_read_in_its_type(kind: Any, value: object, expected: object) -> None:
    got = read(kind, value)
    assert got == expected
    assert got.__class__ is expected.__class__


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (int, "6e2", "a whole number"),
        (int, "600.0", "a whole number"),
        (int, 600.0, "a whole number"),
        (int, "", "a whole number"),
        (int, True, "a whole number"),
        (int, "true", "a whole number"),
        (int, [1], "a whole number"),
        (int, "9" * 5000, "a whole number"),
        (float, "half", "a number"),
        (float, False, "a number"),
        (bool, "maybe", "true or false"),
        (bool, "", "true or false"),
        (str, 5, "a text"),
        (str, ["a"], "a text"),
        (Mode, "hi", "one of hybrid, low, high"),
        (tuple[str, ...], 5, "a list"),
        (tuple[str, ...], {"a": 1}, "a list"),
        (tuple[float, ...], "[1,", "a list"),
        (int | None, "some", "a whole number or none"),
    ],
)
def test_a_value_of_another_type_is_refused(kind: Any, value: object, message: str) -> None:
    with pytest.raises(SettingsError) as refused:
        read(kind, value)
    assert str(refused.value) == f"scope.it is {message}, not {value!r} (default: None)"


def test_a_list_written_as_nothing_is_empty() -> None:

    assert read(tuple[str, ...], "") == ()


def test_a_list_of_numbers_holds_numbers() -> None:

    assert read(tuple[int, ...], "1, 2") == read(tuple[int, ...], [1, 2]) == (1, 2)


def test_a_text_that_may_be_missing_can_be_set_to_none() -> None:

    assert read(str | None, "none") is None


def test_a_number_too_large_for_a_machine_is_refused() -> None:

    with pytest.raises(SettingsError, match=r"^scope\.it is a number, not 1000"):
        read(float, 10**400)


def test_defaults_stand_where_nobody_says_otherwise() -> None:
    assert resolve_settings(DEFINITIONS) == {"chunks": {"size": 600, "overlap": 100}, "naive": {"k": 20, "words": True}}


def test_the_last_layer_says() -> None:
    file, environment, option = {"chunks": {"size": 1, "overlap": 2}}, {"chunks": {"size": "3"}}, {"naive": {"k": 4}}
    assert resolve_settings(DEFINITIONS, file, environment, option) == {
        "chunks": {"size": 3, "overlap": 2},
        "naive": {"k": 4, "words": True},
    }
    assert resolve_settings(DEFINITIONS, environment, file)["chunks"]["size"] == 1


def test_resolving_leaves_the_layers_and_defaults_alone() -> None:
    layer = {"chunks": {"size": "3"}}
    resolve_settings(DEFINITIONS, layer)
    assert layer == {"chunks": {"size": "3"}}
    assert DEFINITIONS["chunks"]["size"].default == 600


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ({"chunk": {"size": 1}}, "no step, method or model 'chunk'; did you mean 'chunks'? Known: chunks, naive"),
        ({"zzz": {}}, "no step, method or model 'zzz'. Known: chunks, naive"),
        ({"chunks": {"sise": 1}}, "chunks has no setting 'sise'; did you mean 'size'? Known: overlap, size"),
        ({"naive": {"size": 1}}, "naive has no setting 'size'. Known: k, words"),
        ({"chunks": {"size": "big"}}, "chunks.size is a whole number, not 'big' (default: 600)"),
    ],
)
def test_what_is_not_known_is_named_with_the_nearest(layer: dict[str, dict[str, object]], message: str) -> None:
    with pytest.raises(SettingsError) as refused:
        resolve_settings(DEFINITIONS, layer)
    assert str(refused.value) == message


def test_a_wrong_value_is_refused_even_where_a_later_layer_mends_it() -> None:
    with pytest.raises(SettingsError, match=r"^chunks\.size is a whole number, not 'big'"):
        resolve_settings(DEFINITIONS, {"chunks": {"size": "big"}}, {"chunks": {"size": 1}})
