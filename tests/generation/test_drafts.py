"""lines and quotations -> parts: lists and tables together, and no more characters than allowed."""

from __future__ import annotations

from hypothesis import given, strategies as st

from kumihimo.core.spans import Span
from kumihimo.generation.quoting.drafts import Draft

SPAN = Span("c", "a.md", 3, 17, "Hild\n mended it")


def marked(draft: Draft) -> str:
    """Return the lines with the numbers of their sources."""
    return "\n".join(part.marked().text for part in draft.parts)


def test_lines_of_a_list_are_one_part() -> None:
    draft = Draft()
    draft.add("People:")
    draft.add("Menders", "list")
    draft.quote(SPAN, "   ")
    draft.cite("- Bo", SPAN)
    draft.add("… and 2 more.")
    draft.add("| Boat |", "table")
    draft.cite("| Ebb |", SPAN, "table")
    assert [(part.kind, part.text) for part in draft.parts] == [
        ("note", "People:"),
        ("list", "Menders\n   Hild mended it …\n- Bo"),
        ("note", "… and 2 more."),
        ("table", "| Boat |\n| Ebb |"),
    ]
    assert marked(draft) == (
        "People:\nMenders\n   Hild mended it … [1]\n- Bo [2]\n… and 2 more.\n| Boat |\n| Ebb [3] |"
    )
    assert [citation.n for part in draft.parts for citation in part.citations] == [1, 2, 3]


def test_notes_are_parts_of_their_own() -> None:
    draft = Draft()
    draft.add("One.")
    draft.add("Two.")
    assert [(part.kind, part.text) for part in draft.parts] == [("note", "One."), ("note", "Two.")]


@given(st.lists(st.tuples(st.sampled_from(["note", "list", "table"]), st.booleans(), st.integers(0, 30))))
def test_a_draft_is_as_long_as_allowed_and_no_longer(lines: list[tuple[str, bool, int]]) -> None:
    draft = Draft(limit=60)
    for kind, is_cited, length in lines:
        before, parts = draft.size, [*draft.parts]
        line = "x" * length
        fits = draft.cite(line, SPAN, kind) if is_cited else draft.add(line, kind)  # type: ignore[arg-type]
        size = length + (len(f" [{len(draft.citations) + (not fits)}]") if is_cited else 0)
        assert fits == (before + size <= 60)
        if not fits:
            assert (draft.size, draft.parts) == (before, parts)
    assert draft.size == (len(marked(draft)) + 1 if draft.parts else 0)
    assert len(marked(draft)) <= 60
