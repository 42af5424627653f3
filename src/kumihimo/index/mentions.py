"""a chunk -> mentions, ties, assertions: its entities, relations and claims, by one conversation with a model."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

from kumihimo.core.errors import ItemFailed, MalformedReply
from kumihimo.core.records import Assertion, Chunk, Mention, Record, RelationMention
from kumihimo.core.settings import Bounds, Line, Names
from kumihimo.core.signature import declare
from kumihimo.core.table import Table
from kumihimo.index import extraction_parser, extraction_rules, imports
from kumihimo.index.batched_calls import rows_or_failure
from kumihimo.index.chunk_background import ChunkBackground, Description, find_reading, read_background
from kumihimo.index.extracted_rows import (
    EntityNames,
    Records,
    build_assertions,
    build_mentions,
    build_ties,
    edit_mentions,
    edit_ties,
)
from kumihimo.index.imports import ImportedUnit
from kumihimo.index.name_records import Aliases, ChunkNames, NameMerges, NameResolver
from kumihimo.llm.prompts import render_prompt
from kumihimo.llm.protocols import LLM, Messages, Reply
from kumihimo.text.graph_edits import parse_edits

R = TypeVar("R", bound=Record)
# complete text, its records, and whether the reply was cut
ParsedTurn = tuple[str, extraction_parser.ParsedExtraction, bool]

MAX_CONTINUATIONS = 3  # of one truncated reply
TYPE_MEANINGS: Mapping[str, str] = {
    "person": "a human being or a character with a name",
    "group": "people who are meant together, such as a profession, a family or the voters of a town",
    "organization": "a company, authority, party, court, team, school or other body",
    "place": "a country, region, town, building, street or body of water",
    "event": "something that happened or is planned, such as a meeting, an election, a storm or a trial",
    "work": "a book, film, study, law, bill, ruling, contract or product with a name",
    "concept": "a theory, method, disease, substance or technology that is a subject of the text; no passing word",
}
_LANGUAGE_OF_TEXT = "Write descriptions and keywords in the language of the text."


@dataclass(frozen=True, slots=True)
class ExtractionSettings:
    """Settings of one conversation, which `mentions`, `ties` and `assertions` share.

    types: names, each possibly with its meaning, `vessel: a ship or a boat`. glean_below: records per 100 tokens of a
    chunk, from which it is not read again. known_entities, relation_types: as `extraction_rules` parses them.
    """

    types: Annotated[Names, Bounds(1, 1000)] = ("person", "group", "organization", "place", "event", "work", "concept")
    known_entities: tuple[Annotated[str, extraction_rules.KNOWN_ENTITY], ...] = ()
    relation_types: tuple[Annotated[str, extraction_rules.RELATION_TYPE], ...] = ()
    examples: Annotated[str, Bounds(0, 100_000)] = ""
    domain: str = ""
    language: Line = ""
    gleanings: Annotated[int, Bounds(0, 10)] = 1
    glean_below: Annotated[float, Bounds(0, 1000)] = 2.0


def mentions(
    chunk: Chunk,
    chunks: Table[Chunk],
    names: Table[ChunkNames],
    merges: Table[NameMerges],
    descriptions: Table[Description],
    imported_units: Table[ImportedUnit],
    llm: LLM | None,
    *,
    extraction: ExtractionSettings = ExtractionSettings(),
    aliases: Aliases = (),
) -> Iterable[Mention]:
    """Extract the entity mentions of a chunk.

    (GraphRAG, arXiv:2404.16130, section 3.1.2, appendix A.2.) But: an end of a relation without an entity record is a
    mention too, without type and text; the model also reads the title and the date of the document, the sentence before
    the chunk, and the full names of short forms in it. What another system extracted is taken as it
    is.
    """
    unit = imported_units.get(chunk.id)
    resolver = _find_resolver(chunk, unit, merges, aliases, extraction)
    if unit:
        return build_mentions(imports.unit_records(unit), EntityNames(resolver))
    if llm is None:
        return edit_mentions(_find_by_rule(chunk, names.get(chunk.id), resolver, extraction), resolver)
    return _extract_rows(build_mentions, chunk, (chunks, merges, descriptions), llm, extraction, resolver)


@declare(scope="mentions")
def ties(
    chunk: Chunk,
    chunks: Table[Chunk],
    names: Table[ChunkNames],
    merges: Table[NameMerges],
    descriptions: Table[Description],
    imported_units: Table[ImportedUnit],
    llm: LLM | None,
    *,
    extraction: ExtractionSettings = ExtractionSettings(),
    aliases: Aliases = (),
) -> Iterable[RelationMention]:
    """Extract the relation mentions of a chunk, in the same conversation.

    But: a relation has keywords too (LightRAG, arXiv:2410.05779, section 3.1); a relation of an entity with itself is
    dropped.
    """
    unit = imported_units.get(chunk.id)
    resolver = _find_resolver(chunk, unit, merges, aliases, extraction)
    if unit:
        return build_ties(imports.unit_records(unit), EntityNames(resolver))
    if llm is None:
        from kumihimo.index.rules import ner

        found = names.get(chunk.id)
        mentions = _find_by_rule(chunk, found, resolver, extraction)
        return edit_ties(ner.find_relation_mentions(chunk, found, resolver), mentions, resolver)
    return _extract_rows(build_ties, chunk, (chunks, merges, descriptions), llm, extraction, resolver)


@declare(scope="mentions")
def assertions(
    chunk: Chunk,
    chunks: Table[Chunk],
    merges: Table[NameMerges],
    descriptions: Table[Description],
    imported_units: Table[ImportedUnit],
    llm: LLM | None,
    *,
    extraction: ExtractionSettings = ExtractionSettings(),
    aliases: Aliases = (),
    claims: bool = False,
    about: str = "",
) -> Iterable[Assertion]:
    """Extract the claims of a chunk, if `claims` is on.

    They are a later turn of the same conversation (GraphRAG, arXiv:2404.16130, section 3.1.2). But: each has a status,
    as in the released code: TRUE, FALSE or SUSPECTED; any other word counts as SUSPECTED.
    """
    if unit := imported_units.get(chunk.id):
        resolver = _find_resolver(chunk, unit, merges, aliases, extraction)
        return build_assertions(imports.unit_records(unit), EntityNames(resolver))
    if llm is None or not claims:
        return []
    resolver = _find_resolver(chunk, unit, merges, aliases, extraction)
    return _extract_rows(
        build_assertions, chunk, (chunks, merges, descriptions), llm, extraction, resolver, claims=True, about=about
    )


def _find_by_rule(
    chunk: Chunk, names: ChunkNames | None, resolver: NameResolver, extraction: ExtractionSettings
) -> Iterator[Mention]:
    """Yield the mentions of known entities, and those by rule."""
    from kumihimo.index.rules import ner  # imported here: only a build needs the rules

    known = extraction_rules.find_known_entities(extraction.known_entities, chunk.text)
    found = build_mentions([entity.record for entity in known], EntityNames(resolver))
    types = {row.entity: row.type for row in found if row.type}
    yield from found
    for row in ner.find_mentions(chunk, names, resolver):
        yield replace(row, type=types[row.entity]) if row.entity in types else row


def _find_resolver(
    chunk: Chunk,
    unit: ImportedUnit | None,
    merges: Table[NameMerges],
    aliases: Aliases,
    extraction: ExtractionSettings,
) -> NameResolver:
    """Return the resolver of a chunk, with the names of known entities.

    What another system extracted from it has the names of a person alone.
    """
    if unit:
        return NameResolver(edits=parse_edits(aliases), document=chunk.document)
    known = extraction_rules.parse_known_entities(extraction.known_entities)
    lines = (" = ".join(entity.names) for entity in known if entity.names[1:])
    return NameResolver.for_document(chunk.document, merges, (*aliases, *lines))


def _extract_rows(
    build: Callable[[Records, EntityNames], Iterable[R]],
    chunk: Chunk,
    tables: tuple[Table[Chunk], Table[NameMerges], Table[Description]],
    llm: LLM,
    extraction: ExtractionSettings,
    resolver: NameResolver,
    **claim_options: Any,
) -> list[R]:
    """Return each row built from the extraction once.

    Raise the failure, if any, with these rows, which the engine stores in place of the complete set.
    """
    reading = find_reading(chunk, tables[0])
    background = read_background(reading.chunk, *tables)
    records, failure = extract_records(reading.chunk, background, llm, extraction, **claim_options)
    known = extraction_rules.find_known_entities(extraction.known_entities, reading.chunk.text)
    entity_of = EntityNames.of([*records, *(entity.record for entity in known)], resolver)
    records = extraction_rules.apply_rules(records, known, extraction.relation_types, entity_of)
    own = [record for record in records if reading.holds(_names_of(record))]
    return rows_or_failure(dict.fromkeys(build(own, entity_of)), failure)


def _names_of(record: extraction_parser.ExtractedRecord) -> list[str]:
    """Return the names that a record is about."""
    fields = ("name", "source", "target", "subject", "object")
    return [name for field in fields if (name := getattr(record, field, ""))]


@dataclass(slots=True)
class _ExtractionChat:
    """A conversation with the model, and the records it has produced."""

    llm: LLM
    messages: list[Mapping[str, str]]
    records: list[extraction_parser.ExtractedRecord] = field(default_factory=list)

    def add_user_turn(self, turn: str, **values: str) -> None:
        """Append the messages of a turn's prompt."""
        self.messages += _turn_messages(turn, **values)

    def request_records(self, followups: int = 0) -> None:
        """Request records, and request unreadable lines once more.

        Fail unless every line is readable in the end. followups: the maximum number of turns after this one.
        """
        if broken_lines := self._request_until_complete(followups, _parse_turn):
            self.add_user_turn("mentions_repair", lines="\n".join(broken_lines))
            self._request_until_complete(followups, _parse_repaired_turn)

    def _request_until_complete(self, followups: int, parse: Callable[[Reply], ParsedTurn]) -> list[str]:
        """Read a reply, continue it while truncated, and return its broken lines."""
        broken_lines: list[str] = []
        for _ in range(1 + MAX_CONTINUATIONS):
            text, extraction, cut = self.llm(list(self.messages), parse=parse, followups=followups)
            self.messages.append({"role": "assistant", "content": text})
            self.records += extraction.records
            broken_lines += extraction.broken_lines
            if not cut:
                return broken_lines
            self.add_user_turn("mentions_continue", last=text.rpartition("\n")[2])
        raise ItemFailed(
            f"{self.llm.fingerprint} was cut off {1 + MAX_CONTINUATIONS} times: "
            "set a larger max_tokens for it, or a smaller chunks.size"
        )

    def glean(self, enough: int, followups: int, later_turns: int) -> None:
        """Request missing records until there are enough, or a round brings none."""
        for remaining in range(followups, later_turns, -1):
            known_records = set(self.records)
            if len(known_records) >= enough:
                return
            self.add_user_turn("mentions_more")
            self.request_records(remaining - 1)
            if known_records.issuperset(self.records):
                return


def extract_records(
    chunk: Chunk,
    background: ChunkBackground,
    llm: LLM,
    extraction: ExtractionSettings,
    *,
    claims: bool = False,
    about: str = "",
) -> tuple[list[extraction_parser.ExtractedRecord], ItemFailed | None]:
    """Extract the records of a chunk, in order, and return any failure.

    Run an extraction, then up to `gleanings` rounds of continuation, then the claims (GraphRAG, arXiv:2404.16130,
    appendix A.2). But: a round takes place only while the records are few for the length of the text; a round without
    a new record is the last; a truncated reply is continued, and unreadable lines are requested again; a relation also
    has keywords (LightRAG, arXiv:2410.05779). If a turn fails, the second value is its failure, and the records are
    those read before it.
    """
    chat = _ExtractionChat(llm, [*_first_messages(chunk, background, extraction)])
    failure = None
    enough = int(extraction.glean_below * chunk.tokens / 100)
    followups = (extraction.gleanings if enough else 0) + claims
    try:
        chat.request_records(followups)
        chat.glean(enough, followups, later_turns=int(claims))
        if claims:
            chat.add_user_turn("mentions_claims", about=f"\n\nWhat to look for: {about}" if about else "")
            chat.request_records()
    except ItemFailed as error:
        failure = error
    return list(dict.fromkeys(chat.records)), failure


def _first_messages(chunk: Chunk, background: ChunkBackground, extraction: ExtractionSettings) -> Messages:
    """Return the messages of the first turn."""
    language, domain = extraction.language, extraction.domain
    known = extraction_rules.find_known_entities(extraction.known_entities, chunk.text)
    language_rule = f"Write descriptions and keywords in {language}, names as the text writes them."
    return render_prompt(
        Path(__file__).with_name("mentions.md"),
        relations=extraction_rules.relations_rule(extraction.relation_types),
        types="\n".join(map(_type_line, extraction.types)),
        examples=extraction.examples or _usual_examples(),
        domain=f"\n\nThe text is one of many about: {domain}" if domain else "",
        language=language_rule if language else _LANGUAGE_OF_TEXT,
        title=background.title,
        date=background.date,
        known_names="\n".join(filter(None, [background.known_names, *(entity.line for entity in known)])),
        before=background.before,
        text=chunk.text,
    )


def _type_line(entity_type: str) -> str:
    """Return the line that explains a type to the model.

    >>> _type_line("place"), _type_line("vessel"), _type_line("enzyme: a protein that speeds up a reaction")
    ('- place: a country, region, town, building, street or body of water', '- vessel', \
'- enzyme: a protein that speeds up a reaction')
    """
    meaning = TYPE_MEANINGS.get(entity_type, "")
    return f"- {entity_type}: {meaning}" if meaning else f"- {entity_type}"


@cache
def _usual_examples() -> str:
    """Return the examples of the prompt without those of the settings."""
    return _turn_messages("mentions_examples")[0]["content"]


def _turn_messages(name: str, **values: str) -> Messages:
    """Return the messages of one prompt."""
    return render_prompt(Path(__file__).with_name(f"{name}.md"), **values)


def _parse_repaired_turn(reply: Reply) -> ParsedTurn:
    """Parse a reply with repaired records.

    Raise MalformedReply if a line is still no record.
    """
    turn = _parse_turn(reply)
    if turn[1].broken_lines:
        raise MalformedReply("Some lines are still not records.")
    return turn


def _parse_turn(reply: Reply) -> ParsedTurn:
    """Return a reply's complete text, its records and whether it was cut.

    Raise MalformedReply if it has no record.
    """
    text = reply.text
    extraction = extraction_parser.parse_extraction(text)
    cut = reply.truncated and not extraction.has_end_mark
    if cut:
        text = extraction_parser.drop_last_line(text)
        extraction = extraction_parser.parse_extraction(text)
    if not extraction.records and cut:
        raise MalformedReply("The reply broke off before its first record was whole. Write nothing before the records.")
    if not extraction.records and not extraction.has_end_mark:
        raise MalformedReply("The reply holds no record: write each on one line, as shown, and END after the last.")
    return text, extraction, cut
