"""the Japanese and Chinese names of a document -> honorifics, surnames and parts of foreign names, as one name."""

import re
from collections.abc import Callable, Collection, Iterator

from kumihimo.index.name_records import PERSON_TYPES
from kumihimo.index.rules import name_forms, ner_words
from kumihimo.text import scripts
from kumihimo.text.similarity import is_cjk

_HONORIFIC = re.compile(
    "(.+?)(さん|ちゃん|くん|君|様|殿|氏|先生|博士|教授|准教授|名誉教授|女士|小姐|太太|夫人|老师|老師)$"
)
_IDEOGRAPHS = re.compile("[々〆\u3400-\u9fff]+")
_FOREIGN_PARTS = re.compile("[・·‧•＝=]")
_COMMON_END = re.compile(f"(?:{'|'.join(sorted(name_forms.NAME_WORDS['cjk_common_ends']))}|大)$")
_PLACE_KIND = re.compile("(?:[都県縣市町村州省]|地[方区區])$")
_KINDS_OF_ONE_NAME = frozenset("都県縣州省")  # `東京` and `東京都` may be two things
_TITLES = ner_words.alternatives("japanese_person_titles")
_MAX_GIVEN = 3  # ideographs of a given name


def find_merges(forms: Collection[name_forms.NameForm], read_text: Callable[[], str]) -> Iterator[tuple[str, str, str]]:
    """Yield (form, name, rule) for forms of one other name.

    read_text: returns the text of the document.
    """
    cjk = [form for form in forms if is_cjk(form.form)]
    honoured: dict[str, list[str]] = {}  # the name without the honorific -> its forms with one
    for form in cjk:
        match = _HONORIFIC.match(form.form)
        if (
            match
            and not _COMMON_END.search(match[1])
            and (not PERSON_TYPES.isdisjoint(form.types) or match[2] in ("さん", "ちゃん", "女士", "小姐"))
            and not (match[2] == "殿" and scripts.is_chinese(read_text()))  # there a hall
        ):
            honoured.setdefault(match[1], []).append(form.form)
    plain = {form.form: form for form in cjk if not any(form.form in honorific for honorific in honoured.values())}
    for name, honorific_forms in honoured.items():
        for honorific in honorific_forms if len(name) > 1 else ():
            yield honorific, name, "title"
    yield from _surnames(plain, honoured, read_text)
    yield from _foreign_parts(plain, honoured, read_text)
    yield from _places(plain)


def _surnames(
    plain: dict[str, name_forms.NameForm], honoured: dict[str, list[str]], read_text: Callable[[], str]
) -> Iterator[tuple[str, str, str]]:
    """Yield surnames in ideographs of the only person with them."""
    people = {
        name
        for name in {*plain, *honoured}
        if name in honoured or (name in plain and not PERSON_TYPES.isdisjoint(plain[name].types))
    }
    for surname in sorted(people):
        if not _IDEOGRAPHS.fullmatch(surname):
            continue
        others = {name for name in {*plain, *honoured} if name.startswith(surname) and name != surname}
        full = {name for name in others if not any(name != other and name.startswith(other) for other in others)}
        if len(full) != 1:
            continue
        (name,) = full
        is_full = len(name) - len(surname) in range(1, _MAX_GIVEN + 1) and not _COMMON_END.search(name)
        is_known = len(surname) > 1 or name in people
        if is_full and len(surname) < 4 and is_known and _is_only(surname, name, read_text()):
            for form in honoured.get(surname, []) if len(surname) == 1 else [surname]:
                yield form, name, "surname"


def _is_only(surname: str, name: str, text: str) -> bool:
    """Return whether no other name of the text begins so.

    A Chinese surname of two characters is too rare to tell from other words.
    """
    others = re.findall(rf"{surname}(?!{_TITLES})([々〆\u3400-\u9fff]+)", text)
    given = name.removeprefix(surname)
    return all(other.startswith(given) for other in others) and (len(surname) == 1 or not scripts.is_chinese(text))


def _foreign_parts(
    plain: dict[str, name_forms.NameForm], honoured: Collection[str], read_text: Callable[[], str]
) -> Iterator[tuple[str, str, str]]:
    """Yield parts of the only foreign name with them: `ジョブズ`.

    In Chinese a dot stands in names of persons; in Japanese it joins other words too.
    """
    names = {name: [part for part in _FOREIGN_PARTS.split(name) if part] for name in {*plain, *honoured}}
    for part in sorted(names):
        containing = [parts for name, parts in names.items() if len(parts) > 1 and part in parts]
        if len(containing) != 1 or len(part) < 2 or len(names[part]) > 1:
            continue
        (parts,) = containing
        name = next(name for name, its_parts in names.items() if its_parts is parts)
        is_person = parts[0] in name_forms.NAME_WORDS["cjk_given_names"] or part in honoured or name in honoured
        is_end = part == parts[-1] or (is_person and part == parts[0])
        if not is_end or _is_in_other(part, name, plain):
            continue
        if is_person or (not _is_in_other(parts[0], name, plain) and _may_be_person(plain.get(name), read_text)):
            yield part, name, "surname" if part == parts[-1] else "given name"


def _may_be_person(name: name_forms.NameForm | None, read_text: Callable[[], str]) -> bool:
    """Return whether a name with a dot may be a person."""
    if not name or not PERSON_TYPES.isdisjoint(name.types):
        return bool(name)
    in_ideographs = _IDEOGRAPHS.fullmatch(_FOREIGN_PARTS.sub("", name.form))
    return bool(in_ideographs) and len(_FOREIGN_PARTS.split(name.form)[-1]) > 2 and scripts.is_chinese(read_text())


def _places(plain: Collection[str]) -> Iterator[tuple[str, str, str]]:
    """Yield places with and without their kind: `小樽`, `小樽市`."""
    for place in sorted(plain):
        names = [name for name in plain if name.startswith(place) and _PLACE_KIND.search(name, len(place))]
        if len(place) < 2 or len(names) != 1 or _PLACE_KIND.search(place):
            continue
        (name,) = names
        kind = name.removeprefix(place)
        if _PLACE_KIND.fullmatch(kind) and (kind not in _KINDS_OF_ONE_NAME or not _IDEOGRAPHS.fullmatch(place)):
            yield place, name, "place"


def _is_in_other(part: str, name: str, plain: Collection[str]) -> bool:
    """Return whether a part of a name is in another one too."""
    return any(part in other and other != part and name not in other for other in plain)
