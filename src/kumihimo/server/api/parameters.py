"""parts of an address or a body -> checked parameters: every size has a limit."""

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, TypeVar

from fastapi import Path, Query
from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from kumihimo.core.digests import replace_surrogates
from kumihimo.server.problems import BadParameter
from kumihimo.text.question import MAX_QUESTION_CHARS

T = TypeVar("T")
MAX_PAGE = 200  # rows
_MAX_FIELDS = 100
_MAX_NAME = 200
MAX_ID = 2000  # a uri may be long
_MAX_FILTER = 2000
_MAX_SETTINGS = 50
_MAX_VALUE = 1000  # characters, or items of a list
_MAX_NUMBER = 1e6
_MAX_PATH = 4000

Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="Rows of a page.")]
Cursor = Annotated[str, Query(max_length=MAX_ID, description="`next` of the page before.")]
SearchText = Annotated[str, Query(alias="q", max_length=_MAX_NAME, description="A part of a name.")]
FilterQuery = Annotated[str, Query(alias="filter", max_length=_MAX_FILTER, description="Only documents that match.")]
RowId = Annotated[str, Path(max_length=MAX_ID)]
Table = Annotated[str, Path(max_length=_MAX_NAME)]


# halves of surrogate pairs, which JSON may have and no text, are replaced
Mended = BeforeValidator(lambda value: replace_surrogates(value) if isinstance(value, str) else value)
Question = Annotated[str, Field(max_length=MAX_QUESTION_CHARS), Mended]
Name = Annotated[str, Field(max_length=_MAX_NAME)]
FilterText = Annotated[str, Field(max_length=_MAX_FILTER), Mended]
PathText = Annotated[str, Field(min_length=1, max_length=_MAX_PATH)]


def _check_setting(value: Any) -> Any:
    """Raise an error for a long or nested value.

    It is one error: pydantic would make several of each item.
    """
    items = value if isinstance(value, list) else [value]
    if len(items) > _MAX_VALUE or not all(map(_is_short, items)):
        limits = {"items": _MAX_VALUE, "number": f"{_MAX_NUMBER:,.0f}"}
        message = "It is a number up to {number}, a text up to {items} characters, or a list of up to {items} of them"
        raise PydanticCustomError("setting", message, limits)
    return value


def _is_short(value: Any) -> bool:
    if isinstance(value, int | float):
        return abs(value) <= _MAX_NUMBER
    return value is None or (isinstance(value, str) and len(value) <= _MAX_VALUE)


Settings = Annotated[dict[Name, Annotated[Any, AfterValidator(_check_setting)]], Field(max_length=_MAX_SETTINGS)]


def _check_fields(value: Any) -> Any:
    """Raise an error for more fields than any body has.

    Pydantic would make one of each.
    """
    if isinstance(value, dict) and len(value) > _MAX_FIELDS:
        raise PydanticCustomError("fields", "It has more than {n} fields", {"n": _MAX_FIELDS})
    return value


Body = Annotated[T, BeforeValidator(_check_fields)]  # or an object in it
STRICT: Any = {"extra": "forbid"}  # of a body: a name that does not exist is an error


@dataclass(frozen=True, kw_only=True)
class QuestionBody:
    """A question, how to search for it, and where."""

    __pydantic_config__: ClassVar[Any] = STRICT
    question: Question
    method: Name = ""
    filter: FilterText = ""
    settings: Settings = field(default_factory=dict)


def parse_body(adapter: TypeAdapter[T], body: bytes) -> T:
    """Return the parameters. Raise BadParameter for a wrong one.

    Where a value may have one of two types, pydantic names the errors of both: the deeper one counts.
    """
    try:
        return adapter.validate_json(body)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)
        deepest = max(found, key=lambda each: (len(each["loc"]), each["type"] != "string_type"))
        param = ".".join(part for part in map(str, deepest["loc"]) if "[" not in part and part != "str")
        raise BadParameter(f"{param or 'the body'}: {deepest['msg']}", param) from None


def body_schema(adapter: TypeAdapter[Any]) -> dict[str, Any]:
    """Return the description of a body for `/openapi.json`."""
    schema = adapter.json_schema()
    definitions = schema.pop("$defs", {})
    return {
        "requestBody": {"required": True, "content": {"application/json": {"schema": _inline(schema, definitions)}}}
    }


def _inline(value: Any, definitions: dict[str, Any]) -> Any:
    """Return a schema with each reference replaced by what it refers to."""
    if isinstance(value, list):
        return [_inline(item, definitions) for item in value]
    if not isinstance(value, dict):
        return value
    if reference := value.get("$ref"):
        return _inline(definitions[reference.rpartition("/")[2]], definitions)
    return {key: _inline(item, definitions) for key, item in value.items()}
