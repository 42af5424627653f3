"""Text is read in any encoding; data that is not text is refused."""

from __future__ import annotations

import codecs
import sys
from random import Random

import pytest

from kumihimo.core.errors import SourceError
from kumihimo.readers.text import decode, describe_guess

WEATHER = "今日は　よい天気です。\nABC 123"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32", "utf-16-le", "utf-16-be", "iso2022_jp", "utf-8"])
def test_unicode_encodings(encoding: str) -> None:
    assert decode(WEATHER.encode(encoding)) == WEATHER


@pytest.mark.parametrize(
    "mark",
    [codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE, b""],
)
def test_only_a_mark_is_an_empty_text(mark: bytes) -> None:
    assert decode(mark) == ""


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(
    "text", ["Hello, world\n", "　　今日は　よい　天気です。\n", "Привет, мир!\n", "서울의 날씨\n", "会议\n记录"]
)
def test_utf16_without_its_mark(encoding: str, text: str) -> None:
    assert decode(text.encode(encoding)) == text


JAPANESE = (
    "会議の資料です。|東京都|名前,年齢,住所|こんにちは|議事録|カタカナ|請求書|テスト|DNAの二重らせん|髙橋さん|①②③の手順"
)
SIMPLIFIED = "今天的会议改到下午三点。|北京是中华人民共和国的首都|中国|姓名,年龄,城市|谢谢！|火车晚点了两个小时"
TRADITIONAL = "今天的會議改到下午三點。|臺灣大學|價格：三十五元|請把文件放在桌子上|中華民國"
LATIN = (
    "Café à Genève, déjà vu|Müller|¿Dónde está la biblioteca?|Ärger|ÄRGER|It’s 5 € – “only”|§ 3 © 2020|50 £|Noël|¡Olé!"
)
KOREAN = "안녕하세요. 오늘 회의는 세 시에 시작합니다.|서울"
PHRASES = [
    (encoding, phrase)
    for encoding, phrases in [
        ("cp932", JAPANESE),
        ("euc_jp", JAPANESE.replace("髙橋さん|①②③の手順", "高橋さん")),
        ("gb18030", SIMPLIFIED),
        ("big5", TRADITIONAL),
        ("gb18030", TRADITIONAL),
        ("cp1252", LATIN),
        ("cp949", KOREAN),
    ]
    for phrase in phrases.split("|")
]


@pytest.mark.parametrize(("encoding", "phrase"), PHRASES)
def test_a_few_words_are_enough_to_tell_a_legacy_encoding(encoding: str, phrase: str) -> None:
    assert decode(phrase.encode(encoding)) == phrase


def test_cyrillic_without_another_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "chardetng_py", None)
    text = "Съешь же ещё этих мягких французских булок, да выпей чаю."
    assert decode(text.encode("cp1251")) == text
    assert decode("Café à Genève".encode("cp1252")) == "Café à Genève"


ALPHABETS = {
    "cp1250": "Późnym wieczorem łódź wróciła do portu.|Příští ráno vypluli na moře.|Őszi szél fújt a kikötő felé.",
    "iso8859-2": "Žena řekla, že loď odpluje až zítra.|świeża ryba",
    "cp1254": "Dün akşam balıkçılar limana döndü.|şehir ışıkları",
    "cp1257": "Žvejai vėlai vakare grįžo ir išdžiovino tinklus šalia sandėlio.|Zvejnieki vēlu atgriezās.|zaļā jūra",
    "cp874": "เรือจะออกตอนเก้าโมงเช้า|เรือประมง",
    "koi8-r": "Рыбаки вернулись в порт.|рыбацкая лодка",
    "koi8-u": "Рибалки пізно ввечері повернулися до порту.",
    "cp1251": "Лодка уплыла.|Рибарите се върнаха късно вечерта.|лодка",
    "cp1253": "Οι ψαράδες γύρισαν αργά.|το λιμάνι",
    "cp1255": "הדייגים חזרו לנמל מאוחר בערב.|הדייג",
    "cp1256": "عاد الصيادون إلى الميناء.|الميناء",
    "cp949": "어부들은 밤늦게 항구로 돌아왔다.|항구",
}


@pytest.mark.parametrize(
    ("encoding", "text"), [(name, text) for name, texts in ALPHABETS.items() for text in texts.split("|")]
)
def test_a_few_words_are_enough_to_tell_an_alphabet(encoding: str, text: str) -> None:
    pytest.importorskip("chardetng_py", reason="has no wheel for this system")
    assert decode(text.encode(encoding)) == text


@pytest.mark.parametrize(
    "text", ["Zoë went to the café.", "naïve", "潮が満ちる。", "Рыба и сеть", "Ağ ve kayık, łódź i sieć – “нет”."]
)
@pytest.mark.parametrize("stray", [b"\x96", b"\xe9", b"\xff"])
def test_a_stray_byte_in_a_short_text_of_utf_8_spoils_nothing_else(text: str, stray: bytes) -> None:
    assert decode(text.encode() + b" 1" + stray + b"2 more") == f"{text} 1\ufffd2 more"


@pytest.mark.parametrize("text", ["“CAFÉ” «É» 5 € – Zoë", "«MENÜ“ à 5 €", "联通公司的网络", "Её чёрный кот"])
def test_pairs_that_look_like_utf_8_are_no_utf_8(text: str) -> None:
    encoding = "gb18030" if "联" in text else "cp1251" if "Е" in text else "cp1252"
    assert decode(text.encode(encoding)) == text


@pytest.mark.parametrize("encoding", ["cp932", "euc_jp", "gb18030", "big5", "utf-8"])
def test_one_broken_character_is_damage_not_another_encoding(encoding: str) -> None:
    text = "台中市的天氣很好。" if encoding == "big5" else "日本の会社の新聞です。"
    assert decode(text.encode(encoding) * 50 + b"\xff\xff\n" + text.encode(encoding)).startswith(text * 50)


def test_a_file_cut_within_a_character_is_read_up_to_there() -> None:
    assert decode(("新しい年です。" * 40).encode("cp932")[:-1]).startswith("新しい年です。" * 39)


def test_the_declared_encoding_comes_first() -> None:
    assert decode("薔薇".encode("euc_jp"), declared="EUC-JP") == "薔薇"
    assert decode("①テスト".encode("cp932"), declared="x-sjis") == "①テスト"
    assert decode("żółć".encode("iso8859-2"), declared="iso-8859-2") == "żółć"


@pytest.mark.parametrize(
    ("text", "encoding", "declared"),
    [
        ("été à la mer", "utf-8", "iso-8859-1"),  # every byte is Latin-1, so declaring it proves nothing
        ("été à la mer", "latin-1", "utf-8"),
        ("été à la mer", "latin-1", "no such thing"),
        (r"a \u0041 b", "ascii", "unicode_escape"),  # a codec, but not of characters
        ("abc", "ascii", "idna"),
    ],
)
def test_a_false_declaration_does_no_harm(text: str, encoding: str, declared: str) -> None:
    assert decode(text.encode(encoding), declared=declared) == text


@pytest.mark.parametrize(
    "data",
    [
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\1\0\0\0\1\0",
        b"text with a \0 in it",
        bytes([1, 0, 2, 0, 3, 0] * 50),
        Random(7).randbytes(4000),
        Random(7).randbytes(4000).replace(b"\0", b""),
        b"\x01\x02\x03\x04" * 20,
    ],
)
def test_binary_data_is_refused(data: bytes) -> None:
    with pytest.raises(SourceError, match=r"^notes/a\.txt: "):
        decode(data, "notes/a.txt")


def test_a_terminal_log_and_a_form_feed_are_text() -> None:
    text = "\x1b[31mred\x1b[0m\x0cnext page\b"
    assert decode(text.encode()) == text


def test_what_was_broken_before_it_was_saved_stays_as_it_is() -> None:
    assert decode("a\ufffdb".encode()) == "a\ufffdb"


LEGACY_TEXTS = {
    "gb18030": "水车停转一天，下游的三十亩菜地就断水一天，所以凡事宁可早做。开闸之前，水工先绕水车走一圈。",
    "big5": "水車停轉一天，下游的三十畝菜地就斷水一天，所以凡事寧可早做。開閘之前，水工先繞水車走一圈。",
    "euc_jp": "水車が一日止まると、下流の畑は一日水が来ません。水門を開ける前に、係は水車の周りを一周します。",
    "cp932": "水車が一日止まると、下流の畑は一日水が来ません。水門を開ける前に、係は水車の周りを一周します。",
}


@pytest.mark.parametrize("encoding", LEGACY_TEXTS)
@pytest.mark.parametrize("repeats", [1, 9])
def test_a_text_that_ends_within_a_character_keeps_its_encoding(encoding: str, repeats: int) -> None:
    data = (LEGACY_TEXTS[encoding] * repeats).encode(encoding)[:-3]  # the full stop, and half a character
    assert decode(data) == data.decode(encoding, "replace")


@pytest.mark.parametrize("encoding", LEGACY_TEXTS)
def test_a_damaged_text_in_ideographs_does_not_become_latin(encoding: str) -> None:
    data = b"\x81\xff\xff".join([(LEGACY_TEXTS[encoding] * 20).encode(encoding)] * 2)
    assert decode(data) == data.decode(encoding, "replace")


@pytest.mark.parametrize("encoding", ["gb18030", "big5"])
def test_a_short_damaged_text_in_ideographs_is_refused(encoding: str) -> None:
    with pytest.raises(SourceError, match="cannot tell the encoding"):
        decode(b"\x81\xff\xff".join([LEGACY_TEXTS[encoding].encode(encoding)] * 2))


GUESSED = "its encoding is guessed from {} bytes; if letters are wrong, save it as UTF-8"
NEWS = "Dün akşam balıkçılar limana döndü. "


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (NEWS.encode("cp1254"), 7),
        (NEWS.encode() + b" 5\xb0", 15),
        (b'<meta charset="utf-8">' + NEWS.encode("cp1254"), 7),
        ("潮が満ちる。".encode("cp932"), 11),
    ],
)
def test_an_encoding_guessed_from_few_bytes_is_named(data: bytes, count: int) -> None:
    assert describe_guess(data) == [GUESSED.format(count)]


@pytest.mark.parametrize(
    "data",
    [
        b"Plain text.",
        NEWS.encode(),
        NEWS.encode("utf-16"),
        "潮".encode("utf-16"),
        NEWS.encode("utf-16-le"),
        "潮が満ちる。".encode("iso2022_jp"),
        (NEWS * 6).encode("cp1254"),
        b'<meta charset="windows-1254">' + NEWS.encode("cp1254"),
        b'<?xml version="1.0" encoding="ISO-8859-9"?><p>' + NEWS.encode("cp1254"),
        b"Content-Type: text/plain; charset=windows-1254\n\n" + NEWS.encode("cp1254"),
        "It’s 5 € – “only”".encode("cp1252"),
    ],
)
def test_an_encoding_that_is_certain_is_not_named(data: bytes) -> None:
    assert describe_guess(data) == []
