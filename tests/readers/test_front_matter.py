"""Front matter becomes metadata, not text."""

from __future__ import annotations

from pathlib import Path

import pytest

from kumihimo import Kumihimo
from kumihimo.readers.front_matter import parse_front_matter
from kumihimo.readers.markdown import read_markdown
from tests import factories_office

BOMB = "---\na: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n---\nText."


@pytest.mark.parametrize(
    ("head", "values"),
    [
        ("---\ntitle: Tides\ntags: [sea, moon]\n---\n", {"title": "Tides", "tags": ["sea", "moon"]}),
        ("--- \r\ntitle: Tides\r\n...\r\n", {"title": "Tides"}),
        ("---\ndate: 2024-05-01\nat: 2024-05-01 08:30:00\n---\n", {"date": "2024-05-01", "at": "2024-05-01T08:30:00"}),
        ("---\n1: one\nn: 2.5\nyes: no\nnone: null\n---\n", {"1": "one", "n": 2.5, "yes": "no", "none": None}),
        ("---\ntitle:\tTides\ntags:\n\t- sea\n\t- moon\n---\n", {"title": "Tides", "tags": ["sea", "moon"]}),
        ("---\nmenu:\n\tdocs:\n\t    weight: 3\n---\n", {"menu": {"docs": {"weight": 3}}}),
        ("---\na: {b: {c: 2024-05-01}}\n---\n", {"a": {"b": {"c": "2024-05-01"}}}),
        ('+++\ntitle = "Tides"\ndate = 2024-05-01\n[more]\nx = [1, 2]\n+++\n',
         {"title": "Tides", "date": "2024-05-01", "more": {"x": [1, 2]}}),
        ('+++\na = inf\nb = [nan]\n+++\n', {"a": "Infinity", "b": ["NaN"]}),
    ],
)  # fmt: skip
def test_values_of_front_matter(head: str, values: dict[str, object]) -> None:
    assert parse_front_matter(f"{head}The sea.") == (values, len(head))


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("12:30", "12:30"),
        ("12:30:45", "12:30:45"),
        ("01234", "01234"),
        ("0x1f", "0x1f"),
        ("1_000", "1_000"),
        ("1.10", "1.10"),
        ("1.5", 1.5),
        ("-3", -3),
        ("0", 0),
        ("1e3", "1e3"),
        (".nan", ".nan"),
        ("!!float .nan", ".nan"),
        ("!!float -.inf", "-.inf"),
        (f"{'9' * 400}.5", f"{'9' * 400}.5"),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("'true'", "true"),
        ("2024-05-01", "2024-05-01"),
        ("2024-05-01T08:30:00Z", "2024-05-01T08:30:00+00:00"),
        ("2024-05", "2024-05"),
    ],
)
def test_a_plain_value_is_what_it_looks_like(written: str, value: object) -> None:
    metadata, _ = parse_front_matter(f"---\nv: {written}\n---\nText.")
    assert metadata == {"v": value}
    assert type(metadata["v"]) is type(value)


@pytest.mark.parametrize(
    "head",
    [
        "---\ntitle: [unclosed\n---\n",
        "---\ntitle: a: b\n---\n",
        "+++\ntitle = unquoted\n+++\n",
        "+++\nday = 2024-13-45\n+++\n",
    ],
)
def test_a_head_that_cannot_be_read_is_reported(tmp_path: Path, head: str) -> None:
    document = factories_office.one(tmp_path, "a.md", f"{head}The sea.".encode())
    assert document.metadata["not_read"] == ["its front matter, which is neither YAML nor TOML"]
    assert (document.text, document.body) == (f"{head}The sea.", 0)


@pytest.mark.parametrize(
    ("written", "text", "kind"),
    [
        ("2024-02-30", "2024-02-30", "date"),
        ("2024-05-01T25:00:00Z", "2024-05-01T25:00:00Z", "date"),
        ("2024-05-01T08:00:00+99:00", "2024-05-01T08:00:00+99:00", "date"),
        ("!!int one", "one", "int"),
        ("!!bool maybe", "maybe", "bool"),
        ("!!timestamp soon", "soon", "date"),
        ("9" * 5000, "9" * 5000, "int"),
    ],
    ids=["day", "hour", "zone", "word", "bool", "soon", "digits"],
)
def test_a_value_that_is_no_date_or_number_stays_as_text(tmp_path: Path, written: str, text: str, kind: str) -> None:
    head = f"---\ntitle: Tides\nseen: [2024-05-01, {written}]\nauthor: Ayu\n---\n"
    document = factories_office.one(tmp_path, "a.md", f"{head}The sea.".encode())
    note = f"'{text[:40]}' in its front matter, which is no {kind}"
    assert document.metadata == {"seen": ["2024-05-01", text], "author": "Ayu", "not_read": [note]}
    assert (document.title, document.body) == ("Tides", len(head))


def test_a_rule_above_the_text_is_no_head_that_cannot_be_read() -> None:
    for text in ("---\nA rule, and words below it, and a rule.\n---\nx", "---\n- a\n- b\n---\nx"):
        assert parse_front_matter(text) == ({}, 0)


@pytest.mark.parametrize(
    "text",
    [
        "The sea.",
        "",
        "---\n",
        "---\n---\n",
        "---\nA rule above, another below.\n---\n",
        "---\nkey: [unclosed\n---\nText.",
        "---\n- a\n- list\n---\nText.",
        "---\ntitle: never closed\n",
        "\n---\ntitle: not at the top\n---\n",
        "---\na: !!python/object/apply:os.system [ls]\n---\n",
        "+++\ntitle = unquoted\n+++\n",
        "---\n" + "[" * 300 + "\n---\n",
        BOMB,
    ],
)
def test_what_is_no_head_stays_in_the_text(text: str) -> None:
    metadata, body = parse_front_matter(text)
    assert body == 0
    assert metadata.keys() <= {"not_read"}
    (page,) = read_markdown(text.encode(), "a.md")
    assert (page.text, page.body) == (text, 0)


def test_a_title_and_the_heading_below() -> None:
    def title(text: str) -> str:
        (page,) = read_markdown(text.encode(), "a.md")
        assert "title" not in page.metadata
        return page.title

    assert title("---\ntitle: Tides\n---\n# The sea") == "Tides"
    assert title("---\ntitle: 2024\n---\n# The sea") == "2024"
    assert title("---\n# no title, a comment\nx: y\n---\n# The sea") == "The sea"
    assert title("---\ntitle:\n---\n# The sea") == "The sea"


def test_chunks_never_begin_in_the_head_and_lines_are_those_of_the_file(tmp_path: Path) -> None:
    head = "---\ntitle: Tides\nauthor: Ayu\ntags:\n" + "- sea\n" * 200 + "---\n"
    text = f"{head}\n# The sea\n\nThe sea rises at nine.\n"
    document = factories_office.one(tmp_path, "tides.md", text.encode())
    assert document.text == text
    assert (document.title, document.body, document.metadata["author"]) == ("Tides", len(head), "Ayu")
    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        kumi.index(tmp_path / "tides.md")
        with kumi.snapshot() as snapshot:
            chunks = list(snapshot.table("chunks"))
            assert [(c.start, c.text) for c in chunks] == [(len(head) + 1, "# The sea\n\nThe sea rises at nine.")]
        (citation,) = kumi.ask("When does the sea rise?").citations
        assert citation.span.place == "line 209"
        assert text.splitlines()[int(citation.span.place.split()[1]) - 1] in citation.span.text


def test_a_file_that_is_all_head(tmp_path: Path) -> None:
    document = factories_office.one(tmp_path, "a.md", b"---\ntitle: Tides\n---\n")
    assert (document.title, document.body) == ("Tides", len(document.text))
    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        kumi.index(tmp_path / "a.md")
        with kumi.snapshot() as snapshot:
            assert len(snapshot.table("chunks")) == 0
