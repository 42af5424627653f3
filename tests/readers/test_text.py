"""Plain text and Markdown are kept line by line, without what is no text."""

from __future__ import annotations

import pytest

from kumihimo.readers.markdown import drop_markup, read_markdown
from kumihimo.readers.page import Page
from kumihimo.readers.plain_text import read_plain_text
from tests.counters import count_lines


def title(text: str) -> str:
    (page,) = read_markdown(text.encode(), "a.md")
    assert page.text == text
    return page.title


def test_plain_text_is_verbatim_but_for_the_byte_order_mark() -> None:
    text = "one\r\n two\t\r\n\r\n\u3000三\u2028end\n"
    assert list(read_plain_text(text.encode("utf-8-sig"), "a.txt")) == [Page(text=text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# The harbour\n\ntext", "The harbour"),
        ("text\n\n#  港 ##\r\n", "港"),
        ("# C#\n", "C#"),
        ("The harbour\r\n===\r\ntext", "The harbour"),
        ("## Second level\n", ""),
        ("#hashtag\n", ""),
        ("    # code\n# Title", "Title"),
        ("```sh\n# a comment\n```\n# Title\n", "Title"),
        ("~~~~\n# no\n~~~\n# no\n~~~~\n# Title\n", "Title"),
        ("===\n", ""),
        ("# \n# Title", "Title"),
        ("---\ntitle: 'Front matter'\n# a comment\n---\n# Heading\n", "Front matter"),
        ("---\ndate: 2026-01-01\n---\n# Heading\n", "Heading"),
        ("---\n\nno front matter\n\n# Heading", "Heading"),
        ("", ""),
    ],
)
def test_the_title_of_markdown(text: str, expected: str) -> None:
    assert title(text) == expected


@pytest.mark.parametrize(
    ("source", "kept"),
    [
        ("## Nets and lines {#nets .wide}\nThe loft.", "## Nets and lines\nThe loft."),
        ("{: #oars }\nOars {:.note}\n[TOC] stays", "\nOars\n[TOC] stays"),
        ("Tar <!-- check\nthe price --> it.", "Tar \n it."),
        ("A `<!--` and <b>bold</b> `<b>`, x < y > z, <user_id>, Map<String>.",
         "A `<!--` and bold `<b>`, x < y > z, <user_id>, Map<String>."),
        ("<!-- never closed\nThe sea.", " never closed\nThe sea."),
        ("<style>\n.a > b {c: d}\n</style>\nThe <span style=\"a: b\">sea</span>.", "\n\n\nThe sea."),
        ("<video src=\"a.mp4\"\n controls>No video here.</video>High water.", "\nHigh water."),
        ("<h2 align=center>Tides</h2>The sea<br>rises.<p>Ebb.</p>", "## Tides\u2028The sea\u2028rises.\u2028Ebb."),
        ("### Moon\n<table><tr><th>port</th><th>high</th></tr>\n<tr><td>Tarn</td><td>09:10</td></tr></table>",
         "### Moon\nport | high\nTarn | 09:10"),
        ("<table>\n<tr>\n<td>Tarn</td>\n<td>09:10</td></tr></table>", "\n\nTarn\n09:10"),
        ("| a<br>b | <b>c</b> |", "| a b | c |"),
        ("{{< hint style=\"info\" >}}\nTide {{% required %}}.\n{{< /hint >}}", "\nTide (required).\n"),
        ("{{< figure src=\"m.png\" caption=\"The mole, 1922\" >}}{% include a.html %}", "The mole, 1922"),
        ("See [the `log`]({{< relref \"log#x\" >}}), ![map](data:image/png;base64,iVBORw0KGgoA==), [b](c.md \"d\").",
         "See the `log`, map, [b](c.md \"d\")."),
        ("[潮](https://ja.example.org/wiki/%E6%BD%AE) https://a.example/?k=eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9",
         "[潮](https://ja.example.org/wiki/潮) https://a.example/?k=…"),
        ("[old%20list](a%20list.pdf) is 100%20", "[old%20list](a list.pdf) is 100%20"),
        ("Fish&nbsp;&amp; chips &mdash; R&D; &notaname;", "Fish & chips — R&D; &notaname;"),
        (":::warning[Ice]\nThin.\n:::\nSee a:::b", "Ice\nThin.\n\nSee a:::b"),
        ("```html\n<b>{#x}</b> {{< y >}}\n```\n~~~\n<!-- z -->\n~~~\n",
         "```html\n<b>{#x}</b> {{< y >}}\n```\n~~~\n<!-- z -->\n~~~\n"),
        ("> ```\n> <b>\n> ```\n> <b>x</b>", "> ```\n> <b>\n> ```\n> x"),
        ("<ruby>撚<rp>(</rp><rt>よ</rt><rp>)</rp></ruby>る", "撚（よ）る"),
        ("The sea.\n\n---\nThis page is licensed under CC BY 4.0.\n", "The sea.\n\n"),
        ("The sea.\n\n---\nThis page is older.\n", "The sea.\n\n---\nThis page is older.\n"),
    ],
)  # fmt: skip
def test_markup_of_markdown_is_no_text_and_lines_keep_their_numbers(source: str, kept: str) -> None:
    (page,) = read_markdown(source.encode(), "a.md")
    assert page.text == kept
    if not page.metadata:
        assert page.text.count("\n") == source.count("\n")


def test_a_title_has_no_markup_and_a_notice_is_metadata() -> None:
    source = (
        '# <img src="a.png"> Nets <!-- new --> {#nets}\n\nTar.\n\n* * *\n***\n© 2024 The loft. All rights reserved.\n'
    )
    (page,) = read_markdown(source.encode(), "a.md")
    assert (page.title, page.metadata) == ("Nets", {"rights": "© 2024 The loft. All rights reserved."})
    assert page.text.endswith("Tar.\n\n* * *\n")


@pytest.mark.parametrize(
    "mark",
    [
        "<!--",
        "<svg>",
        "`",
        "``x",
        "{{<",
        "{{< a >}} b ",
        "<p>",
        "<li>a",
        "a<br>",
        "[",
        "](",
        "](a(",
        "<b ",
        '<b "',
        "&#x",
        "{#a",
        "```\n",
        "://",
        "%E6",
        "x3Y",
    ],
)
def test_the_work_for_markup_grows_with_the_text(mark: str) -> None:
    def count(times: int) -> int:
        return count_lines(lambda: drop_markup(mark * times))

    assert count(2_000) < 5 * count(500) + 1000
    assert drop_markup(mark * 20_000) is not None


RULE = "-" * 55
LOFT = f"""網小屋にて
汐見凪

{RULE}
【テキスト中に現れる記号について】

《》：ルビ
{RULE}

一［＃「一」は中見出し］

　｜古い網《ふるいあみ》を撚《よ》った。［＃ここから２字下げ］
「※［＃「さんずい＋廣」、U+7002、1-2］」と
※［＃「魚＋骨」、第3水準1-94-50］と※［＃判読不能］。


底本：「網」汐見書房
入力：浜
"""


def test_a_text_of_aozora_bunko_has_no_readings_notes_and_colophon() -> None:
    (page,) = read_plain_text(LOFT.replace("\n", "\r\n").encode("cp932"), "a.txt")
    head, text = page.text[: page.body], page.text[page.body :]
    assert head.endswith("-" * 55 + "\r\n")
    character = b"\xfe\xd2".decode("euc_jis_2004")
    assert text == f"\n## 一\n\n　古い網を撚った。\n「瀂」と\n{character}と※。\n\n\n".replace("\n", "\r\n")
    colophon = "底本：「網」汐見書房 入力：浜"
    assert (page.title, page.metadata) == ("網小屋にて", {"colophon": colophon, "author": "汐見凪"})


def test_brackets_of_other_texts_stay() -> None:
    for text in ("他读《潮汐》。｜注", "底本：と書いた。\n次の行《つぎ》。"):
        assert list(read_plain_text(text.encode(), "a.txt")) == [Page(text=text)]


def test_a_book_of_project_gutenberg_has_no_licence() -> None:
    mark = "OF THE PROJECT GUTENBERG EBOOK NETS ***"
    head = f"The Project Gutenberg eBook of Nets\n\nTitle: Nets\nAuthor: Ayu Tarn\n\n*** START {mark}"
    source = f"{head}\n\nTar.\n\n*** END {mark}\nMost people ..."
    (page,) = read_plain_text(source.encode(), "a.txt")
    assert (page.title, page.metadata, page.body) == ("Nets", {"author": "Ayu Tarn"}, len(head))
    assert page.text == f"{head}\n\nTar.\n\n"
