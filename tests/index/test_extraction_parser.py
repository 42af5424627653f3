"""a reply -> its records, parsed one by one, whatever else the reply contains."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from benchmarks.replies import compared, graph, openie, replies
from hypothesis import example, given, strategies as st

from kumihimo.index.extraction_parser import (
    ExtractedClaim,
    ExtractedEntity,
    ExtractedRelation,
    ParsedExtraction,
    drop_last_line,
    parse_extraction,
)
from tests.counters import check_linear

DATA = Path(__file__).parents[3] / "shared" / "data" / "replies"
OBAN = ExtractedEntity("Oban", "place", "A port.")
ROY = ExtractedRelation("Ines Roy", "Oban", "She lives there.", ("home",), 7.0)


@pytest.mark.parametrize(
    "text",
    [
        "entity<|>Oban<|>place<|>A port.\nrelation<|>Ines Roy<|>Oban<|>She lives there.<|>home<|>7\nEND",
        "entity<|>Oban<|>place<|>A port.\r\nrelation<|>Ines Roy<|>Oban<|>She lives there.<|>home<|>7\r\n\r\nEND\r\n",
        "Here they are:\n\nentity<|>Oban<|>place<|>A port.\nAnd now the relations:\n"
        "relation<|>Ines Roy<|>Oban<|>She lives there.<|>home<|>7\n\nEND\nI hope this helps!",
        '("entity"<|>"Oban"<|>"place"<|>"A port.")##\n'
        '("relationship"<|>"Ines Roy"<|>"Oban"<|>"She lives there."<|>"home"<|>7)<|COMPLETE|>',
        '("entity"<|>"Oban"<|>"place"<|>"A port.")##'
        '("relationship"<|>"Ines Roy"<|>"Oban"<|>"She lives there."<|>"home"<|>7)##<|complete|>',
        '("entity"<|>"Oban"<|>"place"<|>"A port.") '
        '("relation"<|>"Ines Roy"<|>"Oban"<|>"She lives there."<|>"home"<|>7) END',
        "(“entity”<|>“Oban”<|>“place”<|>“A port.”)\n"
        "(“relation”<|>“Ines Roy”<|>“Oban”<|>“She lives there.”<|>“home”<|>“7”)\nEND",
        "```\n- entity<|>Oban<|>place<|>A port.\n- relation<|>Ines Roy<|>Oban<|>She lives there.<|>home<|>7\nEND\n```",
        "**Entities:**\n1. `entity<|>Oban<|>place<|>A port.`\n**Relationships:**\n"
        "2) **RELATIONS<|>Ines Roy<|>Oban<|>She lives there.<|>home<|>7**\n**END**",
        "(entities <|> Oban <|> place <|> A port. )\n"
        "{relation<|>Ines Roy<|>Oban<|>She lives there.<|>home<|>7/10}\nEND",
        "entity<||>Oban<|#|>place< | >A port.\n"
        "relation＜｜＞Ines Roy＜｜＞Oban＜｜＞She lives there.＜｜＞home＜｜＞７\nEND",
        "entity<|><|>Oban<|>place<|>A port.<|>\nrelation<|>Ines Roy<|>Oban<|>She lives there.<|>home<|>7<|><|>\nEND",
        '("entity"<|>"Oban"<|>"place"|>"A port.")\n'
        '("relation"<|>"Ines Roy"<|>"Oban"<|>"She lives there.<|>"home"|>7)\nEND',
        '("entity"<|>"Oban"<|>"place"<|>\n"A port."\n)\n'
        '("relation"<|>"Ines Roy"<|>"Oban"<|>"She lives\nthere."<|>home<|>7)\nEND',
        "entity<|>Oban<|>place<|>A port.\nrelation<|>Ines Roy<|>Oban\n<|>She lives there.<|>home<|>7 END",
    ],
)
def test_records_however_they_are_written(text: str) -> None:
    assert parse_extraction(text) == ParsedExtraction((OBAN, ROY), (), True)


NAMES = """42; 3.14; -7; C#; C++; AC/DC; [sic]; (500) Days; Oban (Scotland); "Weird Al" Yankovic; 『雪の港』;
「港」の歌; R&D; a|b; Entity; The END; Legal Entity; Jane's; Dwayne 'The Rock' J.; # 1; O'Hara; END; relation; None;
1. FC Köln; A ## B; `x`y"""


@pytest.mark.parametrize("name", re.split(r";\s", NAMES))
def test_names_and_types_survive(name: str) -> None:
    extraction = parse_extraction(
        f"entity<|>{name}<|>{name}<|>It is {name}\nrelation<|>{name}<|>Oban<|>about {name}<|>theme<|>3"
    )
    assert extraction.records == (
        ExtractedEntity(name, name, f"It is {name}"),
        ExtractedRelation(name, "Oban", f"about {name}", ("theme",), 3.0),
    )
    assert not extraction.broken_lines
    wrapped = parse_extraction(
        f'("entity"<|>"{name}"<|>"{name}"<|>"It is {name}.")##\n(entity<|>{name}<|>{name}<|>It (is) {name})'
    )
    assert wrapped.records == (
        ExtractedEntity(name, name, f"It is {name}."),
        ExtractedEntity(name, name, f"It (is) {name}"),
    )


@pytest.mark.parametrize(
    ("fields", "keywords", "strength"),
    [
        ("<|>7", (), 7.0),
        ("<|>home, work", ("home", "work"), None),
        ("", (), None),
        ("<|>home、 work；home<|>high", ("home", "work"), None),
        ('<|>["home", "work"]<|>12', ("home", "work"), 10.0),
        ("<|>NONE<|>0.5", (), 1.0),
        ("<|><|>strength: 6", (), 6.0),
        ("<|>1998<|>", ("1998",), None),
    ],
)
def test_what_follows_the_description_of_a_relation(
    fields: str, keywords: tuple[str, ...], strength: float | None
) -> None:
    extraction = parse_extraction(f"relation<|>Ines Roy<|>Oban<|>She lives there.{fields}")
    assert extraction.records == (ExtractedRelation("Ines Roy", "Oban", "She lives there.", keywords, strength),)


def test_a_claim() -> None:
    text = """
claim<|>Ines Roy<|>NONE<|>Fraud<|>suspected<|>2011-05<|>NONE<|>She may have hidden a loss.<|>"a loss"
claim<|>Ines Roy<|>Oban<|>Residence<|>"TRUE"<|>2011<|>2031-02-30<|>She lives there.<|>She lives<|>in Oban
claim<|>Ines Roy<|>Oban<|>Residence<|>perhaps<|>May 2011<|>2012-01-31T00:00:00Z<|>She lives there."""
    extraction = parse_extraction(text)
    assert extraction.records == (
        ExtractedClaim("Ines Roy", "", "Fraud", "SUSPECTED", "2011-05", "", "She may have hidden a loss.", "a loss"),
        ExtractedClaim("Ines Roy", "Oban", "Residence", "TRUE", "2011", "", "She lives there.", "She lives in Oban"),
        ExtractedClaim(
            "Ines Roy", "Oban", "Residence", "SUSPECTED", "", "2012-01-31T00:00:00Z", "She lives there.", ""
        ),
    )


BROKEN = """entity<|>Oban<|>place
relation<|>Oban<|>Ines Roy
entity|Oban|place|A port.
("entity", "Oban", "place", "A port.")
claim<|>Oban<|>NONE<|>Fraud<|>TRUE
Oban<|>place<|>A port.
relation<|>Oban<|>NONE<|>nobody<|>none<|>1
entity<|><|><|>A port."""


@pytest.mark.parametrize("line", BROKEN.split("\n"))
def test_lines_meant_for_a_record_are_told(line: str) -> None:
    extraction = parse_extraction(f"entity<|>Oban<|>place<|>A port.\n{line}\nentity<|>Ayr<|>place<|>A port.\nEND")
    assert extraction == ParsedExtraction((OBAN, ExtractedEntity("Ayr", "place", "A port.")), (line,), True)


def test_prose_behind_a_record_is_not_of_it() -> None:
    start = '("entity"<|>"Oban"<|>"place"<|>"A port."\nNow the relations.\n("relation"<|>"Ines Roy"<|>"Oban"<|>'
    assert parse_extraction(f'{start}"She lives there."<|>"home"<|>7\nThat is all.').records == (OBAN, ROY)
    assert parse_extraction("**entity<|>Oban<|>place<|>A port.**\nThat is all.").records == (OBAN,)


def test_prose_is_none() -> None:
    text = (
        "Entities: the text names Oban (a port), and no relation.\n## Entities\nrelations between them: none\n| a | b |"
    )
    assert parse_extraction(text) == ParsedExtraction()
    assert parse_extraction("The END of it.") == ParsedExtraction()


def test_what_is_whole_of_a_reply_that_broke_off() -> None:
    text = '("entity"<|>"Oban"<|>"place"<|>"A port.")##("relationship"<|>"Ines Roy"<|>"Ob'
    assert parse_extraction(drop_last_line(text)).records == (OBAN,)
    assert drop_last_line("entity<|>Oba") == ""


WORDS = 'entity relation claims <|> |> <| ## END <|COMPLETE|> ( ) " “ ” 9 42 - NONE Oban [ ] ` * , ２ ² 2024-02'
PIECES = st.sampled_from([*WORDS.split(" "), *"\n\r '\x00\ud800"])


@given(st.lists(PIECES | st.text(max_size=5), max_size=40).map("".join))
@example("(entity<|>")
@example('("')
@example("relation<|>a<|>b<|>c<|>d<|>" + "9" * 400)
@example("claim<|>a<|>b<|>c<|>d<|>0000<|>9999-99<|>g<|>h")
def test_no_text_is_too_much(text: str) -> None:
    for extraction in (parse_extraction(text), parse_extraction(drop_last_line(text))):
        for record in extraction.records:
            if isinstance(record, ExtractedRelation):
                assert record.source
                assert record.target
                assert record.strength is None or 1 <= record.strength <= 10


@pytest.mark.parametrize(
    "unit", ["*", " ", "(", "<|>", "- ", '"', "##", "END", "1. ", "entity", "|", "`*", "(entity<|>\n", "\n|>"]
)
@pytest.mark.parametrize("start", ["", "(entity<|>", "relation<|>Oban", "entity"])
def test_work_grows_with_the_text(unit: str, start: str) -> None:
    check_linear(lambda text: parse_extraction(start + text), unit, 100_000)


@pytest.mark.skipif(not DATA.exists(), reason=f"there are no recorded replies in {DATA}")
def test_what_a_real_model_said() -> None:
    """Check bounds on the output of `benchmarks.replies`."""
    extractions = [parse_extraction(reply) for reply in replies(DATA)]
    assert len(extractions) == 187
    assert sum(len(extraction.records) for extraction in extractions) == 1174
    figures = {row.name: row for row in compared(DATA)}
    assert figures["records, strict reading"].recall == 1.0
    assert figures["records, strict reading"].precision >= 0.95  # the strict parser loses the other records
    assert figures["entities, finished index"].precision >= 0.5
    assert figures["relations of entities in both"].precision >= 0.65


@pytest.mark.skipif(not DATA.exists(), reason=f"there are no recorded replies in {DATA}")
def test_triples_of_another_kind_give_a_graph() -> None:
    extractions = {text: parse_extraction(reply) for text, reply in openie(DATA).items()}
    relation_count = sum(
        isinstance(record, ExtractedRelation) for extraction in extractions.values() for record in extraction.records
    )
    assert relation_count >= 17_348
    assert sum(len(extraction.broken_lines) for extraction in extractions.values()) <= 71
    nodes, edges = graph(extractions.values())
    assert (nodes > 15_000, edges > 15_000) == (True, True)
