"""A sentence of Japanese or Chinese -> its names, by parts of speech. Needs the extras `ja` and `zh`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError

import pytest

from kumihimo.core import code_fingerprint as fingerprints
from kumihimo.core.records import Entity
from kumihimo.index.rules import ner
from kumihimo.index.rules.listed_names import select_named
from kumihimo.index.rules.ner_tagged import find_tagged_chinese, find_tagged_japanese
from kumihimo.index.rules.ner_words import drop_overlaps
from kumihimo.text import parts_of_speech
from tests.counters import check_linear
from tests.index.rules.test_ner import entity, mentions, names_in

japanese = pytest.mark.skipif(not parts_of_speech.can_tag_japanese(), reason="needs the extra `ja`")
chinese = pytest.mark.skipif(not parts_of_speech.can_tag_chinese(), reason="needs the extra `zh`")


def japanese_names(text: str) -> list[tuple[str, str]]:
    return [(span.name, span.type) for span in drop_overlaps(find_tagged_japanese(text))]


def chinese_names(text: str, title: str = "") -> list[tuple[str, str]]:
    return [(span.name, span.type) for span in drop_overlaps(find_tagged_chinese(text, title))]


@japanese
@pytest.mark.parametrize(
    "text",
    [
        "日時と価格の都合により、充実した内容の催しを開く。",
        "昭和43年の春、石の防波堤に代わってコンクリートの堤を造った。",
        "担当者は「はい、行きます」と言い、「修正」を求めた。",
        "三センチの箱に20万円が入る。第18条。",
        "行《ゆ》く人は牛乳を飲んだ。",
    ],
)
def test_common_nouns_are_no_names(text: str) -> None:
    assert japanese_names(text) == []


@japanese
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("佐藤一郎さんが京都タワーへ行く。", [("佐藤一郎さん", "person"), ("京都タワー", "")]),
        ("ゼブロン船長とピーター・パンの話", [("ゼブロン船長", "person"), ("ピーター・パン", "person")]),
        ("早稲田大学教授鈴木花子", [("早稲田大学", "organization"), ("鈴木花子", "person")]),
        ("鈴木　花子が来る", [("鈴木　花子", "person")]),
        ("海洋研究所と染物資料館", [("海洋研究所", "organization"), ("染物資料館", "organization")]),
        ("第三次ポエニ戦争のあと", [("第三次ポエニ戦争", "")]),
        ("スペイン語とフランス・スイス", [("スペイン語", ""), ("フランス・スイス", "place")]),
        ("ドイツと中国・韓国", [("ドイツ", "place"), ("中国", "place"), ("韓国", "place")]),
        ("比較言語学史と言語学", [("比較言語学史", "")]),
        ("『坊っちゃん』を読む", [("坊っちゃん", "work")]),
        ("ゾルグ島とゾルグ城", [("ゾルグ島", "place"), ("ゾルグ城", "")]),
    ],
)
def test_names_of_japanese(text: str, expected: list[tuple[str, str]]) -> None:
    assert japanese_names(text) == expected


@japanese
@pytest.mark.parametrize(("name", "is_listed"), [("アンテナ・リスト", False), ("ジョン・マン", True)])
def test_common_nouns_joined_by_a_dot_are_not_listed(name: str, is_listed: bool) -> None:
    text = f"{name}を見る。リストとマンは良い。"
    entity = Entity(name, "", (name,), (), mentions=1, tokens=9, id="e", text=text)
    assert bool(select_named([entity])) == is_listed


@japanese
def test_a_title_is_no_part_of_the_key() -> None:
    assert mentions("鈴木花子さんが来る。")[0].entity == entity("鈴木花子")


@chinese
@pytest.mark.parametrize(
    "text",
    [
        "因為時間和價格的問題，內容很充實。",
        "因为时间和价格的问题，内容很充实。",
        "城市在十八世紀有五座山，海岸長20公里。",
        "查看日志，契约有许可证。",
    ],
)
def test_common_words_of_chinese_are_no_names(text: str) -> None:
    assert chinese_names(text) == []


@chinese
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("在歐洲，梵語的研究在威廉·瓊斯之後。", [("歐洲", "place"), ("梵語", ""), ("威廉·瓊斯", "")]),
        ("在欧洲，梵语的研究在威廉·琼斯之后。", [("欧洲", "place"), ("梵语", ""), ("威廉·琼斯", "")]),
        ("孫中山與北京大學的《大公報》", [("孫中山", "person"), ("北京大學", "organization"), ("大公報", "work")]),
        ("漢朝的四川省長很多", [("漢朝", ""), ("四川省", "place")]),
    ],
)
def test_names_of_chinese(text: str, expected: list[tuple[str, str]]) -> None:
    assert chinese_names(text) == expected


@chinese
def test_the_title_is_a_name_wherever_it_stands() -> None:
    assert ("衝鋒鎗", "") in chinese_names("這種衝鋒鎗很重。", "衝鋒鎗")


@japanese
@chinese
def test_spans_are_offsets_of_the_text() -> None:
    texts = ("後來威廉·瓊斯發現印歐語系，𠮷野家與臺灣。", "𠮷田さんは㌔とｶﾞｽと東京タワーへ。", "が" * 40_000 + "東京")
    for text in texts:
        for find in (find_tagged_chinese, find_tagged_japanese):
            assert all(text[span.start : span.end] == span.name for span in find(text))


@japanese
def test_threads_have_taggers_of_their_own() -> None:
    text = "佐藤一郎さんが京都タワーへ行く。" * 20
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: names_in(text), range(16)))
    assert all(result == results[0] for result in results)


@pytest.mark.parametrize("library", ["sudachipy", "sudachidict_core", "rjieba", "opencc"])
def test_another_version_of_a_tagger_makes_the_tables_again(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        if name == library:
            raise PackageNotFoundError(name)
        return "9.9"

    fingerprint = fingerprints.code_fingerprint.__wrapped__
    monkeypatch.setattr(fingerprints, "_library_version", fingerprints._library_version.__wrapped__)
    monkeypatch.setattr(fingerprints, "version", lambda _: "9.9")
    monkeypatch.setattr(fingerprints, "packages_distributions", dict)
    installed = fingerprint(ner.find_mentions)
    monkeypatch.setattr(fingerprints, "version", missing)
    assert fingerprint(ner.find_mentions) != installed


@japanese
@chinese
@pytest.mark.parametrize(
    "piece", ["東", "ア", "・ア", "東・", "第1次", "第", "鈴木　", "威廉·", "斯", "京都タワー", "「京都」"]
)
def test_work_grows_with_the_text(piece: str) -> None:
    check_linear(mentions, piece, 10_000)
    check_linear(lambda text: list(find_tagged_chinese(text)), piece, 10_000)
