"""settings -> fields: what is to be known of each document, asked yes or no first, then as a list."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal

from kumihimo.core.errors import SettingsError

Preset = Literal["paper", "news", "policy", "manual"]

GIVEN = "{text_categories}"  # among the categories of a field: those of the setting of that name


@dataclass(frozen=True, slots=True)
class Field:
    """One field of metadata.

    question: yes or no, whether a document says anything to it. list: asks for its values. maximum: how many there may
    be. categories: the only values there may be; none: any.
    """

    name: str
    question: str
    list: str
    maximum: int = 3
    categories: tuple[str, ...] = ()


# The six of papers are those of arXiv:2408.09017, appendix A; the others are made in their likeness.
PRESETS: Mapping[str, tuple[Field, ...]] = MappingProxyType(
    {
        "paper": (
            Field("research_field", "Does it clearly belong to one or more fields of research?",
                  "The fields of research that it belongs to.", 3, (GIVEN,)),
            Field("applied_area", "Is it mainly applied research, rather than theory?",
                  "The areas that it is applied to."),
            Field("repository", "Does it refer to a repository of code, such as one on GitHub?",
                  "The URLs of these repositories.", 2),
            Field("theorem", "Does it reason mathematically?", "The names of the theorems that it uses."),
            Field("company", "Does it tell how something is applied at companies that it names?",
                  "The names of these companies."),
            Field("metric", "Does it compare methods by metrics of evaluation?", "The names of these metrics.", 5),
        ),
        "news": (
            Field("topic", "Does it clearly belong to one or more topics of the news?",
                  "The topics that it belongs to.", 3, (GIVEN,)),
            Field("event", "Does it report an event?", "A name of a few words for each event.", 2),
            Field("place", "Does it happen at places that are named?", "The names of these places."),
            Field("person", "Does it name persons who act or speak in it?", "The names of these persons.", 5),
            Field("organization", "Does it name organizations that act in it?",
                  "The names of these organizations.", 5),
        ),
        "policy": (
            Field("policy_area", "Does it clearly belong to one or more areas of policy?",
                  "The areas of policy that it belongs to.", 3, (GIVEN,)),
            Field("issuer", "Does it say who issues it or answers for it?", "The names of these bodies."),
            Field("audience", "Does it say to whom it applies?", "The groups that it applies to."),
            Field("measure", "Does it order or propose measures?", "A name of a few words for each measure.", 5),
            Field("law", "Does it refer to laws or rules by name?", "The names of these laws and rules.", 5),
        ),
        "manual": (
            Field("product", "Is it about products or systems that it names?", "The names of these products.", 3,
                  (GIVEN,)),
            Field("task", "Does it explain how something is done?", "A name of a few words for each task.", 5),
            Field("part", "Does it tell of single parts?", "The names of these parts.", 5),
            Field("hazard", "Does it warn of dangers or faults?", "A name of a few words for each of them."),
            Field("standard", "Does it refer to standards?", "The names of these standards."),
        ),
    }
)  # fmt: skip


@lru_cache(maxsize=16)
def schema(preset: str, fields: tuple[str, ...], text_categories: tuple[str, ...]) -> tuple[Field, ...]:
    """The fields that are asked for: the user's, a JSON text each; where there are none, those of the preset.

    >>> [(field.name, field.categories) for field in schema("manual", (), ("pumps", "valves"))][:2]
    [('product', ('pumps', 'valves')), ('task', ())]
    """
    known = tuple(map(_read, fields)) or PRESETS[preset]
    return tuple(replace(field, categories=tuple(_filled(field.categories, text_categories))) for field in known)


def _filled(categories: Iterable[str], given: tuple[str, ...]) -> list[str]:
    return [one for category in categories for one in (given if category == GIVEN else (category,))]


def _read(text: str) -> Field:
    """A field as kumi.toml gave it. Raises SettingsError."""
    try:
        said: dict[str, Any] = json.loads(text)
        return Field(**{**said, "categories": tuple(said.get("categories", ()))})
    except (ValueError, TypeError) as error:
        raise SettingsError(
            f"metadata.fields: {text[:80]!r} is no field: write [fields.NAME] in kumi.toml, and under it question, list"
        ) from error
