"""several indexes, one question: evidence of all in one order, citations that name the index, one budget."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from kumihimo import Answer, Cancelled, CancelToken, Caps, Context, Kumihimo, SeveralIndexes
from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.evidence.explanations import explain_context
from kumihimo.core.errors import BudgetExceeded, IndexUnavailable, SettingsError
from kumihimo.core.index_names import split_id
from kumihimo.llm.cached_llm import Chat
from kumihimo.llm.registry import ModelRegistry
from kumihimo.testing.fake_models import FakeChat
from tests import fake_graph_reader
from tests.fixtures_index import FREE, fill

TOWN = {
    "town/pier.txt": "Ada Vane built the pier in Fenwick. Bea Orrell paid for it after the storm.",
    "town/ferry.md": "---\nkind: timetable\n---\nThe ferry of Fenwick leaves at nine. Cal Roe sails it.",
    "town/gate.txt": "The gate of Fenwick leaks. Cal Roe mended the pier of Fenwick with oak.",
    "town/rules.txt": "Boats are tied up at dusk.",
}
ISLE = {
    "town/pier.txt": "Dov Marsh mended the pier of Orsay after the flood. Ada Vane drew its plan.",  # the same uri
    "town/lamp.md": "---\ntopic: light\n---\nEla Quist lights the lamp of Orsay. The ferry of Orsay leaves at ten.",
    "town/rules.txt": TOWN["town/rules.txt"],
}
QUESTION = "Who mended the pier of Orsay?"
METHODS = [name for name in FREE if name in ("braid", "bm25", "naive", "global", "local", "light", "discourse")]


def build(folder: Path, files: dict[str, str]) -> Kumihimo:
    kumi = Kumihimo.open(fill(folder, files) / ".kumi")
    kumi.index(folder / "town", methods=METHODS)
    return kumi


@pytest.fixture(scope="module")
def indexes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Kumihimo]]:
    home = tmp_path_factory.mktemp("several")
    folders = {"town": TOWN, "isle": ISLE, "empty": {"town/blank.txt": " "}}
    opened = {name: build(home / name, files) for name, files in folders.items()}
    yield opened
    for kumi in opened.values():
        kumi.close()


@pytest.fixture
def both(indexes: dict[str, Kumihimo]) -> SeveralIndexes:
    return several(indexes, "town", "isle")


def several(indexes: dict[str, Kumihimo], *names: str, **options: dict[str, str]) -> SeveralIndexes:
    return SeveralIndexes({name: indexes[name] for name in names}, **options)


def texts(context: Context) -> list[tuple[str, str]]:
    return [(item.table, item.text) for item in context]


# -- evidence


@pytest.mark.parametrize("method", METHODS)
def test_beside_an_empty_index_nothing_changes(method: str, indexes: dict[str, Kumihimo]) -> None:
    for question in (QUESTION, "What is there to know about Fenwick?"):
        alone = indexes["town"].retrieve(question, method)
        for names in (("town", "empty"), ("empty", "town")):
            found = several(indexes, *names).retrieve(question, method)
            assert texts(found) == texts(alone)
            assert [item.score for item in found] == [item.score for item in alone]
            assert {item.index for item in found} <= {"town"}


@pytest.mark.parametrize("method", METHODS)
def test_the_order_of_the_names_changes_no_evidence(method: str, indexes: dict[str, Kumihimo]) -> None:
    for question in (QUESTION, "When does the ferry of Fenwick leave?"):
        one, other = (
            several(indexes, *names).retrieve(question, method) for names in (("town", "isle"), ("isle", "town"))
        )
        assert sorted(texts(one)) == sorted(texts(other))
        assert texts(one)[0] == texts(other)[0]


def test_the_best_passage_leads_whichever_index_has_it(both: SeveralIndexes) -> None:
    for method in ("braid", "bm25", "naive"):
        first, *_ = both.retrieve(QUESTION, method)
        assert (first.index, first.text) == ("isle", ISLE["town/pier.txt"])
        first, *_ = both.retrieve("Who paid for the pier after the storm?", method)
        assert (first.index, first.text) == ("town", TOWN["town/pier.txt"])


@pytest.mark.parametrize("method", ["bm25", "braid"])
def test_equal_ids_stay_apart_and_equal_passages_are_shown_once(method: str, both: SeveralIndexes) -> None:
    found = both.retrieve("pier boats tied dusk", method)
    piers = [item for item in found if item.text in (TOWN["town/pier.txt"], ISLE["town/pier.txt"])]
    assert {split_id(item.record.id) for item in piers} == {(name, piers[0].row[1]) for name in ("town", "isle")}
    assert [item.index for item in found if item.text == TOWN["town/rules.txt"]] == ["town"]


def test_there_is_as_much_evidence_as_from_one_index(both: SeveralIndexes) -> None:
    assert [len(both.retrieve("pier ferry", "bm25", k=k)) for k in (1, 2)] == [1, 2]


def test_a_word_that_one_index_has_is_spelt_right(both: SeveralIndexes) -> None:
    assert both.retrieve("Who is Quist?", "bm25").replaced == ()
    assert both.retrieve("Who lights the lamp of Orsey?", "bm25").replaced == (("Orsey", "Orsay"),)


HOPS = {
    "a": {
        "town/harbour.md": "# Brannet Harbour\n\nBrannet Harbour was built by Ada Roake in 1861. It has forty boats.",
        "town/tern.md": "# The Tern\n\nThe Tern is a trawler. Its owner sold it in 2004.",
    },
    "b": {
        "town/roake.md": "# Ada Roake\n\nAda Roake was an engineer. Ada Roake came into the world at Oban in 1830.",
        "town/leith.md": "# Leith\n\nLeith is a port. The yards of Leith closed in 1983.",
    },
}


def test_the_graph_leads_from_one_index_to_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    question = "In which town was the builder of Brannet Harbour born?"
    opened = {name: build(tmp_path / name, files) for name, files in HOPS.items()}
    both, one = SeveralIndexes(opened), build(tmp_path / "one", {**HOPS["a"], **HOPS["b"]})
    context = both.retrieve(question)
    assert texts(context) == texts(one.retrieve(question))
    assert [item.index for item in context.top(2)] == ["a", "b"]
    second = context.evidence[1]
    assert split_id(second.via[0]) == ("a", context.evidence[0].row[1])
    with both.snapshot() as snapshot:
        explanation = explain_context(snapshot.tracer, question, context).evidence[1].explanation
        assert explanation
        assert "Ada Roake" in explanation.reason.text
    # where cosines do not compare, each index is searched by itself
    monkeypatch.setattr(Snapshot, "embedder_of", lambda snapshot, _: str(id(snapshot.db)))
    apart = both.retrieve(question)
    assert sorted(texts(apart)) == sorted(texts(context))
    assert all(split_id(item.via[0])[0] == item.index for item in apart if item.via)
    for kumi in (*opened.values(), one):
        kumi.close()


@pytest.mark.parametrize("question", ["What are the main themes?", "What do people say about the ferry?"])
def test_points_are_traced_to_their_index(question: str, both: SeveralIndexes) -> None:
    context = both.retrieve(question)
    with both.snapshot() as snapshot:
        for item in context:
            spans = list(snapshot.trace(item))
            assert {span.index for span in spans} <= {"town", "isle"}
            assert any(" ".join(item.text.split()) in " ".join(span.text.split()) for span in spans)
            assert list(snapshot.trace_part(item, 0, 3))
    assert {item.table for item in context} >= {"points"}


# -- answers


def test_citations_and_traces_name_the_index(both: SeveralIndexes) -> None:
    answer = both.ask(QUESTION)
    first = answer.citations[0].span
    assert (first.index, first.uri, first.location) == ("isle", "town/pier.txt", "isle: town/pier.txt, line 1")
    assert str(answer).endswith("[1] isle: town/pier.txt, line 1")
    item = answer.context.evidence[0]
    assert [span.index for span in both.trace(item.reference)] == ["isle"]
    assert both.trace(f"chunks:{item.record.id}") == both.trace(item.reference)


def test_json_has_the_index_only_if_several_were_asked(both: SeveralIndexes, indexes: dict[str, Kumihimo]) -> None:
    def as_json(kumi: SeveralIndexes | Kumihimo, *, explain: bool) -> set[object]:
        values = kumi.ask(QUESTION, "bm25", explain=explain).to_dict()
        spans = [span for row in values["evidence"] for span in row.get("spans", ())]
        assert bool(spans) == explain
        rows = [*values["citations"], *values["evidence"], *spans]
        assert all("/" not in row.get("id", "") + row.get("chunk", "") for row in rows)
        return {row.get("index") for row in rows}

    for explain in (True, False):
        assert as_json(both, explain=explain) == {"town", "isle"}
        assert as_json(indexes["isle"], explain=explain) == {None}


def test_evidence_knows_its_place_and_its_index(both: SeveralIndexes) -> None:
    found = both.retrieve("pier lamp", "bm25")
    assert {item.source.index for item in found} == {"town", "isle"}
    for item in found:
        assert (item.source.index, item.source.text, item.location[:6]) == (item.index, item.text, f"{item.index}: ")
        assert item.uri in (*TOWN, *ISLE)
    (lamp,) = (item for item in found if "lights the lamp" in item.text)
    assert lamp.metadata == {"topic": "light"}


def test_requests_count_the_documents_of_all(both: SeveralIndexes) -> None:
    answer = both.ask("Which documents mention the ferry?")
    assert answer.text.startswith("2 of 7 documents mention “the ferry”:")
    assert {citation.span.index for citation in answer.citations} == {"town", "isle"}


def test_the_tables_of_all_are_one(both: SeveralIndexes, indexes: dict[str, Kumihimo]) -> None:
    with both.snapshot() as snapshot, indexes["isle"].snapshot() as isle:
        mentions, entities, chunks = map(snapshot.table, ("mentions", "entities", "chunks"))
        counts = {name: (id, count) for id, name, count in entities.columns("id", "name", "mentions")}
        id, count = counts["Ada Vane"]
        assert (count, len(mentions.where(entity=id)), len(list(entities)), len(entities)) == (
            2,
            2,
            len(counts),
            len(counts),
        )
        own = {f"isle/{chunk.id}": chunk.text for chunk in isle.table("chunks")}
        assert {id: chunk.text for id, chunk in chunks.get_many(own).items()} == own
        assert own.items() < dict(chunks.columns("id", "text")).items()
        assert chunks.get(next(isle.table("chunks").columns("id"))[0]) is None  # without the name of an index
        first, *_ = mentions.ids(entity=id)
        parent = first.rpartition(".")[0]
        assert first in mentions.child_values([parent], "id")[parent]
        assert mentions.ids_grouped("entity", [id], limit=1)[id] == [first]
        assert {snapshot.table("documents")[id].uri for id in snapshot.matching_documents('topic = "light"')} == {
            "isle: town/lamp.md"
        }


class Scripted(ModelRegistry):
    """A model that answers, and searches for `global`; the tests do something before each reply."""

    before: Callable[[str], object] = staticmethod(lambda scope: None)
    prompts: list[str]

    def chat(self, scope: str) -> Chat | None:
        if scope not in ("answer", "global"):
            return None

        def reply(prompt: str) -> str:
            self.before(scope)
            if scope == "answer":
                self.prompts.append(prompt)
            return "Dov Marsh did [1]." if scope == "answer" else fake_graph_reader.answer(prompt)

        return FakeChat(reply, join_messages=True)


@pytest.fixture
def scripted(tmp_path: Path) -> Iterator[tuple[SeveralIndexes, list[Scripted]]]:
    opened = {name: build(tmp_path / name, files) for name, files in (("town", TOWN), ("isle", ISLE))}
    models = []
    for kumi in opened.values():
        kumi.models = Scripted(kumi.models.settings, kumi.models.cache)
        kumi.models.prompts = []
        models.append(kumi.models)
    yield SeveralIndexes(opened), models
    for kumi in opened.values():
        kumi.close()


Scene = tuple[SeveralIndexes, Sequence[Scripted]]


def test_a_model_reads_all_in_one_prompt(scripted: Scene) -> None:
    both, (first, second) = scripted
    answer = both.ask(QUESTION, "bm25", caps=Caps(calls=1))
    assert (answer.text, answer.usage.calls) == ("Dov Marsh did [1].", 1)
    assert answer.citations[0].span.location == "isle: town/pier.txt, line 1"
    (prompt,) = first.prompts
    assert "isle: pier" in prompt
    assert "town: gate" in prompt
    assert second.prompts == []
    with both.snapshot() as snapshot:
        assert [row.keys() for row in answer.to_dict()["sources"][0]["rows"]] == [{"index", "table", "id"}]
        assert next(snapshot.trace(answer.context.evidence[0])).index == "isle"


def test_caps_hold_for_all_indexes_together(scripted: Scene) -> None:
    both, _ = scripted
    assert both.ask("What is quarrelled over?", "global").usage.calls == 3
    with pytest.raises(BudgetExceeded, match="calls 1"):
        both.ask("What is quarrelled over in these notes?", "global", caps=Caps(calls=1))


def test_an_index_that_changes_under_the_question_is_asked_again(scripted: Scene) -> None:
    both, (first, _) = scripted
    isle = both.indexes["isle"]
    changes = iter(["Fay Lund mended the pier of Orsay with tar."])

    def change(scope: str) -> None:
        if scope == "global" and (text := next(changes, "")):
            fill(isle.base, {"town/news.txt": text})
            isle.index()

    first.before = change
    found = both.retrieve("What is quarrelled over?", "global")
    with both.snapshot() as snapshot:
        assert {span.index for item in found for span in snapshot.trace(item)} == {"town", "isle"}
    assert next(changes, "") == ""


def test_a_cancelled_question_ends_in_all(scripted: Scene) -> None:
    both, (first, second) = scripted
    token, released = CancelToken(), threading.Event()

    def leave(_: str) -> None:
        token.cancel("the caller has left")
        released.wait(5)

    first.before = second.before = leave
    try:
        with pytest.raises(Cancelled, match="the caller has left"):
            both.ask("What is quarrelled over?", "global", cancel=token)
    finally:
        released.set()
    with pytest.raises(Cancelled):
        both.retrieve(QUESTION, "bm25", cancel=token)


def test_the_text_streams_and_the_stream_returns_the_answer(both: SeveralIndexes) -> None:
    answers: list[Answer] = []

    def read() -> Iterator[str]:
        answers.append((yield from both.stream(QUESTION, "bm25")))

    assert "".join(read()) == answers[0].text == both.ask(QUESTION, "bm25").text


# -- what is asked, and who may see it


def test_each_index_has_its_own_rights(indexes: dict[str, Kumihimo]) -> None:
    limited = several(indexes, "town", "isle", rights={"isle": 'topic = "light"', "town": 'kind = "timetable"'})
    assert {(item.index, item.text[:9]) for item in limited.retrieve("ferry pier", "bm25")} == {
        ("town", "The ferry"),
        ("isle", "Ela Quist"),
    }
    assert limited.ask("Who mended the pier?", "bm25").status == "nothing"
    assert [item.index for item in limited.retrieve("ferry pier", "bm25", rights='topic = "light"')] == ["isle"]
    with limited.snapshot() as snapshot:
        assert snapshot.row_counts()["documents"] == 2


def test_a_filter_may_name_a_field_of_one_index(both: SeveralIndexes) -> None:
    assert [item.index for item in both.retrieve("ferry pier", "bm25", filter='topic = "light"')] == ["isle"]
    found = both.retrieve("ferry pier", "bm25", filter='topic = "light" or kind = "timetable"')
    assert sorted(item.index for item in found) == ["isle", "town"]
    with pytest.raises(SettingsError, match="colour"):
        both.retrieve("ferry pier", "bm25", filter='colour = "red"')
    with both.snapshot() as snapshot:
        assert len(snapshot.matching_documents('topic = "light"')) == 1


def test_free_tables_are_built_in_each(tmp_path: Path) -> None:
    for name in ("one", "two"):
        with Kumihimo.open(fill(tmp_path / name, TOWN) / ".kumi") as kumi:
            kumi.index(tmp_path / name / "town", methods=["bm25"])
    with SeveralIndexes.open(tmp_path / "one/.kumi", tmp_path / "two/.kumi") as both:
        assert both.ask("When does the ferry leave?").method == "bm25"
        assert both.ask("When does the ferry leave?", "naive").status == "answered"
        assert all("naive" in kumi.status().methods for kumi in both.indexes.values())


def test_errors_name_the_index(indexes: dict[str, Kumihimo], tmp_path: Path) -> None:
    missing = Kumihimo.open(tmp_path / "gone/.kumi")
    with pytest.raises(IndexUnavailable, match=r"^gone: there is no index in .*kumi index PATH"):
        SeveralIndexes({"town": indexes["town"], "gone": missing}).ask(QUESTION)
    with pytest.raises(SettingsError, match="two indexes or more"):
        SeveralIndexes({"town": indexes["town"]})
    with pytest.raises(SettingsError, match="is named twice"):
        SeveralIndexes.open(tmp_path / "x", tmp_path / "x")
