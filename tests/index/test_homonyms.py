"""names and their neighbours by document -> names that may stand for several things."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kumihimo.index.homonyms import Homonym, Meaning, collect_neighbourhoods, find_homonyms

KENTUCKY, WISCONSIN = ("Kentucky Senate", "Frankfort"), ("Wisconsin Senate", "Madison")
NEWS = {"ky1": KENTUCKY, "ky2": KENTUCKY, "wi1": WISCONSIN}


def find(name: str, documents: Mapping[str, Iterable[str]]) -> list[Homonym]:
    """Return the homonyms where a name has these neighbours in each document."""
    ties = [(document, name, other) for document, near in documents.items() for other in near]
    names = {other for _, *ends in ties for other in ends}
    return find_homonyms({each: each for each in names}, collect_neighbourhoods(ties))


def test_documents_that_name_different_owners_mean_different_things() -> None:
    assert find("Senate", NEWS) == [
        Homonym("Senate", (Meaning(("ky1", "ky2"), ("Kentucky Senate",)), Meaning(("wi1",), ("Wisconsin Senate",))))
    ]


def test_the_order_of_documents_makes_no_difference() -> None:
    assert find("Senate", dict(reversed(NEWS.items()))) == find("Senate", NEWS)


def test_a_neighbour_in_common_makes_it_one_thing() -> None:
    assert find("Senate", {"ky1": (*KENTUCKY, "Evers"), "wi1": (*WISCONSIN, "Evers")}) == []


def test_a_neighbour_that_is_everywhere_tells_nothing() -> None:
    everywhere = {name: (*near, "Congress") for name, near in NEWS.items()}
    others = {f"x{n}": ("Congress", f"Town {n}") for n in range(9)}
    assert [homonym.entity for homonym in find("Senate", {**everywhere, **others})] == ["Senate"]


def test_a_longer_form_of_one_owner_is_no_second_owner() -> None:
    assert find("Roake", {"a": ("Kit Roake", "Oban"), "b": ("Senator Kit Roake", "Skye")}) == []
    assert len(find("Roake", {"a": ("Kit Roake", "Oban"), "b": ("Jo Roake", "Skye")})) == 1


def test_a_name_that_only_begins_another_is_not_its_head() -> None:
    assert find("Apple", {"a": ("Apple Watch", "Cook"), "b": ("Apple Pencil", "Ive")}) == []
    assert len(find("Supreme Court", {"a": ("Supreme Court of Ohio",), "b": ("Supreme Court of Texas",)})) == 1


def test_names_without_spaces_have_heads_too() -> None:
    [homonym] = find("議会", {"a": ("東京都議会", "新宿"), "b": ("大阪府議会", "堺")})
    assert [meaning.owners for meaning in homonym.meanings] == [("東京都議会",), ("大阪府議会",)]
