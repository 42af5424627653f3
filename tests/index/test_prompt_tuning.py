"""sample of chunks -> settings: prompts, valid parts of replies, entries in kumi.toml."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kumihimo.app.opened.catalogue import BUILT_IN
from kumihimo.app.settings import config
from kumihimo.app.settings.settings_registry import SettingsRegistry
from kumihimo.core.errors import ItemFailed, MalformedReply, SettingsError
from kumihimo.core.records import Chunk
from kumihimo.core.table import Table, codec
from kumihimo.index.prompt_tuning import Corpus, TunedSettings, parse_example, tune_prompts
from kumihimo.llm.budget import Budget, Caps
from kumihimo.llm.cached_llm import create_llm
from kumihimo.llm.prompts import reply_form
from kumihimo.llm.protocols import Reply
from kumihimo.storage.database import SqlRows
from kumihimo.storage.response_cache import ResponseCache
from kumihimo.storage.sqlite.store import SqliteStore
from kumihimo.testing.fake_models import FakeChat
from tests.factories_graph_text import document, put
from tests.fenced_texts import fenced_texts

CORPUS = {
    "domain": "Notes of a harbour office.",
    "language": "English",
    "persona": "You are a harbour master.",
    "types": ["Vessel: a ship, or a boat.", " person ", "vessel: any", "pier, quay", ": none", ""],
}
RECORDS = """Here they are:
entity<|>Ada<|>Person<|>Ada is a pilot.
entity<|>Tern<|>vessel<|>The Tern is a ferry.
entity<|>Tea<|>drink<|>Tea is hot.
relation<|>Ada<|>Tern<|>Ada steers the Tern.<|>work, pilot<|>8
relation<|>Ada<|>Oban<|>Ada lives there.<|>home<|>8
END"""
VALID_RECORDS = """entity<|>Ada<|>person<|>Ada is a pilot.
entity<|>Tern<|>vessel<|>The Tern is a ferry.
relation<|>Ada<|>Tern<|>Ada steers the Tern.<|>work, pilot<|>8
END"""
DOCUMENTS = {
    f"{n}.txt": [f"Ada steers the Tern, note {n}. It leaves at nine.", f"Bo mends pier {n}."] for n in range(6)
}


@contextmanager
def chunks(folder: Path) -> Iterator[Table[Chunk]]:
    documents = [document(uri, *texts) for uri, texts in DOCUMENTS.items()]
    put(
        folder,
        {
            "documents": [d for d, _ in documents],
            "chunks": [chunk for _, chunk_list in documents for chunk in chunk_list],
        },
    )
    store = SqliteStore(folder)
    with store.read_transaction() as db:
        yield Table("chunks", codec(Chunk), SqlRows(db, "chunks"))
    store.close()


def scripted_replies(records: str = RECORDS) -> Callable[[str], str]:
    return lambda prompt: json.dumps(CORPUS) if "JSON schema" in prompt else records


def tune_folder(
    folder: Path, chat: FakeChat, *, caps: Caps | None = None, sample: int = 5, examples: int = 2
) -> TunedSettings:
    memo = ResponseCache(folder / "cache.db")
    try:
        with chunks(folder / "index") as table:
            return tune_prompts(
                table, create_llm(chat, memo, Budget(caps), "mentions"), sample=sample, examples=examples
            )
    finally:
        memo.close()


def test_one_call_and_one_per_example(tmp_path: Path) -> None:
    chat = FakeChat(scripted_replies())
    tuned_settings = tune_folder(tmp_path, chat)
    assert tuned_settings.failed == ()
    assert tuned_settings.settings["reports"] == {"persona": "You are a harbour master.", "language": "English"}
    mentions = dict(tuned_settings.settings["mentions"])
    examples = str(mentions.pop("examples")).split("\n\n")
    types = ("vessel: a ship, or a boat", "person", "pier quay")
    assert mentions == {"domain": "Notes of a harbour office.", "language": "English", "types": types}
    assert [e.partition("\n")[0] for e in examples] == ["Text:", "Text:"]
    assert all(e.endswith(VALID_RECORDS) for e in examples)
    assert examples[0] != examples[1]
    assert sum(chat.prompt_counts.values()) == 3
    assert {tuple(fenced_texts(prompt, "types")) for prompt in chat.prompt_counts if "JSON schema" not in prompt} == {
        ("\n".join(types),)
    }


def test_sample_is_deterministic_and_paid_once(tmp_path: Path) -> None:
    chat = FakeChat(scripted_replies())
    assert tune_folder(tmp_path, chat) == tune_folder(tmp_path, chat)
    assert set(chat.prompt_counts.values()) == {1}
    (prompt_text,) = [prompt for prompt in chat.prompt_counts if "JSON schema" in prompt]
    pieces = fenced_texts(prompt_text, "piece")
    assert (len(pieces), pieces) == (5, sorted(pieces))


def test_examples_come_from_different_documents(tmp_path: Path) -> None:
    chat = FakeChat(scripted_replies())
    tune_folder(tmp_path, chat, sample=12, examples=5)
    texts = [text for prompt in chat.prompt_counts for text in fenced_texts(prompt, "text")]
    assert len({text.split("note ")[-1].split("pier ")[-1][0] for text in texts}) == 5


def test_unusable_chunk_is_replaced(tmp_path: Path) -> None:
    tried: list[str] = []

    def answer(prompt: str) -> str:
        if "JSON schema" in prompt:
            return json.dumps(CORPUS)
        tried.extend(fenced_texts(prompt, "text"))
        return RECORDS if len(tried) > 1 else "Nothing here."

    tuned_settings = tune_folder(tmp_path, FakeChat(answer), examples=1)
    assert tuned_settings.failed == ()
    assert str(tuned_settings.settings["mentions"]["examples"]).endswith(VALID_RECORDS)
    assert len(set(tried)) == 2


def test_cap_keeps_the_examples_so_far(tmp_path: Path) -> None:
    tuned_settings = tune_folder(tmp_path, FakeChat(scripted_replies()), caps=Caps(calls=2))
    assert str(tuned_settings.settings["mentions"]["examples"]).count("END") == 1
    assert tuned_settings.failed == ("capped: not asked, since --max-calls 2 was reached",)
    with pytest.raises(ItemFailed, match="capped"):
        tune_folder(tmp_path / "other", FakeChat(scripted_replies()), caps=Caps(calls=0))


def test_reply_without_types_is_retried(tmp_path: Path) -> None:
    replies = iter([json.dumps({**CORPUS, "types": ["x", " "]}), json.dumps(CORPUS)])
    tuned_settings = tune_folder(tmp_path, FakeChat(lambda prompt: next(replies)), examples=0)
    assert tuned_settings.settings["mentions"]["types"] == ("vessel: a ship, or a boat", "person", "pier quay")
    with pytest.raises(MalformedReply, match="name 5 to 12 types"):
        reply_form(Corpus).parse(Reply(json.dumps({**CORPUS, "types": []})))


def test_empty_index_is_an_error(tmp_path: Path) -> None:
    put(tmp_path, {"chunks": []})
    store = SqliteStore(tmp_path)
    with store.read_transaction() as db, pytest.raises(SettingsError, match="has no text to tune to"):
        tune_prompts(Table("chunks", codec(Chunk), SqlRows(db, "chunks")), lambda *_, **__: None)  # type: ignore[arg-type]
    store.close()


@pytest.mark.parametrize(
    "records", ["", "END", VALID_RECORDS.splitlines()[0], "\n".join(VALID_RECORDS.splitlines()[:2])]
)
def test_too_few_records_are_malformed(records: str) -> None:
    with pytest.raises(MalformedReply):
        parse_example(Reply(records), ["person", "vessel"])


def test_written_settings_are_read_back(tmp_path: Path) -> None:
    tuned_settings = tune_folder(tmp_path, FakeChat(scripted_replies()))
    text, unused = config.merge_settings("# mine\n[chunks]\nsize = 300\n", tuned_settings.settings)
    assert unused == []
    assert text.startswith("# mine\n[chunks]\nsize = 300\n")
    read = tomllib.loads(text)
    assert read["chunks"] == {"size": 300}
    for scope, values in tuned_settings.settings.items():
        assert {n: SettingsRegistry(BUILT_IN).own[scope][n].parse(scope, v) for n, v in read[scope].items()} == values
