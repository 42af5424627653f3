"""a name -> its key, equal for all spellings of one thing, and the ids made from keys."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from unicodedata import normalize

from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import SettingsError

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
    words = re.sub(_CJK_SPACE, "", " ".join(_WORDS.findall(lowered)))
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


def entity_id(key: str) -> str:
    """Return the id of the entity with this key."""
    return hash_parts(key)


def relation_id(one: str, other: str) -> str:
    """Return the id of the relation of two entities, in either order."""
    return hash_parts(*sorted((one, other)))


def parse_aliases(lines: Iterable[str]) -> Mapping[str, str]:
    """Parse alias lines into a map from name keys to canonical keys.

    A line is `Bob Cratchit = Robert Cratchit = Mr Cratchit`; its first name is canonical. Lines that share a name form
    one group, with the first name of the first line. `Kentucky Senate = Senate @ news/a.txt` is about one document; its
    key is `local_key`. A line with `!=` is for `parse_distinct_names`. Raise SettingsError for a line without `=`.

    >>> parse_aliases(["Bob Cratchit = Robert Cratchit", "Robert Cratchit = Mr Cratchit"])
    {'robert cratchit': 'bob cratchit', 'mr cratchit': 'bob cratchit'}
    >>> parse_aliases(["Mr Cratchit = Bob", "Robert = Bob", "Tim = Tiny Tim"])
    {'bob': 'mr cratchit', 'robert': 'mr cratchit', 'tiny tim': 'tim'}
    """
    places: dict[str, int] = {}  # of each name, in order
    parents: dict[int, int] = {}  # of each place, an earlier one of its group, or itself

    def find(place: int) -> int:
        while parents[place] != place:
            parents[place] = place = parents[parents[place]]
        return place

    for line in (line for line in lines if "!=" not in line):
        if fault := _find_line_fault(line):
            raise SettingsError(fault)
        names = _split_alias(line)
        for name in names:
            parents.setdefault(places.setdefault(name, len(places)), places[name])
        roots = {find(places[name]) for name in names}
        parents.update(dict.fromkeys(roots, min(roots)))
    ordered = list(places)
    return {name: ordered[find(place)] for name, place in places.items() if find(place) != place}


def parse_distinct_names(lines: Iterable[str]) -> frozenset[frozenset[str]]:
    """Parse alias lines into the pairs of keys to keep apart.

    >>> sorted(map(sorted, parse_distinct_names(["Roake != Kit Roake", "Bob = Robert"])))
    [['kit roake', 'roake']]
    """
    return frozenset(frozenset(_split_alias(line)) for line in lines if "!=" in line)


def find_alias_fault(lines: Mapping[int, str]) -> str:
    """Return the first fault of numbered alias lines, or empty.

    A line `A != B` has two different names, which the other lines do not merge.

    >>> find_alias_fault({1: "Roake = Kit Roake", 2: "Bob != Roake"})
    ''
    >>> find_alias_fault({1: "Roake = Kit Roake", 4: "Kit Roake != Roake"})
    "line 4: 'Kit Roake != Roake' keeps apart what line 1 merges ('Roake = Kit Roake'): delete one of them"
    """
    for number, line in lines.items():
        if fault := _find_line_fault(line):
            return f"line {number}: {fault}"
    merging = {number: line for number, line in lines.items() if "!=" not in line}
    keys = parse_aliases(merging.values())
    for number, line in lines.items():
        one, other = (keys.get(key, key) for key in _split_alias(line)[:2])
        if number not in merging and one == other:
            group = [n for n, text in merging.items() if one in (keys.get(key, key) for key in _split_alias(text))]
            places = " and ".join(f"line {n} merges ({merging[n]!r})" for n in group)
            return f"line {number}: {line!r} keeps apart what {places}: delete one of them"
    return ""


def local_key(key: str, document: str) -> str:
    """Return the key of a name in one document.

    document: its id. No other key has an @.
    """
    return f"{key} @ {document}"


def _split_alias(line: str) -> list[str]:
    """Return the keys of the names in an alias line."""
    return [_alias_key(name) for name in re.split("!?=", line) if name.strip()]


def _alias_key(name: str) -> str:
    """Return the key of a name in an alias line.

    >>> _alias_key("Bob Cratchit"), _alias_key("Senate @ news/a.txt") == local_key("senate", hash_parts("news/a.txt"))
    ('bob cratchit', True)
    """
    plain, at, uri = name.partition(" @ ")
    return local_key(name_key(plain), hash_parts(uri.strip())) if at else name_key(name)


def _find_line_fault(line: str) -> str:
    """Return what is wrong with one alias line, or empty."""
    keys, is_distinct = _split_alias(line), "!=" in line
    if len(keys) < 2 or not all(keys[:2]) or (is_distinct and line.count("=") > 1):
        return f"{line!r} is no alias: write `name = other name` or `name != other name`, a line each"
    if is_distinct and keys[0] == keys[1]:
        return f"{line!r} has the same name twice: write two different names, or delete the line"
    if "@" in keys[0] or (is_distinct and "@" in keys[1]):
        return f"{line!r} names a document where it may not: write `name = other name @ document`"
    return ""
