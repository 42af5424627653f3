"""the Japanese and Chinese names of a document -> honorifics, surnames and parts of foreign names, as one name."""

import re
from collections.abc import Collection, Iterator

from kumihimo.index.name_resolution import PERSON_TYPES
from kumihimo.index.rules.name_forms import NAME_WORDS, NameForm

_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
_HONORIFIC = re.compile(
    "(.+?)(さん|ちゃん|くん|君|様|殿|氏|先生|博士|教授|准教授|名誉教授|女士|小姐|太太|夫人|老师|老師)$"
)
_IDEOGRAPHS = re.compile("[々〆\u3400-\u9fff]+")
_FOREIGN_PARTS = re.compile("[・·‧•＝=]")
_COMMON_END = re.compile(f"(?:{'|'.join(sorted(NAME_WORDS['cjk_common_ends']))}|大)$")
_PLACE_KIND = re.compile("[都県縣市町村州省]$")
_MAX_GIVEN = 3  # ideographs of a given name


def is_cjk(name: str) -> bool:
    """Return whether a name has Japanese or Chinese characters."""
    return bool(_CJK.search(name))


def find_merges(forms: Collection[NameForm]) -> Iterator[tuple[str, str, str]]:
    """Yield (form, name, rule) for forms of one other name."""
    cjk = [form for form in forms if is_cjk(form.form)]
    honoured: dict[str, list[str]] = {}  # the name without the honorific -> its forms with one
    for form in cjk:
        match = _HONORIFIC.match(form.form)
        if (
            match
            and not _COMMON_END.search(match[1])
            and (not PERSON_TYPES.isdisjoint(form.types) or match[2] in ("さん", "ちゃん", "女士", "小姐"))
        ):
            honoured.setdefault(match[1], []).append(form.form)
    plain = {form.form: form for form in cjk if not any(form.form in honorific for honorific in honoured.values())}
    for name, honorific_forms in honoured.items():
        for honorific in honorific_forms if len(name) > 1 else ():
            yield honorific, name, "title"
    yield from _surnames(plain, honoured)
    yield from _foreign_parts(plain, honoured)
    yield from _places(plain)


def _surnames(plain: dict[str, NameForm], honoured: dict[str, list[str]]) -> Iterator[tuple[str, str, str]]:
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
        if is_full and len(surname) < 4 and (len(surname) > 1 or name in people):
            for form in honoured.get(surname, []) if len(surname) == 1 else [surname]:
                yield form, name, "surname"


def _foreign_parts(plain: dict[str, NameForm], honoured: Collection[str]) -> Iterator[tuple[str, str, str]]:
    """Yield parts of the only foreign name with them: `ジョブズ`."""
    names = {name: [part for part in _FOREIGN_PARTS.split(name) if part] for name in {*plain, *honoured}}
    for part in sorted(plain):
        containing = [parts for name, parts in names.items() if len(parts) > 1 and part in parts]
        if len(containing) != 1 or len(part) < 2 or len(names[part]) > 1:
            continue
        (parts,) = containing
        name = next(name for name, its_parts in names.items() if its_parts is parts)
        is_person = parts[0] in NAME_WORDS["cjk_given_names"] or part in honoured or name in honoured
        if is_person and part in (parts[0], parts[-1]) and not _is_in_other(part, name, plain):
            yield part, name, "surname" if part == parts[-1] else "given name"


def _places(plain: Collection[str]) -> Iterator[tuple[str, str, str]]:
    """Yield places with and without their kind: `小樽`, `小樽市`."""
    for place in sorted(plain):
        kinds = {
            match[0] for name in plain if name.startswith(place) and (match := _PLACE_KIND.search(name, len(place)))
        }
        names = {place + kind for kind in kinds} & set(plain)
        if len(place) > 1 and len(names) == 1 and not _PLACE_KIND.search(place):
            (name,) = names
            if not _IDEOGRAPHS.fullmatch(place) or name[-1] in "市町村":
                yield place, name, "place"


def _is_in_other(part: str, name: str, plain: Collection[str]) -> bool:
    """Return whether a part of a name is in another one too."""
    return any(part in other and other != part and name not in other for other in plain)
