"""two subjects -> the best excerpts of each, one after the other."""

from collections import Counter

from kumihimo.core.context import Context
from kumihimo.generation.quoting.drafts import Draft
from kumihimo.generation.quoting.excerpts import IndexReader, choose_excerpts
from kumihimo.generation.quoting.passages import read_passages
from kumihimo.generation.quoting.question_kinds import Question
from kumihimo.llm.protocols import Embedder
from kumihimo.text.sentences import collapse_spaces

_MAX_PASSAGES = 8
_MIN_COVERAGE = 0.5
_MAX_CHARS = 560  # of each subject


def write_comparison(one: str, other: str, reader: IndexReader, embed: Embedder) -> Draft | None:
    """Return excerpts on both subjects; None if one of them has none."""
    passages = read_passages(reader)
    draft = Draft()
    for subject in (one, other):
        if passages is None:
            return None
        found = passages.mentioning(subject)
        counts = Counter({i: passages.texts[i].casefold().count(subject.casefold()) for i in found})
        best = sorted(found, key=lambda i: (-counts[i], i))[:_MAX_PASSAGES]
        context = Context(tuple(map(passages.evidence, best)))
        excerpts = choose_excerpts(Question(subject), context, reader, embed)
        shown = {citation.span for citation in draft.citations}
        excerpts = [e for e in excerpts if e.coverage >= _MIN_COVERAGE and e.span not in shown]
        if not excerpts:
            return None
        draft.add(f"{subject}:")
        room = draft.size + _MAX_CHARS
        for excerpt in excerpts:
            if draft.size + excerpt.size <= room:
                draft.quote(excerpt.span, f"- {collapse_spaces(excerpt.lead)} " if excerpt.lead else "- ")
    return draft
