"""a question -> a request that passages do not answer, by rules; or the question with the names of earlier ones."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial, reduce
from unicodedata import normalize

from kumihimo.core.answer import Answer
from kumihimo.core.context import Context
from kumihimo.generation.phrases import question_language
from kumihimo.generation.quoting import drafts, ranking
from kumihimo.generation.quoting.selection import QUOTES, names_document, read_rules, read_selection
from kumihimo.index.rules import ner_words
from kumihimo.text import question_types, scripts, tokens
from kumihimo.text.question import ParsedQuestion

_CAPITAL_RUN = re.compile(r"(?<!^)\b[A-Z][\w'’&-]*(?:\s+(?:(?:of|the|de|van|von)\s+)?[A-Z][\w'’&-]*)*")
_YEAR = re.compile(r"(?<!\d)[12]\d{3}(?!\d)")
_JAPANESE_WORD = (  # compiled at the first use
    r"[ァ-ヺー]{2,}|[㐀-鿿々]{2,}(?:[りみきけしちびげれ](?=[はがをのにで]))?|[㐀-鿿々](?=[はがを])"
)
_ALL = re.compile(r"(?:these|those|all)\b|[こそ]れらの|(?:すべ|全)ての|[这這那]些|所有", re.IGNORECASE)  # documents
_MAX_NAMES = 2


@dataclass(frozen=True, slots=True)
class Request:
    """What a question asks for.

    kind: compare, documents, themes or outline. subject: what it is about; of themes, a folder or a time. other: the
    second subject of a comparison. selection: of documents.
    """

    kind: str
    subject: str = ""
    other: str = ""
    selection: Mapping[str, str] = field(default_factory=dict)


def read_request(asked: ParsedQuestion, reader: ranking.IndexReader | None = None) -> Request | None:
    """Return what a question requests, or None for a question of detail.

    reader: tells the folders, whose names may stand for their documents.

    >>> read_request(ParsedQuestion("Compare the old wall and the new wall"))
    Request(kind='compare', subject='the old wall', other='the new wall', selection={})
    >>> read_request(ParsedQuestion("Who painted the gate?")) is None
    True
    """
    if selection := read_selection(asked.plain, partial(_find_part, reader=reader) if reader else None):
        return Request("documents", selection.get("mention", ""), selection=selection)
    for kind in ("compare", "themes", "outline"):
        for pattern in _patterns(kind, asked.plain.isascii()) if kind == "themes" or asked.topic != "" else ():
            if match := pattern.search(asked.plain):
                groups = {name: value.strip(QUOTES + " ") for name, value in match.groupdict("").items()}
                if kind == "outline" and _names_all(groups["X"]):
                    return Request("themes")
                return Request(kind, groups.get("X", ""), groups.get("Y", ""))
    return Request("themes") if asked.topic == "" or asked.is_on_all else None


def _find_part(name: str, reader: ranking.IndexReader) -> frozenset[str]:
    """Return the documents of the folder or time with a name."""
    from kumihimo.generation.quoting.overview import find_part

    return find_part(name, reader)


def _names_all(subject: str) -> bool:
    """Return whether a subject is all documents.

    >>> texts = "this folder", "these minutes", "these ferry minutes", "the minutes", "このフォルダ", "这些会议记录"
    >>> list(map(_names_all, texts))
    [True, True, False, False, True, True]
    """
    if _ALL.match(subject):
        return ParsedQuestion(f"Overview: {subject}").is_on_all
    return not names_document(subject) and not ParsedQuestion(subject).corpus_terms


def _matches(section: str, kind: str, text: str) -> bool:
    return any(re.search(pattern, text, re.IGNORECASE) for pattern in read_rules("requests")[section][kind])


@cache
def _patterns(kind: str, is_ascii: bool) -> tuple[re.Pattern[str], ...]:
    """Return the patterns of a kind, with words filled in.

    is_ascii: of a question, so that it is neither in Japanese nor in Chinese.
    """
    words: Mapping[str, str] = read_rules("requests")["words"]

    def expand(pattern: str) -> str:
        return reduce(lambda text, word: text.replace(f"<{word[0]}>", word[1]), words.items(), pattern)

    groups = read_rules("requests")[kind]
    languages = ("en",) if is_ascii else groups
    return tuple(re.compile(expand(pattern), re.IGNORECASE) for name in languages for pattern in groups[name])


def carry_names(question: str, history: Sequence[Answer]) -> tuple[str, str]:
    """Return the question with words of the last one, and a note.

    The note is empty if the question stands alone. A question of another year is the one before with that year.

    >>> before = Answer.of_text("Who is Maren Oldacre?", "")
    >>> carry_names("When did she leave?", [before])
    ('When did she leave? (about Maren Oldacre)', '(about Maren Oldacre)')
    >>> carry_names("And in 2022?", [Answer.of_text("What did it cost in 2021?", "")])
    ('What did it cost in 2022?', '(What did it cost in 2022?)')
    >>> carry_names("Where is Thornhead Light?", [before])
    ('Where is Thornhead Light?', '')
    """
    plain = " ".join(normalize("NFKC", question).split())
    if not history or not _needs_last(plain, history[-1]):
        return question, ""
    before = " ".join(normalize("NFKC", history[-1].question).split())
    if (year := _YEAR.search(plain)) and _YEAR.search(before) and len(_topic_words(plain)) < _MAX_NAMES:
        before = _YEAR.sub(year[0], before)
        return before, f"({before})"
    subject = ParsedQuestion(before).subject
    if not (words := [subject] if subject else _topic_words(before)):
        return question, ""
    note = drafts.say(
        "about", question_language(question, Context()), names=("、" if scripts.has_cjk(before) else ", ").join(words)
    )
    return f"{question} {note}", note


def put_cited_first(context: Context, last: Answer) -> Context:
    """Put the evidence of documents first that the last answer cites."""
    uris = {citation.span.uri for citation in last.citations}
    return replace(context, evidence=tuple(sorted(context, key=lambda item: item.uri not in uris)))


def _needs_last(plain: str, last: Answer) -> bool:
    """Return whether a question is not clear without the one before it.

    It has a pronoun and no name before that, goes on with a word such as `and`, or names nothing. In Japanese, which
    leaves out the subject, it may also name one word that stands in the documents of the last answer.
    """
    rules: Mapping[str, list[str]] = read_rules("requests")["follow_up"]
    if _matches("follow_up", "own", plain):
        return False
    starts = [m.start() for pattern in rules["pronoun"] if (m := re.search(pattern, plain, re.IGNORECASE))]
    if starts:
        return not any(start < min(starts) for start in _name_starts(plain))
    if _matches("follow_up", "goes_on", plain):
        return scripts.has_cjk(plain) or not any(_name_starts(plain))
    words = _topic_words(plain)
    if not scripts.has_cjk(plain) or scripts.is_chinese(plain) or not words:
        return not (words and tokens.subject_terms(question_types.question_pattern("single fact").sub(" ", plain)))
    if len(words) > 1 or len(words[0]) == 1 or not re.fullmatch(_JAPANESE_WORD, words[0]):
        return False
    uris = {citation.span.uri for citation in last.citations}
    return any(words[0] in item.text for item in last.context if item.uri in uris)


def _topic_words(plain: str) -> list[str]:
    """Return the words that name the subject of a question."""
    asked = ParsedQuestion(plain)
    if not scripts.has_cjk(plain):
        return [asked.content] if asked.terms else []
    if scripts.is_chinese(plain):
        return [plain.strip("。？?！! ")]
    topic = plain.partition("は")[0].rstrip("でにと、")
    if topic != plain and len(topic) > 1 and not _matches("follow_up", "asks", topic):
        return [topic]
    return [word for word in re.findall(_JAPANESE_WORD, plain) if not _matches("follow_up", "asks", word)]


def _name_starts(plain: str) -> Iterator[int]:
    """Yield where the names in a question begin.

    Names are capitalised words within it, and compounds in kanji or katakana.
    """
    if scripts.has_cjk(plain):
        from kumihimo.index.rules import ner_cjk  # its patterns take long to compile

        find = ner_cjk.find_chinese_names if scripts.is_chinese(plain) else ner_cjk.find_japanese_names
        yield from (span.start for span in find(plain) if span.type != ner_words.QUANTITY and span.name not in "彼女達")
        return
    for run in _CAPITAL_RUN.finditer(plain):
        if re.sub(r"['’]s$", "", run[0]).casefold() not in ner_words.WORDS["stop_words"]:
            yield run.start()
