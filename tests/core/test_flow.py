"""steps + what changed -> tables: the shapes, the ids, what fails, what waits, what is made anew."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from kumihimo.core import flow
from kumihimo.core.errors import ItemFailed, StepError
from kumihimo.core.flow import differ, inline
from kumihimo.core.records import Document, Record, digest
from kumihimo.core.table import Group, Row, Table
from tests.core.small import Small, id


@dataclass(frozen=True, slots=True)
class Word(Record):
    GROUP: ClassVar[str] = "name"
    INDEX: ClassVar[tuple[str | tuple[str, ...], ...]] = ("number",)
    name: str
    number: int


@dataclass(frozen=True, slots=True)
class Longer(Record):
    """A word with another column."""

    GROUP: ClassVar[str] = "name"
    name: str
    length: int


@dataclass(frozen=True, slots=True)
class Entry(Record):
    count: int


@dataclass(frozen=True, slots=True)
class Title(Record):
    pass


@dataclass(frozen=True, slots=True)
class Letter(Record):
    INDEX: ClassVar[tuple[str | tuple[str, ...], ...]] = ("capital", "share")
    capital: bool = False
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class Total(Record):
    pass


@dataclass(frozen=True, slots=True)
class Part(Record):
    """A document that is part of another: its uri is its parent's and one letter more."""

    INDEX: ClassVar[tuple[str | tuple[str, ...], ...]] = ("parent",)
    WAVE: ClassVar[str] = "depth"
    parent: str
    depth: int


@dataclass(frozen=True, slots=True)
class Report(Record):
    pass


@dataclass
class Model:
    """A model that is a function; it counts what it was asked."""

    answer: Callable[[str], str]
    mark: str = "model"
    asked: Counter[str] = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        self.asked = Counter()

    def __call__(self, prompt: str) -> str:
        self.asked[prompt] += 1
        return self.answer(prompt)


def words(document: Document) -> Iterable[Word]:
    """Each word."""
    for i, word in enumerate(document.text.split()):
        yield Word(text=word, name=digest(word), number=i)


def titles(document: Document) -> Title | None:
    """The first line, where there is one."""
    return Title(text=document.text.splitlines()[0]) if document.text else None


def entries(members: Group[Word]) -> Entry:
    """All uses of one word."""
    return Entry(text=members[0].text, count=len(members))


def letters(entry: Entry) -> Iterable[Letter]:
    """The letters of each word."""
    return [Letter(text=letter) for letter in entry.text]


def totals(entries: Table[Entry]) -> Iterable[Total]:
    """How many words there are of each length."""
    lengths = Counter(len(entry.text) for entry in entries)
    return [Total(id=f"of{length}", text=str(n)) for length, n in lengths.items()]


def parts(documents: Table[Document]) -> Iterable[Part]:
    """Each document, below the one whose uri it goes on from."""
    return [Part(id=f"p{d.uri}", text=d.text, parent=f"p{d.uri[:-1]}", depth=len(d.uri)) for d in documents]


def reports(part: Part, parts: Table[Part], reports: Table[Report], ask: Model) -> Report:
    """What a part says, and what the reports of its own parts say."""
    below = [reports[child.id].text for child in parts.where(parent=part.id) if reports.get(child.id)]
    return Report(text=ask(" ".join([part.text, *below])))


# -- shapes and ids


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
    seen: list[tuple[str, ...]] = []

    def entries(members: Group[Word]) -> Entry:
        seen.append(tuple(member.id for member in members))
        return Entry(text=members[0].text, count=len(members))

    small = Small(tmp_path)
    small.build([words, entries], {"a": "sea sky sea", "b": "sea"})
    assert sorted(small.rows("entries")) == sorted([(digest("sea"), "sea", 3), (digest("sky"), "sky", 1)])
    first, second = sorted([id("a"), id("b")])
    sea = sorted(seen, key=len)[-1]
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


def test_a_table_step_chooses_its_ids(tmp_path: Path) -> None:
    small = Small(tmp_path)
    small.build([words, entries, totals], {"a": "sea sky river"})
    assert small.rows("totals") == [("of3", "2"), ("of5", "1")]


@pytest.mark.parametrize("chosen", [["a.b"], ["a/b"], [""], ["a", "a"], ["."]])
def test_an_id_that_would_be_read_otherwise_is_refused(tmp_path: Path, chosen: list[str]) -> None:
    def totals(documents: Table[Document]) -> Iterable[Total]:
        return [Total(id=id) for id in chosen]

    with pytest.raises(StepError) as refused:
        Small(tmp_path).build([totals], {"a": ""})
    assert str(refused.value) == f"totals: {chosen[-1]!r} is no id for a row: give each its own, without . or /"


def test_a_change_runs_only_what_it_touches(tmp_path: Path) -> None:
    ran: list[str] = []

    def words(document: Document) -> Iterable[Word]:
        ran.append(document.uri)
        return [Word(text=word, name=digest(word), number=0) for word in document.text.split()]

    def entries(members: Group[Word]) -> Entry:
        ran.append(members[0].text)
        return Entry(text=members[0].text, count=len(members))

    def totals(entries: Table[Entry]) -> Iterable[Total]:
        ran.append("totals")
        return []

    def run(**documents: str) -> list[str]:
        ran.clear()
        small.build([words, entries, totals], documents)
        return sorted(ran)

    small = Small(tmp_path)
    assert run(a="sea sky", b="sea") == ["a", "b", "sea", "sky", "totals"]
    assert run(a="sea sky", b="sea") == []
    assert run(a="sea sun", b="sea") == ["a", "sun", "totals"]  # the group of sky is gone, and its row with it
    assert sorted(small.texts("entries")) == ["sea", "sun"]
    assert run(a="sea sun") == ["sea", "totals"]
    assert run(a="sun sea") == ["a", "sea", "sun"]  # members with other ids, the same entries: no news


def test_a_row_that_stays_the_same_tells_nobody(tmp_path: Path) -> None:
    ran: list[str] = []

    def titles(document: Document) -> Title:
        return Title(text=document.text.splitlines()[0])

    def lengths(title: Title) -> Total:
        ran.append(title.text)
        return Total(text=str(len(title.text)))

    small = Small(tmp_path)
    small.build([titles, lengths], {"a": "Sea\nblue"})
    small.build([titles, lengths], {"a": "Sea\ngreen"})
    assert ran == ["Sea"]
    assert small.asked("SELECT text FROM documents") == [("Sea\ngreen",)]


def test_a_changed_code_or_setting_makes_a_step_and_what_follows_anew(tmp_path: Path) -> None:
    ran: list[str] = []

    def titles(document: Document, *, size: int = 3) -> Title:
        ran.append("titles")
        return Title(text=document.text[:size])

    def lengths(title: Title) -> Total:
        ran.append("lengths")
        return Total(text=str(len(title.text)))

    def aside(document: Document) -> Word:
        ran.append("aside")
        return Word(name="", number=0)

    small = Small(tmp_path)
    steps = [titles, lengths, aside]
    small.build(steps, {"a": "Harbour"})
    ran.clear()
    small.build(steps, {"a": "Harbour"}, settings={"titles": {"size": 4}})
    assert ran == ["titles", "lengths"]
    assert small.texts("lengths") == ["4"]
    ran.clear()
    small.build(steps, {"a": "Harbour"}, settings={"titles": {"size": 4}}, code="2")
    assert sorted(ran) == ["aside", "lengths", "titles"]


def test_another_model_makes_anew_what_asks_it(tmp_path: Path) -> None:
    def titles(document: Document, ask: Model) -> Title:
        return Title(text=ask(document.text))

    small = Small(tmp_path)
    for mark, answer in (("one", str.upper), ("one", str.lower), ("two", str.title)):
        small.ports = {"ask": Model(answer, mark=mark)}
        small.build([titles], {"a": "the Sea"})
        assert small.texts("titles") == [{"one": "THE SEA", "two": "The Sea"}[mark]]


def test_more_rows_than_ordinals_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow, "MOST", 3)
    small = Small(tmp_path)
    small.build([words], {"a": "1 2 3"})
    with pytest.raises(StepError) as refused:
        small.build([words], {"a": "1 2 3 4"})
    assert str(refused.value) == f"words made 4 rows of {id('a')}; the most is 3: make fewer of each"
    assert small.texts("words") == ["1", "2", "3"]


def test_a_port_that_nobody_gave_is_named(tmp_path: Path) -> None:
    def titles(document: Document, aks: Model) -> Title:
        return Title(text=aks(document.text))

    with pytest.raises(StepError) as refused:
        Small(tmp_path, ports={"ask": Model(str)}).build([titles], {"a": ""})
    assert str(refused.value) == "titles: no table or port 'aks'; did you mean 'ask'? Known: ask"


def test_two_steps_that_wait_for_each_other_build_nothing(tmp_path: Path) -> None:
    def one(document: Document, two: Table[Letter]) -> Title:
        return Title()

    def two(document: Document, one: Table[Title]) -> Letter:
        return Letter()

    with pytest.raises(StepError, match=r"^these steps wait for each other: one, two$"):
        Small(tmp_path).build([one, two], {"a": ""})


def test_jobs_run_through_the_pool_only_where_they_ask(tmp_path: Path) -> None:
    pooled: list[int] = []

    def pool(call: flow.Call, jobs: Iterable[flow.Job]) -> Iterable[list[flow.Made]]:
        for job in jobs:
            pooled.append(len(job))
            yield call(job)

    def titles(document: Document, ask: Model) -> Title:
        return Title(text=ask(document.text))

    small = Small(tmp_path, ports={"ask": Model(str)}, pool=pool)  # type: ignore[arg-type]
    small.build([words, titles], {"a": "one", "b": "two"})
    assert pooled == [1, 1]


def test_progress_is_told_step_by_step(tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    small = Small(tmp_path, progress=lambda *told_: told.append(told_))
    small.build([words, entries, totals], {"a": "sea sky", "b": "sea"})
    assert told == [("words", 2, 2), ("entries", 2, 2), ("totals", 0, 1), ("totals", 1, 1)]


def test_progress_reaches_its_total_page_by_page(tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    small = Small(tmp_path, progress=lambda *told_: told.append(told_))
    small.build([titles], {f"d{i}": f"text {i}" for i in range(1200)})
    assert [done for _, done, _ in told] == [512, 1024, 1200]
    assert {(step, total) for step, _, total in told} == {("titles", 1200)}


# -- look-ups


def test_a_call_runs_again_when_what_it_looked_up_changes(tmp_path: Path) -> None:
    ran: list[str] = []

    def titles(document: Document, words: Table[Word]) -> Title:
        ran.append(document.uri)
        return Title(text=" ".join(sorted(word.text for word in words.where(number=1))))

    def run(**documents: str) -> list[str]:
        ran.clear()
        small.build([words, titles], documents)
        return sorted(ran)

    small = Small(tmp_path)
    assert run(a="see it", b="go") == ["a", "b"]
    assert run(a="see it", b="do") == ["b"]  # no word of number 1 came, went or changed
    assert run(a="see it", b="do it") == ["a", "b"]
    assert small.texts("titles") == ["it it", "it it"]
    assert run(a="see it", b="do this") == ["a", "b"]
    assert run(a="see it") == ["a"]
    assert small.texts("titles") == ["it"]


def test_a_call_runs_again_when_what_it_did_not_find_comes(tmp_path: Path) -> None:
    def titles(document: Document, words: Table[Word]) -> Title:
        found = words.get(f"{id('a')}.00001")
        return Title(text=found.text if found else "none")

    small = Small(tmp_path)
    for text, expected in (("one", "none"), ("one two", "two"), ("one too", "too"), ("one", "none")):
        small.build([words, titles], {"a": text, "b": ""})
        assert small.texts("titles") == [expected, expected]


def test_a_look_up_by_true_or_false_is_noticed_when_its_answer_changes(tmp_path: Path) -> None:
    # BUG: asked for True it is noted as "True", and a row taken out, read back from SQLite, as "1"
    def letters(documents: Table[Document]) -> Iterable[Letter]:
        return [Letter(id=d.uri, capital=d.text.isupper()) for d in documents]

    def titles(document: Document, letters: Table[Letter]) -> Title:
        return Title(text=str(len(letters.where(capital=True))))

    small = Small(tmp_path)
    small.build([letters, titles], {"a": "A", "b": "B", "c": "c"})
    small.build([letters, titles], {"a": "A", "c": "c"})
    assert small.texts("titles") == ["1", "1"]


def test_a_look_up_by_a_number_is_noticed_when_its_answer_changes(tmp_path: Path) -> None:
    # BUG: asked for 1 it is noted as "1", and a row of a REAL column, read back from SQLite, as "1.0"
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

    with pytest.raises(StepError, match=r"^table words is read here by `get` and `where` only; just table steps"):
        Small(tmp_path).build([words, titles], {"a": "sea"})


# -- ids that a table step chose


@pytest.mark.parametrize("chosen", [("a", "a-b"), ("a", "a b", "ab"), ("a", "a!", "b"), ("港", "港-北"), ("a", "b")])
def test_rows_of_chosen_ids_can_be_made_anew(tmp_path: Path, chosen: tuple[str, ...]) -> None:
    # BUG: "a-b." comes before "a.", so the rows of `a` and `a-b` are not found again: UNIQUE constraint failed
    def parts(documents: Table[Document]) -> Iterable[Part]:
        return [Part(id=id, text=f"{id}x", parent="", depth=0) for id in chosen]

    def letters(part: Part) -> Iterable[Letter]:
        return [Letter(text=letter) for letter in part.text]

    small = Small(tmp_path)
    small.build([parts, letters], {"a": ""})
    made = small.rows("letters")
    small.build([parts, letters], {"a": ""}, code="2")
    assert small.rows("letters") == made
    assert len(made) == sum(len(id) + 1 for id in chosen)


# -- failure


def failing(*prompts: str) -> Model:
    def answer(prompt: str) -> str:
        if prompt in prompts:
            raise ItemFailed(f"no answer to {prompt}")
        return prompt.upper()

    return Model(answer)


def asked_titles(document: Document, ask: Model) -> Title:
    return Title(text=ask(document.text))


def test_what_fails_is_listed_the_rest_goes_on_and_the_next_build_tries_only_that(tmp_path: Path) -> None:
    small = Small(tmp_path, ports={"ask": failing("two")})
    documents = {"a": "one", "b": "two", "c": "three"}
    small.build([asked_titles], documents)
    assert sorted(small.texts("asked_titles")) == ["ONE", "THREE"]
    assert small.failed() == [("asked_titles", id("b"), "no answer to two")]
    model = failing()
    small.ports = {"ask": model}
    small.build([asked_titles], documents)
    assert model.asked == {"two": 1}
    assert sorted(small.texts("asked_titles")) == ["ONE", "THREE", "TWO"]
    assert small.failed() == []


def test_what_failed_before_and_fails_now_loses_its_row(tmp_path: Path) -> None:
    small = Small(tmp_path, ports={"ask": failing("sea")})
    small.build([asked_titles], {"a": "one"})
    small.build([asked_titles], {"a": "sea"})
    assert small.texts("asked_titles") == []
    assert small.failed() == [("asked_titles", id("a"), "no answer to sea")]


def test_what_failed_and_is_gone_is_no_longer_listed(tmp_path: Path) -> None:
    small = Small(tmp_path, ports={"ask": failing("two")})
    small.build([asked_titles], {"a": "one", "b": "two"})
    small.build([asked_titles], {"a": "one"})
    assert small.failed() == []


def test_a_failure_without_words_is_listed_all_the_same(tmp_path: Path) -> None:
    def titles(document: Document) -> Title:
        raise ItemFailed("")

    small = Small(tmp_path)
    small.build([titles], {"a": ""})
    assert small.failed() == [("titles", id("a"), "ItemFailed")]


def test_something_instead_is_stored_and_listed(tmp_path: Path) -> None:
    def entries(members: Group[Word], ask: Model) -> Entry:
        plain = Entry(text=members[0].text, count=len(members))
        try:
            return Entry(text=ask(plain.text), count=plain.count)
        except ItemFailed as error:
            raise ItemFailed(str(error), instead=plain) from error

    small = Small(tmp_path, ports={"ask": failing("sea")})
    small.build([words, entries], {"a": "sea sky"})
    assert sorted(small.texts("entries")) == ["SKY", "sea"]
    assert small.failed() == [("entries", digest("sea"), "no answer to sea")]
    small.ports = {"ask": failing()}
    small.build([words, entries], {"a": "sea sky"})
    assert sorted(small.texts("entries")) == ["SEA", "SKY"]
    assert small.failed() == []


def test_something_instead_of_many_is_the_first_of_them(tmp_path: Path) -> None:
    def words(document: Document) -> Iterable[Word]:
        yield Word(text="lost with the rest", name="", number=0)
        raise ItemFailed("broke off", instead=Word(text="instead", name="", number=0))

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
    assert small.asked("SELECT count(*) FROM documents") == [(1,)]


def test_a_report_whose_sub_report_failed_waits_and_asks_nothing(tmp_path: Path) -> None:
    model = failing("low")
    small = Small(tmp_path, ports={"ask": model})
    tree = {"a": "top", "ab": "mid", "abc": "low", "x": "other"}
    small.build([parts, reports], tree)
    assert small.texts("reports") == ["OTHER"]
    assert small.failed() == [
        ("reports", "pa", "waits for pab, which failed"),
        ("reports", "pab", "waits for pabc, which failed"),
        ("reports", "pabc", "no answer to low"),
    ]
    assert model.asked == {"low": 1, "other": 1}
    model = failing()
    small.ports = {"ask": model}
    small.build([parts, reports], tree)
    assert model.asked == {"low": 1, "mid LOW": 1, "top MID LOW": 1}
    assert small.rows("reports")[0] == ("pa", "TOP MID LOW")
    assert small.failed() == []


def test_a_report_goes_on_with_what_stands_in_for_its_sub_report(tmp_path: Path) -> None:
    def reports(part: Part, parts: Table[Part], reports: Table[Report]) -> Report:
        if part.text == "low":
            raise ItemFailed("no answer", instead=Report(text="(low)"))
        below = [reports[child.id].text for child in parts.where(parent=part.id)]
        return Report(text=" ".join([part.text, *below]))

    small = Small(tmp_path)
    small.build([parts, reports], {"a": "top", "ab": "low"})
    assert small.texts("reports") == ["top (low)", "(low)"]
    assert small.failed() == [("reports", "pab", "no answer")]


def test_only_the_reports_above_a_change_are_made_again(tmp_path: Path) -> None:
    model = failing()
    small = Small(tmp_path, ports={"ask": model})
    small.build([parts, reports], {"a": "top", "ab": "low", "x": "other", "xy": "aside"})
    model.asked.clear()
    small.build([parts, reports], {"a": "top", "ab": "deep", "x": "other", "xy": "aside"})
    assert model.asked == {"deep": 1, "top DEEP": 1}
    model.asked.clear()
    small.build([parts, reports], {"a": "top", "x": "other", "xy": "aside"})
    assert model.asked == {"top": 1}
    assert small.texts("reports") == ["TOP", "OTHER ASIDE", "ASIDE"]


def test_a_table_step_that_fails_keeps_its_table(tmp_path: Path) -> None:
    def totals(entries: Table[Entry], ask: Model) -> Iterable[Total]:
        for entry in entries:
            yield Total(id=entry.id, text=ask(entry.text))

    small = Small(tmp_path, ports={"ask": failing("sun")})
    small.build([words, entries, totals], {"a": "sea sky"})
    before = small.rows("totals")
    assert sorted(row[1] for row in before) == ["SEA", "SKY"]
    small.build([words, entries, totals], {"a": "sea sun"})
    assert small.rows("totals") == before
    assert small.failed() == [("totals", "", "no answer to sun")]
    small.ports = {"ask": failing()}
    small.build([words, entries, totals], {"a": "sea sun"})
    assert sorted(small.texts("totals")) == ["SEA", "SUN"]
    assert small.failed() == []


def test_a_table_step_that_fails_without_words_is_listed_as_others_are(tmp_path: Path) -> None:
    # BUG: the line in `failed` is empty; a keyed step's says ItemFailed
    def totals(documents: Table[Document]) -> Iterable[Total]:
        raise ItemFailed("")

    small = Small(tmp_path)
    small.build([totals], {"a": ""})
    assert small.failed() == [("totals", "", "ItemFailed")]


def test_a_table_step_sees_what_it_made_before(tmp_path: Path) -> None:
    def totals(documents: Table[Document], previous: Table[Total]) -> Iterable[Total]:
        held = [(total.id, total.text) for total in previous]
        return [Total(id=f"t{len(held)}", text=str(len(documents))), *(Total(id=i, text=t) for i, t in held)]

    small = Small(tmp_path)
    small.build([totals], {"a": ""})
    small.build([totals], {"a": "", "b": ""})
    assert small.rows("totals") == [("t0", "1"), ("t1", "2")]


# -- tables that go and come


def test_another_record_class_empties_its_table_and_what_follows(tmp_path: Path) -> None:
    small = Small(tmp_path)
    small.build([words, entries, letters, titles], {"a": "sea sky"})

    def words_(document: Document) -> Iterable[Longer]:
        return [Longer(text=word, name=digest(word), length=len(word)) for word in document.text.split()]

    def entries_(members: Group[Longer]) -> Entry:
        ran.append(members[0].text)
        return Entry(text=members[0].text.upper(), count=len(members))

    ran: list[str] = []
    small.build([words_, entries_, letters, titles], {"a": "sea sky"})
    assert sorted(ran) == ["sea", "sky"]
    assert [row[1:] for row in small.rows("words")] == [
        ("sea", digest("sea"), 3),
        ("sky", digest("sky"), 3),
    ]
    assert sorted(small.texts("entries")) == ["SEA", "SKY"]
    assert sorted(small.texts("letters")) == sorted("SEASKY")
    assert small.texts("titles") == ["sea sky"]


def test_a_step_no_longer_built_leaves_no_table_and_a_table_step_does(tmp_path: Path) -> None:
    small = Small(tmp_path)
    small.build([words, entries, totals], {"a": "sea sky"})
    small.build([words], {"a": "sea sun"})
    tables = {name for (name,) in small.asked("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert "entries" not in tables
    assert small.rows("totals") == [("of3", "2")]
    steps = small.asked("SELECT step, fingerprint IS NULL FROM steps ORDER BY step")
    assert steps == [("documents", 1), ("totals", 1), ("words", 0)]


def test_a_step_built_again_later_equals_a_fresh_build(tmp_path: Path) -> None:
    def entries(members: Group[Word], titles: Table[Title]) -> Entry:
        if members[0].text == "sun":
            raise ItemFailed("too bright")
        found = titles.get(members[0].id.partition(".")[0])
        return Entry(text=f"{members[0].text} {found.text if found else ''}", count=len(members))

    steps = [words, titles, entries, totals]
    back, fresh = Small(tmp_path / "back"), Small(tmp_path / "fresh")
    back.build(steps, {"a": "sea sun", "b": "sky"})
    back.build([words], {"a": "sea sun", "b": "sky"})
    assert back.failed() == []
    back.build([words], {"a": "sea storm", "b": "sky sun"})
    back.build(steps, {"a": "sea storm", "b": "sky sun"})
    fresh.build(steps, {"a": "sea storm", "b": "sky sun"})
    for table in ("documents", "words", "titles", "entries", "totals", "failed", "looked", "steps"):
        assert back.asked(f"SELECT * FROM {table} ORDER BY 1, 2") == fresh.asked(f"SELECT * FROM {table} ORDER BY 1, 2")
    assert len(back.failed()) == 1


# -- differences


def test_what_differs_between_what_was_and_is() -> None:
    was: dict[str, Row] = {"a": ("a", 1), "b": ("b", 1), "c": ("c", 1)}
    old: list[Row] = []
    new: list[Row] = []
    differ(was, [("a", 1), ("b", 2), ("d", 1)], old, new)
    assert old == [("b", 1), ("c", 1)]
    assert new == [("b", 2), ("d", 1)]


def test_the_pool_of_one_is_lazy() -> None:
    def jobs() -> Iterable[flow.Job]:
        yield [("a", [])]
        raise AssertionError("the second job was drawn too early")

    assert next(inline(lambda job: [flow.Made(job[0][0], [], b"", None)], jobs())).pop().key == "a"


# -- memory


def test_memory_does_not_grow_with_the_corpus(tmp_path: Path) -> None:
    """Peaks of building 2,000 and 8,000 rows: measured 1.0 times; holding the rows would be 4 times."""

    def passages(word: Word) -> Iterable[Letter]:
        return [Letter(text=f"{word.text} {i} " + "x" * 1000) for i in range(2)]

    def peak(rows: int) -> int:
        def words(document: Document) -> Iterable[Word]:
            return [Word(text=f"{i} " + "x" * 1000, name="", number=i) for i in range(rows // 100)]

        small = Small(tmp_path / str(rows))
        documents = {str(i): "" for i in range(100)}
        small.build([words], documents)
        tracemalloc.start()
        small.build([words, passages], documents)
        _, highest = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert small.asked("SELECT count(*) FROM passages") == [(2 * rows,)]
        return highest

    few, many = peak(2_000), peak(8_000)
    assert many < 1.5 * few
