"""kumi.toml, environment, `--set` -> layers of settings, and errors that suggest the right name."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Literal

import pytest

from kumihimo.app.settings.config import (
    add_settings,
    append_aliases,
    merge_settings,
    parse_options,
    read_aliases,
    read_environment,
    read_settings_file,
    render_default_config,
)
from kumihimo.core.errors import SettingsError
from kumihimo.core.settings import Setting, resolve_settings

KNOWN = {
    "chunks": {"size": Setting("size", int, 600), "overlap": Setting("overlap", int, 100)},
    "naive": {"k": Setting("k", int, 20), "words": Setting("words", bool, True)},
    "bare": {},
}


def write_config(folder: Path, text: str) -> Path:
    path = folder / "kumi.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_is_a_layer(tmp_path: Path) -> None:
    path = write_config(tmp_path, "# 港\n[chunks]\nsize = 300\n\n[naive]\nwords = false\n")
    assert read_settings_file(path) == {"chunks": {"size": 300}, "naive": {"words": False}}
    assert resolve_settings(KNOWN, read_settings_file(path))["chunks"] == {"size": 300, "overlap": 100}


def test_no_file_and_an_empty_one_set_nothing(tmp_path: Path) -> None:
    assert read_settings_file(tmp_path / "kumi.toml") == {}
    assert read_settings_file(write_config(tmp_path, "")) == {}


@pytest.mark.parametrize("text", ["[chunks\nsize = 1", "[chunks]\nsize = ", "size: 1", "[a]\n[a]"])
def test_a_broken_file_names_the_remedy(tmp_path: Path, text: str) -> None:
    path = write_config(tmp_path, text)
    with pytest.raises(SettingsError, match=rf"^{path} is not TOML \(.+\): `kumi init` writes one to start from$"):
        read_settings_file(path)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "kumi.toml"
    path.write_bytes("[chunks]\n# 港".encode("utf-16"))
    with pytest.raises(SettingsError, match="is not TOML"):
        read_settings_file(path)


def test_a_setting_outside_a_table_is_refused(tmp_path: Path) -> None:
    path = write_config(tmp_path, "size = 300")
    with pytest.raises(SettingsError) as refused:
        read_settings_file(path)
    assert str(refused.value) == (f"{path}: size is in no table: settings go under a step or method, such as [chunks]")


def test_the_environment_is_a_layer() -> None:
    environment = {"KUMI_CHUNKS_SIZE": "300", "KUMI_NAIVE_WORDS": "off", "PATH": "/bin", "KUMIHIMO": "x"}
    layer = read_environment(KNOWN, environment)
    assert layer == {"chunks": {"size": "300"}, "naive": {"words": "off"}}
    assert resolve_settings(KNOWN, layer)["naive"] == {"k": 20, "words": False}


def test_other_variables_with_the_prefix_are_ignored() -> None:
    variables = {"KUMI_INDEX": "elsewhere", "KUMI_CACHE": "shared.db", "KUMI_OFFLINE": "1"}
    assert read_environment(KNOWN, variables) == {}


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        ("KUMI_CHUNKS_SISE", "did you mean 'KUMI_CHUNKS_SIZE'?"),
        ("KUMI_TYPO", "no setting 'KUMI_TYPO'"),
        ("KUMI_INDX", "did you mean 'KUMI_INDEX'?"),
    ],
)
def test_a_misspelt_variable_is_refused(variable: str, message: str) -> None:
    with pytest.raises(SettingsError) as refused:
        read_environment(KNOWN, {variable: "1"})
    assert str(refused.value).startswith(f"environment: no setting {variable!r}")
    assert message in str(refused.value)
    assert str(refused.value).endswith(
        "Known: KUMI_CACHE, KUMI_CHUNKS_OVERLAP, KUMI_CHUNKS_SIZE, KUMI_CONFIG, KUMI_INDEX, KUMI_LANG, "
        "KUMI_NAIVE_K, KUMI_NAIVE_WORDS, KUMI_OFFLINE, KUMI_STUDY, KUMI_TRUST"
    )


def test_a_variable_of_the_wrong_type_is_named_by_its_setting() -> None:
    with pytest.raises(SettingsError, match=r"^chunks\.size is a whole number, not '' \(default: 600\)$"):
        resolve_settings(KNOWN, read_environment(KNOWN, {"KUMI_CHUNKS_SIZE": ""}))


def test_options_are_a_layer() -> None:
    assert parse_options(["chunks.size=300", " naive.k = 5 ", "chunks.size=200", "a.b=c=d", "a.e="]) == {
        "chunks": {"size": "200"},
        "naive": {"k": "5"},
        "a": {"b": "c=d", "e": ""},
    }


@pytest.mark.parametrize("option", ["chunks.size", "size=300", ".size=300", "chunks.=300", "=300", ""])
def test_an_invalid_option_shows_the_form(option: str) -> None:
    with pytest.raises(SettingsError) as refused:
        parse_options([option])
    assert str(refused.value) == f"--set {option}: write it as step.setting=value, such as chunks.size=300"


def test_each_layer_overrides_the_one_before(tmp_path: Path) -> None:
    path = write_config(tmp_path, "[chunks]\nsize = 1\noverlap = 2\n[naive]\nk = 3\n")
    environment = read_environment(KNOWN, {"KUMI_CHUNKS_SIZE": "4", "KUMI_NAIVE_K": "5"})
    options = parse_options(["chunks.size=6"])
    assert resolve_settings(KNOWN, read_settings_file(path), environment, options) == {
        "chunks": {"size": 6, "overlap": 2},
        "naive": {"k": 5, "words": True},
        "bare": {},
    }


def uncommented(text: str) -> str:
    """Return the file with every setting set."""
    return "\n".join(line.removeprefix("# ") if " = " in line else line for line in text.splitlines())


def test_a_default_file_shows_everything_and_sets_nothing() -> None:
    text = render_default_config(KNOWN, {"chunks": "Cut.", "naive": "Search.", "bare": "No settings."})
    assert text == (
        "# Settings of this index. Remove the # from a line and change it.\n"
        "\n"
        "# Cut.\n"
        "[chunks]\n"
        "# size = 600  # a whole number\n"
        "# overlap = 100  # a whole number\n"
        "\n"
        "# Search.\n"
        "[naive]\n"
        "# k = 20  # a whole number\n"
        "# words = true  # true or false\n"
    )
    assert not any(tomllib.loads(text).values())
    assert resolve_settings(KNOWN, tomllib.loads(uncommented(text))) == resolve_settings(KNOWN)


ALL = {
    "all": {
        s.name: s
        for s in (
            Setting("share", float, 0.5),
            Setting("mode", Literal["low", "high"], "low"),
            Setting("names", tuple[str, ...], ("a", "b")),
            Setting("none", tuple[str, ...], ()),
        )
    }
}


def test_a_default_file_can_be_read_back() -> None:
    assert resolve_settings(
        ALL, tomllib.loads(uncommented(render_default_config(ALL, {"all": ""})))
    ) == resolve_settings(ALL)


@pytest.mark.parametrize(
    "setting",
    [
        Setting("most", int | None, None),
        Setting("stop", str, 'a "quoted" text'),
        Setting("stop", str, "C:\\notes"),
        Setting("stop", str, "a\nb\n"),
    ],
)
def test_odd_defaults_can_be_read_back(setting: Setting) -> None:

    scopes = {"all": {setting.name: setting}}
    assert resolve_settings(
        scopes, tomllib.loads(uncommented(render_default_config(scopes, {"all": ""})))
    ) == resolve_settings(scopes)


ADDED: dict[str, dict[str, object]] = {
    "naive": {"k": 5, "said": 'a "b" \\n\nc """d""" \x7f'},
    "bare": {"types": ("x", "y")},
}


@pytest.mark.parametrize(
    "text", ["", "[chunks]\nsize = 3", "# mine\n\n[naive]  # of mine\nwords = false\n[chunks]\n", "[naive]\r\n"]
)
def test_settings_are_added_and_the_rest_stays(text: str) -> None:
    merged, unchanged = merge_settings(text, ADDED)
    assert unchanged == []
    before = tomllib.loads(text)
    plain: dict[str, dict[str, object]] = {"naive": ADDED["naive"], "bare": {"types": ["x", "y"]}}
    assert tomllib.loads(merged) == {**before, **{s: {**before.get(s, {}), **values} for s, values in plain.items()}}
    assert all(line in merged.splitlines() for line in text.splitlines())


def test_settings_go_under_the_headings_of_a_default_file(tmp_path: Path) -> None:
    text = render_default_config(KNOWN, {"chunks": "c", "naive": "n", "bare": "b"})
    merged, unchanged = merge_settings(text, {"naive": {"k": 5}})
    assert (unchanged, tomllib.loads(merged)) == ([], {"chunks": {}, "naive": {"k": 5}})
    assert merged.count("[naive]") == 1


@pytest.mark.parametrize("text", ["[naive]\nk = 3\n", "[ naive ]\n", "naive = {words = true}\n"])
def test_existing_settings_stay(text: str) -> None:
    assert merge_settings(text, {"naive": {"k": 5}}) == (text, ["naive"])


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("!= Ada Vane", "line 3: '!= Ada Vane' is no edit: write"),
        ("Ada = Ada Vane != Mrs Vane", "line 3: 'Ada = Ada Vane != Mrs Vane' is no edit: write"),
        ("Ada != Bea != Cleo", "line 3: 'Ada != Bea != Cleo' is no edit: write"),
        ("Ada Vane != ada vane", "line 3: 'Ada Vane != ada vane' has the same name twice: write two"),
        (
            "Ada Vane = Mrs Vane\nB = C\nMrs Vane != Ada Vane",
            r"line 5: 'Mrs Vane != Ada Vane' keeps apart what line 3 merges \('Ada Vane = Mrs Vane'\): delete one",
        ),
        (
            "A = B\nB = C\nC != A",
            r"line 5: .* keeps apart what line 3 merges \('A = B'\) and line 4 merges \('B = C'\)",
        ),
    ],
)
def test_wrong_alias_lines_are_named(lines: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "aliases.txt").write_text(f"# names\n\n{lines}\n", encoding="utf-8")
    with pytest.raises(SettingsError, match=rf"aliases\.txt: {message}"):
        read_aliases(tmp_path / "aliases.txt")


def test_aliases_are_appended(tmp_path: Path) -> None:
    path = tmp_path / "aliases.txt"
    append_aliases(path, [])
    assert not path.exists()
    append_aliases(path, ["Bob = Robert"])
    path.write_text(path.read_text("utf-8").rstrip(), "utf-8")
    append_aliases(path, ["雪 = ゆき"])
    assert read_aliases(path) == {"mentions": {"aliases": ("Bob = Robert", "雪 = ゆき")}}
    with pytest.raises(SettingsError, match=r"cannot be written \(.+\)"):
        append_aliases(path / "aliases.txt", ["a = b"])


def test_a_linked_settings_file_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.toml").write_text("", "utf-8")
    (tmp_path / "real.toml").chmod(0o600)
    (tmp_path / "kumi.toml").symlink_to("real.toml")
    add_settings(tmp_path / "kumi.toml", {"naive": {"k": 5}})
    assert (tmp_path / "kumi.toml").is_symlink()
    assert (tmp_path / "real.toml").read_text("utf-8") == "[naive]\nk = 5\n"
    assert (tmp_path / "real.toml").stat().st_mode & 0o777 == 0o600


def test_a_link_to_another_folder_is_not_written_through(tmp_path: Path) -> None:
    """A stranger's `aliases.txt` may be a link to a file of yours."""
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "env").write_text("mine", "utf-8")
    (project / "aliases.txt").symlink_to("../env")
    (project / "kumi.toml").symlink_to("aliases.txt")
    with pytest.raises(SettingsError, match=r"aliases\.txt is a link to .*env, in another folder: replace the link"):
        append_aliases(project / "aliases.txt", ["a = b"])
    with pytest.raises(SettingsError, match=r"kumi\.toml is a link to .*env, in another folder: replace the link"):
        add_settings(project / "kumi.toml", {"naive": {"k": 5}})
    assert (tmp_path / "env").read_text("utf-8") == "mine"
    (tmp_path / "same").symlink_to(project)
    add_settings(tmp_path / "same" / "new.toml", {"naive": {"k": 5}})
    assert (project / "new.toml").exists()


def test_a_link_to_itself_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "aliases.txt").symlink_to("aliases.txt")
    append_aliases(tmp_path / "aliases.txt", ["a = b"])
    assert read_aliases(tmp_path / "aliases.txt") == {"mentions": {"aliases": ("a = b",)}}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_no_settings_file(tmp_path: Path) -> None:
    for name, read in (("kumi.toml", read_settings_file), ("aliases.txt", read_aliases)):
        os.mkfifo(tmp_path / name)
        with pytest.raises(SettingsError, match="is no ordinary file"):
            read(tmp_path / name)
    with pytest.raises(SettingsError, match="is no ordinary file"):
        append_aliases(tmp_path / "aliases.txt", ["a = b"])


def test_line_ends_stay_as_they_are(tmp_path: Path) -> None:
    path, aliases = tmp_path / "kumi.toml", tmp_path / "aliases.txt"
    path.write_bytes(b"[chunks]\r\nsize = 3\r\n")
    aliases.write_bytes(b"\xef\xbb\xbfa = b\r\n")
    assert add_settings(path, {"naive": {"k": 5}}) == []
    append_aliases(aliases, ["c = d"])
    assert path.read_bytes().startswith(b"[chunks]\r\nsize = 3")
    assert aliases.read_bytes() == b"\xef\xbb\xbfa = b\r\nc = d\n"
    assert (read_settings_file(path)["naive"], read_aliases(aliases)["mentions"]["aliases"]) == (
        {"k": 5},
        ("a = b", "c = d"),
    )
