"""A sample of chunks -> settings: what the model is asked, what of its replies is kept, what goes into kumi.toml."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kumihimo.app import config
from kumihimo.app.settings_registry import SETTINGS
from kumihimo.core.errors import ItemFailed, MalformedReply, SettingsError
from kumihimo.core.records import Chunk
from kumihimo.core.table import Table, codec
from kumihimo.index.prompt_tuning import Corpus, TunedSettings, parse_example, tune_prompts
from kumihimo.llm.budget import Budget, Caps
from kumihimo.llm.cached_llm import CachedLLM
from kumihimo.llm.structured import Reply, reply_form
from kumihimo.storage.sqlite.response_cache import ResponseCache
from kumihimo.storage.sqlite.store import SqlRows, Store
from kumihimo.testing.fake_models import FakeChat
from tests.factories_graph_text import document, put

CORPUS = {
    "domain": "Notes of a harbour office.",
    "language": "English",
    "persona": "You are a harbour master.",
    "types": ["Vessel", " person ", "vessel", "pier, quay", ""],
}
RECORDS = """Here they are:
entity<|>Ada<|>Person<|>Ada is a pilot.
entity<|>Tern<|>vessel<|>The Tern is a ferry.
entity<|>Tea<|>drink<|>Tea is hot.
relation<|>Ada<|>Tern<|>Ada steers the Tern.<|>work, pilot<|>8
relation<|>Ada<|>Oban<|>Ada lives there.<|>home<|>8
END"""
KEPT = """entity<|>Ada<|>person<|>Ada is a pilot.
entity<|>Tern<|>vessel<|>The Tern is a ferry.
relation<|>Ada<|>Tern<|>Ada steers the Tern.<|>work, pilot<|>8
END"""
DOCUMENTS = {
    f"{n}.txt": [f"Ada steers the Tern, note {n}. It leaves at nine.", f"Bo mends pier {n}."] for n in range(6)
}


@contextmanager
def chunks(folder: Path) -> Iterator[Table[Chunk]]:
    made = [document(uri, *texts) for uri, texts in DOCUMENTS.items()]
    put(folder, {"documents": [d for d, _ in made], "chunks": [chunk for _, some in made for chunk in some]})
    store = Store(folder)
    with store.read_transaction() as db:
        yield Table("chunks", codec(Chunk), SqlRows(db, "chunks"))
    store.close()


def says(records: str = RECORDS) -> Callable[[str], str]:
    return lambda prompt: json.dumps(CORPUS) if "JSON schema" in prompt else records


def tune(
    folder: Path, chat: FakeChat, *, caps: Caps | None = None, sample: int = 5, examples: int = 2
) -> TunedSettings:
    memo = ResponseCache(folder / "cache.db")
    try:
        with chunks(folder / "index") as table:
            return tune_prompts(
                table, CachedLLM(chat, memo, Budget(caps), "mentions"), sample=sample, examples=examples
            )
    finally:
        memo.close()


def test_settings_come_of_one_call_and_one_for_each_example(tmp_path: Path) -> None:
    chat = FakeChat(says())
    found = tune(tmp_path, chat)
    assert found.failed == ()
    assert found.settings["reports"] == {"persona": "You are a harbour master.", "language": "English"}
    mentions = dict(found.settings["mentions"])
    examples = str(mentions.pop("examples")).split("\n\n")
    types = ("vessel", "person", "pier quay")
    assert mentions == {"domain": "Notes of a harbour office.", "language": "English", "types": types}
    assert [e.partition("\n")[0] for e in examples] == ["Text:", "Text:"]
    assert all(e.endswith(KEPT) for e in examples)
    assert examples[0] != examples[1]
    assert sum(chat.prompt_counts.values()) == 3


def test_the_same_sample_is_asked_about_each_time_and_never_paid_twice(tmp_path: Path) -> None:
    chat = FakeChat(says())
    assert tune(tmp_path, chat) == tune(tmp_path, chat)
    assert set(chat.prompt_counts.values()) == {1}
    (asked,) = [prompt for prompt in chat.prompt_counts if "JSON schema" in prompt]
    pieces = asked.partition("\n\nReply with one JSON object")[0].split("\n\n---\n\n")
    assert (len(pieces), pieces) == (5, sorted(pieces))


def test_examples_are_of_different_documents_as_far_as_there_are(tmp_path: Path) -> None:
    chat = FakeChat(says())
    tune(tmp_path, chat, sample=12, examples=5)
    texts = [prompt.removeprefix("Text:\n") for prompt in chat.prompt_counts if prompt.startswith("Text:")]
    assert len({text.split("note ")[-1].split("pier ")[-1][0] for text in texts}) == 5


def test_a_chunk_of_which_nothing_can_be_made_gives_way_to_another(tmp_path: Path) -> None:
    tried: list[str] = []

    def answer(prompt: str) -> str:
        if "JSON schema" in prompt:
            return json.dumps(CORPUS)
        tried.extend([prompt] if prompt.startswith("Text:") else [])
        return RECORDS if len(tried) > 1 else "Nothing here."

    found = tune(tmp_path, FakeChat(answer), examples=1)
    assert found.failed == ()
    assert str(found.settings["mentions"]["examples"]).endswith(KEPT)
    assert len(set(tried)) == 2


def test_a_cap_leaves_what_there_is(tmp_path: Path) -> None:
    found = tune(tmp_path, FakeChat(says()), caps=Caps(calls=2))
    assert str(found.settings["mentions"]["examples"]).count("END") == 1
    assert found.failed == ("capped: not asked, since --max-calls 2 was reached",)
    with pytest.raises(ItemFailed, match="capped"):
        tune(tmp_path / "other", FakeChat(says()), caps=Caps(calls=0))


def test_types_are_asked_for_again_where_there_are_none(tmp_path: Path) -> None:
    replies = iter([json.dumps({**CORPUS, "types": ["x", " "]}), json.dumps(CORPUS)])
    found = tune(tmp_path, FakeChat(lambda prompt: next(replies)), examples=0)
    assert found.settings["mentions"]["types"] == ("vessel", "person", "pier quay")
    with pytest.raises(MalformedReply, match="name 5 to 12 types"):
        reply_form(Corpus).parse(Reply(json.dumps({**CORPUS, "types": []})))


def test_an_empty_index_is_told_apart(tmp_path: Path) -> None:
    put(tmp_path, {"chunks": []})
    store = Store(tmp_path)
    with store.read_transaction() as db, pytest.raises(SettingsError, match="holds no text to tune to"):
        tune_prompts(Table("chunks", codec(Chunk), SqlRows(db, "chunks")), lambda *_, **__: None)  # type: ignore[arg-type]
    store.close()


@pytest.mark.parametrize("records", ["", "END", KEPT.splitlines()[0], "\n".join(KEPT.splitlines()[:2])])
def test_too_few_records_are_no_example(records: str) -> None:
    with pytest.raises(MalformedReply):
        parse_example(Reply(records), ["person", "vessel"])


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    found = tune(tmp_path, FakeChat(says()))
    text, left = config.merge_settings("# mine\n[chunks]\nsize = 300\n", found.settings)
    assert left == []
    assert text.startswith("# mine\n[chunks]\nsize = 300\n")
    read = tomllib.loads(text)
    assert read["chunks"] == {"size": 300}
    for scope, values in found.settings.items():
        assert {n: SETTINGS[scope][n].parse(scope, v) for n, v in read[scope].items()} == values
