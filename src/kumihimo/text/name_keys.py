"""a name -> its key, equal for all spellings of one thing, and the ids made from keys."""

import re
from functools import lru_cache
from unicodedata import normalize

from kumihimo.core.digests import hash_parts
from kumihimo.text.sentences import collapse_spaces

_LEGAL_FORMS = frozenset("inc incorporated corp corporation ltd limited llc llp plc gmbh srl".split())  # noqa: SIM905
# These are words too, except after a comma or in capitals.
_SHORT_LEGAL_FORMS = frozenset(("ag", "sa", "nv", "bv", "kk", "spa", "oy", "ab"))
_LEGAL_FORM_END = re.compile(r"(?:, *[\w.]+|\b(?:AG|NV|BV|KK|S\.A\.|S\.p\.A\.|SpA|Oy))$")
_JAPANESE_LEGAL_FORMS = r"株式会社|有限会社|合同会社|\((?:株|有|合)\)"
_CJK_LEGAL_FORM = re.compile(
    rf"^(?:{_JAPANESE_LEGAL_FORMS}|一般社団法人)\s*(?=.)|(?:(?<=\S)\s+|(?<=.))(?:{_JAPANESE_LEGAL_FORMS}|(?:股份)?有限公司)$"
)
_POSSESSIVE = re.compile(r"['’]s?(?=$)")
_ACRONYM_PLURAL = re.compile(r"(?<=\b[A-Z]{2})s$|(?<=\b[A-Z]{3})s$")
_WORDS = re.compile(r"[^\W_]+(?:(?<=\d)[.,]\d+)*[+#]*")
_CJK_CHARS = "々〆ー\u3040-\u30ff\u3400-\u9fff"
_INITIALS = re.compile(r"\b[a-z](?: [a-z]\b)+")
_PARENTHESIS = re.compile(r"(?:(?<!\s)\s+)?[(（][^()（）]*[)）]")
_FILE_NAME = re.compile(r"[_/\\|<>{}\[\]]|\.\w{2,5}$|\d{5}")
_CJK_SPACE = rf"(?<=[{_CJK_CHARS}]) (?=[{_CJK_CHARS}])"  # slow to compile, so `re` does it at the first use


@lru_cache(maxsize=65536)
def name_key(name: str) -> str:
    """Return a key that all spellings of one name share.

    Width, case, spaces, hyphens, legal forms and plurals do not count. A plural becomes singular only at the end of a
    name of several words, after capitals, or in lower case: `Williams` stays.

    >>> [name_key(name) for name in ("Apple, Inc.", "APPLE", "Ａｐｐｌｅ", "the neural networks", "Neural-Network")]
    ['apple', 'apple', 'apple', 'neural network', 'neural network']
    >>> name_key("ATMs"), name_key("Williams")
    ('atm', 'williams')
    >>> names = ("株式会社 東芝", "スティーブ・ジョブズ", "J. B. Lippincott", "U.S.", "C++", "3.14")
    >>> [name_key(name) for name in names]
    ['東芝', 'スティーブジョブズ', 'jb lippincott', 'us', 'c++', '3.14']
    """
    plain = _CJK_LEGAL_FORM.sub("", normalize("NFKC", name).strip())
    lowered = _POSSESSIVE.sub("", _ACRONYM_PLURAL.sub("", plain).casefold()).replace("'", "").replace("’", "")
    words = " ".join(_WORDS.findall(lowered))
    words = words if words.isascii() else re.sub(_CJK_SPACE, "", words)
    words = _INITIALS.sub(lambda match: match[0].replace(" ", ""), words)
    parts = words.split(" ")
    legal_forms = _LEGAL_FORMS | _SHORT_LEGAL_FORMS if _LEGAL_FORM_END.search(plain) else _LEGAL_FORMS
    while len(parts) > 1 and parts[-1] in legal_forms:
        parts.pop()
    if len(parts) > 1 and parts[0] == "the":
        parts.pop(0)
    if len(parts) > 1 or plain.islower():
        parts[-1] = _singular(parts[-1])
    return " ".join(parts) or lowered or name


def _singular(word: str) -> str:
    """Return the singular of an English word.

    >>> [_singular(word) for word in ("cities", "boats", "glass", "status", "gas", "analysis", "boxes")]
    ['city', 'boat', 'glass', 'status', 'gas', 'analysis', 'box']
    """
    if len(word) < 4 or not word.isascii() or word.endswith(("ss", "us", "is")):
        return word
    for suffix, replacement in (("ies", "y"), ("xes", "x"), ("ches", "ch"), ("shes", "sh"), ("sses", "ss"), ("s", "")):
        if word.endswith(suffix):
            return word[: -len(suffix)] + replacement
    return word


@lru_cache(maxsize=65536)
def entity_id(key: str) -> str:
    """Return the id of the entity with this key."""
    return hash_parts(key)


def relation_id(one: str, other: str) -> str:
    """Return the id of the relation of two entities, in either order."""
    return hash_parts(*sorted((one, other)))


def title_as_name(title: str) -> str:
    """Return a document's title if it looks like a name.

    A name has at most six words, and is no file name.

    >>> titles = ("Mercury (planet)", "梅雨", "minutes_2019-04.md", "What we did when it rained all day")
    >>> [title_as_name(title) for title in titles]
    ['Mercury', '梅雨', '', '']
    """
    plain = collapse_spaces(_PARENTHESIS.sub("", title))
    words = plain.split(" ")
    if len(plain) < 2 or len(words) > 6 or len(plain) > 60 or _FILE_NAME.search(plain) or plain.endswith((".", "。")):
        return ""
    return plain if not plain[0].islower() and name_key(plain).strip("0123456789 ") else ""
