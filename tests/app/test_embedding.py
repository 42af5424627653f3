"""texts -> the vectors that the index would have of them, and what they cost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kumihimo import Kumihimo
from kumihimo.app.ask.questions import embed_texts
from kumihimo.core.errors import BudgetExceeded, IndexUnavailable
from kumihimo.llm.budget import Budget, Caps
from tests.fake_server import FakeServer
from tests.fixtures_index import fill

TEXTS = ["oat seed", "the ferry"]


def test_without_a_server_the_model_in_this_process_embeds(tmp_path: Path) -> None:
    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        kumi.index(fill(tmp_path / "notes", {"a.md": "Oat seed is lent."}))
        vectors, usage = embed_texts(kumi.opened, TEXTS)
        assert (vectors.shape, usage.calls) == ((2, 256), 0)
        assert np.array_equal(vectors, embed_texts(kumi.opened, TEXTS, as_questions=True)[0])


def test_a_server_is_paid_by_the_budget_of_the_key(tmp_path: Path, server: FakeServer) -> None:
    settings = {
        "embedding": {"model": "e", "base_url": server.url, "query_prefix": "query: ", "passage_prefix": "passage: "}
    }
    key, spent_key = Budget(), Budget(Caps(calls=0))
    with Kumihimo.open(tmp_path / ".kumi", settings=settings) as kumi:
        kumi.index(fill(tmp_path / "notes", {"a.md": "Oat seed is lent."}), methods=["naive"])
        vectors, usage = embed_texts(kumi.opened, TEXTS, budget=key)
        questions, _ = embed_texts(kumi.opened, TEXTS, as_questions=True, budget=key)
        assert vectors.shape == questions.shape == (2, 32)
        assert not np.allclose(vectors, questions)
        assert usage.prompt_tokens > 0
        assert key.total.calls == 2
        assert embed_texts(kumi.opened, TEXTS, budget=spent_key)[1].calls == 0  # from the cache
        with pytest.raises(BudgetExceeded):
            embed_texts(kumi.opened, ["new words"], budget=spent_key)
    with Kumihimo.open(tmp_path / ".kumi") as kumi, pytest.raises(IndexUnavailable, match="were embedded by e"):
        embed_texts(kumi.opened, TEXTS)
