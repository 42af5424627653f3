"""steps + changes -> tables: the steps to run, table steps, dropped tables, rows held at once."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

import pytest

from kumihimo.core import task
from kumihimo.core.digests import hash_parts
from kumihimo.core.engine import diff_rows
from kumihimo.core.errors import ItemFailed, StepError
from kumihimo.core.records import Document
from kumihimo.core.table import Group, Row, Table
from kumihimo.storage.sqlite import store
from kumihimo.storage.sqlite.connection import SqliteConnection
from tests.core.factories_build import Model, Small, Step, failing
from tests.toy_steps import (
    Entry,
    Letter,
    Longer,
    Part,
    Title,
    Total,
    Word,
    entries,
    letters,
    part_reports,
    parts,
    titles,
    totals,
    words,
)


def test_a_table_step_chooses_its_ids(tmp_path: Path) -> None:
    small = Small(tmp_path)
    small.build([words, entries, totals], {"a": "sea sky river"})
    assert small.rows("totals") == [("of3", "2"), ("of5", "1")]


@pytest.mark.parametrize("ids", [["a.b"], ["a/b"], [""], ["a", "a"], ["."]])
def test_an_id_that_would_be_read_otherwise_is_refused(tmp_path: Path, ids: list[str]) -> None:
    def totals(documents: Table[Document]) -> Iterable[Total]:
        return [Total(id=id) for id in ids]

    with pytest.raises(StepError) as refused:
        Small(tmp_path).build([totals], {"a": ""})
    assert (
        str(refused.value) == f"totals: {ids[-1]!r} is not a valid row id: ids are unique and contain neither . nor /"
    )


def test_a_change_runs_only_what_it_touches(tmp_path: Path) -> None:
    calls: list[str] = []

    def words(document: Document) -> Iterable[Word]:
        calls.append(document.uri)
        return [Word(text=word, name=hash_parts(word), number=0) for word in document.text.split()]

    def entries(members: Group[Word]) -> Entry:
        calls.append(members[0].text)
        return Entry(text=members[0].text, count=len(members))

    def totals(entries: Table[Entry]) -> Iterable[Total]:
        calls.append("totals")
        return []

    def run(**documents: str) -> list[str]:
        calls.clear()
        small.build([words, entries, totals], documents)
        return sorted(calls)

    small = Small(tmp_path)
    assert run(a="sea sky", b="sea") == ["a", "b", "sea", "sky", "totals"]
    assert run(a="sea sky", b="sea") == []
    assert run(a="sea sun", b="sea") == ["a", "sun", "totals"]  # the group of sky and its row are gone
    assert sorted(small.texts("entries")) == ["sea", "sun"]
    assert run(a="sea sun") == ["sea", "totals"]
    assert run(a="sun sea") == ["a", "sea", "sun"]  # members with new ids, but equal entries: no change


def test_a_row_that_stays_the_same_tells_nobody(tmp_path: Path) -> None:
    calls: list[str] = []

    def titles(document: Document) -> Title:
        return Title(text=document.text.splitlines()[0])

    def lengths(title: Title) -> Total:
        calls.append(title.text)
        return Total(text=str(len(title.text)))

    small = Small(tmp_path)
    small.build([titles, lengths], {"a": "Sea\nblue"})
    small.build([titles, lengths], {"a": "Sea\ngreen"})
    assert calls == ["Sea"]
    assert small.query("SELECT text FROM documents") == [("Sea\ngreen",)]


def test_a_changed_code_or_setting_makes_a_step_and_what_follows_anew(tmp_path: Path) -> None:
    calls: list[str] = []

    def titles(document: Document, *, size: int = 3) -> Title:
        calls.append("titles")
        return Title(text=document.text[:size])

    def lengths(title: Title) -> Total:
        calls.append("lengths")
        return Total(text=str(len(title.text)))

    def aside(document: Document) -> Word:
        calls.append("aside")
        return Word(name="", number=0)

    small = Small(tmp_path)
    steps: list[Step] = [titles, lengths, aside]
    small.build(steps, {"a": "Harbour"})
    calls.clear()
    small.build(steps, {"a": "Harbour"}, settings={"titles": {"size": 4}})
    assert calls == ["titles", "lengths"]
    assert small.texts("lengths") == ["4"]
    calls.clear()
    small.build(steps, {"a": "Harbour"}, settings={"titles": {"size": 4}}, code="2")
    assert sorted(calls) == ["aside", "lengths", "titles"]


def test_another_model_makes_anew_what_asks_it(tmp_path: Path) -> None:
    def titles(document: Document, llm: Model) -> Title:
        return Title(text=llm(document.text))

    small = Small(tmp_path)
    for mark, answer in (("one", str.upper), ("one", str.lower), ("two", str.title)):
        small.ports = {"llm": Model(answer, fingerprint=mark)}
        small.build([titles], {"a": "the Sea"})
        assert small.texts("titles") == [{"one": "THE SEA", "two": "The Sea"}[mark]]


def test_two_steps_that_wait_for_each_other_build_nothing(tmp_path: Path) -> None:
    def one(document: Document, two: Table[Letter]) -> Title:
        return Title()

    def two(document: Document, one: Table[Title]) -> Letter:
        return Letter()

    with pytest.raises(StepError, match=r"^these steps wait for each other: one, two$"):
        Small(tmp_path).build([one, two], {"a": ""})


def test_jobs_run_through_the_pool_only_where_they_ask(tmp_path: Path) -> None:
    pooled: list[int] = []

    def pool(call: task.RunJob, jobs: Iterable[task.Job]) -> Iterable[list[task.StepResult]]:
        for job in jobs:
            pooled.append(len(job))
            yield call(job)

    def titles(document: Document, llm: Model) -> Title:
        return Title(text=llm(document.text))

    small = Small(tmp_path, ports={"llm": Model(str)}, pool=pool)  # type: ignore[arg-type]
    small.build([words, titles], {"a": "one", "b": "two"})
    assert pooled == [1, 1]


def test_progress_is_told_step_by_step(tmp_path: Path) -> None:
    reports_seen: list[tuple[str, int, int]] = []
    small = Small(tmp_path, progress=lambda e: reports_seen.append((e.step, e.done, e.total)))
    small.build([words, entries, totals], {"a": "sea sky", "b": "sea"})
    assert reports_seen == [("words", 2, 2), ("entries", 2, 2), ("totals", 0, 1), ("totals", 1, 1)]


def test_progress_reaches_its_total_page_by_page(tmp_path: Path) -> None:
    reports_seen: list[tuple[str, int, int]] = []
    small = Small(tmp_path, progress=lambda e: reports_seen.append((e.step, e.done, e.total)))
    small.build([titles], {f"d{i}": f"text {i}" for i in range(1200)})
    done = [done for _, done, _ in reports_seen]
    assert done == sorted(done)
    assert done[-1] == 1200
    assert len(done) > 2
    assert {(step, total) for step, _, total in reports_seen} == {("titles", 1200)}


@pytest.mark.parametrize("ids", [("a", "a-b"), ("a", "a b", "ab"), ("a", "a!", "b"), ("港", "港-北"), ("a", "b")])
def test_rows_of_chosen_ids_can_be_made_anew(tmp_path: Path, ids: tuple[str, ...]) -> None:

    def parts(documents: Table[Document]) -> Iterable[Part]:
        return [Part(id=id, text=f"{id}x", parent="", depth=0) for id in ids]

    def letters(part: Part) -> Iterable[Letter]:
        return [Letter(text=letter) for letter in part.text]

    small = Small(tmp_path)
    small.build([parts, letters], {"a": ""})
    rows = small.rows("letters")
    small.build([parts, letters], {"a": ""}, code="2")
    assert small.rows("letters") == rows
    assert len(rows) == sum(len(id) + 1 for id in ids)


def test_only_the_reports_above_a_change_are_made_again(tmp_path: Path) -> None:
    model = failing()
    small = Small(tmp_path, ports={"llm": model})
    small.build([parts, part_reports], {"a": "top", "ab": "low", "x": "other", "xy": "aside"})
    model.prompt_counts.clear()
    small.build([parts, part_reports], {"a": "top", "ab": "deep", "x": "other", "xy": "aside"})
    assert model.prompt_counts == {"deep": 1, "top DEEP": 1}
    model.prompt_counts.clear()
    small.build([parts, part_reports], {"a": "top", "x": "other", "xy": "aside"})
    assert model.prompt_counts == {"top": 1}
    assert small.texts("part_reports") == ["TOP", "OTHER ASIDE", "ASIDE"]


def test_a_table_step_that_fails_keeps_its_table(tmp_path: Path) -> None:
    def totals(entries: Table[Entry], llm: Model) -> Iterable[Total]:
        for entry in entries:
            yield Total(id=entry.id, text=llm(entry.text))

    small = Small(tmp_path, ports={"llm": failing("sun")})
    small.build([words, entries, totals], {"a": "sea sky"})
    before = small.rows("totals")
    assert sorted(row[1] for row in before) == ["SEA", "SKY"]
    small.build([words, entries, totals], {"a": "sea sun"})
    assert small.rows("totals") == before
    assert small.failures() == [("totals", "", "no answer to sun")]
    small.ports = {"llm": failing()}
    small.build([words, entries, totals], {"a": "sea sun"})
    assert sorted(small.texts("totals")) == ["SEA", "SUN"]
    assert small.failures() == []


def test_a_table_step_that_fails_without_words_is_listed_as_others_are(tmp_path: Path) -> None:

    def totals(documents: Table[Document]) -> Iterable[Total]:
        raise ItemFailed("")

    small = Small(tmp_path)
    small.build([totals], {"a": ""})
    assert small.failures() == [("totals", "", "ItemFailed")]


def test_a_table_step_sees_what_it_made_before(tmp_path: Path) -> None:
    def totals(documents: Table[Document], previous: Table[Total]) -> Iterable[Total]:
        stored = [(total.id, total.text) for total in previous]
        return [Total(id=f"t{len(stored)}", text=str(len(documents))), *(Total(id=i, text=t) for i, t in stored)]

    small = Small(tmp_path)
    small.build([totals], {"a": ""})
    small.build([totals], {"a": "", "b": ""})
    assert small.rows("totals") == [("t0", "1"), ("t1", "2")]


def test_a_keyed_step_sees_its_row_of_the_last_build(tmp_path: Path) -> None:
    """What it remembers is no reason to run it again."""
    calls: list[str] = []

    def totals(document: Document, previous: Table[Total]) -> Total:
        calls.append(document.text)
        earlier = previous.get(document.id)
        return Total(text=f"{earlier.text if earlier else ''}{document.text}")

    small = Small(tmp_path)
    for text in ("a", "b", "b"):
        small.build([totals], {"x": text, "y": "y"})
    assert sorted(small.texts("totals")) == ["ab", "y"]
    assert sorted(calls) == ["a", "b", "y"]
    small.build([totals], {"x": "b", "y": "y"}, from_scratch=["totals"])
    assert sorted(small.texts("totals")) == ["b", "y"]


def test_a_keyed_step_may_not_read_all_that_it_remembers(tmp_path: Path) -> None:
    def totals(document: Document, previous: Table[Total]) -> Total:
        return Total(text=str(len(previous)))

    with pytest.raises(StepError):
        Small(tmp_path).build([totals], {"x": "a"})


def test_another_record_class_empties_its_table_and_what_follows(tmp_path: Path) -> None:
    small = Small(tmp_path)
    small.build([words, entries, letters, titles], {"a": "sea sky"})

    def words_(document: Document) -> Iterable[Longer]:
        return [Longer(text=word, name=hash_parts(word), length=len(word)) for word in document.text.split()]

    def entries_(members: Group[Longer]) -> Entry:
        calls.append(members[0].text)
        return Entry(text=members[0].text.upper(), count=len(members))

    calls: list[str] = []
    small.build([words_, entries_, letters, titles], {"a": "sea sun"})
    assert sorted(calls) == ["sea", "sun"]
    assert [row[1:] for row in small.rows("words")] == [
        ("sea", hash_parts("sea"), 3),
        ("sun", hash_parts("sun"), 3),
    ]
    assert sorted(small.texts("entries")) == ["SEA", "SUN"]  # the removal of sky was not reported, but its row is gone
    assert sorted(small.texts("letters")) == sorted("SEASUN")
    assert small.texts("titles") == ["sea sun"]


def test_a_step_no_longer_built_leaves_no_table_unless_it_reads_its_own(tmp_path: Path) -> None:
    def kept(entries: Table[Entry], previous: Table[Total]) -> Iterable[Total]:
        return [*previous, Total(id=f"of{len(entries)}")]

    small = Small(tmp_path)
    small.build([words, entries, totals, kept], {"a": "sea sky"})
    small.build([words], {"a": "sea sun"})
    tables = {name for (name,) in small.query("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert tables.isdisjoint(("entries", "totals"))
    assert small.rows("kept") == [("of2", "")]
    steps = small.query("SELECT step, fingerprint IS NULL FROM steps ORDER BY step")
    assert steps == [("documents", 1), ("kept", 1), ("words", 0)]


def test_a_step_built_again_later_equals_a_fresh_build(tmp_path: Path) -> None:
    def entries(members: Group[Word], titles: Table[Title]) -> Entry:
        if members[0].text == "sun":
            raise ItemFailed("too bright")
        title = titles.get(members[0].id.partition(".")[0])
        return Entry(text=f"{members[0].text} {title.text if title else ''}", count=len(members))

    steps: list[Step] = [words, titles, entries, totals]
    back, fresh = Small(tmp_path / "back"), Small(tmp_path / "fresh")
    back.build(steps, {"a": "sea sun", "b": "sky"})
    back.build([words], {"a": "sea sun", "b": "sky"})
    assert back.failures() == []
    back.build([words], {"a": "sea storm", "b": "sky sun"})
    back.build(steps, {"a": "sea storm", "b": "sky sun"})
    fresh.build(steps, {"a": "sea storm", "b": "sky sun"})
    for table in ("documents", "words", "titles", "entries", "totals", "failed", "looked", "steps"):
        assert back.query(f"SELECT * FROM {table} ORDER BY 1, 2") == fresh.query(f"SELECT * FROM {table} ORDER BY 1, 2")
    assert len(back.failures()) == 1


def test_what_differs_between_what_was_and_is() -> None:
    was: dict[str, Row] = {"a": ("a", 1), "b": ("b", 1), "c": ("c", 1)}
    old: list[Row] = []
    new: list[Row] = []
    diff_rows(was, [("a", 1), ("b", 2), ("d", 1)], old, new)
    assert old == [("b", 1), ("c", 1)]
    assert new == [("b", 2), ("d", 1)]


class CountedText(str):
    """A text that counts how many of its kind are held at once."""

    __slots__ = ()
    held: ClassVar[int] = 0
    most_held: ClassVar[int] = 0

    def __new__(cls, text: str) -> CountedText:
        CountedText.held += 1
        CountedText.most_held = max(CountedText.held, CountedText.most_held)
        return super().__new__(cls, text)

    def __del__(self) -> None:
        CountedText.held -= 1


def test_rows_held_at_once_do_not_grow_with_the_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare the builds of 2,000 and 8,000 rows: rows that are read, and rows that are made."""
    connect = store._connect

    def connect_and_count(path: Path, *, immutable: bool = False) -> SqliteConnection:
        connection = connect(path, immutable=immutable)
        connection.driver.text_factory = lambda text: CountedText(text.decode())
        return connection

    def passages(word: Word) -> Iterable[Letter]:
        return [Letter(text=CountedText(f"{word.text} {i}")) for i in range(2)]

    def count(rows: int) -> int:
        def words(document: Document) -> Iterable[Word]:
            return [Word(text=str(i), name="", number=i) for i in range(rows // 100)]

        small = Small(tmp_path / str(rows))
        documents = {str(i): "" for i in range(100)}
        small.build([words], documents)
        with monkeypatch.context() as patches:
            patches.setattr(store, "_connect", connect_and_count)
            CountedText.most_held = CountedText.held
            small.build([words, passages], documents)
        assert small.query("SELECT count(*) FROM passages") == [(2 * rows,)]
        return CountedText.most_held

    few, many = count(2_000), count(8_000)
    assert 1_000 < many < 1.5 * few
