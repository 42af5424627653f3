"""evidence -> the sources of a prompt: near the question, merged, by document, without repeats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import example, given, strategies as st

from kumihimo.core.answer import Answer
from kumihimo.core.context import Context, Evidence, KeyPoint
from kumihimo.core.records import Chunk, Record, Relation
from kumihimo.core.spans import Span
from kumihimo.generation.answer import PROMPT, answer
from kumihimo.generation.source_packing import PackedSource, label_sources, pack_sources
from kumihimo.llm.budget import Budget
from kumihimo.llm.cached_llm import create_llm
from kumihimo.storage.response_cache import ResponseCache
from kumihimo.testing.fake_models import FakeChat
from tests.factories_graph_text import entity
from tests.methods.factories_search import report, tokenizer

LOG = (
    "The ferry leaves at nine. It is white. The gate leaks. Nobody mends it. "
    "Roake built the breakwater in 1911. It cost 9,000 crowns.\n\nThe mayor opposed it. The council voted for it."
)


def chunk(document: str, start: int, end: int, text: str = LOG) -> Chunk:
    id = f"{document}.{start:05}"
    return Chunk(id=id, text=text[start:end], title="Log", start=start, end=end, tokens=len(text[start:end].split()))


def part(first: str, last: str, document: str = "log") -> Chunk:
    """Return the chunk from one word of the log to another."""
    return chunk(document, LOG.index(first), LOG.index(last) + len(last))


def long_chunk(number: int, words: str, tokens: int = 1000) -> Chunk:
    return Chunk(id=f"d{number:02}.00000", text=words, title="", start=0, end=len(words), tokens=tokens)


def relation(one: str, other: str, text: str) -> Relation:
    fields = {"source": one, "target": other, "names": (one, other), "keywords": ("theme",), "tokens": 9}
    return Relation(id=f"{one}-{other}", text=text, weight=1, strength=None, **fields)  # type: ignore[arg-type]


def point(text: str, *chunks: str) -> KeyPoint:
    return KeyPoint(id=text, text=text, sources=tuple(("chunks", id) for id in chunks), tokens=len(text.split()))


TABLES = {"Chunk": "chunks", "Entity": "entities", "Relation": "relations", "Report": "reports", "KeyPoint": "points"}


def evidence(*records: Record, scores: Sequence[float] | None = None) -> Context:
    """Return the records as evidence, each with its score or 1."""
    rows = zip(records, scores or [1.0] * len(records), strict=True)
    return Context(tuple(Evidence(TABLES[type(record).__name__], record, score) for record, score in rows))


def pack(
    context: Context, question: str = "When?", *, budget: int = 90_000, limit: int = 25, score_share: float = 0.9
) -> list[PackedSource]:
    return pack_sources(question, context, tokenizer, budget=budget, limit=limit, score_share=score_share)


def texts(context: Context, question: str = "When?", *, limit: int = 25, score_share: float = 0.9) -> list[str]:
    return [source.text for source in pack(context, question, limit=limit, score_share=score_share)]


# -- relevance


def test_a_low_score_without_words_of_the_question_is_left_out() -> None:
    context = evidence(*(long_chunk(n, f"Text {n} on oats.") for n in range(6)), scores=[5, 4, 0.5, 0.3, 0.1, 0.1])
    assert len(texts(context, "The ferry?")) == 3  # 3,000 tokens
    assert len(texts(context, "The ferry?", score_share=0.96)) == 4
    assert len(texts(context, "The ferry?", score_share=1)) == 6
    shown = [item.reference for item in context][-1:]
    assert len(pack_sources("The ferry?", context, tokenizer, budget=90_000, shown=shown)) == 4


def test_words_of_the_question_keep_a_text() -> None:
    chunks = [long_chunk(n, f"Text {n} on oats.") for n in range(5)] + [long_chunk(5, "The ferry is white.")]
    found = texts(evidence(*chunks, scores=[9, *[0.1] * 5]), "The ferry?")
    assert (len(found), "The ferry is white." in found) == (4, True)


def test_the_first_tokens_stay_however_low_their_score() -> None:
    chunks = [long_chunk(n, f"Text {n}.", tokens=500) for n in range(8)]
    assert len(texts(evidence(*chunks, scores=[9, *[0.01] * 7]), "The ferry?")) == 5  # 2,500 tokens


def test_scores_that_say_nothing_leave_nothing_out() -> None:
    chunks = [long_chunk(n, f"Text {n}.") for n in range(6)]
    assert len(texts(evidence(*chunks, scores=[-1, *[-9] * 5]), "The ferry?")) == 6


def test_a_text_without_letters_is_no_source() -> None:
    assert texts(evidence(long_chunk(1, "___"), long_chunk(2, "Oats grow."))) == ["Oats grow."]


def test_scores_compare_within_a_table_only() -> None:
    chunks = [long_chunk(n, f"Text {n}.") for n in range(3)]
    entities = [entity(f"Name {n}", text=f"It grows oats {'abcde'[n] * 4}.") for n in range(5)]
    found = pack(evidence(*chunks, *entities, scores=[100, 90, 80, 0.5, 0.4, 0.3, 0.1, 0.1]), "The ferry?")
    assert [source.kind for source in found] == ["text"] * 3 + ["about an entity"] * 3


def test_sources_are_limited_and_texts_come_first() -> None:
    chunks = [long_chunk(n, f"Text {n}.", tokens=1) for n in range(20)]
    entities = [entity(f"Name {n}", text=f"It grows {chr(97 + n) * 5}.") for n in range(20)]
    context = evidence(*entities, *chunks)
    assert [source.kind for source in pack(context)] == ["text"] * 20 + ["about an entity"] * 5
    assert len(pack(context, limit=7)) == 7


# -- texts of documents


def test_overlapping_and_neighbouring_chunks_are_one_source() -> None:
    overlapping = part("The gate", "9,000 crowns."), part("The ferry", "The gate leaks.")
    assert texts(evidence(*overlapping)) == [LOG[: LOG.index("\n")]]
    neighbours = part("Roake", "crowns."), part("The mayor", "for it.")
    assert texts(evidence(*neighbours)) == [LOG[LOG.index("Roake") :].replace("\n\n", "\n")]
    contained = part("The ferry", "1911."), part("The gate", "leaks.")
    assert texts(evidence(*contained)) == [LOG[: LOG.index(" It cost")]]


def test_sources_of_a_document_stand_together_in_its_order() -> None:
    other = Chunk(id="oats.00000", text="Oats grow.", title="", start=0, end=10, tokens=2)
    context = evidence(part("The mayor", "for it."), other, part("The ferry", "white."))
    sources = pack(context)
    assert [source.text[:9] for source in sources] == ["The ferry", "The mayor", "Oats grow"]
    assert label_sources(sources, {"log": "Log, 1911", "oats": "Oats"}) == [
        "text; Log, 1911",
        "text; same document",
        "text; Oats",
    ]


# -- rows about things


def test_what_a_text_says_is_not_repeated() -> None:
    roake = entity("Roake", text="Roake built the breakwater. He came from Oban in a small boat.")
    mayor = entity("Mayor", "office", text="The mayor opposed the breakwater.")
    found = texts(evidence(part("Roake", "for it."), roake, mayor))
    assert found[1:] == [
        "Roake (person)\nRoake built the breakwater. He came from Oban in a small boat.",  # who "he" is
        "Mayor (office)\nThe mayor opposed the breakwater.",
    ]
    assert texts(evidence(part("Roake", "1911."), entity("Roake", text="Roake built the breakwater in 1911."))) == [
        "Roake built the breakwater in 1911."
    ]


def test_a_sentence_with_another_name_or_number_is_no_repeat() -> None:
    text = "In 1911 the mayor of Oban opposed the expensive new breakwater of the town."
    whole = Chunk(id="d.00000", text=text, title="", start=0, end=len(text), tokens=9)
    for other in (text.replace("1911", "1912"), text.replace("Oban", "Mull")):
        assert len(texts(evidence(whole, entity("X", text=other)))) == 2
    assert len(texts(evidence(whole, entity("X", text=text.replace("expensive", "costly"))))) == 1


def test_a_sentence_said_by_an_earlier_row_is_not_repeated() -> None:
    text = "The harbour office pays for the ferry."
    found = texts(
        evidence(entity("Office", text=text), relation("Office", "Ferry", text), report(f"{text} It is old."))
    )
    assert found == [f"Office (person)\n{text}", f"# A report\n{text} It is old."]
    three = evidence(entity("Office", text=text), entity("Quay", text=f"It is old. {text} It leaks."))
    assert texts(three)[1] == "Quay (person)\nIt is old. It leaks."


def test_a_relation_needs_more_than_its_names() -> None:
    assert texts(
        evidence(relation("Albuquerque", "New Mexico", "Albuquerque is in New Mexico."), entity("Oban", text="A port."))
    ) == ["Oban (person)\nA port."]
    assert texts(evidence(relation("Roake", "Oban", "Roake left Oban after a quarrel over wages."))) == [
        "Roake – Oban\nRoake left Oban after a quarrel over wages."
    ]


def test_japanese_and_chinese_repeats_are_found() -> None:
    for text, said, new in (
        ("組紐は十月に工房から届きます。", "組紐は十月に届く。", "職人は京都の出身である。"),
        ("渡轮九点从码头出发。", "渡轮九点出发。", "船长来自厦门。"),
    ):
        whole = Chunk(id="d.00000", text=text, title="", start=0, end=len(text), tokens=9)
        first = "空は青い。" if "組紐" in text else "天空很蓝。"
        assert texts(evidence(whole, entity("X", text=f"{first}{said}{new}")))[1] == f"X (person)\n{first} {new}"


def test_headings_of_a_report_stay_with_their_sentences() -> None:
    said = "# A report\n\nRoake built the breakwater.\n\n## Cost\n\nIt cost 9,000 crowns."
    text = f"{said}\n\n## Dispute\n\nThe church was sold."
    assert texts(evidence(part("Roake", "crowns."), report(text)))[1] == "# A report\n## Dispute\nThe church was sold."


def test_points_have_the_document_of_their_texts() -> None:
    report_point = KeyPoint(id="r", text="Eels are sold.", sources=(("reports", "c0"),), tokens=3)
    points = [point("Oats grow.", "log.00000"), point("It rains.", "log.00031", "oats.00000"), report_point]
    assert label_sources(pack(evidence(*points)), {"log": "Log, 1911"}) == [
        "point; Log, 1911",
        "point; Log, 1911; and 1 more",
        "point",
    ]


def test_points_on_the_same_rows_are_one_source() -> None:
    context = evidence(point("The ferry is old.", "c1"), point("The gate leaks.", "c2"), point("Oats grow.", "c1"))
    assert texts(context) == ["The ferry is old.\nOats grow.", "The gate leaks."]
    assert texts(evidence(part("The ferry", "leaks."), point("The gate leaks.", "c2"))) == [LOG[:54]]


def test_if_nothing_else_is_left_the_best_row_stays() -> None:
    only = relation("Albuquerque", "New Mexico", "Albuquerque is in New Mexico.")
    assert len(pack(evidence(only))) == 1
    assert pack(Context()) == []
    assert pack(evidence(part("The ferry", "white.")), budget=2) == []


# -- citations


def spans(item: Evidence) -> Iterator[Span]:
    record = item.record
    assert isinstance(record, Chunk)
    yield Span(record.id, record.id.partition(".")[0], record.start, record.end, record.text)


def answer_with(reply: str, context: Context) -> Answer:
    with TemporaryDirectory() as folder:
        cache = ResponseCache(Path(folder, "cache.db"))
        llm = create_llm(FakeChat(lambda prompt: reply), cache, Budget(), "answer")
        result = answer("When?", context, spans, str, llm, tokenizer, PROMPT, None)
        cache.close()
    return result


def test_an_answer_has_the_rows_of_each_source() -> None:
    first, second, other = (
        part("The mayor", "for it."),
        part("The ferry", "is white."),
        part("The gate", "mends it.", "b"),
    )
    context = evidence(first, other, second, *(long_chunk(n, "Oats.") for n in range(4)), scores=[9, 9, 9, 1, 1, 0, 0])
    result = answer_with("The gate leaks [3].", context)
    assert [id for ((_, id), *_) in result.sources[:3]] == [second.id, first.id, other.id]
    assert [citation.span.chunk for citation in result.citations] == [other.id]
    assert [result.source_numbers.get(item.reference) for item in context] == [2, 3, 1, 4, 5, 6, None]
    merged = answer_with("Yes.", evidence(part("It is white", "mends it."), part("The ferry", "is white.")))
    assert {*merged.source_numbers.values()} == {1}


def test_a_citation_of_a_merged_source_quotes_one_sentence_of_it() -> None:
    context = evidence(part("The gate", "crowns."), part("The ferry", "The gate leaks."), part("The mayor", "for it."))
    result = answer_with("It cost 9,000 crowns [1]. The ferry leaves at nine [1]. The gate leaks [1]. No [2].", context)
    quotes = [(citation.n, citation.span.text) for citation in result.citations]
    assert quotes == [(1, "It cost 9,000 crowns."), (1, "The ferry leaves at nine."), (1, "The gate leaks.")]
    assert result.dangling == 1
    for citation in result.citations:
        assert LOG[citation.span.start : citation.span.end] == citation.span.text


@given(st.lists(st.tuples(st.integers(0, len(LOG) - 2), st.integers(1, 90)), min_size=1, max_size=8), st.integers(1, 9))
@example([(0, 1), (9, 1)], 9)
def test_any_chunks_keep_their_text_and_their_places(places: list[tuple[int, int]], limit: int) -> None:
    chunks = {start: chunk("log", start, min(start + length, len(LOG))) for start, length in places}
    sources = pack(evidence(*chunks.values()), limit=limit, score_share=1)
    assert len(sources) <= limit
    for source in sources:
        assert {row.record.id for row in source.rows} <= {one.id for one in chunks.values()}
        for row in source.rows:
            assert row.text in source.text
    if limit == 9:  # a text without a letter or a digit is no source of its own
        shown = {row.record.id for source in sources for row in source.rows}
        assert shown >= {one.id for one in chunks.values() if any(map(str.isalnum, one.text))}
