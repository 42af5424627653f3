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

CATEGORIES_PLACEHOLDER = "{text_categories}"  # among the categories of a field: those of the setting of that name


@dataclass(frozen=True, slots=True)
class MetadataField:
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
PRESETS: Mapping[str, tuple[MetadataField, ...]] = MappingProxyType(
    {
        "paper": (
            MetadataField("research_field", "Does it clearly belong to one or more fields of research?",
                  "The fields of research that it belongs to.", 3, (CATEGORIES_PLACEHOLDER,)),
            MetadataField("applied_area", "Is it mainly applied research, rather than theory?",
                  "The areas that it is applied to."),
            MetadataField("repository", "Does it refer to a repository of code, such as one on GitHub?",
                  "The URLs of these repositories.", 2),
            MetadataField("theorem", "Does it reason mathematically?", "The names of the theorems that it uses."),
            MetadataField("company", "Does it tell how something is applied at companies that it names?",
                  "The names of these companies."),
            MetadataField("metric", "Does it compare methods by metrics of evaluation?", "The names of these metrics.", 5),
        ),
        "news": (
            MetadataField("topic", "Does it clearly belong to one or more topics of the news?",
                  "The topics that it belongs to.", 3, (CATEGORIES_PLACEHOLDER,)),
            MetadataField("event", "Does it report an event?", "A name of a few words for each event.", 2),
            MetadataField("place", "Does it happen at places that are named?", "The names of these places."),
            MetadataField("person", "Does it name persons who act or speak in it?", "The names of these persons.", 5),
            MetadataField("organization", "Does it name organizations that act in it?",
                  "The names of these organizations.", 5),
        ),
        "policy": (
            MetadataField("policy_area", "Does it clearly belong to one or more areas of policy?",
                  "The areas of policy that it belongs to.", 3, (CATEGORIES_PLACEHOLDER,)),
            MetadataField("issuer", "Does it say who issues it or answers for it?", "The names of these bodies."),
            MetadataField("audience", "Does it say to whom it applies?", "The groups that it applies to."),
            MetadataField("measure", "Does it order or propose measures?", "A name of a few words for each measure.", 5),
            MetadataField("law", "Does it refer to laws or rules by name?", "The names of these laws and rules.", 5),
        ),
        "manual": (
            MetadataField("product", "Is it about products or systems that it names?", "The names of these products.", 3,
                  (CATEGORIES_PLACEHOLDER,)),
            MetadataField("task", "Does it explain how something is done?", "A name of a few words for each task.", 5),
            MetadataField("part", "Does it tell of single parts?", "The names of these parts.", 5),
            MetadataField("hazard", "Does it warn of dangers or faults?", "A name of a few words for each of them."),
            MetadataField("standard", "Does it refer to standards?", "The names of these standards."),
        ),
    }
)  # fmt: skip


@lru_cache(maxsize=16)
def resolve_fields(preset: str, fields: tuple[str, ...], text_categories: tuple[str, ...]) -> tuple[MetadataField, ...]:
    """The fields that are asked for: the user's, a JSON text each; where there are none, those of the preset.

    >>> [(field.name, field.categories) for field in schema("manual", (), ("pumps", "valves"))][:2]
    [('product', ('pumps', 'valves')), ('task', ())]
    """
    known = tuple(map(_parse_field, fields)) or PRESETS[preset]
    return tuple(
        replace(field, categories=tuple(_fill_placeholder(field.categories, text_categories))) for field in known
    )


def _fill_placeholder(categories: Iterable[str], text_categories: tuple[str, ...]) -> list[str]:
    return [
        one
        for category in categories
        for one in (text_categories if category == CATEGORIES_PLACEHOLDER else (category,))
    ]


def _parse_field(text: str) -> MetadataField:
    """A field as kumi.toml gave it. Raises SettingsError."""
    try:
        said: dict[str, Any] = json.loads(text)
        return MetadataField(**{**said, "categories": tuple(said.get("categories", ()))})
    except (ValueError, TypeError) as error:
        raise SettingsError(
            f"metadata.fields: {text[:80]!r} is no field: write [fields.NAME] in kumi.toml, and under it question, list"
        ) from error
