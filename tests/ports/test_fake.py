"""prompt -> reply, text -> vector: made up, the same every time."""

from __future__ import annotations

import numpy as np

from kumihimo.ports.fake import FakeChat, FakeEmbedder


def test_a_made_up_model_answers_the_last_message_and_counts() -> None:
    chat = FakeChat(lambda prompt: prompt[::-1])
    assert chat([{"role": "system", "content": "x"}, {"role": "user", "content": "sea"}], temperature=1) == "aes"
    chat([{"role": "user", "content": "sea"}])
    assert chat.asked == {"sea": 2}
    assert FakeChat(str).asked == {}


def test_texts_that_share_words_are_near_each_other() -> None:
    sea, shouted, both, sky, none = FakeEmbedder()(["the sea", "SEA the", "the sea and sky", "sky", ""])
    assert np.array_equal(sea, shouted)
    assert sea @ both > sea @ sky
    assert np.allclose([v @ v for v in (sea, both, sky)], 1)
    assert not none.any()


def test_a_made_up_vector_depends_on_its_own_text_only() -> None:
    texts = ["the sea", "", "sky sky sea", "港"]
    together = FakeEmbedder(dimensions=8)(texts)
    assert together.shape == (4, 8)
    assert together.dtype == np.float32
    assert all(np.array_equal(together[i], FakeEmbedder(dimensions=8)([text])[0]) for i, text in enumerate(texts))
    assert FakeEmbedder()([]).shape == (0, 32)
