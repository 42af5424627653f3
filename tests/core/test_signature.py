"""function -> Signature: its shape, what it reads, what it makes, its settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import pytest

from kumihimo.core.context import Context
from kumihimo.core.errors import StepError
from kumihimo.core.records import Chunk, Document, Record
from kumihimo.core.settings import Setting
from kumihimo.core.signature import Signature, collect_signatures
from kumihimo.core.table import Group, Table
from kumihimo.llm.protocols import LLM


@dataclass(frozen=True, slots=True)
class Word(Record):
    GROUP: ClassVar[str] = "name"
    name: str


def read(function: Any) -> Signature:
    (found,) = collect_signatures(function).values()
    return found


def test_a_row_step() -> None:
    def words(chunk: Chunk, words: Table[Word], tokenizer: Any, llm: Any, *, most: int = 5) -> Iterable[Word]:
        """Each word.

        More of it.
        """
        return []

    assert read(words) == Signature(
        name="words",
        function=words,
        shape="row",
        input_type=Chunk,
        tables={"words": Word},
        optional_tables={},
        ports=("tokenizer", "llm"),
        optional_ports=frozenset(),
        settings={"most": Setting("most", int, 5)},
        output_type=Word,
        many=True,
    )
    assert read(words).summary == "Each word."


def test_a_port_a_step_can_do_without() -> None:
    def words(chunk: Chunk, tokenizer: Any, llm: LLM | None) -> Iterable[Word]:
        return []

    assert read(words).ports == ("tokenizer", "llm")
    assert read(words).optional_ports == {"llm"}


def test_a_group_step() -> None:
    def words(members: Group[Word]) -> Word:
        return members[0]

    found = read(words)
    assert (found.shape, found.input_type, found.output_type, found.many) == ("group", Word, Word, False)
    assert (found.tables, found.ports, found.settings, found.summary) == ({}, (), {}, "")


def test_a_table_step_reads_its_first_parameter_too() -> None:
    def words(documents: Table[Document], previous: Table[Word]) -> Iterable[Word]:
        return previous

    found = read(words)
    assert (found.shape, found.input_type, found.tables) == (
        "table",
        Document,
        {"documents": Document, "previous": Word},
    )


def test_a_method() -> None:
    def naive(
        question: str, chunks: Table[Chunk], vector_search: Any, *, k: int = 20, mode: Literal["a", "b"] = "a"
    ) -> Context:
        return Context()

    found = read(naive)
    assert (found.shape, found.input_type, found.output_type) == ("method", None, None)
    assert (found.tables, found.ports) == ({"chunks": Chunk}, ("vector_search",))
    assert found.settings == {"k": Setting("k", int, 20), "mode": Setting("mode", Literal["a", "b"], "a")}


def test_a_method_may_read_a_table_where_it_is_there() -> None:
    def naive(question: str, chunks: Table[Chunk], words: Table[Word] | None, llm: LLM | None) -> Context:
        return Context()

    found = read(naive)
    assert (found.tables, found.optional_tables) == ({"chunks": Chunk}, {"words": Word})
    assert found.ports == ("llm",)
    assert found.optional_ports == {"llm"}


def test_what_one_call_makes() -> None:
    def one(chunk: Chunk) -> Word:
        return Word(name="")

    def perhaps(chunk: Chunk) -> Word | None:
        return None

    def some(chunk: Chunk) -> list[Word]:
        return []

    def drawn(chunk: Chunk) -> Iterator[Word]:
        yield from ()

    def several(chunk: Chunk) -> tuple[Word, ...]:
        return ()

    made = collect_signatures(one, perhaps, some, drawn, several)
    assert {name: s.many for name, s in made.items()} == {
        "one": False,
        "perhaps": False,
        "some": True,
        "drawn": True,
        "several": True,
    }
    assert {s.output_type for s in made.values()} == {Word}


def test_an_underscore_ends_a_name_that_python_keeps_for_itself() -> None:
    def global_(question: str) -> Context:
        return Context()

    assert list(collect_signatures(global_)) == ["global"]


def test_a_catalogue_keeps_its_order_and_holds_no_name_twice() -> None:
    def b(chunk: Chunk) -> Word:
        return Word(name="")

    def a(chunk: Chunk) -> Word:
        return Word(name="")

    assert list(collect_signatures(b, a)) == ["b", "a"]
    with pytest.raises(StepError, match=r"^two functions are called 'a': rename one$"):
        collect_signatures(a, b, a)


def of_nothing() -> Word:
    return Word(name="")


def of_a_number(number: int) -> Word:
    return Word(name="")


def of_no_type(chunk, llm) -> Word:  # type: ignore[no-untyped-def]
    return Word(name="")


def with_a_setting_in_the_middle(chunk: Chunk, most: int = 5) -> Word:
    return Word(name="")


def with_an_input_after_the_star(chunk: Chunk, *, words: Table[Word]) -> Word:
    return Word(name="")


def making_nothing(chunk: Chunk) -> None:
    return None


def making_texts(chunk: Chunk) -> Iterable[str]:
    return []


def making_what(chunk: Chunk):  # type: ignore[no-untyped-def]
    return Word(name="")


def making_one_of_a_table(words: Table[Word]) -> Word:
    return Word(name="")


def answering_in_words(question: str) -> str:
    return question


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (of_nothing, "the first parameter says what it works on, and it has none"),
        (of_a_number, "the first parameter is a record, a Group or Table of them, or a str; it is <class 'int'>"),
        (of_no_type, "the first parameter is a record, a Group or Table of them, or a str; it is None"),
        (with_a_setting_in_the_middle, "most needs its place: inputs first, settings after `*` with a default"),
        (with_an_input_after_the_star, "words needs its place: inputs first, settings after `*` with a default"),
        (making_nothing, "a step gives a record or an Iterable of records, not <class 'NoneType'>"),
        (making_texts, "a step gives a record or an Iterable of records, not <class 'str'>"),
        (making_what, "a step gives a record or an Iterable of records, not None"),
        (making_one_of_a_table, "a step over a whole table gives an Iterable of records"),
        (answering_in_words, "a method gives a Context, not <class 'str'>"),
    ],
)
def test_a_function_that_is_no_step_says_why(function: Any, message: str) -> None:
    with pytest.raises(StepError) as refused:
        collect_signatures(function)
    assert str(refused.value) == f"{function.__name__}: {message}"
