"""Articles in XML keep their sections; all other XML its text."""

from __future__ import annotations

import pytest

from kumihimo.core.errors import SourceError
from kumihimo.readers.page import Page
from kumihimo.readers.xml import read_xml_page

JATS = """<?xml version="1.0"?>
<!DOCTYPE article PUBLIC "-//NLM//DTD JATS 1.2" "JATS.dtd">
<article><front><journal-meta><journal-title>Tides</journal-title></journal-meta><article-meta>
<title-group><article-title>On <italic>neap</italic> tides</article-title></title-group>
<contrib-group><contrib><name><surname>Orrell</surname><given-names>Sabine</given-names></name></contrib>
<contrib><collab>Tide Group</collab></contrib></contrib-group>
<pub-date><day>9</day><month>5</month><year>2024</year></pub-date>
<abstract><p>We&nbsp;measured.</p></abstract></article-meta></front>
<body><sec><title>Method</title><p>One <xref>1</xref> gauge.</p><sec><title>Site</title>
<list><list-item><p>north</p></list-item><list-item><p>south</p></list-item></list>
<table-wrap><caption><p>Heights</p></caption><table><tr><th>day</th><td>m</td></tr></table></table-wrap></sec></sec>
</body><back><ref-list><title>References</title><ref><mixed-citation>Roake 1999</mixed-citation></ref></ref-list></back>
</article>"""


def read(text: str) -> Page:
    (page,) = read_xml_page(text.encode(), "a.xml")
    return page


def test_jats() -> None:
    page = read(JATS)
    assert page.text == (
        "We measured.\n\n## Method\n\nOne 1 gauge.\n\n### Site\n\n- north\n- south\n\nHeights\n\nday | m"
        "\n\n## References\n\n- Roake 1999"
    )
    assert page.title == "On neap tides"
    assert page.metadata == {"author": "Sabine Orrell, Tide Group", "date": "2024-05-09"}
    assert [name for _, name in page.places] == ["", "§ Method", "§ Site", "§ References"]


def test_tei() -> None:
    page = read(
        '<TEI xmlns="http://www.tei-c.org/ns/1.0"><teiHeader><fileDesc><titleStmt><title>Poems</title><author>Li Bai'
        '</author></titleStmt><publicationStmt><date when="1999"/></publicationStmt></fileDesc></teiHeader><text><body>'
        "<div><head>One</head><lg><l>first</l><l>second</l></lg><p>A <hi>word</hi>.<lb/>Next</p></div></body></text>"
        "</TEI>"
    )
    assert page.text == "## One\n\nfirst\nsecond\n\nA word.\nNext"
    assert (page.title, page.metadata) == ("Poems", {"author": "Li Bai", "date": "1999"})


def test_docbook() -> None:
    page = read(
        '<book xmlns="http://docbook.org/ns/docbook"><info><title>Nets</title><author><personname><firstname>Ada'
        "</firstname><surname>Holm</surname></personname></author></info><chapter><title>Knots</title><para>Tie "
        "<emphasis>well</emphasis>.</para><programlisting>a\n  b</programlisting><orderedlist><listitem><para>pull"
        "</para></listitem></orderedlist></chapter></book>"
    )
    assert page.text == "## Knots\n\nTie well.\n\na\n  b\n\n- pull"
    assert (page.title, page.metadata) == ("Nets", {"author": "Ada Holm"})


def test_all_other_xml_is_read_line_by_line() -> None:
    text = "<data><!-- x --><row><name>Otaru</name><year>1922</year></row><note>Hello <b>you</b>\n there</note></data>"
    assert read(text).text == "name: Otaru\nyear: 1922\nHello you there"


def test_the_encoding_is_the_declared_one() -> None:
    data = '<?xml version="1.0" encoding="Shift_JIS"?><a><b>潮</b></a>'.encode("cp932")
    (page,) = read_xml_page(data, "a.xml")
    assert page.text == "b: 潮"


@pytest.mark.parametrize("text", ["<a><b></a>", "no xml", "<a>&unknown;</a>"])
def test_broken_xml_is_refused_with_a_remedy(text: str) -> None:
    with pytest.raises(SourceError, match=r"^a\.xml: broken XML \(.*\); mend it, or name it \.txt"):
        read(text)


def test_no_file_is_opened_and_no_entity_grows() -> None:
    entity = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/hostname">]><a>&x;</a>'
    with pytest.raises(SourceError, match="broken XML"):
        read(entity)
    lines = "".join(f'<!ENTITY x{n} "{f"&x{n - 1};" * 10}">' for n in range(1, 10))
    with pytest.raises(SourceError, match="broken XML"):
        read(f'<!DOCTYPE a [<!ENTITY x0 "{"ha" * 50}">{lines}]><a>&x9;</a>')


def test_depth_is_no_failure() -> None:
    depth = 20_000
    assert read(f"<article>{'<sec>' * depth}<p>deep</p>{'</sec>' * depth}</article>").text == "deep"
    assert read(f"{'<x>' * depth}deep{'</x>' * depth}").text == "x: deep"
    headers = f"{'<info><abstract>' * depth}deep{'</abstract></info>' * depth}"
    assert read(f"<article>{headers}</article>").text == "deep"
