"""the arguments of each tool, as a language model reads and writes them -> a checked value."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from kumihimo.core.errors import SettingsError

T = TypeVar("T")
MAX_K = 50
MAX_AROUND = 4000  # characters before and after a passage
MAX_LISTED = 100  # documents
_MAX_CHARS = 10_000  # of an argument
_MAX_ARGUMENTS = 50  # no tool has as many; each one that does not exist makes an error
_STRICT = ConfigDict(extra="forbid")


class BadArgument(SettingsError):
    """An argument of a tool, or an address, that cannot be used as it is."""


Index = Annotated[str, Field(description="Collection to use. Leave it out for the first one.")]
Filter = Annotated[
    str,
    Field(
        description='Only documents whose metadata match, such as: author = "Sabine Orrell" and date >= 2024, '
        'or: topic in ("ferry", "harbour"), or: title contains "survey". list_documents shows metadata.'
    ),
]
Method = Annotated[
    str,
    Field(
        description="Retrieval method. Leave it out: the default suits most questions. "
        "global: themes of the whole collection. bm25: exact words. local: all about one person, place or thing."
    ),
]
Question = Annotated[
    str,
    Field(
        description="A whole question in any language, understandable without the conversation: "
        "write names instead of he, it, there.",
        min_length=1,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchArguments:
    """The arguments of `search`."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    question: Question
    k: Annotated[int, Field(description="How many passages.", ge=1, le=MAX_K)] = 8
    filter: Filter = ""
    method: Method = ""
    index: Index = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskArguments:
    """The arguments of `ask`."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    question: Question
    method: Method = ""
    filter: Filter = ""
    length: Annotated[
        Literal["brief", "normal", "full"] | None,
        Field(description="Length of the answer, if a model writes it. Leave it out for the usual one."),
    ] = None
    index: Index = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenArguments:
    """The arguments of `open_citation`."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    id: Annotated[
        str,
        Field(description="Id or uri of a document, or id of a row, such as chunks:4f37….00003, from another tool."),
    ]
    start: Annotated[
        int | None, Field(description="First character in the document. Leave it out for the row.", ge=0)
    ] = None
    end: Annotated[int | None, Field(description="Character after the last one.", ge=0)] = None
    around: Annotated[int, Field(description="How many characters to show before and after.", ge=0, le=MAX_AROUND)] = (
        600
    )
    index: Index = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentsArguments:
    """The arguments of `list_documents`."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    text: Annotated[str, Field(description="Only documents with this in their title or path.")] = ""
    filter: Filter = ""
    cursor: Annotated[str, Field(description="next_cursor of the page before.")] = ""
    limit: Annotated[int, Field(description="How many documents.", ge=1, le=MAX_LISTED)] = 50
    index: Index = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityArguments:
    """The arguments of `entity`."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    name: Annotated[str, Field(description="Name of a person, place, organisation or thing, or its id.", min_length=1)]
    index: Index = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportArguments:
    """The arguments of `report`."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    topic: Annotated[
        str, Field(description="A topic, or the id of a report. Leave it out to list the main reports.")
    ] = ""
    index: Index = ""


def parse_arguments(adapter: TypeAdapter[T], arguments: dict[str, Any]) -> T:
    """Return the arguments of a tool. Raise BadArgument for a wrong one.

    A null counts as left out.
    """
    if too_long := [name for name, value in arguments.items() if isinstance(value, str) and len(value) > _MAX_CHARS]:
        raise BadArgument(f"{too_long[0]} has more than {_MAX_CHARS:,} characters: shorten it")
    if len(arguments) > _MAX_ARGUMENTS:
        raise BadArgument(f"there are more than {_MAX_ARGUMENTS} arguments: the description of the tool lists them")
    try:
        return adapter.validate_python({name: value for name, value in arguments.items() if value is not None})
    except ValidationError as error:
        problems = (f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_url=False))
        raise BadArgument(f"wrong arguments: {'; '.join(problems)}. Correct them and call again") from None


def schema_of(adapter: TypeAdapter[Any]) -> dict[str, Any]:
    """Return a JSON schema without the titles, which only repeat the names."""
    schema: dict[str, Any] = _without_titles(adapter.json_schema())
    return {name: value for name, value in schema.items() if name != "description"}


def _without_titles(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_titles(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {k: _without_titles(v) for k, v in value.items() if k != "title" or not isinstance(v, str)}
