"""a key and its rows -> the rows of a step: ids, lookups, failures and waiting."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kumihimo.core import task
from kumihimo.core.digests import hash_parts
from kumihimo.core.engine import READ_BATCH
from kumihimo.core.errors import ItemFailed, StepError, UpstreamFailed
from kumihimo.core.records import Document
from kumihimo.core.table import Group, Row, Table
from kumihimo.core.task import Task
from kumihimo.storage.database import SqlRows
from tests.core.factories_build import Model, Small, failing, id
from tests.toy_steps import Entry, Letter, Part, PartReport, Title, Word, part_reports, parts, titles, words


def test_a_row_step_names_its_rows_after_their_maker(tmp_path: Path) -> None:
    small = Small(tmp_path)
    small.build([words], {"a": "one two", "b": "", "c": "one"})
    assert {row[:2] for row in small.rows("words")} == {
        (f"{id('a')}.00000", "one"),
        (f"{id('a')}.00001", "two"),
        (f"{id('c')}.00000", "one"),
    }


def test_a_step_that_makes_one_row_gives_it_the_id_of_its_maker(tmp_path: Path) -> None:
    small = Small(tmp_path)
    small.build([titles], {"a": "One\ntwo", "b": ""})
    assert small.rows("titles") == [(id("a"), "One")]


def test_a_group_is_named_by_its_value_and_sorted_by_id(tmp_path: Path) -> None:
    groups: list[tuple[str, ...]] = []

    def entries(members: Group[Word]) -> Entry:
        groups.append(tuple(member.id for member in members))
        return Entry(text=members[0].text, count=len(members))

    small = Small(tmp_path)
    small.build([words, entries], {"a": "sea sky sea", "b": "sea"})
    assert sorted(small.rows("entries")) == sorted([(hash_parts("sea"), "sea", 3), (hash_parts("sky"), "sky", 1)])
    first, second = sorted([id("a"), id("b")])
    sea = sorted(groups, key=len)[-1]
    assert sea == tuple(sorted(sea))
    assert [member.partition(".")[0] for member in sea if member.startswith(first)]
    assert sea[-1].startswith(second)


def test_rows_of_rows_have_ordinals_of_ordinals(tmp_path: Path) -> None:
    def letters(word: Word) -> Iterable[Letter]:
        return [Letter(text=letter) for letter in word.text]

    small = Small(tmp_path)
    small.build([words, letters], {"a": "is it"})
    assert small.rows("letters") == [
        (f"{id('a')}.00000.00000", "i", False, 0.0),
        (f"{id('a')}.00000.00001", "s", False, 0.0),
        (f"{id('a')}.00001.00000", "i", False, 0.0),
        (f"{id('a')}.00001.00001", "t", False, 0.0),
    ]


@pytest.mark.parametrize(("most", "count"), [(task.MAX_KNOWN, 1), (0, 2)])
def test_jobs_share_the_rows_that_they_have_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, count: int
) -> None:
    def entries(word: Word, titles: Table[Title]) -> Entry:
        title = titles.get(id("a"))
        assert title
        return Entry(text=title.text, count=1)

    read: list[list[str]] = []
    get_many = SqlRows.get_many

    def counted(self: SqlRows, ids: Sequence[str]) -> list[Row]:
        read.append([*ids])
        return get_many(self, ids)

    monkeypatch.setattr(SqlRows, "get_many", counted)
    monkeypatch.setattr(task, "MAX_KNOWN", most)
    small = Small(tmp_path)
    small.build([words, titles, entries], {"a": " ".join(map(str, range(READ_BATCH + 1)))})
    assert len(small.rows("entries")) == READ_BATCH + 1
    assert read == [[id("a")]] * count


def test_what_makes_more_rows_than_ordinals_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "MAX_ROWS", 3)
    small = Small(tmp_path)
    small.build([words], {"a": "1 2 3"})
    small.build([words], {"a": "1 2 3 4", "b": "1"})
    assert small.failures() == [("words", id("a"), "it makes 4 rows; the maximum is 3: split it into parts")]
    assert small.texts("words") == ["1"]


def test_a_port_that_nobody_gave_is_named(tmp_path: Path) -> None:
    def titles(document: Document, lml: Model) -> Title:
        return Title(text=lml(document.text))

    with pytest.raises(StepError) as refused:
        Small(tmp_path, ports={"llm": Model(str)}).build([titles], {"a": ""})
    assert str(refused.value) == "titles: no table or port 'lml'; did you mean 'llm'? Known: llm"


def test_a_call_runs_again_when_what_it_looked_up_changes(tmp_path: Path) -> None:
    calls: list[str] = []

    def titles(document: Document, words: Table[Word]) -> Title:
        calls.append(document.uri)
        return Title(text=" ".join(sorted(word.text for word in words.where(number=1))))

    def run(**documents: str) -> list[str]:
        calls.clear()
        small.build([words, titles], documents)
        return sorted(calls)

    small = Small(tmp_path)
    assert run(a="see it", b="go") == ["a", "b"]
    assert run(a="see it", b="do") == ["b"]  # no word with number 1 was added, removed or changed
    assert run(a="see it", b="do it") == ["a", "b"]
    assert small.texts("titles") == ["it it", "it it"]
    assert run(a="see it", b="do this") == ["a", "b"]
    assert run(a="see it") == ["a"]
    assert small.texts("titles") == ["it"]


def test_a_call_runs_again_when_what_it_did_not_find_comes(tmp_path: Path) -> None:
    def titles(document: Document, words: Table[Word]) -> Title:
        word = words.get(f"{id('a')}.00001")
        return Title(text=word.text if word else "none")

    small = Small(tmp_path)
    for text, expected in (("one", "none"), ("one two", "two"), ("one too", "too"), ("one", "none")):
        small.build([words, titles], {"a": text, "b": ""})
        assert small.texts("titles") == [expected, expected]


def test_a_look_up_by_true_or_false_is_noticed_when_its_answer_changes(tmp_path: Path) -> None:

    def letters(documents: Table[Document]) -> Iterable[Letter]:
        return [Letter(id=d.uri, capital=d.text.isupper()) for d in documents]

    def titles(document: Document, letters: Table[Letter]) -> Title:
        return Title(text=str(len(letters.where(capital=True))))

    small = Small(tmp_path)
    small.build([letters, titles], {"a": "A", "b": "B", "c": "c"})
    small.build([letters, titles], {"a": "A", "c": "c"})
    assert small.texts("titles") == ["1", "1"]


def test_a_look_up_by_a_number_is_noticed_when_its_answer_changes(tmp_path: Path) -> None:

    def letters(documents: Table[Document]) -> Iterable[Letter]:
        return [Letter(id=d.uri, share=len(d.text)) for d in documents]

    def titles(document: Document, letters: Table[Letter]) -> Title:
        return Title(text=str(len(letters.where(share=1))))

    small = Small(tmp_path)
    small.build([letters, titles], {"a": "A", "b": "B", "c": "see"})
    small.build([letters, titles], {"a": "A", "c": "see"})
    assert small.texts("titles") == ["1", "1"]


def test_only_table_steps_iterate(tmp_path: Path) -> None:
    def titles(document: Document, words: Table[Word]) -> Title:
        return Title(text=" ".join(word.text for word in words))

    with pytest.raises(StepError, match=r"^table words allows only `get` and `where` here; only whole-table steps"):
        Small(tmp_path).build([words, titles], {"a": "sea"})


def llm_titles(document: Document, llm: Model) -> Title:
    return Title(text=llm(document.text))


def test_what_fails_is_listed_the_rest_goes_on_and_the_next_build_tries_only_that(tmp_path: Path) -> None:
    small = Small(tmp_path, ports={"llm": failing("two")})
    documents = {"a": "one", "b": "two", "c": "three"}
    small.build([llm_titles], documents)
    assert sorted(small.texts("llm_titles")) == ["ONE", "THREE"]
    assert small.failures() == [("llm_titles", id("b"), "no answer to two")]
    model = failing()
    small.ports = {"llm": model}
    small.build([llm_titles], documents)
    assert model.prompt_counts == {"two": 1}
    assert sorted(small.texts("llm_titles")) == ["ONE", "THREE", "TWO"]
    assert small.failures() == []


def test_what_failed_before_and_fails_now_loses_its_row(tmp_path: Path) -> None:
    small = Small(tmp_path, ports={"llm": failing("sea")})
    small.build([llm_titles], {"a": "one"})
    small.build([llm_titles], {"a": "sea"})
    assert small.texts("llm_titles") == []
    assert small.failures() == [("llm_titles", id("a"), "no answer to sea")]


def test_what_failed_and_is_gone_is_no_longer_listed(tmp_path: Path) -> None:
    small = Small(tmp_path, ports={"llm": failing("two")})
    small.build([llm_titles], {"a": "one", "b": "two"})
    small.build([llm_titles], {"a": "one"})
    assert small.failures() == []


def test_a_failure_without_words_is_listed_all_the_same(tmp_path: Path) -> None:
    def titles(document: Document) -> Title:
        raise ItemFailed("")

    small = Small(tmp_path)
    small.build([titles], {"a": ""})
    assert small.failures() == [("titles", id("a"), "ItemFailed")]


def test_something_instead_is_stored_and_listed(tmp_path: Path) -> None:
    def entries(members: Group[Word], llm: Model) -> Entry:
        plain = Entry(text=members[0].text, count=len(members))
        try:
            return Entry(text=llm(plain.text), count=plain.count)
        except ItemFailed as error:
            raise ItemFailed(str(error), fallback=[plain]) from error

    small = Small(tmp_path, ports={"llm": failing("sea")})
    small.build([words, entries], {"a": "sea sky"})
    assert sorted(small.texts("entries")) == ["SKY", "sea"]
    assert small.failures() == [("entries", hash_parts("sea"), "no answer to sea")]
    small.ports = {"llm": failing()}
    small.build([words, entries], {"a": "sea sky"})
    assert sorted(small.texts("entries")) == ["SEA", "SKY"]
    assert small.failures() == []


def test_something_instead_of_many_is_the_first_of_them(tmp_path: Path) -> None:
    def words(document: Document) -> Iterable[Word]:
        yield Word(text="lost with the rest", name="", number=0)
        raise ItemFailed("broke off", fallback=[Word(text="instead", name="", number=0)])

    small = Small(tmp_path)
    small.build([words], {"a": ""})
    assert small.rows("words") == [(f"{id('a')}.00000", "instead", "", 0)]


def test_any_other_error_ends_the_build_and_leaves_the_index_as_it_was(tmp_path: Path) -> None:
    def titles(document: Document) -> Title:
        return Title(text=str(100 // len(document.text)))

    small = Small(tmp_path)
    small.build([titles], {"a": "four"})
    with pytest.raises(ZeroDivisionError):
        small.build([titles], {"a": "", "b": "ten"})
    assert small.texts("titles") == ["25"]
    assert small.query("SELECT count(*) FROM documents") == [(1,)]


def test_a_report_whose_sub_report_failed_waits_and_asks_nothing(tmp_path: Path) -> None:
    model = failing("low")
    small = Small(tmp_path, ports={"llm": model})
    tree = {"a": "top", "ab": "mid", "abc": "low", "x": "other"}
    small.build([parts, part_reports], tree)
    assert small.texts("part_reports") == ["OTHER"]
    assert small.failures() == [
        ("part_reports", "pa", "waits for pab, which failed"),
        ("part_reports", "pab", "waits for pabc, which failed"),
        ("part_reports", "pabc", "no answer to low"),
    ]
    assert model.prompt_counts == {"low": 1, "other": 1}
    model = failing()
    small.ports = {"llm": model}
    small.build([parts, part_reports], tree)
    assert model.prompt_counts == {"low": 1, "mid LOW": 1, "top MID LOW": 1}
    assert small.rows("part_reports")[0] == ("pa", "TOP MID LOW")
    assert small.failures() == []


def test_a_report_goes_on_with_what_stands_in_for_its_sub_report(tmp_path: Path) -> None:
    def reports(part: Part, parts: Table[Part], reports: Table[PartReport]) -> PartReport:
        if part.text == "low":
            raise ItemFailed("no answer", fallback=[PartReport(text="(low)")])
        below = [reports[child.id].text for child in parts.where(parent=part.id)]
        return PartReport(text=" ".join([part.text, *below]))

    small = Small(tmp_path)
    small.build([parts, reports], {"a": "top", "ab": "low"})
    assert small.texts("reports") == ["top (low)", "(low)"]
    assert small.failures() == [("reports", "pab", "no answer")]


def test_a_model_is_not_asked_about_what_stands_in_for_a_sub_report(tmp_path: Path) -> None:
    def reports(part: Part, parts: Table[Part], reports: Table[PartReport], llm: Model) -> PartReport:
        below = [reports[child.id].text for child in parts.where(parent=part.id)]
        assert llm.fingerprint == "model"
        try:
            return PartReport(text=llm(" ".join([part.text, *below])))
        except ItemFailed as error:
            raise ItemFailed(str(error), fallback=[PartReport(text=f"({part.text})")]) from error

    model = failing("low")
    small = Small(tmp_path, ports={"llm": model})
    tree = {"a": "top", "ab": "low", "x": "other"}
    small.build([parts, reports], tree)
    assert small.failures() == [
        ("reports", "pa", "waits for pab, which failed"),
        ("reports", "pab", "no answer to low"),
    ]
    assert small.texts("reports") == ["(top)", "(low)", "OTHER"]
    assert model.prompt_counts == {"low": 1, "other": 1}
    small.ports = {"llm": failing()}
    small.build([parts, reports], tree)
    assert small.texts("reports") == ["TOP LOW", "LOW", "OTHER"]
    assert small.failures() == []


def test_an_item_does_not_wait_for_itself() -> None:
    """Check that a step waits after lookups by id alone.

    A lookup by another column that finds nothing does not mean a failed call.
    """
    task_: Any = Task.__new__(Task)
    task_.step, task_.failing = SimpleNamespace(name="reports"), {"p": "no answer"}
    dependencies: set[int] = set()
    note = task_.lookup_recorder(dependencies, [])
    note("reports", ("parent",), ("p",), False)
    assert len(dependencies) == 1
    with pytest.raises(UpstreamFailed):
        note("reports", ("id",), ("p",), False)
