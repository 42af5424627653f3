"""a call of a tool -> its result: search, ask, open_citation, list_documents, entity, report."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, make_dataclass
from functools import cached_property
from inspect import signature
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from starlette.concurrency import run_in_threadpool

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.opened.catalogue import AUTO
from kumihimo.core.answer import Answer
from kumihimo.core.task import ProgressEvent
from kumihimo.server.access import Access
from kumihimo.server.mcp import results
from kumihimo.server.mcp.results import BadArgument, ToolReply

Report = Callable[[str], Awaitable[None]]
_MAX_K = 50
_MAX_AROUND = 4000  # characters before and after a passage
_MAX_LISTED = 100  # documents
_MAX_CHARS = 10_000  # of an argument
_MAX_ARGUMENTS = 50  # no tool has as many; each one that does not exist makes an error

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
Length = Annotated[
    Literal["brief", "normal", "full"] | None,
    Field(description="Length of the answer, if a model writes it. Leave it out for the usual one."),
]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """What the sender of a call may use, and the way to tell it what happens meanwhile.

    indexes: all that it may use.
    """

    access: Access
    indexes: tuple[str, ...]
    report_progress: Report

    @property
    def index(self) -> str:
        return self.access.served.name


@dataclass(frozen=True)
class Tool:
    """A tool for a language model.

    run: its parameters after the call are the arguments of the tool.
    """

    title: str
    description: str
    run: Callable[..., Awaitable[ToolReply]] = field(repr=False)

    @property
    def name(self) -> str:
        return self.run.__name__

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        fields: list[Any] = [
            (each.name, each.annotation, *([] if each.default is each.empty else [field(default=each.default)]))
            for each in [*signature(self.run).parameters.values()][1:]
        ]
        config = {"__pydantic_config__": ConfigDict(extra="forbid")}
        arguments = [*fields, ("index", Index, field(default=""))]
        return TypeAdapter(make_dataclass(self.name, arguments, namespace=config, kw_only=True))

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        """Return a JSON schema without the titles, which only repeat the names."""
        schema: dict[str, Any] = _without_titles(self._adapter.json_schema())
        return {name: value for name, value in schema.items() if name != "description"}

    def parse(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return all arguments. Raise BadArgument for a wrong one.

        A null counts as left out.
        """
        long = [name for name, value in arguments.items() if isinstance(value, str) and len(value) > _MAX_CHARS]
        if long:
            raise BadArgument(f"{long[0]} has more than {_MAX_CHARS:,} characters: shorten it")
        if len(arguments) > _MAX_ARGUMENTS:
            raise BadArgument(f"there are more than {_MAX_ARGUMENTS} arguments: the description of the tool lists them")
        try:
            given = {name: value for name, value in arguments.items() if value is not None}
            return dict(vars(self._adapter.validate_python(given)))
        except ValidationError as error:
            problems = (f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_url=False))
            raise BadArgument(f"wrong arguments: {'; '.join(problems)}. Correct them and call again") from None


def _without_titles(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_titles(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {k: _without_titles(v) for k, v in value.items() if k != "title" or not isinstance(v, str)}


async def search(
    call: ToolCall,
    question: Question,
    k: Annotated[int, Field(description="How many passages.", ge=1, le=_MAX_K)] = 8,
    filter: Filter = "",
    method: Method = "",
) -> ToolReply:
    """Find passages."""
    access = call.access
    method = ("" if method == AUTO else method) or await access.read(Snapshot.default_method)
    settings = {"k": k} if "k" in access.served.kumi.catalogue.method(method).settings else {}
    context = await access.questions.search(access.query(question, method, filter=filter, settings=settings))
    return await run_in_threadpool(results.evidence_result, call.index, context.top(k))


async def ask(
    call: ToolCall, question: Question, method: Method = "", filter: Filter = "", length: Length = None
) -> ToolReply:
    """Answer a question."""
    query = call.access.query(question, method, filter=filter, length=length)
    async with aclosing(call.access.questions.answer_events(query)) as events:
        async for event in events:
            if isinstance(event, ProgressEvent):
                await call.report_progress(_describe_progress(event))
    assert isinstance(event, Answer)  # it is the last event
    return await run_in_threadpool(results.answer_result, call.index, event)


def _describe_progress(event: ProgressEvent) -> str:
    if event.step == "answer":
        return f"{event.model} writes the answer" if event.model else "writing the answer"
    return "searching" if event.step == "search" else f"building {event.step}"


async def open_citation(
    call: ToolCall,
    id: Annotated[
        str,
        Field(description="Id or uri of a document, or id of a row, such as chunks:4f37….00003, from another tool."),
    ],
    start: Annotated[
        int | None, Field(description="First character in the document. Leave it out for the row.", ge=0)
    ] = None,
    end: Annotated[int | None, Field(description="Character after the last one.", ge=0)] = None,
    around: Annotated[
        int, Field(description="How many characters to show before and after.", ge=0, le=_MAX_AROUND)
    ] = 600,
) -> ToolReply:
    """Show a passage in its document."""
    return await call.access.read(lambda s: results.open_passage(s, call.index, id.strip(), start, end, around))


async def list_documents(
    call: ToolCall,
    text: Annotated[str, Field(description="Only documents with this in their title or path.")] = "",
    filter: Filter = "",
    cursor: Annotated[str, Field(description="next_cursor of the page before.")] = "",
    limit: Annotated[int, Field(description="How many documents.", ge=1, le=_MAX_LISTED)] = 50,
) -> ToolReply:
    """List documents."""
    names = call.index, call.indexes
    return await call.access.read(
        lambda s: results.documents_result(s.narrowed(filter), *names, text, after=cursor, limit=limit)
    )


async def entity(
    call: ToolCall,
    name: Annotated[str, Field(description="Name of a person, place, organisation or thing, or its id.", min_length=1)],
) -> ToolReply:
    """Show an entity of the graph."""
    return await call.access.read(lambda s: results.entity_result(s, call.index, name), "entities")


async def report(
    call: ToolCall,
    topic: Annotated[
        str, Field(description="A topic, or the id of a report. Leave it out to list the main reports.")
    ] = "",
) -> ToolReply:
    """Show a report."""
    budget = call.access.served.kumi.models.budget(None, call.access.grant.new_budget())
    return await call.access.read(lambda s: results.report_result(s, call.index, topic, budget), "reports")


_TOOLS = (
    Tool(
        "Search the documents",
        "Find passages of the user's documents that answer a question. Use it to read the evidence yourself; each "
        "passage has an id and its place. For a finished answer with citations use ask.",
        search,
    ),
    Tool(
        "Answer from the documents",
        "Answer a question from the user's documents, with numbered citations [1] that name file, page or line. "
        "It may take a minute if a language model writes the answer. Keep the citations when you pass it on.",
        ask,
    ),
    Tool(
        "Open a passage",
        "Show a passage in its document with the text around it, to check a citation or to read on. "
        "The passage stands between >>> and <<<.",
        open_citation,
    ),
    Tool(
        "List the documents",
        "List the documents of a collection with their metadata, by path. Use it to see what there is, or to learn "
        "the fields for a filter.",
        list_documents,
    ),
    Tool(
        "Show an entity",
        "Show what the documents say about a person, place, organisation or thing: description, related entities, "
        "and passages that mention it.",
        entity,
    ),
    Tool(
        "Read a report",
        "Read a report on a topic of the whole collection, written when it was indexed. Use it for an overview; use "
        "search for details.",
        report,
    ),
)
TOOLS: Mapping[str, Tool] = {tool.name: tool for tool in _TOOLS}
