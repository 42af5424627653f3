"""a question, how to answer it, its limits and its listeners -> Query: one value for everything behind the door."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Self

from kumihimo.app.opened.catalogue import AUTO
from kumihimo.core.answer import Answer
from kumihimo.core.cancel import CancelToken, check_cancelled
from kumihimo.core.context import Context
from kumihimo.core.errors import SettingsError
from kumihimo.core.task import Progress, ProgressEvent
from kumihimo.generation.answer import LENGTHS as LENGTHS, Length as Length, check_length as check_length
from kumihimo.llm.budget import Budget, Caps
from kumihimo.llm.protocols import TokenCallback
from kumihimo.text.question import ParsedQuestion

_OF_ANSWERS = ("length", "max_tokens", "history", "on_token", "on_context", "progress")


@dataclass(frozen=True, slots=True)
class Query:
    """A question with everything that its caller says.

    Raises SettingsError if the question cannot be asked, or for an unknown length.

    method: empty or `auto` for the default. filter: limits the documents. rights: an expression, too: what the one who
    asks may see. settings: of the method. length, max_tokens: of a model's answer; None or more tokens: as set.
    history: earlier answers, to which the question may refer. explain: say of each piece of evidence why it was found,
    and where it is. caps: limits on what is spent. paid_by: a budget that pays too. is_remote: it comes over the
    network, so that some settings have narrower bounds. cancel: stops the question. on_token: receives the text as it
    arrives. on_context: receives the evidence before that. progress: receives an event as the search and the model
    begin.
    """

    question: ParsedQuestion
    method: str = ""
    filter: str = ""
    rights: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    length: Length | None = None
    max_tokens: int | None = None
    history: Sequence[Answer] = ()
    explain: bool = False
    caps: Caps | None = None
    paid_by: Budget | None = None
    is_remote: bool = False
    cancel: CancelToken | None = None
    on_token: TokenCallback | None = None
    on_context: Callable[[Context], None] | None = None
    progress: Progress | None = None

    def __post_init__(self) -> None:
        if problem := self.question.find_problem():
            raise SettingsError(problem)
        if self.length is not None:
            check_length(self.length)
        object.__setattr__(self, "history", tuple(self.history))
        object.__setattr__(self, "method", "" if self.method == AUTO else self.method)

    @classmethod
    def of(cls, question: str, method: str = "", **options: Any) -> Self:
        """Return the query with these fields.

        Other options are settings of the method.
        """
        own = {name: options.pop(name) for name in cls.__slots__ if name in options}
        own["settings"] = {**own.get("settings", {}), **options}
        return cls(ParsedQuestion(question), method, **own)

    @classmethod
    def of_search(cls, question: str, method: str = "", **options: Any) -> Self:
        """Return the query of a search.

        Options of an answer, such as a length, count as settings of the method, which refuses them.
        """
        settings = {name: options.pop(name) for name in _OF_ANSWERS if name in options}
        query = cls.of(question, method, **options)
        return replace(query, settings={**query.settings, **settings})

    def report(self, step: str, model: str = "") -> None:
        """Tell the listener of progress that a step begins."""
        if self.progress:
            self.progress(ProgressEvent(step, model=model))

    @contextmanager
    def report_search(self, model: str) -> Iterator[None]:
        """Tell of a search between two calls of the model.

        Raises Cancelled.
        """
        check_cancelled(self.cancel)
        self.report("search")
        yield
        self.report("answer", model)

    def without_listeners(self) -> Self:
        """Return what another process needs of the query."""
        bare = replace(self, paid_by=None, cancel=None, on_token=None, on_context=None, progress=None)
        return replace(bare, question=ParsedQuestion(self.question.text))
