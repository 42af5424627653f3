"""a graph with reports that stay while little is new -> the laws of what they remember."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, strategies as st

from kumihimo.core.errors import ConsentRequired, ItemFailed
from kumihimo.core.records import Report
from tests.fenced_texts import fenced_text
from tests.fixtures_index import Held, apart
from tests.laws.factories_town import DAYS, SETTINGS, TOWN, BuildKilled, Documents, Town, differences, sentences_of
from tests.laws.test_graph import EVENTS, FEW_EXAMPLES, REPORT, Event, apply_event, check_settled

REPORTS = {"window": 4000}
OFF: dict[str, dict[str, Any]] = {  # descriptions keep their words, so that reports can show where they come from
    "mentions": SETTINGS["mentions"],
    "communities": {"max_size": 6},
    "reports": {**REPORTS, "refresh": 0},
}
DEFAULT = {**OFF, "reports": REPORTS}
SHARE = 0.1  # the default of reports.refresh
DAY = re.compile(r"on day \d+\b")
LITTLE = {**TOWN, "new.txt": sentences_of([DAYS + 3])}  # one sentence
MUCH = {**TOWN, "new.txt": sentences_of(range(DAYS, DAYS + 60))}
Answer = Callable[[str], str | None]


def echo(conversation: str) -> str | None:
    """Write reports that name the days of their notes."""
    if REPORT not in conversation:
        return None
    days = " ".join(dict.fromkeys(DAY.findall(fenced_text(conversation, "notes"))))
    finding = {"summary": "Days", "explanation": f"{days} [Data: Entities (1)]", "sources": [1]}
    return json.dumps({"title": "Days", "summary": days, "rating": 5, "rating_explanation": "", "findings": [finding]})


def fail_reports(conversation: str) -> str | None:
    if REPORT in conversation:
        raise ItemFailed("(503)")
    return None


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Town]:
    """Return an index of the whole town."""
    town = Town(tmp_path, DEFAULT, intercept=echo)
    town.build(TOWN)
    yield town
    town.kumi.close()


def reports(town: Town) -> dict[str, Report]:
    with town.kumi.snapshot() as snapshot:
        return {report.id: report for report in snapshot.table("reports")}


def report_calls(town: Town) -> int:
    return sum(count for conversation, count in town.call_counts.items() if REPORT in conversation)


def check_remembered(town: Town, documents: Documents) -> None:
    """Check that reports say nothing of removed texts, and that little is new."""
    days = set(DAY.findall(" ".join(documents.values())))
    for report in reports(town).values():
        assert set(DAY.findall(repr(report))) <= days
        rows = {document: count for document, count, _ in report.evidence}
        assert sum(map(rows.__getitem__, report.added)) <= SHARE * sum(rows.values())
        assert not report.added or report.written_with
        assert "[Data:" not in repr(report)


def test_little_that_is_new_changes_a_counter_only(town: Town) -> None:
    before, calls = reports(town), report_calls(town)
    town.build(LITTLE)
    after = reports(town)
    changed = [id for id in before if before[id] != after[id]]
    assert any(after[id].written_with for id in changed)
    assert report_calls(town) == calls
    for id in changed:
        if after[id].written_with:
            assert len(after[id].added) == 1
            assert replace(after[id], evidence=before[id].evidence, added=()) == before[id]
    assert town.kumi.status().changed_reports == sum(bool(report.added) for report in after.values()) > 0
    check_remembered(town, LITTLE)
    check_settled(town, LITTLE)
    town.build(TOWN)
    assert reports(town) == before
    assert report_calls(town) == calls


def test_a_later_version_changes_nothing(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    town.build(LITTLE)
    contents, counts = town.all_rows(), town.reply_counts
    monkeypatch.setattr("kumihimo.app.build.build.code_fingerprint", lambda *_: "a later version")
    town.build(LITTLE)
    assert not differences(town.all_rows(), contents)
    assert town.reply_counts == counts


def test_refresh_writes_what_has_changes(town: Town, tmp_path: Path) -> None:
    town.build(LITTLE)
    calls = report_calls(town)
    stale = [report.id for report in reports(town).values() if report.added]
    town.build(LITTLE, refresh=True)
    assert not any(report.added for report in reports(town).values())
    assert len(stale) <= report_calls(town) - calls < len(reports(town))
    without_memory = Town(tmp_path / "other", OFF, intercept=echo)
    without_memory.build(TOWN)
    without_memory.build(LITTLE)
    hidden: Held = {"reports": []}
    assert not differences({**town.all_rows(), **hidden}, {**without_memory.all_rows(), **hidden})
    assert reports(town) == reports(without_memory)
    without_memory.kumi.close()


def test_much_that_is_new_is_written(town: Town) -> None:
    before, calls = reports(town), report_calls(town)
    town.build(MUCH)
    assert report_calls(town) > calls
    after = reports(town)
    assert any(before[id].text != after[id].text for id in before.keys() & after.keys())
    check_remembered(town, MUCH)


def test_nothing_of_a_removed_document_stays(town: Town) -> None:
    town.build(LITTLE)
    town.kumi.remove("town/a.txt")
    remaining = {name: text for name, text in LITTLE.items() if name != "a.txt"}
    check_remembered(town, remaining)
    check_settled(town, remaining)


def test_nothing_of_a_removed_document_stays_where_the_model_fails(town: Town) -> None:
    before = reports(town)
    town.intercept = fail_reports
    town.kumi.remove("town/a.txt")
    remaining = {name: text for name, text in TOWN.items() if name != "a.txt"}
    errors = {id: error for step, id, error in town.kumi.status().failed if step == "reports"}
    failed, after = errors.keys(), reports(town)
    assert any(error.startswith("waits for ") for error in errors.values())
    assert failed <= after.keys()
    assert failed
    assert not any(after[id].written_with for id in failed if before[id].evidence != after[id].evidence)
    check_remembered(town, remaining)
    town.intercept = echo
    town.build(remaining)
    check_remembered(town, remaining)
    check_settled(town, remaining)


def test_a_report_stays_where_the_model_fails_after_an_addition(town: Town) -> None:
    before = reports(town)
    town.intercept = fail_reports
    town.build(MUCH)
    failed = {id for step, id, _ in town.kumi.status().failed if step == "reports"}
    after = reports(town)
    stayed = [id for id in failed & after.keys() if id in before and after[id].written_with]
    assert stayed
    assert all(after[id].text == before[id].text and after[id].added for id in stayed)
    town.intercept = echo
    town.build(MUCH)
    check_remembered(town, MUCH)
    check_settled(town, MUCH)


def test_a_stopped_build_leaves_what_was_remembered(town: Town, tmp_path: Path) -> None:
    town.build(LITTLE)
    documents = {**LITTLE, "more.txt": MUCH["new.txt"]}
    before, calls = town.all_rows(), report_calls(town)

    def stop(conversation: str) -> str | None:
        if REPORT in conversation and report_calls(town) > calls + 2:
            raise BuildKilled
        return echo(conversation)

    town.intercept = stop
    with pytest.raises(BuildKilled):
        town.build(documents)
    assert not differences(town.all_rows(), before)
    town.intercept = echo
    town.build(documents)
    undisturbed = Town(tmp_path / "other", DEFAULT, intercept=echo)
    for each in (TOWN, LITTLE, documents):
        undisturbed.build(each)
    assert not differences(town.all_rows(), undisturbed.all_rows())
    undisturbed.kumi.close()


def test_another_prompt_writes_all_after_consent(town: Town) -> None:
    before, calls = reports(town), report_calls(town)
    town.kumi.close()
    other = Town(town.folder, {**DEFAULT, "reports": {**REPORTS, "persona": "You know towns."}}, intercept=echo)
    with pytest.raises(ConsentRequired):
        other.build(TOWN)
    other.build(TOWN, consent=True)
    after = reports(other)
    written = [id for id, report in after.items() if report.written_with]
    assert report_calls(other) == len(written)
    assert calls
    assert all(after[id].written_with != before[id].written_with for id in written)
    other.kumi.close()


@FEW_EXAMPLES
@given(history=st.lists(EVENTS, min_size=1, max_size=6))
def test_every_history_keeps_what_is_remembered_true(history: list[Event]) -> None:
    with TemporaryDirectory() as folder:
        town, documents = Town(Path(folder), DEFAULT, intercept=echo), dict[str, Any](TOWN)
        town.build(documents)
        for event in history:
            documents = apply_event(documents, event)
            town.build(documents)
            check_remembered(town, documents)
            check_settled(town, documents)
        town.build(documents, recluster=True)
        check_remembered(town, documents)
        assert apart(town.all_rows())
        town.kumi.close()
