"""settings -> metadata fields: for each, a yes-or-no question and a list to fill."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal

from kumihimo.core.errors import SettingsError

Preset = Literal["paper", "news", "policy", "manual"]

CATEGORIES_PLACEHOLDER = "{text_categories}"  # stands for the categories of the setting `text_categories`


@dataclass(frozen=True, slots=True)
class MetadataField:
    """A field of metadata.

    question: yes or no, whether a document has a value. list: the instruction to list its values. maximum: the most
    values. categories: the only values allowed; empty: any.
    """

    name: str
    question: str
    list: str
    maximum: int = 3
    categories: tuple[str, ...] = ()


# The six fields for papers are those of arXiv:2408.09017, appendix A; the other presets follow them.
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
            MetadataField("metric", "Does it compare methods by metrics of evaluation?",
                          "The names of these metrics.", 5),
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
            MetadataField("measure", "Does it order or propose measures?",
                          "A name of a few words for each measure.", 5),
            MetadataField("law", "Does it refer to laws or rules by name?", "The names of these laws and rules.", 5),
        ),
        "manual": (
            MetadataField("product", "Is it about products or systems that it names?",
                          "The names of these products.", 3, (CATEGORIES_PLACEHOLDER,)),
            MetadataField("task", "Does it explain how something is done?", "A name of a few words for each task.", 5),
            MetadataField("part", "Does it tell of single parts?", "The names of these parts.", 5),
            MetadataField("hazard", "Does it warn of dangers or faults?", "A name of a few words for each of them."),
            MetadataField("standard", "Does it refer to standards?", "The names of these standards."),
        ),
    }
)  # fmt: skip


@lru_cache(maxsize=16)
def resolve_fields(preset: str, fields: tuple[str, ...], text_categories: tuple[str, ...]) -> tuple[MetadataField, ...]:
    """Return the user's fields, or those of the preset.

    fields: one JSON text per field.

    >>> [(field.name, field.categories) for field in resolve_fields("manual", (), ("pumps", "valves"))][:2]
    [('product', ('pumps', 'valves')), ('task', ())]
    """
    resolved = tuple(map(_parse_field, fields)) or PRESETS[preset]
    return tuple(
        replace(field, categories=tuple(_fill_placeholder(field.categories, text_categories))) for field in resolved
    )


def _fill_placeholder(categories: Iterable[str], text_categories: tuple[str, ...]) -> list[str]:
    """Replace the placeholder category by the categories of the setting."""
    return [
        value
        for category in categories
        for value in (text_categories if category == CATEGORIES_PLACEHOLDER else (category,))
    ]


def _parse_field(text: str) -> MetadataField:
    """Parse a field from kumi.toml. Raise SettingsError if it is invalid."""
    try:
        options: dict[str, Any] = json.loads(text)
        return MetadataField(**{**options, "categories": tuple(options.get("categories", ()))})
    except (ValueError, TypeError) as error:
        raise SettingsError(
            f"metadata.fields: {text[:80]!r} is no field: write [fields.NAME] in kumi.toml, and under it question, list"
        ) from error
