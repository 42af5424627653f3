"""text -> spans of its blocks and sentences: English, Japanese, Chinese, and all three in one line."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from kumihimo.text.sentences import ends_sentence, split_blocks, split_sentences
from tests.counters import check_linear


def sentences_of(text: str) -> list[str]:
    return [text[a:b] for a, b in split_sentences(text)]


def blocks_of(text: str) -> list[tuple[str, str]]:
    return [(block.kind, text[block.start : block.end]) for block in split_blocks(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n ", []),
        ("No stop at all", ["No stop at all"]),
        ("It rained. He left.", ["It rained.", "He left."]),
        ("  It rained.\n\tHe left.  ", ["It rained.", "He left."]),
        ("Really? Yes! Well…  Good.", ["Really?", "Yes!", "Well…", "Good."]),
        ("What?! No. Yes...", ["What?!", "No.", "Yes..."]),
        ("One.Two.Three", ["One.Two.Three"]),
    ],
)
def test_plain_sentences(text: str, expected: list[str]) -> None:
    assert sentences_of(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Dr. Tose met Mr. Smith at noon. They ate.", ["Dr. Tose met Mr. Smith at noon.", "They ate."]),
        ("He paid $3.50 for it. Cheap.", ["He paid $3.50 for it.", "Cheap."]),
        ("Version 2.1.3 is out! At last.", ["Version 2.1.3 is out!", "At last."]),
        ("See e.g. this one, i.e. that one. Good.", ["See e.g. this one, i.e. that one.", "Good."]),
        ("The U.S. Army left. Figs. 3 and 4 show it.", ["The U.S. Army left.", "Figs. 3 and 4 show it."]),
        ("The ferry (no. 5) leaves. It's late", ["The ferry (no. 5) leaves.", "It's late"]),
        ("“Stop.” She left. It rained.", ["“Stop.”", "She left.", "It rained."]),
    ],
)
def test_a_full_stop_that_ends_no_sentence(text: str, expected: list[str]) -> None:
    assert sentences_of(text) == expected


@pytest.mark.parametrize("text", ['"Stop." She left.', "“Stop!” She left.", "(It rained.) He left."])
def test_a_quotation_ends_a_sentence_whether_or_not_another_follows(text: str) -> None:

    assert sentences_of(f"{text} So did I.") == [*sentences_of(text), "So did I."]
    assert len(sentences_of(text)) == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("雨だった。彼は行った。", ["雨だった。", "彼は行った。"]),
        (
            "彼は「行く。もう帰らない。」と言った。そして去った。",
            ["彼は「行く。もう帰らない。」と言った。", "そして去った。"],
        ),
        ("彼は『「行く。」と言え。』と言った。次。", ["彼は『「行く。」と言え。』と言った。", "次。"]),
        ("「行く。」「来る。」", ["「行く。」", "「来る。」"]),
        ("「行く。」\n次。", ["「行く。」", "次。"]),
        ("「行く」と言った。「来る」とも。", ["「行く」と言った。", "「来る」とも。"]),
        ("彼は「え？」と言った。（笑。）そう。", ["彼は「え？」と言った。", "（笑。）そう。"]),
        ("本当！？うそでしょ！！そうだよ。", ["本当！？", "うそでしょ！！", "そうだよ。"]),
        ("「閉じない。次の文。終わり。", ["「閉じない。", "次の文。", "終わり。"]),
        ("開かない。」次の文。", ["開かない。", "」次の文。"]),
        ("価格は3.5円です。 次へ。", ["価格は3.5円です。", "次へ。"]),
        ("全角　空白。　次。", ["全角　空白。", "次。"]),
        ("。。。", ["。。。"]),
        ("終わりがない", ["終わりがない"]),
        ("構造を述べる．次に，結果を示す．", ["構造を述べる．", "次に，結果を示す．"]),
        ("３．１節を見よ．図3．2に示す．", ["３．１節を見よ．", "図3．2に示す．"]),
        ("半角です｡次です｡", ["半角です｡", "次です｡"]),
        ("すごい!!本当に?そうだ。A!B。", ["すごい!!", "本当に?", "そうだ。", "A!B。"]),
    ],
)
def test_japanese(text: str, expected: list[str]) -> None:
    assert sentences_of(text) == expected


def test_chinese() -> None:
    assert sentences_of("今天下雨。我们去不去？去！他说：“走吧。我们走。”然后走了。") == [
        "今天下雨。",
        "我们去不去？",
        "去！",
        "他说：“走吧。我们走。”然后走了。",
    ]


def test_mixed_scripts() -> None:
    assert sentences_of("He said hello. 彼は言った。Then he left. それから？ Yes. 版は2.0です。") == [
        "He said hello.",
        "彼は言った。",
        "Then he left.",
        "それから？",
        "Yes.",
        "版は2.0です。",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "ذهبت إلى السوق. | هل رأيته؟ | نعم!",
        "میں گیا۔ | وہ آیا۔ | کیا آپ آئے؟ | ہاں۔",
        "यह पहला है। | यह दूसरा है। | क्या यह तीसरा है? | हाँ॥",
        "আমি বই পড়ি। | সে স্কুলে যায়।",
        "ကျွန်တော် သွားတယ်။ | သူ၊ လာတယ်။",
        "ខ្ញុំទៅផ្សារ។ | គាត់មកផ្ទះ។ | ចប់៕",
        "Ես գնացի։ | Նա եկավ։ | Ո՞ւր ես։",
        "እኔ ሄድኩ። | እሱ መጣ። | ለምን፧",
        "ꦲꦏꦸꦭꦸꦁꦔ꧉ | ꦝꦺꦮꦺꦏꦺꦠꦼꦏ꧉",
        "ᠪᠢ ᠶᠠᠪᠤᠪᠠ᠃ | ᠲᠡᠷᠡ ᠢᠷᠡᠪᠡ᠃",
        "ܐܢܐ ܐܙܠܬ܀ | ܗܘ ܐܬܐ܀",
        "உண்மை. | பொய்!",
        "Really⁇ | Yes‼ | No.",
        'उसने कहा "हाँ।" | वह गया।',
        "قال: «هل رأيته؟» ثم عاد. | انتهى.",
        "क्या?! | सच!! | हाँ।",
    ],
)
def test_a_sentence_ends_with_the_terminal_of_its_script(text: str) -> None:
    assert sentences_of(text.replace(" | ", " ")) == text.split(" | ")
    assert all(ends_sentence(sentence) for sentence in text.split(" | "))


def test_a_sentence_without_a_terminal_has_no_end() -> None:
    assert [ends_sentence(text) for text in ("no end", "a heading:", "", "၊", "彼は「行く。」")] == [False] * 4 + [True]


def test_a_part_of_a_text() -> None:
    text = "雨。It rained. He left. 雪。"
    assert [text[a:b] for a, b in split_sentences(text, 2, 12)] == ["It rained."]
    assert [text[a:b] for a, b in split_sentences(text, 13)] == ["He left.", "雪。"]


TEXTS = st.text(
    st.sampled_from("ab Dr. 3.5?!…\n\r\u3000。！？「」『』（）“”彼雨、,#-=|1)・\t\u2028"), max_size=200
) | st.text(max_size=100)


@given(TEXTS)
@settings(max_examples=300)
def test_nothing_is_lost_between_sentences(text: str) -> None:
    position = 0
    for start, end in split_sentences(text):
        assert start < end
        assert not text[position:start].strip()
        assert text[start:end] == text[start:end].strip()
        position = end
    assert not text[position:].strip()


@given(TEXTS)
@settings(max_examples=300)
def test_nothing_is_lost_between_blocks_except_heading_underlines(text: str) -> None:
    position = 0
    for block in split_blocks(text):
        assert block.start < block.end
        assert set("".join(text[position : block.start].split())) <= set("-=")
        assert text[block.start : block.end] == text[block.start : block.end].strip()
        position = block.end
    assert set("".join(text[position:].split())) <= set("-=")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("\n \n", []),
        ("one\ntwo\n\nthree", [("prose", "one\ntwo"), ("prose", "three")]),
        ("one\r\ntwo\r\n\r\n# three\r\n", [("prose", "one\r\ntwo"), ("heading", "# three")]),
        ("# A\ntext\n## B ##\n", [("heading", "# A"), ("prose", "text"), ("heading", "## B ##")]),
        ("text\n# A", [("prose", "text"), ("heading", "# A")]),
        ("   # A\n    # code\n#tag", [("heading", "# A"), ("prose", "# code\n#tag")]),
        ("####### seven", [("prose", "####### seven")]),
    ],
)
def test_paragraphs_and_headings(text: str, expected: list[tuple[str, str]]) -> None:
    assert blocks_of(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Title\n=====\n\ntext", [("heading", "Title\n====="), ("prose", "text")]),
        ("Title\n---\ntext", [("heading", "Title\n---"), ("prose", "text")]),
        ("Title\r\n-\r\ntext", [("heading", "Title\r\n-"), ("prose", "text")]),
        ("one\ntwo\n---\nthree", [("prose", "one\ntwo\n---\nthree")]),
        ("one\n\n---\n\ntwo", [("prose", "one"), ("prose", "---"), ("prose", "two")]),
        ("# A\n---\ntext", [("heading", "# A"), ("prose", "---\ntext")]),
        ("- item\n===", [("item", "- item\n===")]),
        ("---\ntitle: A\n---", [("prose", "---\ntitle: A\n---")]),
    ],
)
def test_headings_with_a_line_under_them(text: str, expected: list[tuple[str, str]]) -> None:
    assert blocks_of(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- one\n* two\n+ three", ["- one", "* two", "+ three"]),
        ("1. one\n2) two\n(3) three\n10、四", ["1. one", "2) two", "(3) three", "10、四"]),
        ("①一\n②二", ["①一", "②二"]),
        ("• one\n• two", ["• one", "• two"]),
        ("- one\n  goes on\n- two", ["- one\n  goes on", "- two"]),
        ("  - one\n    - within", ["- one", "- within"]),
    ],
)
def test_list_items(text: str, expected: list[str]) -> None:
    assert blocks_of(text) == [("item", item) for item in expected]


@pytest.mark.parametrize("text", ["3.14 is pi", "2026. A year", "-5 degrees", "1,000 boats", "*bold* words", "a) b"])
def test_a_line_that_only_begins_like_an_item(text: str) -> None:
    assert blocks_of(text) == [("prose", text)]


def test_japanese_list_items() -> None:

    assert blocks_of("・一つ目\n・二つ目") == [("item", "・一つ目"), ("item", "・二つ目")]
    assert blocks_of("（１）一つ目\n（２）二つ目") == [("item", "（１）一つ目"), ("item", "（２）二つ目")]


def test_tables() -> None:
    assert blocks_of("| a | b |\n|---|---|\n| 1 | 2 |\nafter") == [
        ("row", "| a | b |"),
        ("row", "|---|---|"),
        ("row", "| 1 | 2 |"),
        ("prose", "after"),
    ]


@pytest.mark.parametrize("piece", ["word ", "語", "。", "「", "- a\n"])
def test_work_grows_with_the_text(piece: str) -> None:
    def split(text: str) -> None:
        assert list(split_blocks(text))
        assert list(split_sentences(text))

    check_linear(split, piece)
