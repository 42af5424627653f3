"""a message and a language -> the message in that language; the catalogue holds every one of them."""

from __future__ import annotations

import json
import re
import sys
from contextvars import copy_context
from pathlib import Path
from threading import Thread

import pytest
from rich.cells import cell_len

from kumihimo.core.errors import SettingsError, describe_unknown
from kumihimo.text import translation
from kumihimo.text.translation import choose_language, find_language, message_language, suggest_language, translate
from tests.cli_runner import kumi
from tests.message_texts import expected, help_texts, messages
from tests.screens import seen

FOLDER = Path(translation.__file__).parent / "messages"
LANGUAGES = ["ja", "zh"]  # that have a file


def catalogue(language: str) -> dict[str, str]:
    texts: dict[str, str] = json.loads((FOLDER / f"{language}.json").read_text(encoding="utf-8"))
    return texts


def fields(text: str) -> set[str]:
    return set(re.findall(r"\{(\d+)", text))


# -- the catalogue


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_message_is_translated_and_no_other_text(language: str) -> None:
    texts = catalogue(language)
    assert [f"{module}: {text}" for text, module in expected().items() if text not in texts] == []
    assert [text for text in texts if text not in expected()] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_translations_have_the_fields_of_the_message(language: str) -> None:
    assert [text for text, other in catalogue(language).items() if fields(text) != fields(other)] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_translations_keep_commands_and_options(language: str) -> None:
    code = re.compile(r"`[^`]+`|--[a-z][a-z-]+|KUMI_[A-Z_]+|[a-z]+\.toml")
    kept = {text: (set(code.findall(text)), other) for text, other in catalogue(language).items()}
    assert {text: other for text, (found, other) in kept.items() if any(each not in other for each in found)} == {}


@pytest.mark.parametrize(("language", "script"), [("ja", "[\u3041-\u30fa\u4e00-\u9fff]"), ("zh", "[\u4e00-\u9fff]")])
def test_translations_are_in_their_language(language: str, script: str) -> None:
    english = [text for text, other in catalogue(language).items() if not re.search(script, other)]
    wordy = [text for text in english if len(re.findall(r"[a-z]{2,}", re.sub(r"\{\d+\}|`.*?`", "", text))) > 2]
    assert [text for text in wordy if not text.startswith("[id, start, end]")] == []


def test_messages_are_found_however_they_are_raised() -> None:
    found = messages()
    assert "the path is empty: name a file or folder" in found
    assert "{0} already exists, and `kumi` did not write it: choose another name, or replace it with --force" in found
    assert "expected SELECT, CONSTRUCT, DESCRIBE or ASK" in found  # a part of another message
    assert "give a JSONL file in UTF-8" in found  # a parameter of what raises it
    assert "The index: a folder, or postgresql://HOST/DATABASE?schema=NAME." in found
    assert "Answer a question with its sources, or start a conversation." in help_texts()


# -- messages


def test_a_message_after_the_name_of_a_file_is_translated() -> None:
    error = f"日记/a.pages: {describe_unknown('reader for', '.pages', ['.ps1', *(f'.{n}' for n in range(70))])}"
    assert translate(error, "zh") == "日记/a.pages: 没有名为 '.pages' 的读取器。共有 71 个，例如 .ps1"
    note = "d/a.txt: its encoding is guessed from 4 bytes; if letters are wrong, save it as UTF-8"
    assert translate(note, "zh") == "d/a.txt: 编码是根据 4 个字节推测的；如果文字有误，请存为 UTF-8"
    assert translate("d/a.txt: sea", "zh") == "d/a.txt: sea"


def test_values_are_filled_in_and_messages_within_messages_are_translated() -> None:
    message = f"--again x: {describe_unknown('method', 'bm52', ['bm25', 'naive'])}"
    assert translate(message, "ja") == (
        "--again x: 'bm52' という手法はありません。'bm25' のことですか。指定できるもの: bm25, naive"
    )
    assert translate(message, "en") == message


def test_what_is_no_message_stays_as_it_is() -> None:
    for text in ("東門の鍵", "A gate to the sea", "Salt and oats, 3 of 4", ""):
        assert translate(text, "ja") == text


def test_spaces_around_a_message_stay() -> None:
    assert translate("\n  Options \n", "ja") == "\n  オプション \n"


def test_a_value_that_looks_like_a_message_stays_as_it_is() -> None:
    assert translate("Options: cannot tell the encoding; save the file as UTF-8", "ja").startswith("Options: ")


def test_the_language_is_of_one_task() -> None:
    seen: list[str] = []

    def run() -> None:
        choose_language("ja_JP.UTF-8")
        seen.append(message_language())

    copy_context().run(run)
    thread = Thread(target=run)
    thread.start()
    thread.join()
    assert (seen, message_language()) == (["ja", "ja"], "en")


def test_a_choice_comes_before_the_language_of_a_question() -> None:
    def run(choice: str) -> str:
        if choice:
            choose_language(choice)
        suggest_language("誰が門を描きましたか。")
        return message_language()

    assert [copy_context().run(run, choice) for choice in ("", "en", "zh")] == ["ja", "en", "zh"]


def test_an_unknown_language_is_named_with_the_known_ones() -> None:
    with pytest.raises(SettingsError, match=r"no language 'fr'. Known: en, ja, zh, zh-TW"):
        choose_language("fr")


@pytest.mark.parametrize(
    ("locale", "language"),
    [("zh_Hans_HK.UTF-8", "zh"), ("zh-Hans-TW", "zh"), ("zh_TW@radical", "zh-Hant"), ("ja@x", "ja"), ("", "")],
)
def test_the_script_of_a_locale_comes_before_its_country(locale: str, language: str) -> None:
    assert find_language(locale) == language


# -- the command line


@pytest.mark.parametrize(
    ("words", "variable", "error"),
    [
        (["status", "--lang", "ja"], "zh", "kumi: .kumi に索引がありません。`kumi index PATH` で作ってください"),
        (["--lang", "ja", "status"], "zh", "kumi: .kumi に索引がありません。`kumi index PATH` で作ってください"),
        (["status"], "zh", "kumi: .kumi 中没有索引：请用 `kumi index PATH` 建立"),
        (["status"], "", "kumi: there is no index in .kumi: make one with `kumi index PATH`"),
        (["status", "--lang", "fr"], "ja", "kumi: 'fr' という言語はありません。指定できるもの: en, ja, zh"),
        (
            ["statu"],
            "ja",
            "kumi: 'statu' というコマンドはありません。'status' のことですか。`kumi --help` をご覧ください",
        ),
        (
            ["index", "--max-calls", "x"],
            "ja",
            "kumi: '--max-calls' の値が正しくありません: 整数を指定してください。`kumi index --help` をご覧ください",
        ),
    ],
)
def test_errors_are_in_the_language(tmp_path: Path, words: list[str], variable: str, error: str) -> None:
    ran = kumi(tmp_path, *words, KUMI_LANG=variable)
    assert ran.stderr.startswith(error)
    assert ran.returncode == 2


def test_the_language_of_the_system_is_used_where_none_is_chosen(tmp_path: Path) -> None:
    def error(question: str, **environment: str) -> str:
        return kumi(
            tmp_path, "ask", question, **{"LC_ALL": "", "LANG": "ja_JP.UTF-8", "KUMI_LANG": "", **environment}
        ).stderr

    none = ".kumi に索引がありません。"
    assert none in error("Who?")
    assert none in error("Who?", LC_ALL="ja_JP", LANG="C")
    assert ".kumi 中没有索引" in error("谁绘制了潮汐闸门？")
    assert none in error("門")
    assert none not in error("門", LANG="C")
    assert "there is no index in .kumi" in error("Who?", KUMI_LANG="en")
    assert "there is no index in .kumi" in error("Who?", LANG="de_DE.UTF-8")


def test_messages_in_traditional_characters_have_words_of_taiwan(tmp_path: Path) -> None:
    shown = kumi(tmp_path, "--help", KUMI_LANG="zh_TW").stdout
    assert "檔案" in shown
    assert "文件" in shown
    assert "资" not in shown
    assert translate("the path is empty: name a file or folder", "zh-Hant") == "路徑為空：請指定檔案或資料夾"
    assert translate("chunks.size is a number from 0 to 1, not 'x' (default: 1)", "zh-Hant").endswith("（預設：1）")


def test_each_word_of_taiwan_is_in_a_message() -> None:
    messages = "\n".join(catalogue("zh").values())
    assert [word for word in catalogue("zh-Hant") if word not in messages] == []


def test_no_space_follows_a_full_width_colon(tmp_path: Path) -> None:
    page = kumi(tmp_path, "ask", "--help", KUMI_LANG="zh", KUMI_INDEX="").stdout
    assert "用法：kumi ask" in page
    assert "[环境变量：KUMI_INDEX; 默认值：.kumi]" in " ".join(page.split())
    assert "： " not in page


@pytest.mark.parametrize(
    ("setting", "error"),
    [
        ("chunks.size=abc", "chunks.size 应为 1 到 1,000,000 的整数，而不是 'abc'（默认：600）"),
        ("answer.length=long", "answer.length 应为 brief, normal, full 之一，而不是 'long'（默认：'normal'）"),
    ],
)
def test_the_types_of_settings_are_in_the_language(tmp_path: Path, setting: str, error: str) -> None:
    assert error in kumi(tmp_path, "index", "--set", setting, KUMI_LANG="zh").stderr


def test_help_is_in_the_language(tmp_path: Path) -> None:
    assert "使い方: kumi" in kumi(tmp_path, "--help", KUMI_LANG="ja").stdout
    help_page = kumi(tmp_path, "--lang", "ja", "ask", "--help", KUMI_INDEX="").stdout
    assert "使い方: kumi ask" in help_page
    assert "オプション:" in help_page
    assert "[環境変数: KUMI_INDEX; 既定値: .kumi]" in " ".join(help_page.split())
    english = re.findall(r"[a-z]+ [a-z]+ [a-z]+", help_page.partition("使用例")[0])
    assert english == []
    assert kumi(tmp_path, "ask", "--help", "--lang", "ja", KUMI_INDEX="").stdout == help_page
    assert "Options:" in kumi(tmp_path, "ask", "--help").stdout


# -- what a person sees


@pytest.fixture(scope="module")
def island(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an index."""
    folder = tmp_path_factory.mktemp("island")
    (folder / "notes").mkdir()
    text = "# 島の門\n\n門はモリさんが描いた。\n\nモリさんの紐はルータさんが組んだ。ルータさんは島の人である。\n"
    (folder / "notes" / "島.md").write_text(text, encoding="utf-8")
    (folder / "notes" / "old.pages").write_text("", encoding="utf-8")
    kumi(folder, "index", "notes")
    return folder


@pytest.mark.parametrize(
    "words",
    [
        ("index",),
        ("index", "notes", "--reread"),
        ("ask", "門は誰が描きましたか。", "--explain"),
        ("retrieve", "門は誰が描きましたか。"),
        ("status", "--levels"),
        ("plan",),
        ("check",),
        ("cache",),
        ("remove", "notes/none.md"),
    ],
    ids=" ".join,
)
def test_no_english_sentence_is_printed(island: Path, words: tuple[str, ...]) -> None:
    ran = kumi(island, *words, KUMI_LANG="ja")
    printed = re.sub(r"`[^`]*`", "", ran.stdout + ran.stderr)
    assert printed
    assert re.findall(r"[A-Za-z]{2,} [a-z]{2,}", printed) == []


def test_the_language_of_the_question_is_used_for_the_rest(island: Path) -> None:
    asked = [kumi(island, "ask", question).stderr for question in ("門は誰が描きましたか。", "Who drew the gate?")]
    assert [error[:5] for error in asked] == ["（チャット", "(No c"]


def test_json_keeps_its_keys(island: Path) -> None:
    found = [json.loads(kumi(island, "status", "--json", "--lang", lang).stdout) for lang in ("en", "ja")]
    assert found[0] == found[1]


def test_a_page_is_in_the_language(island: Path) -> None:
    for lang, label in (("ja", "名前とレポートを検索"), ("en", "Search names and reports")):
        assert kumi(island, "report", "--html", f"{lang}.html", "--lang", lang).returncode == 0
        page = (island / f"{lang}.html").read_text(encoding="utf-8")
        assert f'<html lang="{lang}">' in page
        assert label in page.partition("<script")[0]
    labels = re.findall(r'id="labels">(.*?)</script>', page)
    assert json.loads(labels[0])["All reports"] == "All reports"


def test_lists_are_joined_as_the_language_does() -> None:
    def joined(language: str) -> str:
        choose_language(language)
        return translation.join_words(["a", "b", "c"])

    assert [copy_context().run(joined, language) for language in ("en", "ja")] == ["a, b and c", "a、b、c"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no terminals of this kind")
@pytest.mark.parametrize("words", ["--lang ja --help", "status --lang ja", "entities --lang zh", "methods --lang ja"])
def test_wide_characters_fit_80_columns(island: Path, words: str) -> None:
    lines = re.sub(r"\x1b\[[\d;]*m", "", seen(["kumi", *words.split()], island, [], 80)).splitlines()
    assert len(lines) > 3
    assert [line for line in lines if cell_len(line.rstrip()) > 80 or "…" in line] == []
