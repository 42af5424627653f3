"""queries of a model -> what each of them finds, without those about names that no document has."""

from collections.abc import Callable, Sequence
from itertools import chain

from kumihimo.core.context import Context
from kumihimo.methods.shared.ranking import new_questions
from kumihimo.text.question import ParsedQuestion
from kumihimo.text.word_variants import WordIndex, rewrite_question


def search_queries(
    question: ParsedQuestion,
    context: Context,
    queries: Sequence[str],
    words: WordIndex | None,
    find: Callable[[ParsedQuestion], Context],
) -> dict[str, Context]:
    """Return what each new query finds.

    Left out are those that repeat the words of an earlier search, and those with a name that stands neither in the
    question nor in the documents. words: of the documents, if they are known.
    """
    found: dict[str, Context] = {}
    for text in new_questions(queries, [question.text, *chain.from_iterable(context.rounds)]):
        query = ParsedQuestion(text)
        if not _has_unknown_name(query, question, words) and (context_found := find(query)):
            found[text] = context_found
    return found


def _has_unknown_name(query: ParsedQuestion, question: ParsedQuestion, words: WordIndex | None) -> bool:
    """Return whether a name is in neither question nor documents.

    A capital letter marks a name.
    """
    if words is None:
        return False
    written, asked = rewrite_question(query, words).question, {word.token for word in question.wording.words}
    names = (word for word in written.names if word.token not in asked)
    return any(not words.has(written.normalized[name.start : name.end]) for name in names)
