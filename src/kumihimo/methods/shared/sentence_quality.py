"""a sentence -> how well it reads as a quotation."""

import re

from kumihimo.text import sentences, tokens

_FILE_NAME = re.compile(r"\w_\w|\w\.(?:txt|docx?|pdf|md|html?)\b")  # from a heading that became part of the sentence
_SPEAKER_LABEL = re.compile(r"^[A-Z][A-Z.'’ -]+:\s*")  # of a transcript
# Introductions of people or of the documents, without content.
_INTRODUCTION = (  # compiled on first use
    r"\b(?:[Ss]?[Hh]e|[A-Z]\w+)(?:['’]s| is| was| has been)(?: also| currently)?"
    r" (?:an? (?:\w+ ){0,2}|the |our |\w+ as an? )?"
    r"(?:artist|author|award|ceo|cto|chair|champion|chief|co-?founder|director|entrepreneur|executive|fellow|founder|"
    r"guest|host|investor|inventor|leader|manager|officer|partner|president|professor|recipient|researcher|scientist|"
    r"vice|writer)\b"
    r"|\b(?:[Ss]?[Hh]e|[A-Z]\w+) (?:also |has |then |previously )*"
    r"(?:co-?founded|earned|enjoyed|held|holds|received|served|serves|"
    r"(?:is|was) (?:\w+ly )?(?:appointed|awarded|honou?red|named|nominated|recogni[sz]ed))\b"
    r"|\b(?i:founder (?:and|of)|(?:ceo|cto|professor|director|president) (?:and|at|of)|welcome|our guests?|"
    r"join(?:ing|s) us|thanks? (?:you )?(?:so much )?for|episodes?|podcasts?|listeners|"
    r"(?:the|this|our|your|great) show|check out|next up|tune in|talk(?:ing)? (?:with our|to today)|to be here|"
    r"having me|having you)\b"
)
_QUESTION_PATTERN = re.compile(
    r"[?？][”\"'’)]*$|\b(?:tell (?:us|me)|I['’]d love (?:to|for)|I would love|your perspective|do you think|ask you)\b"
)
_FILLERS = re.compile(r"\b(?:you know|I mean|sort of|kind of|uh|um)\b|,? like,", re.IGNORECASE)
_TURN_START = r"^(?:like|no|oh|right|um|well|yeah|yes)\b"
_MIN_WORDS, _MAX_WORDS = 4, 30  # subject terms


def is_prose(text: str) -> bool:
    """Return whether a text is a complete sentence of prose.

    Table rows, headings and file names are no prose.

    >>> is_prose("The tide turns."), is_prose("tides_2.txt The tide turns."), is_prose("Tides and")
    (True, False, False)
    """
    is_sentence = sentences.ends_sentence(text) or text.endswith("…")
    return is_sentence and not sentences.is_table_row(text) and _FILE_NAME.search(text) is None


def rate_sentence(text: str) -> float:
    """Rate a sentence as a quotation, from 0 to 1.

    Questions, fragments and introductions of people score less; text that is no prose scores 0.

    >>> [rate_sentence(text) for text in ("Long tides wear the old stone steps down.", "and a tide.")]
    [1.0, 0.25]
    """
    if not is_prose(text):
        return 0.0
    body = _SPEAKER_LABEL.sub("", text)
    size = len(tokens.subject_terms(body))
    score = 0.25 if re.search(_INTRODUCTION, body) else 1.0
    fragment, colloquial = body[:1].islower() or body[:1] in ",.;-–—", len(_FILLERS.findall(body)) > size / 8
    turn = re.match(_TURN_START, body, re.IGNORECASE)
    for flaw in (_QUESTION_PATTERN.search(body), fragment or turn, colloquial, not _MIN_WORDS <= size <= _MAX_WORDS):
        score *= 0.5 if flaw else 1.0
    return score
