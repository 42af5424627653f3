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
from kumihimo.app.settings.config import parse_options, read_environment, read_settings_file
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
    path.write_text(f"[{scope}]\n{name} = {value}\n", encoding="utf-8")
    return read_settings_file(path)


DOORS: Mapping[str, Door] = {
    "kumi.toml": by_file,
    "environment": lambda _, scope, name, value: read_environment(ALL, {f"KUMI_{scope}_{name}".upper(): str(value)}),
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


def test_any_value_of_any_setting_is_one_of_its_type_or_a_short_error() -> None:
    """At two doors, of which one takes texts only."""
    errors, unnamed = list[str](), list[str]()
    for scope, settings in SettingsRegistry(BUILT_IN).own.items():
        for name, setting in settings.items():
            value: Any
            for value in (-1, 0, 1e19, float("nan"), "", " ", True, None, [], [None], {}, "a\nb", "[1,", "x" * 3000):
                for door in ("--set", "Python"):
                    layer = DOORS[door](Path(), scope, name, value)
                    try:
                        parsed = resolve_settings(ALL, layer)[scope][name]
                        assert setting.parse(scope, parsed) == parsed
                    except SettingsError as error:
                        errors.append(str(error))
                        unnamed += [] if errors[-1].startswith(f"{scope}.{name}") else [errors[-1]]
    assert not unnamed
    assert len(errors) > 3000
    assert max(map(len, errors)) < 500


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
