"""the body of a request -> its parameters, or an error that names the wrong one."""

from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from kumihimo.server.openai.errors import BadParameter

T = TypeVar("T")


def parse_body(adapter: TypeAdapter[T], body: bytes) -> T:
    """Return the parameters. Raise BadParameter for a wrong one."""
    try:
        return adapter.validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        param = ".".join(map(str, first["loc"]))
        raise BadParameter(f"{param or 'the body'}: {first['msg']}", param) from None


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
