"""question -> passages near it, passages linked by discourse relations, and passages with its 5W1H slots."""

import logging
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

from kumihimo.core import signature, table
from kumihimo.core.context import Context, Evidence, Tokenizer
from kumihimo.core.errors import MalformedReply, UnparsableReply
from kumihimo.core.records import DiscourseRelation, Passage, SlotFiller
from kumihimo.core.settings import Bounds, Results, StartRows, Tokens, Weight
from kumihimo.index import pdtb_senses
from kumihimo.index.frames import PROMPT as SLOTS_PROMPT, find_slots, normalise_slots
from kumihimo.llm.prompts import render_prompt
from kumihimo.llm.protocols import LLM, Reply, Reranker, RerankerName
from kumihimo.methods.shared.ranking import hybrid_search, scale_scores
from kumihimo.search.protocols import KeywordSearch, VectorSearch

SENSES_PROMPT = Path(__file__).with_name("discourse_senses.md")
Fallback = Literal["none", "parent", "any", "neighbours"]  # each one includes the earlier ones
_OUTLINE_TOKENS = 900  # at most, of the list of senses in a prompt
log = logging.getLogger("kumihimo")


def discourse_cost(settings: signature.MethodSettings, sizes: signature.IndexSizes) -> signature.QueryCost:  # noqa: ARG001
    """Return two calls: one for the senses, one for the slots."""
    prompts = [sizes.prompt_tokens(prompt) for prompt in (SENSES_PROMPT, SLOTS_PROMPT)]
    return signature.QueryCost((2, 2), (sum(prompts), sum(prompts) + _OUTLINE_TOKENS), (1, 1))


@signature.declare(best_for="why, how, when: the passages next to a fact", calls=discourse_cost)
def discourse(
    question: str,
    passages: table.Table[Passage],
    frames: table.Table[SlotFiller],
    links: table.Table[DiscourseRelation],
    keyword_search: KeywordSearch,
    vector_search: VectorSearch,
    tokenizer: Tokenizer,
    llm: LLM | None,
    rerank: Reranker,
    *,
    k: StartRows = 1,
    pool: Results = 100,
    meaning: Weight = 0.5,
    words: bool = True,
    fallback: Fallback = "parent",
    framed: Annotated[int, Bounds(0, 1000, asked=(0, 100))] = 10,
    top_up: bool = True,
    budget: Tokens = 8000,
    reranker: RerankerName = "none",
    paper: bool = False,
) -> Context:
    """Rank passages by similarity, discourse relations and 5W1H (江上・福田, 3.2, 3.3).

    L_v: the `k` nearest passages. Each is followed by its L_d: passages linked by a sense that the question needs,
    which a chain of thought names (Listing 1). Then L_w: `framed` passages, ranked by the number of slots that match
    the question (Listing 2). Without a model, L_d and L_w are empty.
    But: L_v uses keywords too (`words`), and the rest of L_v fills up the budget (`top_up`); if no link has a needed
    sense, broader senses may count (`fallback`). paper: none of these changes, k = 1, no reranking.
    """
    if paper:
        k, words, fallback, top_up, reranker = 1, False, "none", False, "none"
    if words:
        [hits] = hybrid_search([question], passages, keyword_search, vector_search, pool=pool, meaning=meaning)
    else:
        hits = vector_search(passages, question, k=max(k, pool, rerank.candidates))
    hits = rerank(question, hits, reranker)
    needed_senses = infer_senses(question, llm) if llm else ()
    order: dict[str, Passage] = {}
    for item in hits.top(k):
        if isinstance(passage := item.record, Passage):
            linked = expand_by_discourse(passage, needed_senses, links, passages, fallback=fallback)
            order |= {each.id: each for each in (passage, *linked)}
    ranked_slots = rank_by_slots(_question_slots(question, llm), frames) if llm else []
    order |= passages.get_many(id for id, _ in ranked_slots[:framed])
    # scores of different searches do not compare, so the position decides
    ordered = Context(tuple(Evidence("passages", row, 2 - n / len(order)) for n, row in enumerate(order.values())))
    return (ordered + scale_scores(hits) if top_up else ordered).fit(budget, tokenizer)


# -- L_d: discourse relations


def infer_senses(question: str, llm: LLM) -> tuple[str, ...]:
    """Return the sense labels that an answer to the question needs.

    The model thinks step by step and names senses in the last line (江上・福田, section 3.2.2). An unusable reply names
    none.
    """
    try:
        prompt = render_prompt(SENSES_PROMPT, senses="\n".join(_sense_outline()), question=question)
        return llm(prompt, parse=_parse_senses)
    except UnparsableReply as error:
        log.warning("discourse follows no relations: %s", error)
        return ()


def _sense_outline() -> Iterator[str]:
    """Yield the senses, indented below their parents."""
    depth: dict[str, int] = {}
    for sense in pdtb_senses.senses_by_name().values():
        if sense.label:
            parents = pdtb_senses.parent_sense_labels(sense.label)
            depth[sense.label] = max((depth[parent] + 1 for parent in parents), default=0)
            yield f"{'  ' * depth[sense.label]}- {sense.label}: {sense.meaning}"


def _parse_senses(reply: Reply) -> tuple[str, ...]:
    """Return the senses in the last line of a reply.

    Raises MalformedReply if it names no sense and is not `none`.
    """
    lines = reply.text.splitlines()
    last_line = lines[-1].rpartition(":")[2] if lines else ""
    parts = re.split(r"[,;、，；]|\band\b", last_line)
    labels = tuple(dict.fromkeys(label for part in parts if (label := pdtb_senses.match_sense_label(part))))
    if not labels and last_line.strip(" .*`\"'").casefold() != "none":
        complaint = "The last line of the reply has to hold names of the list, with commas between them, or none."
        raise MalformedReply(complaint)
    return labels


def expand_by_discourse(
    passage: Passage,
    senses: Sequence[str],
    links: table.Table[DiscourseRelation],
    passages: table.Table[Passage],
    *,
    fallback: Fallback = "none",
) -> list[Passage]:
    """Return passages linked to this one by a needed sense.

    Narrower senses count too, links count in both directions, and the order is by id (江上・福田, Listing 1).
    fallback: if there are none, use parent senses, then any sense, then the adjacent passages.
    """
    relations = (*links.where(first=passage.id), *links.where(second=passage.id))
    for allowed in _widen_senses(senses, fallback):
        ids = {link.second if link.first == passage.id else link.first for link in relations if link.text in allowed}
        if linked := list(passages.get_many(sorted(ids - {passage.id})).values()):
            return linked
    return list(passages.get_many(_adjacent_ids(passage, passages)).values()) if fallback == "neighbours" else []


def _widen_senses(senses: Iterable[str], fallback: Fallback) -> Iterator[frozenset[str]]:
    """Yield sets of allowed senses, from narrow to wide."""
    current = list(senses)
    yield frozenset[str]().union(*map(pdtb_senses.sense_subtree_labels, current))
    while fallback != "none" and current:
        current = [parent for label in current for parent in pdtb_senses.parent_sense_labels(label)]
        yield frozenset[str]().union(*map(pdtb_senses.sense_subtree_labels, current))
    if fallback in ("any", "neighbours"):
        yield frozenset(pdtb_senses.senses_by_label())


def _adjacent_ids(passage: Passage, passages: table.Table[Passage]) -> list[str]:
    """Return the ids of the previous and next passage in the document.

    They may belong to the adjacent chunks.
    """
    document, _, ordinal = passage.chunk.rpartition(".")
    ids = passages.ids(made_from=passage.chunk)
    index = ids.index(passage.id) if passage.id in ids else 0
    previous = ids[index - 1 : index] if index else passages.ids(made_from=f"{document}.{int(ordinal) - 1:05}")[-1:]
    following = ids[index + 1 : index + 2] or passages.ids(made_from=f"{document}.{int(ordinal) + 1:05}")[:1]
    return [*previous, *following]


# -- L_w: 5W1H slots


def _question_slots(question: str, llm: LLM) -> list[tuple[str, str]]:
    """Return the slots of the question, with normalised names.

    Each value is normalised both ways: by our rules and by those of the paper. An unusable reply names none.
    """
    try:
        [extracted] = find_slots([question], llm)
    except UnparsableReply as error:
        log.warning("discourse compares no who, when or where: %s", error)
        return []
    slots = (slot for as_paper in (False, True) for slot in normalise_slots(extracted, paper=as_paper))
    return list(dict.fromkeys((slot.slot, slot.name) for slot in slots))


def rank_by_slots(pairs: Iterable[tuple[str, str]], frames: table.Table[SlotFiller]) -> list[tuple[str, float]]:
    """Rank passages by the number of matching slots, then by id.

    pairs: slots with normalised names. If a slot is asked several times, its best match counts (江上・福田, section
    3.2.3, Listing 2).
    But: the listing sorts by similarity; here the number of matches decides, as in the text of the paper.
    """
    slots_by_passage: dict[str, set[str]] = defaultdict(set)
    for slot, name in dict.fromkeys(pairs):
        for frame in frames.where(name=name):
            if frame.slot == slot:
                slots_by_passage[frame.passage].add(slot)
    ranked = [(passage, float(len(slots))) for passage, slots in slots_by_passage.items()]
    return sorted(ranked, key=lambda pair: (-pair[1], pair[0]))
