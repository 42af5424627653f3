"""a community -> the context of its report: the elements and child reports that fit; its parts -> its text."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count, islice
from math import log
from typing import Literal, TypeVar

from kumihimo.core.context import Tokenizer
from kumihimo.core.records import (
    Assertion,
    Claim,
    Community,
    Entity,
    Mention,
    Reference,
    Relation,
    RelationMention,
    Report,
)
from kumihimo.core.table import Table
from kumihimo.text.repetition import Repeats
from kumihimo.text.sentences import split_sentences

ElementOrder = Literal["content", "paper"]
Element = Entity | Relation | Claim | Report
E = TypeVar("E", Entity, Relation, Claim, Report)

KINDS = ("entities", "relations", "claims", "reports")
SIZE_BANDS = (1, 2, 4, 10, 30, 100, 300, 1000, 3000)  # the smallest size of each band
TOP_RATING_MENTIONS = 1000  # mentions for a rating of 10
# Typical tokens of a prompt line besides its text: number, commas, names; for a claim also type, status and dates.
# With constants no text is tokenized twice, and the size of a community is a sum.
LINE_OVERHEAD: dict[type[Element], int] = {Entity: 10, Relation: 14, Claim: 30, Report: 4}


@dataclass(frozen=True, slots=True)
class ReportTables:
    """Tables that a report is built from."""

    communities: Table[Community]
    entities: Table[Entity]
    relations: Table[Relation]
    claims: Table[Claim]
    reports: Table[Report]
    mentions: Table[Mention]
    ties: Table[RelationMention]
    assertions: Table[Assertion]


@dataclass(frozen=True, slots=True)
class CommunitySubgraph:
    """Entities and the edges between them.

    Edges are sorted by the combined degree of their ends in the whole graph.
    """

    entities: dict[str, Entity]
    edges: list[Relation]
    degrees: dict[str, int]


@dataclass(frozen=True, slots=True)
class ReportContext:
    """Elements of a report's context, in numbering order. elements: tokens before truncation."""

    entities: tuple[Entity, ...]
    relations: tuple[Relation, ...]
    claims: tuple[Claim, ...]
    reports: tuple[Report, ...]
    elements: int

    @property
    def references(self) -> tuple[Reference, ...]:
        """Return all rows; the first is number 1."""
        return tuple((kind, row.id) for kind in KINDS for row in getattr(self, kind))


def select_report_context(
    community: Community, tables: ReportTables, *, window: int, order: ElementOrder = "content"
) -> ReportContext:
    """Select the elements that fit into `window` tokens (GraphRAG, arXiv:2404.16130, section 3.1.5).

    A leaf: edge by edge, by the highest combined degree; each edge adds its source, its target, itself and the claims
    about both, unless present, until one does not fit. A community with children, if all elements are too many: the
    reports of its children replace their elements, the largest child first, until it fits.

    But: entities without an inner edge come last; the paper leaves them out. A relation that its ends, or a report,
    tell already is left out. A report that is no shorter than its elements replaces nothing. The first element stays,
    however long it is. `order`: "content" numbers the selected elements by name and text, so that an edge elsewhere
    does not change the prompt; "paper" numbers them as selected.
    """
    if community.children:
        child_reports, elements = _substitute_reports(community, tables, window)
    else:
        subgraph = community_subgraph(tables, community.members)
        child_reports, elements = [], list(_ordered_elements(tables, subgraph, subgraph.entities.keys()))
    total = sum(report.elements for report in child_reports) + sum(map(line_tokens, elements))
    fitting = list(_fit_window(window, _without_repeats([*child_reports, *elements])))
    return ReportContext(
        _elements_of_kind(Entity, fitting, order),
        _elements_of_kind(Relation, fitting, order),
        _elements_of_kind(Claim, fitting, order),
        _elements_of_kind(Report, fitting, order),
        total,
    )


def elements_exceed(community: Community, tables: ReportTables, window: int) -> bool:
    """Return whether the elements of a community exceed the window."""
    subgraph = community_subgraph(tables, community_entities(tables, community))
    return sum(map(line_tokens, _ordered_elements(tables, subgraph, subgraph.entities.keys()))) > window


def line_tokens(element: Element) -> int:
    """Return the approximate number of tokens of an element's prompt line."""
    return element.tokens + LINE_OVERHEAD[type(element)]


def community_subgraph(
    tables: ReportTables, members: Iterable[str], outside: Collection[str] = ()
) -> CommunitySubgraph:
    """Return the entities and their edges, with edges to entities `outside`.

    An inner edge begins and ends at a member. The ids show this without reading the edges that leave.
    """
    entities = tables.entities.get_many(members)
    by_source, by_target = _edge_ids(tables, entities)
    degrees = {id: len(by_source[id]) + len(by_target[id]) for id in entities}
    outgoing, incoming = set(chain(*by_source.values())), set(chain(*by_target.values()))
    edges = list(tables.relations.get_many(sorted(outgoing & incoming)).values())
    leaving = tables.relations.get_many(sorted(outgoing ^ incoming) if outside else ())
    edges += (edge for edge in leaving.values() if edge.source in outside or edge.target in outside)
    ends = sorted({end for edge in edges for end in (edge.source, edge.target)} - degrees.keys())
    by_source, by_target = _edge_ids(tables, ends)
    degrees |= {id: len(by_source[id]) + len(by_target[id]) for id in ends}
    edges.sort(key=lambda item: (-degrees[item.source] - degrees[item.target], item.names, item.text, item.id))
    return CommunitySubgraph(entities, edges, degrees)


def _edge_ids(tables: ReportTables, entities: Collection[str]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return the ids of the edges of each entity: outgoing and incoming."""
    return tables.relations.ids_grouped("source", entities), tables.relations.ids_grouped("target", entities)


def community_entities(tables: ReportTables, community: Community) -> Iterator[str]:
    """Yield the entities of all leaves of a community."""
    yield from community.members
    for child in tables.communities.get_many(community.children).values():
        yield from community_entities(tables, child)


def _ordered_elements(
    tables: ReportTables, subgraph: CommunitySubgraph, included: Collection[str]
) -> Iterator[Element]:
    """Yield the elements of the included entities in selection order.

    Edges come by degree, each with its new ends and their claims.
    """
    used: set[str] = set()
    for edge in subgraph.edges:
        ends = [id for id in dict.fromkeys((edge.source, edge.target)) if id in included]
        new_ends = [id for id in ends if id not in used]
        used.update(new_ends)
        yield from (subgraph.entities[id] for id in new_ends)
        if ends:
            yield edge
        for id in new_ends:
            yield from _claims_about(tables, id)
    rest = [subgraph.entities[id] for id in included if id in subgraph.entities and id not in used]
    for entity in sorted(rest, key=lambda item: (-subgraph.degrees[item.id], item.name, item.text, item.id)):
        yield entity
        yield from _claims_about(tables, entity.id)


def _claims_about(tables: ReportTables, subject: str) -> list[Claim]:
    """Return the claims about an entity, sorted by content."""
    return sorted(tables.claims.where(subject=subject), key=_content_key)


def _substitute_reports(community: Community, tables: ReportTables, window: int) -> tuple[list[Report], list[Element]]:
    """Return the child reports that replace children, and the remaining elements.

    The token counts in the reports decide first, so that the elements of a replaced child are not read.
    """
    child_reports = tables.reports.get_many(community.children)
    shorter = [id for id, report in child_reports.items() if line_tokens(report) < report.elements]
    ranked = sorted(shorter, key=lambda id: (-child_reports[id].elements, *_content_key(child_reports[id])))
    size = sum(report.elements for report in child_reports.values())
    count = 0
    while count < len(ranked) and size > window:
        size -= child_reports[ranked[count]].elements - line_tokens(child_reports[ranked[count]])
        count += 1
    remaining = community.children if count < len(community.children) else ()
    children = tables.communities.get_many(remaining)
    child_members = {id: list(community_entities(tables, child)) for id, child in children.items()}
    replaced_members = {member for id in ranked[:count] for member in child_members.pop(id, ())}
    subgraph = community_subgraph(tables, chain.from_iterable(child_members.values()), replaced_members)
    while True:
        reports = [child_reports[id] for id in ranked[:count]]
        members = chain.from_iterable(child_members[id] for id in child_members.keys() - ranked[:count])
        included = subgraph.entities.keys() & members
        elements = list(_ordered_elements(tables, subgraph, included))
        if count == len(ranked) or sum(map(line_tokens, [*reports, *elements])) <= window:
            return reports, elements
        count += 1


def _without_repeats(elements: Iterable[Element]) -> Iterator[Element]:
    """Yield the elements without relations that say nothing new.

    Only the reports and the two ends of a relation count. They come before it, wherever it stands.
    """
    told: dict[str, Repeats] = defaultdict(Repeats)
    for element in elements:
        if isinstance(element, Relation):
            tellers = [told[id] for id in (element.source, element.target, "")]
            sentences = (element.text[start:end] for start, end in split_sentences(element.text))
            if all(any(teller.contain(sentence) for teller in tellers) for sentence in sentences):
                continue
        elif not isinstance(element, Claim):
            told[element.id if isinstance(element, Entity) else ""].add(element.text)
        yield element


def _fit_window(window: int, elements: Iterable[Element]) -> Iterator[Element]:
    """Yield elements until one would pass the window; at least one."""
    used = 0
    for element in elements:
        if used and used + line_tokens(element) > window:
            return
        used += line_tokens(element)
        yield element


def _elements_of_kind(kind: type[E], elements: list[Element], order: ElementOrder) -> tuple[E, ...]:
    """Return the elements of one kind, in the order of the setting."""
    of_kind = [element for element in elements if isinstance(element, kind)]
    return tuple(sorted(of_kind, key=_content_key) if order == "content" else of_kind)


def _content_key(element: Element) -> tuple[str, ...]:
    """Return the sort key of an element: its content.

    The id only decides between elements with the same content.
    """
    if isinstance(element, Entity):
        return (element.name, element.type, element.text, element.id)
    if isinstance(element, Report):
        return (element.title, element.text, element.id)
    return (*element.names, element.type if isinstance(element, Claim) else "", element.text, element.id)


def render_report_context(context: ReportContext) -> str:
    """Render a report's context: numbered lines under a heading for each kind."""
    names = {listed.id: listed.name for listed in context.entities}
    numbers = count(1)
    sections = {
        "Entities": list(map(_entity_note, context.entities)),
        "Relations": [
            _relation_note(_end_names(names, (r.source, r.target), r.names), r.text) for r in context.relations
        ],
        "Claims": [
            _note(
                " – ".join(_end_names(names, (c.subject, c.object), c.names)), [c.type, *c.statuses, _period(c)], c.text
            )
            for c in context.claims
        ],
        "Reports": [report.text for report in context.reports],
    }
    numbered = {heading: [f"{next(numbers)}. {line}" for line in lines] for heading, lines in sections.items()}
    return "\n\n".join("\n".join([f"{heading}:", *lines]) for heading, lines in numbered.items() if lines)


def _note(names: str, details: Iterable[str], text: str) -> str:
    """Return one line on a row: names, details, text.

    >>> _note("Ann", ["person"], "She is\\nthe first.")
    'Ann (person): She is the first.'
    """
    in_brackets = ", ".join(filter(None, details))
    return f"{names}{f' ({in_brackets})' if in_brackets else ''}: {' '.join(text.split())}"


def _entity_note(entity: Entity) -> str:
    """Return one line on an entity; the name, once at its beginning.

    >>> _entity_note(Entity("Ann", "person", (), (), 1, 4, text="Ann is the first."))
    'Ann (person) is the first.'
    """
    note = _note(entity.name, [entity.type], entity.text)
    return note.replace(f": {entity.name} ", " ", 1) if entity.text.startswith(f"{entity.name} ") else note


def _relation_note(names: Sequence[str], text: str) -> str:
    """Return one line on a relation, with names the text lacks."""
    return " ".join(text.split()) if all(name in text for name in names) else _note(" – ".join(names), [], text)


def _period(claim: Claim) -> str:
    return " to ".join(dict.fromkeys(filter(None, (claim.start, claim.end))))


def _end_names(names: dict[str, str], ids: tuple[str, str], own_names: Sequence[str]) -> list[str]:
    """Return the two names: as listed, else as the row has them."""
    first, second = (*own_names, "", "")[:2]
    return list(filter(None, (names.get(ids[0], first), names.get(ids[1], second))))


def describe_size(community: Community, tables: ReportTables, documents: int) -> str:
    """Describe the size of a community in bands, and its place.

    A prompt may not change when something elsewhere changes, and a step that looks up the size of the whole runs again
    after every change. So it says neither that size nor exact numbers, but whether the group is one of the broadest.

    documents: the number of documents that name its entities.
    """
    entities = sum(1 for _ in islice(community_entities(tables, community), SIZE_BANDS[-1]))
    place = "part of a broader group" if community.parent else "one of the broadest groups"
    texts = "1 document" if documents <= 1 else f"{_band(documents)} documents"
    return f"{_band(entities)} members, in {texts}; {place}"


def _band(size: int) -> str:
    """Return the band of a size.

    >>> [_band(size) for size in (0, 1, 2, 5, 250, 9000)]
    ['1', '1', '2 to 3', '4 to 9', '100 to 299', '3000 or more']
    """
    position = bisect_right(SIZE_BANDS, max(size, 1))
    first, last = SIZE_BANDS[position - 1], SIZE_BANDS[position] - 1 if position < len(SIZE_BANDS) else 0
    return f"{first} or more" if not last else f"{first}" if first == last else f"{first} to {last}"


def rate_mentions(mentions: int) -> tuple[float, str]:
    """Return a rating, 0 to 10, by mention count, with its reason.

    >>> rate_mentions(12)
    (3.7, 'Named 12 times.')
    """
    rating = min(10.0, round(10 * log(1 + mentions) / log(1 + TOP_RATING_MENTIONS), 1))
    return rating, f"Named {mentions} times."


def add_report_text(report: Report, tokenizer: Tokenizer) -> Report:
    """Return the report with its text and its number of tokens."""
    text = report.derived_text
    return replace(report, text=text, tokens=len(tokenizer(text)))
