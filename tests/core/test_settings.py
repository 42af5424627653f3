"""texts -> settings: every type from a text and from TOML, and layers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest

from kumihimo.core.errors import SettingsError
from kumihimo.core.settings import Bounds, Setting, override_settings, resolve_settings

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
        (str, 5, "a text of up to 10,000 characters"),
        (str, ["a"], "a text of up to 10,000 characters"),
        (Mode, "hi", "one of hybrid, low, high"),
        (tuple[str, ...], 5, "a list of up to 10,000 items"),
        (tuple[str, ...], {"a": 1}, "a list of up to 10,000 items"),
        (tuple[float, ...], "[1,", "a list of up to 10,000 items"),
        (int | None, "some", "a whole number or none"),
    ],
)
def test_a_value_of_another_type_is_refused(kind: Any, value: object, message: str) -> None:
    with pytest.raises(SettingsError) as refused:
        read(kind, value)
    assert str(refused.value) == f"scope.it is {message}, not {value!r:.200} (default: None)"


def test_a_list_written_as_nothing_is_empty() -> None:

    assert read(tuple[str, ...], "") == ()


def test_a_list_of_numbers_holds_numbers() -> None:

    assert read(tuple[int, ...], "1, 2") == read(tuple[int, ...], [1, 2]) == (1, 2)


def test_a_text_that_may_be_missing_can_be_set_to_none() -> None:

    assert read(str | None, "none") is None


def test_a_number_too_large_for_a_machine_is_refused() -> None:

    with pytest.raises(SettingsError, match=r"^scope\.it is a number, not 1000"):
        read(float, 10**400)


BOUNDED = Setting.of("it", Annotated[int, Bounds(1, 1000, asked=(2, 10))], 5)


@pytest.mark.parametrize("hint", [Annotated[int | None, Bounds(0, 9)], Annotated[int, Bounds(0, 9)] | None])
def test_bounds_stand_in_the_hint(hint: Any) -> None:
    assert Setting.of("it", hint, None) == Setting("it", int | None, None, Bounds(0, 9))
    assert Setting.of("it", hint, None).type_description == "a whole number from 0 to 9 or none"
    assert Setting.of("it", hint, None).parse("scope", "none") is None


def test_other_notes_are_no_bounds() -> None:
    assert Setting.of("it", Annotated[int, "a note"], 5) == Setting.of("it", int, 5) == Setting("it", int, 5)


@pytest.mark.parametrize("value", [0, 1001, -1, "0", 10**19, 10**400, "1e19", float("nan"), float("inf"), "nan", True])
def test_a_number_out_of_bounds_is_refused(value: object) -> None:
    with pytest.raises(SettingsError) as refused:
        BOUNDED.parse("scope", value)
    assert str(refused.value) == f"scope.it is a whole number from 1 to 1,000, not {value!r:.200} (default: 5)"
    assert [BOUNDED.parse("scope", value) for value in (1, "1000", 1000)] == [1, 1000, 1000]


def test_a_share_is_a_number_between() -> None:
    share = Setting.of("it", Annotated[float, Bounds(0, 1)], 0.5)
    assert [share.parse("scope", value) for value in (0, "1", 0.5)] == [0.0, 1.0, 0.5]
    for value in (-0.001, 1.001, 1e300, "-1"):
        with pytest.raises(SettingsError, match=r"^scope\.it is a number from 0 to 1, not "):
            share.parse("scope", value)


def test_questions_over_the_network_have_narrower_bounds() -> None:
    definitions = {"it": BOUNDED, "free": Setting("free", int, 1)}

    def override(value: object, configured: int = 5) -> object:
        given = {"it": value, "free": 9}
        return override_settings("scope", definitions, {"it": configured}, given, is_remote=True)["it"]

    assert [override(value) for value in (2, "10")] == [2, 10]
    for value in (1, 11, "1000"):
        with pytest.raises(SettingsError) as refused:
            override(value)
        assert str(refused.value) == (
            f"scope.it is from 2 to 10 in a question over the network, not {value!s}: choose a number between, or set "
            "it in the kumi.toml of the index"
        )
    assert override(500, configured=500) == 500  # as its owner has set it
    assert override_settings("scope", definitions, {"it": 5}, {"it": 500})["it"] == 500


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
