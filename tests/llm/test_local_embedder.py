"""text -> vectors, text -> tokens: inside this process, offline, each text independent of the others."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from kumihimo.core.errors import KumiError
from kumihimo.llm import local_embedder
from kumihimo.llm.local_embedder import LocalEmbedder, LocalTokenizer

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


def test_similar_texts_have_near_vectors() -> None:
    ferry, boats, soup = LocalEmbedder()([*TEXTS[:2], "A recipe for onion soup."])
    assert ferry @ boats > ferry @ soup


@pytest.mark.parametrize("text", [*TEXTS, "one\n\n  two\tthree", "é e\u0301 ½ \u200b x"])
def test_tokens_begin_in_order_within_the_text(text: str) -> None:
    starts = LocalTokenizer()(text)
    assert starts == sorted(starts)
    assert all(0 <= start < len(text) for start in starts)
    assert bool(starts) == bool(text)


def test_tokens_are_counted_in_full() -> None:
    assert len(LocalTokenizer()("sea " * 5000)) >= 5000
    assert LocalTokenizer()("sea")[0] == 0
    assert LocalTokenizer().fingerprint == LocalEmbedder().fingerprint == "wordllama-256"


def test_a_broken_installation_names_the_remedy() -> None:
    with pytest.raises(KumiError) as refused:
        local_embedder._wheel_file("weights/gone.safetensors")
    assert str(refused.value) == (
        "weights/gone.safetensors is missing from the installed wordllama: `pip install --force-reinstall wordllama`"
    )


def test_the_package_itself_is_not_imported() -> None:
    script = (
        "import sys; from kumihimo.llm.local_embedder import LocalEmbedder, LocalTokenizer; "
        "LocalEmbedder()(['a']); LocalTokenizer()('a'); print({'wordllama', 'requests', 'torch'} & set(sys.modules))"
    )
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert process.stdout == "set()\n"
