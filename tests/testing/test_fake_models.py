"""prompt -> reply, text -> vector: invented, and the same every time."""

from __future__ import annotations

import numpy as np

from kumihimo.core.usage import Usage
from kumihimo.llm.protocols import ChatRequest, Reply
from kumihimo.testing.fake_models import FakeChat, FakeEmbedder


def test_a_fake_model_answers_the_last_message_and_counts() -> None:
    chat = FakeChat(lambda prompt: prompt[::-1])
    messages = [{"role": "system", "content": "x"}, {"role": "user", "content": "the sea"}]
    reply = chat(ChatRequest(messages, parameters={"temperature": 1}))
    assert reply == Reply("aes eht", usage=Usage(calls=1, prompt_tokens=2, completion_tokens=2))
    chat(ChatRequest(messages[1:]))
    assert chat.prompt_counts == {"the sea": 2}
    assert FakeChat(str).prompt_counts == {}


def test_a_fake_model_streams_its_reply() -> None:
    tokens: list[str] = []
    reply = FakeChat(str.upper)(ChatRequest([{"role": "user", "content": "the 港"}], on_token=tokens.append))
    assert [token for token in tokens if token] == ["THE ", "港"]
    assert reply.usage == Usage(calls=1, prompt_tokens=2, completion_tokens=2)


def test_texts_with_common_words_are_near() -> None:
    sea, capitals, both, sky, none = FakeEmbedder()(["the sea", "SEA the", "the sea and sky", "sky", ""])
    assert np.array_equal(sea, capitals)
    assert sea @ both > sea @ sky
    assert np.allclose([v @ v for v in (sea, both, sky)], 1)
    assert not none.any()


def test_a_fake_vector_depends_on_its_own_text_only() -> None:
    texts = ["the sea", "", "sky sky sea", "港"]
    together = FakeEmbedder(dimensions=8)(texts)
    assert together.shape == (4, 8)
    assert together.dtype == np.float32
    assert all(np.array_equal(together[i], FakeEmbedder(dimensions=8)([text])[0]) for i, text in enumerate(texts))
    assert FakeEmbedder()([]).shape == (0, 32)
