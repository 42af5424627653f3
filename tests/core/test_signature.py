"""function -> Signature: its shape, inputs, output and settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from kumihimo.core.context import Context
from kumihimo.core.errors import StepError
from kumihimo.core.records import Chunk, Document
from kumihimo.core.settings import Setting
from kumihimo.core.signature import Declaration, Signature, collect_signatures, declare
from kumihimo.core.table import Group, Table
from kumihimo.llm.protocols import LLM
from tests.toy_steps import Word


def read_one(function: Any) -> Signature:
    (entry,) = collect_signatures(function).values()
    return entry


def test_a_row_step() -> None:
    def words(chunk: Chunk, words: Table[Word], tokenizer: Any, llm: Any, *, most: int = 5) -> Iterable[Word]:
        """Yield each word.

        More of it.
        """
        return []

    assert read_one(words) == Signature(
        name="words",
        function=words,
        shape="row",
        input_type=Chunk,
        tables={"words": Word},
        optional_tables={},
        ports=("tokenizer", "llm"),
        optional_ports=frozenset(),
        settings={"most": Setting("most", int, 5)},
        settings_groups={},
        output_type=Word,
        many=True,
        takes_text=False,
    )
    assert read_one(words).summary == "Yield each word."


def test_a_port_a_step_can_do_without() -> None:
    def words(chunk: Chunk, tokenizer: Any, llm: LLM | None) -> Iterable[Word]:
        return []

    assert read_one(words).ports == ("tokenizer", "llm")
    assert read_one(words).optional_ports == {"llm"}


def test_a_group_step() -> None:
    def words(members: Group[Word]) -> Word:
        return members[0]

    step = read_one(words)
    assert (step.shape, step.input_type, step.output_type, step.many) == ("group", Word, Word, False)
    assert (step.tables, step.ports, step.settings, step.summary) == ({}, (), {}, "")


def test_a_table_step_reads_its_first_parameter_too() -> None:
    def words(documents: Table[Document], previous: Table[Word]) -> Iterable[Word]:
        return previous

    step = read_one(words)
    assert (step.shape, step.input_type, step.tables) == (
        "table",
        Document,
        {"documents": Document, "previous": Word},
    )


@dataclass(frozen=True)
class Limits:
    """Settings that several steps share."""

    most: int = 5
    units: tuple[str, ...] = ("m",)


def test_the_fields_of_a_settings_class_are_settings() -> None:
    def words(chunk: Chunk, *, limits: Limits = Limits(most=3), least: int = 1) -> Word:
        return Word(name=str(limits))

    step = read_one(words)
    assert step.settings == {
        "most": Setting("most", int, 3),
        "units": Setting("units", tuple[str, ...], ("m",)),
        "least": Setting("least", int, 1),
    }
    assert (step.ports, step.tables) == ((), {})
    assert step.keyword_arguments({"most": 9, "least": 2}) == {"least": 2, "limits": Limits(most=9)}
    assert step.keyword_arguments({}) == {"limits": Limits(most=3)}


def test_a_declaration() -> None:
    @declare(scope="nouns", best_for="words")
    def words(chunk: Chunk) -> Word:
        return Word(name="")

    assert read_one(words).scope == "nouns"
    assert read_one(words).declaration == Declaration(scope="nouns", best_for="words")


def test_a_method() -> None:
    def naive(
        question: str, chunks: Table[Chunk], vector_search: Any, *, k: int = 20, mode: Literal["a", "b"] = "a"
    ) -> Context:
        return Context()

    entry = read_one(naive)
    assert (entry.shape, entry.input_type, entry.output_type) == ("method", None, None)
    assert (entry.tables, entry.ports) == ({"chunks": Chunk}, ("vector_search",))
    assert entry.settings == {"k": Setting("k", int, 20), "mode": Setting("mode", Literal["a", "b"], "a")}


def test_a_method_may_read_a_table_where_it_is_there() -> None:
    def naive(question: str, chunks: Table[Chunk], words: Table[Word] | None, llm: LLM | None) -> Context:
        return Context()

    entry = read_one(naive)
    assert (entry.tables, entry.optional_tables) == ({"chunks": Chunk}, {"words": Word})
    assert entry.ports == ("llm",)
    assert entry.optional_ports == {"llm"}


def test_what_one_call_makes() -> None:
    def one(chunk: Chunk) -> Word:
        return Word(name="")

    def perhaps(chunk: Chunk) -> Word | None:
        return None

    def listed(chunk: Chunk) -> list[Word]:
        return []

    def yielded(chunk: Chunk) -> Iterator[Word]:
        yield from ()

    def several(chunk: Chunk) -> tuple[Word, ...]:
        return ()

    steps = collect_signatures(one, perhaps, listed, yielded, several)
    assert {name: s.many for name, s in steps.items()} == {
        "one": False,
        "perhaps": False,
        "listed": True,
        "yielded": True,
        "several": True,
    }
    assert {s.output_type for s in steps.values()} == {Word}


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
        (of_nothing, "it needs a first parameter: a record, a Group or Table of records, or a str"),
        (of_a_number, "the first parameter is a record, a Group or Table of them, or a str; it is <class 'int'>"),
        (of_no_type, "the first parameter is a record, a Group or Table of them, or a str; it is None"),
        (with_a_setting_in_the_middle, "most must be positional: inputs first, then settings after `*`, with defaults"),
        (
            with_an_input_after_the_star,
            "words must be positional: inputs first, then settings after `*`, with defaults",
        ),
        (making_nothing, "a step returns a record or an Iterable of records, not <class 'NoneType'>"),
        (making_texts, "a step returns a record or an Iterable of records, not <class 'str'>"),
        (making_what, "a step returns a record or an Iterable of records, not None"),
        (making_one_of_a_table, "a whole-table step returns an Iterable of records"),
        (answering_in_words, "a method returns a Context, not <class 'str'>"),
    ],
)
def test_a_function_that_is_no_step_says_why(function: Any, message: str) -> None:
    with pytest.raises(StepError) as refused:
        collect_signatures(function)
    assert str(refused.value) == f"{function.__name__}: {message}"
