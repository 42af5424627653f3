"""a table -> Arrow and pandas: the types, the order and the rows of the table, for those who may see them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kumihimo import Kumihimo
from kumihimo.core.errors import IndexUnavailable, KumiError

pyarrow = pytest.importorskip("pyarrow")
pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def kumi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kumihimo]:
    home = tmp_path_factory.mktemp("frames")
    for team in ("north", "south"):
        text = f"---\nteam: {team}\n---\nAda Vane of the {team} met Bo Lind at Gull Pier. Ada Vane paid Bo Lind."
        (home / f"{team}.md").write_text(text, "utf-8")
    with Kumihimo(home / ".kumi") as kumi:
        kumi.index(home, methods=["local", "bm25"])
        yield kumi


def test_every_table_becomes_arrow(kumi: Kumihimo) -> None:
    with kumi.snapshot() as snapshot:
        for name in snapshot.row_counts():
            table = snapshot.to_arrow(name)
            assert table.column("id").to_pylist() == [id for (id,) in snapshot.table(name).columns("id")]
            assert table.column_names == list(snapshot.table(name).codec.columns)


def test_types_are_kept(kumi: Kumihimo) -> None:
    with kumi.snapshot() as snapshot:
        entities, documents = snapshot.to_arrow("entities"), snapshot.to_arrow("documents")
        relations = snapshot.to_arrow("relations")
    assert entities.schema.field("mentions").type == pyarrow.int64()
    assert entities.schema.field("forms").type == pyarrow.list_(pyarrow.string())
    assert relations.schema.field("strength").type == pyarrow.float64()
    assert relations.column("strength").to_pylist()[0] is None
    teams = {json.loads(text)["team"] for text in documents.column("metadata").to_pylist()}
    assert teams == {"north", "south"}


def test_frames_have_the_id_as_index(kumi: Kumihimo) -> None:
    with kumi.snapshot() as snapshot:
        frame = snapshot.to_pandas("entities")
        expected = {row.id: row.mentions for row in snapshot.table("entities")}
    assert dict(frame["mentions"]) == expected
    assert frame.sort_values("mentions").index[-1] in expected


def test_they_hold_what_one_may_see(kumi: Kumihimo) -> None:
    with kumi.snapshot(rights='team = "north"') as snapshot:
        assert len(snapshot.to_pandas("documents")) == 1
        assert "south" not in repr(snapshot.to_arrow("chunks").to_pylist())


def test_errors_name_the_remedy(kumi: Kumihimo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with kumi.snapshot() as snapshot:
        with pytest.raises(IndexUnavailable):
            snapshot.to_pandas("summaries")
        monkeypatch.setitem(sys.modules, "pandas", None)
        with pytest.raises(KumiError, match=r"pandas is not installed: `pip install 'kumihimo\[frames\]'`"):
            snapshot.to_pandas("entities")
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        with pytest.raises(KumiError, match=r"pyarrow is not installed: `pip install 'kumihimo\[parquet\]'`"):
            snapshot.to_arrow("entities")
