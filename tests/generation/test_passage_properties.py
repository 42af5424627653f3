"""odd documents -> passages that one can read, with exact places."""

from __future__ import annotations

from random import Random

import pytest

from kumihimo.generation.quoting.windows import MAX_WIDTH
from kumihimo.text.sentences import split_blocks
from tests.generation.test_quoting import ask

WORDS = "boat quay rope lamp oats gate tide slip weed court seal stone mason ferry crown light".split()  # noqa: SIM905
ODD = {
    "headings": "# Boats\n\n## The quay\n\n### The rope of the boat\n",
    "table": "| Boat | Quay |\n|---|---|\n| Annie | north |\n| Dorrit | south |\n",
    "header": "Boat | Quay | Rope\n",
    "word": "boat",
    "turns": "ANN: Boat?\n\nBOB: Yes, a boat.\n\nANN: Where is the boat?\n\nBOB: At the quay, tied with a long rope.\n",
    "mail header": "From: Ann <a@b.c>\nTo: Bob <b@c.d>\nSubject: The boat at the quay\n",
    "mail": "From: Ann <a@b.c>\nTo: Bob <b@c.d>\nSubject: The boat\n\nThe boat is at the quay. Bring a rope.\n",
    "huge line": "the boat lies at the quay and " * 400,
    "no punctuation": "船は岸壁にあります綱は倉庫にあります" * 60,
    "chinese": "船停在码头绳子在仓库" * 80,
    "list": "What to bring:\n- a boat\n- a rope for the quay\n- a lamp\n",
    "empty": "\n \n\t\n",
}
QUESTIONS = ("Where is the boat?", "the quay", "船はどこにありますか", "船停在哪里？", "What is the boat called?")


def make_document(random: Random) -> str:
    """Return blocks of all kinds in a random order."""

    def sentence() -> str:
        return " ".join(random.choices(WORDS, k=random.randint(2, 14))).capitalize() + random.choice(".?!")

    blocks = [
        lambda: f"# {' '.join(random.choices(WORDS, k=3))}",
        lambda: " ".join(sentence() for _ in range(random.randint(1, 12))),
        lambda: "\n".join(f"- {sentence()}" for _ in range(random.randint(1, 6))),
        lambda: (
            "| boat | rope |\n|---|---|\n"
            + "\n".join(f"| {random.choice(WORDS)} | {random.randint(1, 99)} |" for _ in range(random.randint(1, 6)))
        ),
        lambda: f"ANN: {random.choice(('Yes.', 'The boat?', sentence()))}",
        lambda: " ".join(random.choices(WORDS, k=300)),
    ]
    return "\n\n".join(random.choice(blocks)() for _ in range(random.randint(1, 12)))


def check(question: str, *documents: str) -> None:
    answer = ask(question, *documents)
    for citation in answer.citations:
        span = citation.span
        assert documents[int(span.uri[1:])][span.start : span.end] == span.text
        assert span.text == span.text.strip() != ""
        kinds = [block.kind for block in split_blocks(span.text)]
        assert kinds[0] != "heading" != kinds[-1]
        assert "Subject:" not in span.text
        assert len(span.text) <= MAX_WIDTH
    assert len(answer.citations) <= 3
    assert answer.status == "nothing" or answer.citations


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("name", ODD)
def test_odd_documents(name: str, question: str) -> None:
    check(question, ODD[name])


def test_documents_of_all_blocks() -> None:
    random = Random(7)
    for _ in range(60):
        check(random.choice(QUESTIONS[:2]), *(make_document(random) for _ in range(2)))


def test_a_huge_line_is_cut() -> None:
    for name in ("huge line", "no punctuation", "chinese"):
        answer = ask({"huge line": "boat quay", "no punctuation": "船の綱"}.get(name, "船在码头"), ODD[name])
        assert answer.citations
        assert all(len(citation.span.text) <= MAX_WIDTH for citation in answer.citations)
