"""a name -> the key by which it is the same thing however it is written, and the ids made of keys."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from unicodedata import normalize

from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import SettingsError

_LEGAL_FORMS = frozenset(
    "inc incorporated corp corporation ltd limited llc llp plc gmbh srl".split()  # noqa: SIM905
)
_SHORT_LEGAL_FORMS = frozenset(
    ("ag", "sa", "nv", "bv", "kk", "spa", "oy", "ab")
)  # words too, but not after a comma, or in capitals
_LEGAL_FORM_END = re.compile(r"(?:, *[\w.]+|\b(?:AG|NV|BV|KK|S\.A\.|S\.p\.A\.|SpA|Oy))$")
_JAPANESE_LEGAL_FORMS = r"株式会社|有限会社|合同会社|\((?:株|有|合)\)"
_CJK_LEGAL_FORM = re.compile(
    rf"^(?:{_JAPANESE_LEGAL_FORMS}|一般社団法人)\s*(?=.)|(?<=.)\s*(?:{_JAPANESE_LEGAL_FORMS}|(?:股份)?有限公司)$"
)
_POSSESSIVE = re.compile(r"['’]s?(?=$)")
_WORDS = re.compile(r"[^\W_]+(?:(?<=\d)[.,]\d+)*[+#]*")
_CJK_CHARS = "々〆ー\u3040-\u30ff\u3400-\u9fff"
_INITIALS = re.compile(r"\b[a-z](?: [a-z]\b)+")


@cache  # it takes a while to compile: only who has a name waits for it
def _cjk_space_pattern() -> re.Pattern[str]:
    return re.compile(rf"(?<=[{_CJK_CHARS}]) (?=[{_CJK_CHARS}])")


@lru_cache(maxsize=65536)
def name_key(name: str) -> str:
    """What names of one thing have in common: width, case, spaces, hyphens, legal forms and plurals do not count.

    A plural is taken for its singular where it ends a name of several words, or is written small: `Williams` stays.

    >>> [key(name) for name in ("Apple, Inc.", "APPLE", "Ａｐｐｌｅ", "the neural networks", "Neural-Network")]
    ['apple', 'apple', 'apple', 'neural network', 'neural network']
    >>> [key(name) for name in ("株式会社 東芝", "スティーブ・ジョブズ", "J. B. Lippincott", "U.S.", "C++", "3.14")]
    ['東芝', 'スティーブジョブズ', 'jb lippincott', 'us', 'c++', '3.14']
    """
    plain = _CJK_LEGAL_FORM.sub("", normalize("NFKC", name).strip())
    small = _POSSESSIVE.sub("", plain.casefold()).replace("'", "").replace("’", "")
    words = _cjk_space_pattern().sub("", " ".join(_WORDS.findall(small)))
    words = _INITIALS.sub(lambda run: run[0].replace(" ", ""), words)
    parts = words.split(" ")
    while len(parts) > 1 and (
        parts[-1] in _LEGAL_FORMS or (parts[-1] in _SHORT_LEGAL_FORMS and _LEGAL_FORM_END.search(plain))
    ):
        parts.pop()
    if len(parts) > 1 and parts[0] == "the":
        parts.pop(0)
    if len(parts) > 1 or plain.islower():
        parts[-1] = _singular(parts[-1])
    return " ".join(parts) or small or name


def _singular(word: str) -> str:
    """
    >>> [_singular(word) for word in ("cities", "boats", "glass", "status", "gas", "analysis", "boxes")]
    ['city', 'boat', 'glass', 'status', 'gas', 'analysis', 'box']
    """
    if len(word) < 4 or not word.isascii() or word.endswith(("ss", "us", "is")):
        return word
    for suffix, instead in (("ies", "y"), ("xes", "x"), ("ches", "ch"), ("shes", "sh"), ("sses", "ss"), ("s", "")):
        if word.endswith(suffix):
            return word[: -len(suffix)] + instead
    return word


def entity_id(key: str) -> str:
    """The id of the entity that has this key."""
    return hash_parts(key)


def relation_id(one: str, other: str) -> str:
    """The id of the relation between two entities, whichever is named first."""
    return hash_parts(*sorted((one, other)))


def parse_aliases(lines: Iterable[str]) -> Mapping[str, str]:
    """Of `Bob Cratchit = Robert Cratchit = Mr Cratchit`: the key of each name -> the key of the first.

    Lines that share a name are one; the first name of the first of them counts. Raises SettingsError for a line
    without `=`.

    >>> aliases(["Bob Cratchit = Robert Cratchit", "Robert Cratchit = Mr Cratchit"])
    {'robert cratchit': 'bob cratchit', 'mr cratchit': 'bob cratchit'}
    >>> aliases(["Mr Cratchit = Bob", "Robert = Bob", "Tim = Tiny Tim"])
    {'bob': 'mr cratchit', 'robert': 'mr cratchit', 'tiny tim': 'tim'}
    """
    groups: list[list[str]] = []
    for line in lines:
        names = [name_key(name) for name in line.split("=") if name.strip()]
        if len(names) < 2:
            raise SettingsError(f"{line!r} is no alias: write `name = other name`, a line each")
        joined = [group for group in groups if not set(names).isdisjoint(group)]
        at = groups.index(joined[0]) if joined else len(groups)
        whole = list(dict.fromkeys([*(name for group in joined for name in group), *names]))
        groups = [group for group in groups if group not in joined]
        groups.insert(at, whole)
    return {name: group[0] for group in groups for name in group[1:]}
