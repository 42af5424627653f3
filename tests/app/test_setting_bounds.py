"""every setting that is a number -> its bounds, the same at each door, and narrower ones over the network."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any, get_args

import pytest

from kumihimo import Kumihimo
from kumihimo.app.ask.query import Query
from kumihimo.app.opened.catalogue import BUILT_IN
from kumihimo.app.settings.config import (
    parse_options,
    read_aliases,
    read_environment,
    read_settings_file,
    render_section,
)
from kumihimo.app.settings.settings_registry import SettingsRegistry
from kumihimo.core.errors import SettingsError
from kumihimo.core.settings import Bounds, Setting, SettingValues, resolve_settings
from kumihimo.core.signature import QueryBound, Signature
from kumihimo.methods import METHODS

ALL = SettingsRegistry(BUILT_IN).all
NUMBERS = [
    (scope, setting)
    for scope, settings in SettingsRegistry(BUILT_IN).own.items()
    for setting in settings.values()
    if {int, float} & {setting.type, *get_args(setting.type)} and not str(setting.type).startswith("tuple")
]
HUGE = 10**19
Door = Callable[[Path, str, str, object], SettingValues]


def by_file(folder: Path, scope: str, name: str, value: object) -> SettingValues:
    path = folder / "kumi.toml"
    path.write_text(render_section(scope, {name: value}), encoding="utf-8")
    return read_settings_file(path)


DOORS: Mapping[str, Door] = {
    "kumi.toml": by_file,
    "environment": lambda _, scope, name, value: read_environment(
        {scope: ALL[scope]}, {f"KUMI_{scope}_{name}".upper(): str(value)}
    ),
    "--set": lambda _, scope, name, value: parse_options([f"{scope}.{name}={value}"]),
    "Python": lambda _, scope, name, value: {scope: {name: value}},
}


def bounds_of(setting: Setting) -> Bounds:
    assert setting.bounds, f"{setting.name} needs bounds: Annotated[int, Bounds(…)]"
    return setting.bounds


def outside(bounds: Bounds) -> Iterator[object]:
    """Yield numbers that no setting with these bounds may have."""
    yield from (bounds.least - 1, bounds.most + 1, -1, HUGE, -HUGE, float("nan"), float("inf"))


def test_every_number_has_bounds_with_its_default_inside() -> None:
    assert len(NUMBERS) > 100
    for scope, setting in NUMBERS:
        bounds = bounds_of(setting)
        assert bounds.least < bounds.most < HUGE
        assert setting.parse(scope, setting.default) == setting.default
        if bounds.asked:
            assert bounds.least <= bounds.asked[0] < bounds.asked[1] <= bounds.most
        setting.check_asked(scope, setting.default)


@pytest.mark.parametrize("door", DOORS)
def test_bounds_hold_at_each_door(door: str, tmp_path: Path) -> None:
    for scope, setting in NUMBERS:
        bounds = bounds_of(setting)
        for value in (bounds.least, bounds.most):
            layer = DOORS[door](tmp_path, scope, setting.name, value)
            assert resolve_settings(ALL, layer)[scope][setting.name] == value
        for wrong in outside(bounds):
            layer = DOORS[door](tmp_path, scope, setting.name, wrong)
            with pytest.raises(SettingsError) as refused:
                resolve_settings(ALL, layer)
            assert str(refused.value).startswith(f"{scope}.{setting.name} is {setting.type_description}, not ")
            assert str(bounds) in setting.type_description


SENSELESS: tuple[Any, ...] = (
    *(-1, 0, 1e19, float("nan"), "", " ", True, None, [], [None], [5], [[]], {}, {"a": 1}, "a\nb", "[1,", "b,b"),
    *("x\x1b[2J", "\x9b", ["x\x7f"], ["a", "b", "a"], "x" * 3000, "9" * 5000),
)
NEVER = ("x\x1b[2J", "x\x00", "\x9b", "x" * 10**6, "[" * 100_001, " ", True, {"a": 1}, 1e19)  # of a text, and no item
MANY = ["a"] * 10**6
NO_LISTS: tuple[Any, ...] = (
    "b,b",
    ["a", "b", "a"],
    ["x\x7f"],
    MANY,
    ["x" * 10**6],
    ["\udcff"],
    [" "],
    [[]],
    [None],
    {"a": 1},
)


def is_list(setting: Setting) -> bool:
    return str(setting.type).startswith("tuple")


def test_any_value_of_any_setting_is_one_of_its_type_or_a_short_error(tmp_path: Path) -> None:
    errors, unnamed = list[str](), list[str]()
    for scope, settings in SettingsRegistry(BUILT_IN).own.items():
        for (name, setting), value in product(settings.items(), SENSELESS):
            for door in DOORS:
                try:
                    layer = DOORS[door](tmp_path, scope, name, value)
                    parsed = resolve_settings({scope: settings}, layer)[scope][name]
                    assert setting.parse(scope, parsed) == parsed
                except SettingsError as error:
                    errors.append(str(error))
                    is_named = errors[-1].startswith((f"{scope}.{name}", f"{tmp_path / 'kumi.toml'} is not TOML"))
                    unnamed += [] if is_named else [errors[-1]]
    assert not unnamed
    assert len(errors) > 10_000
    assert max(map(len, errors)) < 600


def test_no_text_and_no_list_takes_a_value_without_sense() -> None:
    taken = []
    for scope, settings in {**SettingsRegistry(BUILT_IN).own, "judge": ALL["judge"]}.items():
        for name, setting in settings.items():
            if setting.type in (str, str | None) or is_list(setting):
                for value in NO_LISTS if is_list(setting) else (*NEVER, "\udcff", [], ["a"], MANY):
                    try:
                        taken.append((scope, name, str(setting.parse(scope, value))[:50]))
                    except SettingsError:
                        assert value is not setting.default
    assert not taken


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ({"chat": {"extra": "[]"}}, "chat.extra has to be a JSON object, such as {\"seed\": 1}, not '[]'"),
        ({"chat": {"extra": "{"}}, "chat.extra has to be a JSON object"),
        ({"judge": {"extra": '{"seed": NaN}'}}, "judge.extra has to be a JSON object"),
        ({"chat": {"extra": '{"a":' + "[" * 9000}}, "chat.extra has to be a JSON object"),
        ({"chat": {"model": "gpt "}}, "chat.model has to be one line without spaces around it, not 'gpt '"),
        (
            {"chat": {"reasoning_effort": ""}},
            "chat.reasoning_effort is a text of 1 to 1,000 characters or none, not ''",
        ),
        ({"chat": {"base_url": "not a url"}}, "chat.base_url 'not a url' is no address"),
        ({"chat": {"base_url": "ftp://h/v1"}}, "chat.base_url 'ftp://h/v1' is no address"),
        ({"chat": {"base_url": "http://h:99999/v1"}}, "chat.base_url 'http:…' is no address"),
        ({"chat": {"base_url": "http://h/\nv1"}}, "chat.base_url 'http://h/\\nv1' is no address"),
        ({"mentions": {"types": []}}, "mentions.types is a list of 1 to 1,000 items, not []"),
        ({"mentions": {"types": ""}}, "mentions.types is a list of 1 to 1,000 items, not ''"),
        ({"mentions": {"types": ["a", "b", "a"]}}, "mentions.types names 'a' twice: keep one"),
        ({"mentions": {"types": ["a", ""]}}, "mentions.types[1] is a text of 1 to 1,000 characters, not ''"),
        ({"mentions": {"domain": "a\x1b[2J"}}, "mentions.domain has the control character '\\x1b': take it out"),
        (
            {"mentions": {"known_entities": ["| place"]}},
            "mentions.known_entities[0]: '| place' is no known entity: write",
        ),
        (
            {"mentions": {"aliases": ["Ada"]}},
            "mentions.aliases[0] has to be `name = other name`, `name != other name` or another edit, not",
        ),
        *(
            (
                {"mentions": {"relation_types": [wrong]}},
                "mentions.relation_types[0] has to be a type of relation, such as",
            )
            for wrong in ("lives_in: person", "lives_in > place", "a: b > c > d", "a: b > c,")
        ),
        ({"metadata": {"users_types": ""}}, "metadata.users_types is a text of 1 to 1,000 characters, not ''"),
        *(
            ({"metadata": {"fields": [wrong]}}, f"metadata.fields[0]: {fault}")
            for wrong, fault in {
                "x": "'x' is no field: write [fields.NAME] in kumi.toml, and under it question, list",
                "[]": "'[]' is no field",
                '{"name": "x"}': "fields.x.question has to be a question with yes or no as its answer, such as",
                '{"name": "x", "question": "?", "list": "?", "other": 1}': "fields.x has no setting 'other'",
                '{"name": "", "question": "?", "list": "?"}': "the name of a field has to be letters, digits, _ and -",
                '{"name": "x", "question": "?", "list": "?", "maximum": 1e19}': "fields.x.maximum is a whole number",
            }.items()
        ),
        (
            {"fetching": {"user_agent": "a\nb: c"}},
            "fetching.user_agent has to be a name in ASCII letters, such as Kumihimo",
        ),
        (
            {"rdf": {"base": "no"}},
            "rdf.base has to be the start of IRIs, such as http://example.org/, and end with / or #",
        ),
        ({"rdf": {"base": "http://a b/"}}, "rdf.base has to be the start of IRIs"),
        ({"braid": {"plain_weights": [1, 1e19]}}, "braid.plain_weights[1] is a number from -1,000 to 1,000, not 1e+19"),
        ({"chunks": 5}, "settings: chunks is in no table: settings go under a step or method, such as [chunks]"),
        ({"fields": 5}, "settings: fields is in no table"),
        ({"fields": {"x": 5}}, "settings: fields.x is no field: write [fields.x], and under it question and list"),
        ({5: {"a": 1}}, "no step, method or model '5'"),
        ({"chunks": {5: 1}}, "chunks has no setting '5'"),
    ],
)
def test_a_text_or_list_of_another_form_is_refused_in_words(layer: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as refused:
        Kumihimo.open(tmp_path / ".kumi", settings=layer)
    assert str(refused.value).startswith(message)


def test_a_long_file_of_names_and_repeated_lines_is_taken(tmp_path: Path) -> None:
    lines = [f"Person {n} = P{n} Vane" for n in range(20_000)]
    (tmp_path / "aliases.txt").write_text("\n".join([*lines, lines[0]]), encoding="utf-8")
    layer = read_aliases(tmp_path / "aliases.txt")
    assert resolve_settings(ALL, layer)["mentions"]["aliases"] == tuple(lines)


@pytest.mark.parametrize("text", ["a = " + "[" * 100_000, "a = " + "9" * 5000, "[chat]\nmodel = 'a\x1b'"])
def test_a_file_that_no_reader_of_toml_takes_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "kumi.toml").write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError, match="is not TOML"):
        Kumihimo.open(tmp_path / ".kumi")


@pytest.mark.parametrize("key", ["sk-secret-0123456789", "A KEY", "A\nB", "1A", "Schlüssel"])
def test_a_key_in_place_of_the_name_of_its_variable_is_refused_unseen(key: str) -> None:
    for scope in ("chat", "embedding", "reranking", "answer"):
        with pytest.raises(SettingsError, match="is the name of an environment variable") as refused:
            resolve_settings(ALL, {scope: {"key": key}})
        assert key not in str(refused.value)
    assert resolve_settings(ALL, {"chat": {"key": ""}, "answer": {"key": "MY_KEY"}})["answer"]["key"] == "MY_KEY"


def test_a_scope_with_a_model_of_its_own_has_the_same_bounds() -> None:
    for scope in SettingsRegistry(BUILT_IN).llm_scopes:
        assert resolve_settings(ALL, {scope: {"workers": 1000}})[scope]["workers"] == 1000
        with pytest.raises(SettingsError, match=rf"^{scope}\.workers is a whole number from 1 to 1,000 or none, not 0"):
            resolve_settings(ALL, {scope: {"workers": 0}})


def test_an_index_opens_within_bounds_only(tmp_path: Path) -> None:
    (tmp_path / "kumi.toml").write_text("[chat]\nretries = 101\n", encoding="utf-8")
    with pytest.raises(SettingsError, match=r"^chat\.retries is a whole number from 0 to 100, not 101"):
        Kumihimo.open(tmp_path / ".kumi")
    (tmp_path / "kumi.toml").write_text("[chat]\nretries = 100\n", encoding="utf-8")
    with Kumihimo.open(tmp_path / ".kumi", settings={"hyde": {"passages": 20}}) as kumi:
        (tmp_path / "a.md").write_text("The ferry leaves at nine.", encoding="utf-8")
        kumi.index(tmp_path / "a.md", methods=["bm25", "hyde"])
        for ask in (kumi.ask, kumi.retrieve, lambda _, *method, **s: kumi.estimate_query_cost(*method, **s)):
            with pytest.raises(SettingsError, match=r"^bm25\.k is a whole number from 1 to 10,000, not 0"):
                ask("When?", "bm25", k=0)
        assert kumi.retrieve("ferry", "bm25", k=2000)
        with pytest.raises(
            SettingsError, match=r"^bm25\.k is from 1 to 1,000 in a question over the network, not 2000"
        ):
            kumi.search(Query.of("ferry", "bm25", k=2000, is_remote=True))
        with pytest.raises(
            SettingsError, match=r"^hyde\.passages is from 1 to 10 in a question over the network, not 21"
        ):
            kumi.search(Query.of("ferry", "hyde", passages=21, is_remote=True))
        with pytest.raises(SettingsError, match="hyde needs a chat model"):  # as its owner has set it
            kumi.search(Query.of("ferry", "hyde", passages=20, is_remote=True))


# -- the number of model calls


class ReadSettings(dict[str, Any]):
    """Settings of a method that note which of them are read."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)


class Sizes:
    """An index of 10,000 rows in each table."""

    def rows(self, table: str) -> int:
        return 10_000

    def tokens(self, table: str) -> int:
        return 6_000_000

    def level(self, level: int) -> tuple[int, int]:
        return 10_000, 6_000_000

    def prompt_tokens(self, prompt: Path) -> int:
        return 500


PAYING = {name: method for name, method in METHODS.items() if method.declaration.calls}
READ_ALL = ("global", "mapreduce")  # each calls once for a batch of the whole index, at most once for a row


def settings_of_calls(method: Signature, bound: QueryBound, end: int) -> Iterator[tuple[int, set[str]]]:
    """Yield the most calls, and the settings that decide, for every value of the switches and one end of all bounds."""
    switches = [setting.name for setting in method.settings.values() if setting.type is bool]
    numbers = {
        s.name: (s.bounds.asked or (s.bounds.least, s.bounds.most))[end] for s in method.settings.values() if s.bounds
    }
    for choice in product((False, True), repeat=len(switches)):
        defaults = {setting.name: setting.default for setting in method.settings.values()}
        settings = ReadSettings({**defaults, **numbers, **dict(zip(switches, choice, strict=True))})
        yield bound(settings, Sizes()).calls[1], settings.read


@pytest.mark.parametrize("name", PAYING)
def test_settings_that_decide_on_model_calls_are_bounded(name: str) -> None:
    method, bound = PAYING[name], PAYING[name].declaration.calls
    assert bound
    for end in (0, 1):
        for calls, read in settings_of_calls(method, bound, end):
            kinds = {setting: method.settings[setting] for setting in read}
            assert [n for n, setting in kinds.items() if setting.type is not bool and not setting.bounds] == []
            assert calls <= (20_000 if name in READ_ALL else 50), "a question over the network costs too many calls"
