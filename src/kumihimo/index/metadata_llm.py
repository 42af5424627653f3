"""a document -> what a model reads in it: values of its fields, and questions with answers, a call for each part."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from kumihimo.core.context import Ruler
from kumihimo.core.digests import storable
from kumihimo.core.errors import ItemFailed, Malformed, SettingsError
from kumihimo.core.records import Document
from kumihimo.index.metadata_fields import Field
from kumihimo.index.metadata_parser import Pair, Prepared, distinct, once, prepared
from kumihimo.llm.prompts import prompt
from kumihimo.llm.protocols import Ask, Messages
from kumihimo.llm.structured import Reply
from kumihimo.text.sentences import blocks, sentences

CONTINUED = 3  # times a reply that breaks off is continued
_MEASURED = 50_000  # characters measured at once
_AS_WRITTEN = "Write questions and answers in the language of the text."

Found = tuple[dict[str, tuple[str, ...]], tuple[Pair, ...], ItemFailed | None]


def read(
    document: Document,
    ruler: Ruler,
    ask: Ask,
    *,
    fields: Sequence[Field],
    document_types: str,
    users_types: str,
    window: int,
    language: str,
) -> Found:
    """Of each field its values, the pairs, and why there are not more of them, if a part could not be read.

    One prompt, which decides, then lists, then asks and answers (MK-RAG, arXiv:2408.09017, appendix A). But: a document
    longer than `window` tokens is read in parts, cut at sentence ends; the fields are those of the settings.
    """
    told = f"Write questions and answers in {language}." if language else _AS_WRITTEN
    ask_part = partial(
        prompt,
        Path(__file__).with_name("metadata.md"),
        document_types=document_types,
        users_types=users_types,
        questions="\n".join(f"{n}. {field.question}" for n, field in enumerate(fields, 1)),
        lists="\n".join(f"{n}. {_listed(field)}" for n, field in enumerate(fields, 1)),
        language=told,
        doc_title=f"Title: {storable(document.title)}\n" if document.title else "",
    )
    read: list[Prepared] = []
    failure = None
    for text in parts(document, ruler, window):
        try:
            read.append(_heard(ask, ask_part(doc_content=text), fields))
        except ItemFailed as failed:  # what the other parts give is kept
            failure = failure or failed
    values = {
        field.name: distinct((value for one in read for value in one.values[n]), field)
        for n, field in enumerate(fields)
    }
    return values, once(pair for one in read for pair in one.pairs), failure


def _listed(field: Field) -> str:
    only = f" Only from: {list(field.categories)!r}." if field.categories else ""
    return f"{field.list} At most {field.maximum}.{only}"


def _heard(ask: Ask, messages: Messages, fields: Sequence[Field]) -> Prepared:
    """What a reply holds, with the rest of it where it broke off."""
    said = ""
    for _ in range(1 + CONTINUED):
        text, found = ask(messages, read=partial(_read, before=said, fields=fields))
        if found:
            return found
        said = f"{said}{text}\n"
        rest = prompt(Path(__file__).with_name("metadata_rest.md"), last=text.rpartition("\n")[2])
        messages = [*messages, {"role": "assistant", "content": text}, *rest]
    raise ItemFailed(
        f"{ask.mark} broke off {1 + CONTINUED} times: set a larger max_tokens for it, or a smaller metadata.window"
    )


def _read(reply: Reply, *, before: str, fields: Sequence[Field]) -> tuple[str, Prepared | None]:
    """The reply, and what it holds with all that was said before; of one that broke off, its whole lines alone."""
    if not reply.cut:
        return reply.text, prepared(before + reply.text, fields)
    text = reply.text.rpartition("\n")[0].rstrip()
    if not text:
        raise Malformed("The reply broke off before its first line was whole. Write nothing before the form.")
    return text, None


def parts(document: Document, ruler: Ruler, window: int) -> Iterator[str]:
    """The text, after front matter, in parts of at most `window` tokens, each as long as whole sentences make it.

    A sentence that alone is longer is cut at white space, or else between tokens.
    """
    if window < 1:
        raise SettingsError(f"metadata.window is {window}; it must be 1 or more")
    text, start = storable(document.text), document.body
    starts = list(_starts(text, start, ruler))
    ends: list[int] | None = None
    while (last := bisect_left(starts, start) + window) < len(starts):
        ends = _ends(text, start) if ends is None else ends
        at = bisect_right(ends, starts[last])
        end = ends[at - 1] if at and ends[at - 1] > start else _within(text, start, starts[last])
        if text[start:end].strip():
            yield text[start:end].strip()
        start = end
    if text[start:].strip():
        yield text[start:].strip()


def _ends(text: str, start: int) -> list[int]:
    """Where sentences end; a heading stays with what it heads."""
    told = (block for block in blocks(text, start) if block.kind != "heading")
    return [end for block in told for _, end in sentences(text, block.start, block.end)]


def _within(text: str, start: int, end: int) -> int:
    """Where a sentence is cut that goes beyond `end`."""
    space = max((text.rfind(space, start + (end - start) // 2, end) for space in " \n\u3000"), default=-1)
    return space + 1 if space >= 0 else max(end, start + 1)


def _starts(text: str, start: int, ruler: Ruler) -> Iterator[int]:
    """Where each token begins; measured in stretches, as tokenizers hold all of one."""
    while start < len(text):
        until = min(start + _MEASURED, len(text))
        if until < len(text):
            until = max(text.rfind(" ", start, until), text.rfind("\n", start, until)) + 1 or until
        until = until if until > start else min(start + _MEASURED, len(text))
        yield from (start + at for at in ruler(text[start:until]))
        start = until
