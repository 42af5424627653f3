"""a call of a tool -> its result: search, ask, open_citation, list_documents, entity, report."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pydantic import TypeAdapter
from starlette.concurrency import run_in_threadpool

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.opened.catalogue import AUTO
from kumihimo.core.answer import Answer
from kumihimo.core.task import ProgressEvent
from kumihimo.server.access import Access, Caller, choose_access
from kumihimo.server.mcp import arguments, reading, results
from kumihimo.server.workspace import Workspace
from kumihimo.text.translation import suggest_language

Report = Callable[[str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The sender of a call, its row in the table of rights, and the way to tell it what happens meanwhile."""

    workspace: Workspace
    caller: Caller
    route: str
    report_progress: Report

    def access(self, index: str, question: str = "") -> Access:
        """Return the access to an index, by default the first one.

        question: for the audit log.
        """
        self.caller.notes.question = question
        return choose_access(self.workspace, self.caller, self.route, index)


async def search(call: ToolCall, inputs: arguments.SearchArguments) -> results.SearchResult:
    """Find passages."""
    access = call.access(inputs.index, inputs.question)
    method = ("" if inputs.method == AUTO else inputs.method) or await access.read(Snapshot.default_method)
    settings = {"k": inputs.k} if "k" in access.served.kumi.catalogue.method(method).settings else {}
    context = await access.questions.retrieve(inputs.question, method, **settings, **_options(access, inputs))
    return await run_in_threadpool(reading.show_evidence, access.served.name, context.top(inputs.k))


def _options(access: Access, inputs: arguments.SearchArguments | arguments.AskArguments) -> dict[str, Any]:
    """Return the options of a question: filter, rights and budget."""
    limits = {"rights": access.rights, "paid_by": access.grant.new_budget(), "is_remote": True}
    return {"filter": inputs.filter, **limits}


async def ask(call: ToolCall, inputs: arguments.AskArguments) -> results.AskResult:
    """Answer a question."""
    access = call.access(inputs.index, inputs.question)
    suggest_language(inputs.question)
    options = {**_options(access, inputs), "length": inputs.length}
    events = access.questions.events(inputs.question, inputs.method, **options)
    answer: Answer | None = None
    async with aclosing(events) as received:
        async for event in received:
            if isinstance(event, ProgressEvent):
                await call.report_progress(_describe_progress(event))
            elif isinstance(event, Answer):
                answer = event
    assert answer  # it is the last event
    return results.AskResult(index=access.served.name, answer=answer)


def _describe_progress(event: ProgressEvent) -> str:
    if event.step == "answer":
        return f"{event.model} writes the answer" if event.model else "writing the answer"
    return "searching" if event.step == "search" else f"building {event.step}"


async def open_citation(call: ToolCall, inputs: arguments.OpenArguments) -> results.OpenedResult:
    """Show a passage in its document."""
    access = call.access(inputs.index)
    return await access.read(lambda s: reading.open_passage(s, access.served.name, inputs))


async def list_documents(call: ToolCall, inputs: arguments.DocumentsArguments) -> results.DocumentsResult:
    """List documents."""
    access = call.access(inputs.index)
    name, indexes = access.served.name, tuple(call.caller.grants)
    return await access.read(lambda s: reading.list_documents(s, name, indexes, inputs))


async def entity(call: ToolCall, inputs: arguments.EntityArguments) -> results.EntityResult:
    """Show an entity of the graph."""
    access = call.access(inputs.index)
    return await access.read(lambda s: reading.show_entity(s, access.served.name, inputs.name), "entities")


async def report(call: ToolCall, inputs: arguments.ReportArguments) -> results.ReportResult:
    """Show a report."""
    access = call.access(inputs.index)
    budget = access.served.kumi.models.budget(None, access.grant.new_budget())
    return await access.read(lambda s: reading.show_report(s, access.served.name, inputs.topic, budget), "reports")


@dataclass(frozen=True)
class Tool:
    """A tool for a language model."""

    name: str
    title: str
    description: str
    arguments: type[Any]
    run: Callable[[ToolCall, Any], Awaitable[results.Result]] = field(repr=False)

    @cached_property
    def argument_adapter(self) -> TypeAdapter[Any]:
        return TypeAdapter(self.arguments)

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        return arguments.schema_of(self.argument_adapter)


_TOOLS = (
    Tool(
        "search",
        "Search the documents",
        "Find passages of the user's documents that answer a question. Use it to read the evidence yourself; each "
        "passage has an id and its place. For a finished answer with citations use ask.",
        arguments.SearchArguments,
        search,
    ),
    Tool(
        "ask",
        "Answer from the documents",
        "Answer a question from the user's documents, with numbered citations [1] that name file, page or line. "
        "It may take a minute if a language model writes the answer. Keep the citations when you pass it on.",
        arguments.AskArguments,
        ask,
    ),
    Tool(
        "open_citation",
        "Open a passage",
        "Show a passage in its document with the text around it, to check a citation or to read on. "
        "The passage stands between >>> and <<<.",
        arguments.OpenArguments,
        open_citation,
    ),
    Tool(
        "list_documents",
        "List the documents",
        "List the documents of a collection with their metadata, by path. Use it to see what there is, or to learn "
        "the fields for a filter.",
        arguments.DocumentsArguments,
        list_documents,
    ),
    Tool(
        "entity",
        "Show an entity",
        "Show what the documents say about a person, place, organisation or thing: description, related entities, "
        "and passages that mention it.",
        arguments.EntityArguments,
        entity,
    ),
    Tool(
        "report",
        "Read a report",
        "Read a report on a topic of the whole collection, written when it was indexed. Use it for an overview; use "
        "search for details.",
        arguments.ReportArguments,
        report,
    ),
)
TOOLS: Mapping[str, Tool] = {tool.name: tool for tool in _TOOLS}
