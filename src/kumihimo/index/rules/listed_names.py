"""entities -> those that something beside capital letters or ideographs shows to be named things."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from kumihimo.core.records import Entity
from kumihimo.index.rules import name_forms, ner_tagged, ner_words
from kumihimo.text import scripts
from kumihimo.text.common_words import load_common_words

_CJK = "々\u3040-\u30ff\u3400-\u9fff"
_INNER = re.compile(rf"(?:[^\W\d_],? [(\"“‘]?|[{_CJK}、（「])$")  # before a name within a sentence
_INTRODUCED = re.compile(r"['’]s\b| \(| (?:is|was|are|were|has|had|said|says)\b|, (?:an?|the|who|born)\b")
_PROSE = re.compile(rf"(?:^|\s)[a-zß-ÿ]\w|[{_CJK}]")
_SMALL = re.compile(r"(?<![\w'’-])[a-zß-ÿ][^\W\d_]+")
_TITLE = re.compile(r"[A-Z][a-z]{2,}(?: [A-Z][a-z]{2,})+")
_CASED = re.compile(r"(?<![\w'’-])[A-Za-z][a-z]{2,}(?![\w'’-])")
_PART = re.compile(r"[^\W\d_a-zß-ÿ]?[a-zß-ÿ]+|[^\W\d_]+")  # `Email`, `Domain`, `Block`
_KATAKANA = re.compile("(?<![ァ-ヺー・])[ァ-ヺー]+(?![ァ-ヺー・])")
_UNIT = re.compile(rf"(?i:{ner_words.alternatives('units')}) ?\d*")
_COMMON_ACRONYMS = frozenset(form for word in ner_words.WORDS["common_acronyms"] for form in (word, f"{word}s"))
_MAX_ACRONYM = 4  # of `HTTP Status`
_KNOWN_ACRONYMS = frozenset(entry.partition("=")[0] for entry in name_forms.NAME_WORDS["known_acronyms"])


def select_named(entities: Iterable[Entity]) -> list[Entity]:
    """Return the entities that are named things.

    They have a type, which a model, a title or a type word gives; or their sentences, or a dictionary, show a proper
    noun. What the sentences write in small letters too is none.
    """
    rows = list(entities)
    small = load_common_words().union(*(_SMALL.findall(row.text) for row in rows))
    cases = Counter(word for row in rows for word in _CASED.findall(row.text))
    katakana = frozenset(word for row in rows for word in _KATAKANA.findall(row.text))
    named = (row for row in rows if row.types or _is_named(row, small, cases))
    return [row for row in named if not ner_tagged.joins_common_nouns(row.name, katakana)]


def _is_named(entity: Entity, small: Collection[str], cases: Mapping[str, int]) -> bool:
    if scripts.has_cjk(entity.name):
        is_proper = ner_tagged.is_proper_chinese if scripts.is_chinese(entity.text) else ner_tagged.is_proper_japanese
        return is_proper(entity.name, entity.mentions)
    sentences = [line for line in entity.text.splitlines() if _PROSE.search(line.replace(entity.name, ""))]
    if entity.mentions > 1 and _is_role(entity.name, small):
        return False
    return not entity.name.islower() and any(_is_shown(form, sentences, small, cases) for form in entity.forms)


def _is_shown(name: str, sentences: Sequence[str], small: Collection[str], cases: Mapping[str, int]) -> bool:
    """Return whether sentences show a name in scripts with capitals.

    It stands within a sentence, is introduced, or has several words and begins two sentences, or one if they are rare.
    Two common words must stand within two sentences, or within one if the sentences mostly write them with capitals;
    one is no name. cases: how often the sentences have each word with a capital, or in small letters.
    """
    words = name.split()
    if (
        name.lower() in _COMMON_ACRONYMS
        or _UNIT.fullmatch(name)
        or any(word.islower() and word not in ner_words.WORDS["lowercase_words"] for word in words)
    ):
        return False
    places = [place for sentence in sentences for place in re.finditer(rf"\b{re.escape(name)}(?!\w)", sentence)]
    inner = [place for place in places if _INNER.search(place.string[: place.start()])]
    introduced = any(_INTRODUCED.match(place.string, place.end()) for place in places)
    if _is_common(name, small):
        is_word = " " not in name and name.lower() not in load_common_words()  # `MediaItem`, but not `JavaScript`
        has_acronym = any(word.rstrip("s").isupper() for word in words)
        is_one = len(_PART.findall(name)) == 1 or is_word or has_acronym
        is_title = bool(_TITLE.fullmatch(name)) and all(cases[word] > cases[word.lower()] for word in words)
        least = 1 if len(words) > 2 or is_title else 2
        return not is_one and (len(inner) >= least or (is_title and introduced))
    are_rare = "&" not in words and all(word.istitle() and word.lower() not in small for word in (words[0], words[-1]))
    are_rare = are_rare and not words[0].endswith(tuple(ner_words.WORDS["opener_suffixes"]))  # `Nominating Haverlock`
    return bool(inner) or introduced or (len(words) > 1 and len(places) > (0 if are_rare else 1))


def _is_role(name: str, small: Collection[str]) -> bool:
    """Return whether common words name what people are: `Release Manager`."""
    nouns, last = name_forms.NAME_WORDS["person_nouns"], name.rpartition(" ")[2].lower()
    return " " in name and " of " not in name and last.removesuffix("s") in nouns and _is_common(name, small)


def _is_common(name: str, small: Collection[str]) -> bool:
    """Return whether a name has only small words, and acronyms beside them.

    >>> small = {"status", "id", "email", "block", "input"}
    >>> [_is_common(name, small) for name in ("Status IDs", "EmailBlock", "INPUT", "HTTP Status", "Otaru")]
    [True, True, True, True, False]
    """
    if name.isupper() and name.lower().replace(".", "") in _KNOWN_ACRONYMS:
        return False
    parts = [part.removesuffix("s") if part[:-1].isupper() else part for part in _PART.findall(name)]
    plain = [part.lower() for part in parts if " " not in name or not part.isupper() or len(part) > _MAX_ACRONYM]
    return all(word in small or word.removesuffix("s") in small for word in plain)
