"""questions while other builds end, and callers who leave: one build, no lock, nothing said twice."""

from __future__ import annotations

import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from kumihimo import Answer, Kumihimo
from kumihimo.app.ask.questions import MAX_RESTARTS
from kumihimo.core.cancel import CancelToken
from kumihimo.core.context import Context, Evidence
from kumihimo.core.errors import Cancelled
from kumihimo.core.records import Chunk
from kumihimo.core.table import Table
from kumihimo.core.task import ProgressEvent
from kumihimo.generation.search_again import OFFER, OFFER_OF_MANY
from kumihimo.llm.budget import Caps
from kumihimo.llm.cached_llm import Chat
from kumihimo.llm.protocols import LLM, ChatRequest, Reply
from kumihimo.llm.registry import ModelRegistry
from kumihimo.methods import METHODS
from kumihimo.storage.session import Session
from kumihimo.storage.sqlite.connection import log_size
from kumihimo.testing.fake_models import FakeChat
from tests import fake_graph_reader
from tests.fixtures_index import fill
from tests.stores import USE_POSTGRES

QUESTION = "Who mended the pier of Fenwick?"
ASKING = ("global", "rq", "drift", "hyde", "light", "meta", "mapreduce")  # a model in their search
MODELLED = (*METHODS, "metadata", "questions", "summaries", "counting", "answer")  # all but the graph
NOTES = {
    "pier.txt": "Ada Vane built the pier in Fenwick. Bea Orrell paid for it after the storm.",
    "ferry.txt": "The ferry of Fenwick leaves at nine. Ada Vane mends it in winter, and Cal Roe sails it.",
    "gate.txt": "The gate of Fenwick leaks. Cal Roe mended the pier of Fenwick with oak.",
}
NEWS = "Dov Marsh mended the pier of Fenwick after the flood. Ada Vane drew the plan of the pier."


class Interrupted(ModelRegistry):
    """A model of few words; the tests do something before each of its replies."""

    before: Callable[[str], object] = staticmethod(lambda scope: None)
    writes_answers = True

    def chat(self, scope: str) -> Chat | None:
        if scope not in MODELLED or (scope == "answer" and not self.writes_answers):
            return None

        def reply(prompt: str) -> str:
            self.before(scope)
            if scope != "answer":
                return fake_graph_reader.answer(prompt)
            return '["When?"]' if "JSON schema" in prompt else "Cal Roe did [1][2]."

        return FakeChat(reply, join_messages=True)


class World:
    """An index of some notes, and builds that add more."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.notes = folder / "notes"
        self.kumi = Kumihimo.open(folder / ".kumi", **options)
        self.kumi.models = self.models = Interrupted(self.kumi.models.settings, lambda: self.kumi.cache)
        self.builds = 0

    def build(self) -> None:
        """Add a note to the index; its log is empty at the end."""
        self.builds += 1
        fill(self.notes, {f"news{self.builds}.txt": f"{NEWS} That was in the year {1900 + self.builds}."})
        self.kumi.index(methods=())

    def build_at(self, scopes: Iterable[str], times: int = 1) -> None:
        """Let a build end while the model of one of these scopes speaks."""
        lock, left = threading.Lock(), [True] * times

        def interrupt(scope: str) -> None:
            with lock:
                is_due = scope in scopes and left and left.pop()
            if is_due:
                self.build()

        self.models.before = interrupt

    def log_size(self) -> int:
        return 0 if USE_POSTGRES else log_size(self.kumi.folder / "index.db")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an index for all methods, which the tests copy."""
    return build(tmp_path_factory.mktemp("base"))


def build(folder: Path) -> Path:
    world = World(folder)
    with world.kumi:
        world.kumi.index(fill(world.notes, NOTES), methods=["braid", "local", "naive", *ASKING])
    return folder


def copy_of(base: Path, folder: Path) -> Path:
    """Return a copy of the index; in PostgreSQL, one of the same documents."""
    if USE_POSTGRES:
        return build(folder)
    return Path(shutil.copytree(base, folder))


@pytest.fixture
def world(base: Path, tmp_path: Path) -> Iterator[World]:
    world = World(copy_of(base, tmp_path / "copy"))
    yield world
    world.kumi.close()


def count_searches(events: list[ProgressEvent]) -> int:
    return Counter(event.step for event in events)["search"]


def content(answer: Answer) -> tuple[object, ...]:
    return answer.text, answer.citations, answer.context, answer.sources


# -- a build in the middle


@pytest.mark.parametrize("quoted", [False, True])
@pytest.mark.parametrize("method", ASKING)
def test_a_question_is_answered_from_the_build_that_ends_during_its_search(
    world: World, method: str, quoted: bool
) -> None:
    world.models.writes_answers = not quoted
    events: list[ProgressEvent] = []
    evidence: list[Context] = []
    world.build_at([method])
    answer = world.kumi.ask(QUESTION, method, progress=events.append, on_context=evidence.append)
    assert (world.builds, count_searches(events), evidence) == (1, 2, [answer.context])
    assert content(world.kumi.ask(QUESTION, method)) == content(answer)
    assert "Dov" in str([item.text for item in answer.context])


@pytest.mark.parametrize("method", ASKING)
def test_evidence_is_that_of_one_build(world: World, method: str) -> None:
    world.build_at([method])
    context = world.kumi.retrieve(QUESTION, method)
    later = world.kumi.retrieve(QUESTION, method)  # the places are read after the model has spoken
    assert world.builds == 1
    assert context.to_dict() == later.to_dict()
    assert all(item.uri for item in context)


@pytest.mark.parametrize("method", ["braid", "local", "naive", *ASKING])
def test_nothing_is_read_once_the_model_answers(world: World, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build that ends then changes nothing, and its log is empty at once."""
    reads: list[str] = []
    sizes: list[int] = []
    undisturbed = content(world.kumi.ask(QUESTION, method))
    world.kumi.prune()
    resume = Session._resume

    def record(session: Session) -> None:
        reads.append("a read")
        resume(session)

    def build(scope: str) -> None:
        if scope == "answer":
            world.build()
            sizes.append(world.log_size())
            monkeypatch.setattr(Session, "_resume", record)

    world.models.before = build
    assert content(world.kumi.ask(QUESTION, method)) == undisturbed
    assert (reads, sizes) == ([], [0])


def test_the_log_is_empty_while_a_model_speaks_in_a_search(world: World) -> None:
    sizes: list[int] = []

    def build(scope: str) -> None:
        if scope in ("hyde", "answer"):
            world.build()
            sizes.append(world.log_size())

    world.models.before = build
    world.kumi.retrieve(QUESTION, "hyde")
    world.kumi.suggest(world.kumi.ask(QUESTION, "naive"))
    assert sizes == [0] * 3


def test_tokens_and_evidence_come_once(world: World) -> None:
    news: list[object] = []
    world.build_at(["light"])
    answer = world.kumi.ask(QUESTION, "light", on_token=news.append, on_context=news.append)
    assert news[0] == answer.context
    assert "".join(map(str, news[1:])) == answer.text == "Cal Roe did [1][2]."


def test_all_tries_are_charged(world: World) -> None:
    asked: list[str] = []
    world.build_at(["global"])
    interrupt = world.models.before

    def count(scope: str) -> None:
        asked.append(scope)
        interrupt(scope)

    world.models.before = count
    budget = world.kumi.models.budget()
    answer = world.kumi.ask(QUESTION, "global", paid_by=budget)
    assert answer.usage.calls == budget.total.calls == len(asked) - asked.count("metadata") == 3


def counting(question: str, chunks: Table[Chunk], llm: LLM) -> Context:
    """Ask how many chunks there are, then read them."""
    llm(f"{question} There are {len(chunks)} chunks.")
    return Context(tuple(Evidence("chunks", chunk, 1.0) for chunk in chunks))


def test_after_some_restarts_a_question_keeps_its_build(base: Path, tmp_path: Path) -> None:
    world = World(copy_of(base, tmp_path / "copy"), methods=[counting])
    events: list[ProgressEvent] = []
    with world.kumi:
        world.build_at(["counting"], times=10)
        answer = world.kumi.ask(QUESTION, "counting", progress=events.append)
        assert count_searches(events) == world.builds == MAX_RESTARTS + 1
        assert len(answer.context) == len(NOTES) + MAX_RESTARTS  # all but the last of these builds
        assert world.log_size() == 0  # it left when it had its answer


def test_an_explicit_snapshot_keeps_its_build(world: World) -> None:
    world.build_at(["hyde"])
    with world.kumi.snapshot() as snapshot:
        chunks = len(snapshot.table("chunks"))
        snapshot.ask(QUESTION, "hyde")
        assert (len(snapshot.table("chunks")), world.builds) == (chunks, 1)


# -- a caller who leaves


def endless(question: str, chunks: Table[Chunk]) -> Context:
    """Read for ever."""
    while question:
        chunks.get(question)
        begun.set()
    return Context()


begun = Event()


def test_a_search_that_never_ends_is_cancelled(base: Path) -> None:
    token = CancelToken()
    with (
        Kumihimo.open(base / ".kumi", methods=[endless]) as kumi,
        ThreadPoolExecutor(1) as pool,
    ):
        running = pool.submit(kumi.retrieve, QUESTION, "endless", cancel=token)
        assert begun.wait(60)
        token.cancel("the client has left")
        with pytest.raises(Cancelled, match="the client has left"):
            running.result(60)
        assert kumi.retrieve(QUESTION, "naive")


@pytest.mark.parametrize("method", ["naive", "global"])
def test_a_question_is_cancelled_while_a_model_is_busy(world: World, method: str) -> None:
    """Its reply arrives later, and the next question finds it."""
    token, allowed = CancelToken(), Event()
    asked: list[str] = []

    def wait(scope: str) -> None:
        asked.append(scope)
        token.cancel()
        assert allowed.wait(60)

    world.models.before = wait
    with pytest.raises(Cancelled):
        world.kumi.ask(QUESTION, method, cancel=token)
    assert asked == ["answer" if method == "naive" else method]
    world.models.before = lambda _: None
    allowed.set()
    world.kumi.ask(QUESTION, method, cancel=CancelToken())


def test_nothing_begins_for_a_caller_who_has_left(world: World) -> None:
    token = CancelToken()
    token.cancel()
    world.models.before = lambda _: pytest.fail("a request")
    before = world.kumi.status().rows
    fill(world.notes, {"more.txt": NEWS})
    for call in (
        lambda: world.kumi.ask(QUESTION, cancel=token),
        lambda: world.kumi.retrieve(QUESTION, cancel=token),
        lambda: list(world.kumi.stream(QUESTION, cancel=token)),
        lambda: world.kumi.index(cancel=token),
        lambda: world.kumi.plan(cancel=token),
        lambda: world.kumi.remove("notes", cancel=token),
    ):
        with pytest.raises(Cancelled):
            call()
    assert world.kumi.status().rows == before


class Slow:
    """A model that stops in the middle of its answer."""

    fingerprint, workers, server = "slow", 1, None
    prices = FakeChat(str).prices

    def __init__(self) -> None:
        self.allowed, self.answered = Event(), Event()

    def determined_by(self, parameters: Any, *, structured: bool) -> dict[str, Any]:
        return {"model": "slow", **parameters}

    def __call__(self, request: ChatRequest) -> Reply:
        assert request.on_token
        request.on_token("Cal ")
        assert self.allowed.wait(60)
        request.on_token("Roe did [1].")
        self.answered.set()
        return Reply("Cal Roe did [1].")


def test_a_stream_that_nobody_reads_any_more_is_cancelled(world: World) -> None:
    slow = Slow()
    world.models.chat = lambda scope: slow if scope == "answer" else None  # type: ignore[method-assign]
    stream = world.kumi.stream(QUESTION, "naive")
    assert next(stream) == "Cal"
    stream.close()
    assert not slow.answered.is_set()
    slow.allowed.set()
    assert slow.answered.wait(60)


# -- without a method


OVERVIEW = "Give me an overview of these notes: what are the main themes?"


@pytest.mark.parametrize("name", ["", "auto"])
def test_a_question_chooses_between_reading_widely_and_braid(world: World, name: str) -> None:
    assert world.kumi.ask(OVERVIEW, name).method == "wide"
    assert world.kumi.ask(QUESTION, name).method == "braid"
    assert world.kumi.ask(OVERVIEW, "naive").method == "naive"
    assert world.kumi.ask(OVERVIEW, name, k=3).method == "braid"  # which has this setting
    assert world.kumi.retrieve(OVERVIEW, name).method == "braid"
    world.models.writes_answers = False
    assert world.kumi.ask(OVERVIEW, name).method == "braid"


def test_a_question_on_one_document_is_not_read_widely(world: World) -> None:
    uri = world.kumi.retrieve(QUESTION, "naive").evidence[0].uri
    name = uri.rpartition("/")[2]
    assert world.kumi.ask(f"Give me an overview of {name}").method == "braid"


@pytest.mark.parametrize(
    ("caps", "method", "approach"),
    [
        (Caps(calls=1), "braid", "capped"),
        (Caps(calls=4), "braid", "capped"),
        (Caps(tokens=4000), "braid", "capped"),
        (Caps(calls=5), "wide", "model"),
        (Caps(tokens=100_000), "wide", "model"),
    ],
)
def test_a_question_is_read_widely_if_its_caps_leave_room(world: World, caps: Caps, method: str, approach: str) -> None:
    answer = world.kumi.ask(OVERVIEW, caps=caps)
    assert (answer.method, answer.approach) == (method, approach)
    assert answer.usage.calls <= (caps.calls or 5)


def test_cached_replies_of_a_wide_reading_need_no_room(world: World) -> None:
    first = world.kumi.ask(OVERVIEW)
    again = world.kumi.ask(OVERVIEW, caps=Caps(calls=0))
    assert (again.method, again.text, again.usage.calls) == ("wide", first.text, 0)


def test_a_narrow_question_reads_what_a_model_wrote_of_named_things(world: World, tmp_path: Path) -> None:
    """Sentences that a passage of the prompt has are not repeated."""
    graph, reader = World(tmp_path / "graph"), FakeChat(fake_graph_reader.answer, join_messages=True)
    with graph.kumi:
        graph.models.chat = lambda scope: reader  # type: ignore[method-assign]
        graph.kumi.index(fill(graph.notes, NOTES), methods=["braid", "local"])
        graph.models.chat = lambda scope: FakeChat(lambda _: "Cal Roe did [1].")  # type: ignore[method-assign]
        answer = graph.kumi.ask(QUESTION)
        assert [item.title for item in answer.context if item.table == "entities"] == ["Fenwick"]
        assert "entities" not in {item.table for item in graph.kumi.ask(QUESTION, "naive").context}
    assert "entities" not in {item.table for item in world.kumi.ask(QUESTION).context}


def scripted(world: World, *replies: str) -> list[str]:
    """Let the model reply so when it has to answer; return the prompts that it gets for that."""
    prompts, chat = list[str](), world.models.chat

    def reply(prompt: str) -> str:
        prompts.append(prompt)
        return replies[min(len(prompts), len(replies)) - 1]

    world.models.chat = lambda scope: FakeChat(reply) if scope == "answer" else chat(scope)  # type: ignore[method-assign]
    return prompts


ASKS_FOR_ALL = ["SEARCH: ALL", "**SEARCH:** all.", "```\nSEARCH: ALL\n```", "SEARCH：ALL"]


@pytest.mark.parametrize("way", ASKS_FOR_ALL)
def test_a_reply_may_have_many_documents_read(world: World, way: str) -> None:
    told = list[str | Context]()
    prompts = scripted(world, way, "Cal Roe did [1].")
    answer = world.kumi.ask(QUESTION, on_token=told.append, on_context=told.append)
    assert (answer.method, answer.context.method, answer.approach) == ("wide", "wide", "model")
    assert answer.text == "Cal Roe did [1]."
    assert "".join(map(str, told)).endswith(answer.text)
    assert "SEARCH" not in "".join(text for text in told if isinstance(text, str))
    assert [item for item in told if isinstance(item, Context)][-1] == answer.context
    assert [OFFER_OF_MANY in prompt for prompt in prompts] == [True, False]
    assert [OFFER in prompt for prompt in prompts] == [True, False]
    assert "3 passages of 3 documents" in answer.context.query_type


@pytest.mark.parametrize(
    "options", [{"method": "braid"}, {"k": 3}, {"method": "naive"}, {"caps": Caps(calls=5)}, {"caps": Caps(calls=1)}]
)
def test_many_documents_are_read_where_nobody_chose_and_caps_leave_room(world: World, options: dict[str, Any]) -> None:
    prompts = scripted(world, "SEARCH: ALL" if options.get("caps") != Caps(calls=1) else "Cal did [1].", "Cal did [1].")
    answer = world.kumi.ask(QUESTION, **options)
    assert (answer.text, answer.method == "wide") == ("Cal did [1].", False)
    assert not any(OFFER_OF_MANY in prompt for prompt in prompts)
    assert len(prompts) <= 2
    assert OFFER not in prompts[-1]


def test_reading_many_documents_is_one_of_the_rounds(base: Path, tmp_path: Path) -> None:
    world = World(copy_of(base, tmp_path / "copy"), settings={"answer": {"rounds": 0}})
    with world.kumi:
        prompts = scripted(world, "Cal Roe did [1].")
        assert world.kumi.ask(QUESTION).method == "braid"
    assert not any(OFFER in prompt or OFFER_OF_MANY in prompt for prompt in prompts)


def test_many_documents_are_read_before_other_searches_only(world: World) -> None:
    prompts = scripted(world, "SEARCH: Who is Bea Orrell?", "SEARCH: ALL", "Cal Roe did [1].")
    assert world.kumi.ask(QUESTION).method == "braid"
    assert [OFFER_OF_MANY in prompt for prompt in prompts] == [True, False, False]


def test_all_prompts_keep_the_bound_of_a_wide_reading(tmp_path: Path) -> None:
    """What the first prompt holds is read less afterwards; where little would be left, nothing is offered."""
    notes = {
        f"pier{n}.txt": " ".join(f"Ada {n} mended the pier {n}-{i} with oak." for i in range(90)) for n in range(40)
    }
    methods, totals = list[str](), list[int]()
    for reads in (0, 20_000, 9_000):
        settings = {"answer": {"sources": 40, "score_share": 1.0}, "wide": {"reads": reads or 20_000}}
        world, prompts = World(tmp_path, settings=settings), list[str]()

        def reply(prompt: str, prompts: list[str] = prompts) -> str:
            prompts.append(prompt)
            is_answer = "You answer a question" in prompt
            said = "SEARCH: ALL" if OFFER_OF_MANY in prompt else "Ada did [1]."
            return said if is_answer else fake_graph_reader.answer(prompt)

        world.models.chat = lambda scope, reply=reply: FakeChat(reply, join_messages=True)  # type: ignore[misc, method-assign]
        with world.kumi:
            if not reads:
                world.kumi.index(fill(world.notes, notes), methods=["naive"])
                continue
            methods.append(world.kumi.ask("Who mended the pier with oak?", caps=Caps(tokens=reads * 10)).method)
            with world.kumi.snapshot() as snapshot:
                totals.append(sum(len(snapshot.tokenizer(prompt)) for prompt in prompts))
    assert methods == ["wide", "naive"]
    assert 20_000 < totals[0] <= 30_000


def test_a_search_without_a_method_asks_no_model(world: World) -> None:
    asked: list[str] = []
    world.models.before = asked.append
    world.kumi.retrieve(OVERVIEW)
    assert asked == []
    world.kumi.ask(OVERVIEW)
    assert asked == ["wide", "answer"]


def test_a_followup_chooses_by_the_question_that_stands_alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    first = world.kumi.ask(QUESTION)
    monkeypatch.setattr("kumihimo.app.ask.answers_without_model.rewrite_standalone", lambda *_: OVERVIEW)
    assert world.kumi.ask("And all of it?", history=[first]).method == "wide"


@pytest.mark.parametrize("methods", [["naive"], ["braid", "bm25", "naive"]])
def test_reading_widely_builds_nothing(tmp_path: Path, methods: list[str]) -> None:
    world = World(tmp_path)
    with world.kumi:
        world.kumi.index(fill(world.notes, NOTES), methods=methods)
        tables = world.kumi.status().rows.keys()
        assert world.kumi.ask("What are the main themes?").method == "wide"
        assert world.kumi.ask(OVERVIEW).method == "wide"
        assert world.kumi.status().rows.keys() == tables


def test_an_index_without_vectors_is_not_read_widely(tmp_path: Path) -> None:
    world = World(tmp_path)
    with world.kumi:
        world.kumi.index(fill(world.notes, NOTES), methods=["bm25"])
        assert world.kumi.ask(OVERVIEW).method == "bm25"


def test_reading_widely_sees_what_the_rights_show(world: World) -> None:
    answer = world.kumi.ask(OVERVIEW, rights='uri != "notes/ferry.txt"')
    assert answer.method == "wide"
    assert "2 documents" in answer.context.query_type
    assert {span.uri for part in answer.parts for span in (c.span for c in part.citations)} <= {
        "notes/pier.txt",
        "notes/gate.txt",
    }
    assert "ferry" not in str([item.text for item in answer.context])


def test_reading_widely_can_be_cancelled(world: World) -> None:
    cancel, asked = CancelToken(), list[str]()

    def interrupt(scope: str) -> None:
        asked.append(scope)
        cancel.cancel()

    world.models.before = interrupt
    with pytest.raises(Cancelled):
        world.kumi.ask(OVERVIEW, cancel=cancel)
    assert asked == ["wide"]


def test_the_plan_of_the_default_is_that_of_the_method_it_chooses(world: World) -> None:
    def calls(question: str, method: str = "auto") -> dict[str, tuple[float, float]]:
        return {each.step: each.calls for each in world.kumi.estimate_query_cost(method, question).estimates}

    assert calls(QUESTION) == {"wide": (0, 3), "answer": (1, 3)}  # its reply may ask for a wide reading
    assert calls(QUESTION, "braid") == {"answer": (1, 3)}
    assert (
        calls(OVERVIEW) == calls(OVERVIEW, "wide") == {"wide": (0, 3), "answer": (0, 1)}
    )  # three passages, no reports
    assert calls("") == calls(OVERVIEW)
