"""pairs -> clusters; a cluster and a scripted reply -> groups of entries."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from kumihimo.core.errors import ItemFailed
from kumihimo.index.entity_clusters import MAX_ENTRIES, cluster_pairs, describe_entry, judge_cluster
from kumihimo.llm.cached_llm import create_llm
from kumihimo.storage.response_cache import ResponseCache
from kumihimo.testing.fake_models import FakeChat

ENTRIES = ("Names: Tony Evers", "Names: Evers", "Names: Kentucky Senate")  # sorted: Evers, Kentucky Senate, Tony Evers


def judge(groups: object, entries: Sequence[str] = ENTRIES) -> tuple[list[list[int]], str]:
    """Return the groups of a reply, and the prompt."""
    chat = FakeChat(lambda _: json.dumps({"groups": groups}))
    with TemporaryDirectory() as folder:
        result = judge_cluster(entries, create_llm(chat, ResponseCache(Path(folder, "cache.db"))))
    [prompt] = chat.prompt_counts
    return result, prompt


def test_numbers_of_a_reply_are_positions_of_the_entries() -> None:
    assert judge([[3, 1]])[0] == [[0, 1]]
    assert judge([])[0] == []


@pytest.mark.parametrize("groups", [[[3, 1, 9]], [[3, 1], [1, 2]], [[3, 1, 3]], [[3, 1], [2]]])
def test_numbers_that_are_none_or_stand_twice_do_not_count(groups: list[list[int]]) -> None:
    assert judge(groups)[0] == [[0, 1]]


def test_the_prompt_is_the_same_in_every_order() -> None:
    prompts = {judge([], entries)[1] for entries in (ENTRIES, ENTRIES[::-1], (*ENTRIES[1:], ENTRIES[0]))}
    assert len(prompts) == 1


def test_a_reply_of_another_form_fails() -> None:
    with pytest.raises(ItemFailed):
        judge("none")


def test_a_long_chain_becomes_clusters_of_bounded_size() -> None:
    names = [f"name {n:02}" for n in range(40)]
    clusters = cluster_pairs((0.5 + n / 100, *pair) for n, pair in enumerate(pairwise(names)))
    assert max(map(len, clusters)) <= MAX_ENTRIES
    assert sorted(name for cluster in clusters for name in cluster) == names


def test_an_entry_keeps_few_lines_whatever_their_order() -> None:
    lines = [(f"2024-01-{day:02}", f"On day {day} the ferry left. " * 20) for day in range(1, 31)]
    entry = describe_entry(["Tern", "The Tern"], ["ship"], ["Oban"], lines)
    assert entry == describe_entry(["Tern", "The Tern"], ["ship"], ["Oban"], lines[::-1])
    assert entry.splitlines()[:3] == ["Names: Tern; The Tern", "Kind: ship", "With: Oban"]
    assert len(entry) < 1200
    kept = entry.splitlines()[3:]
    assert kept == sorted(kept)
    same = [
        n
        for n in range(31, 61)
        if entry == describe_entry(["Tern", "The Tern"], ["ship"], ["Oban"], [*lines, ("", str(n))])
    ]
    assert len(same) > 15  # one more line seldom changes a prompt
