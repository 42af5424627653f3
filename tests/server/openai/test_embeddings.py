"""texts -> vectors, as OpenAI's client reads them."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import numpy as np
import openai
import pytest
from openai import OpenAI

from kumihimo import Kumihimo
from kumihimo.server.openai.requests import MAX_CHARS, MAX_TEXTS


def embed(client: OpenAI, texts: Any, **options: Any) -> Any:
    return client.embeddings.create(model="kumi", input=texts, **options)


def test_vectors_are_those_of_the_index(client: OpenAI, kumi: Kumihimo) -> None:
    with kumi.snapshot() as snapshot:
        chunks = list(snapshot.table("chunks"))
        best = snapshot.retrieve(chunks[0].text, "naive", k=1).evidence[0].record
    reply = embed(client, [chunk.index_text for chunk in chunks] + [chunks[0].text])
    vectors = np.array([item.embedding for item in reply.data])
    assert [item.index for item in reply.data] == list(range(len(chunks) + 1))
    assert np.allclose((vectors**2).sum(axis=1), 1, atol=1e-5)
    assert chunks[int((vectors[:-1] @ vectors[-1]).argmax())] == best
    assert reply.usage.total_tokens == 0  # a model in this process


def test_both_encodings_give_the_same_vector(client: OpenAI) -> None:
    plain, encoded = (embed(client, "oat seed", encoding_format=name).data[0].embedding for name in ("float", "base64"))
    assert np.allclose(plain, np.frombuffer(b64decode(encoded), "<f4"))
    assert np.allclose(plain, embed(client, "oat seed").data[0].embedding)  # the client asks for base64


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        ([], {}, "input is empty"),
        ("", {}, "input is empty"),
        ([1, 2, 3], {}, r"check_embedding_ctx_length=False"),
        ([[1, 2], [3]], {}, "input holds tokens"),
        (["x"] * (MAX_TEXTS + 1), {}, "2,048 is the limit"),
        ("x" * (MAX_CHARS + 1), {}, "a text has 100,001 characters"),
        ("x", {"dimensions": 7}, "vectors have 256 dimensions here"),
        ("x", {"encoding_format": "bits"}, "encoding_format"),
    ],
)
def test_what_cannot_be_embedded_is_refused(client: OpenAI, texts: Any, options: Any, message: str) -> None:
    with pytest.raises(openai.BadRequestError, match=message):
        embed(client, texts, **options)


def test_a_model_that_does_not_exist_embeds_nothing(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="no model 'nowhere'"):
        client.embeddings.create(model="nowhere", input="x")
