"""Names -> systems, and errors in names."""

from __future__ import annotations

import pytest

from kumihimo.core.errors import SettingsError
from kumihimo.evaluate.systems import System, parse_systems


def test_a_system_is_a_method_and_its_settings() -> None:
    parsed = parse_systems("global:C2, mapreduce,auto,local:reranker=model,naive:words=false + meaning=.25,")
    assert parsed == [
        System("global:C2", "global", {"level": 2}),
        System("mapreduce", "mapreduce", {}),
        System("auto", "auto", {}),
        System("local:reranker=model", "local", {"reranker": "model"}),
        System("naive:words=false + meaning=.25", "naive", {"words": False, "meaning": 0.25}),
    ]
    assert parse_systems("discourse:any+paper=true")[0].settings == {"fallback": "any", "paper": True}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bm52", "no method 'bm52'; did you mean 'bm25'"),
        ("light:hibrid", "light has no setting or choice 'hibrid'; did you mean 'hybrid'"),
        ("naive:C0", "naive has no setting or choice 'C0'"),
        ("global:c0", "did you mean 'C0'"),
        ("auto:k=3", "auto has no setting 'k'"),
        ("discourse:none", "write fallback=none or reranker=none"),
        ("naive:kk=3", "naive has no setting 'kk'; did you mean 'k'"),
        ("naive:k=three", r"naive\.k is a whole number"),
        ("naive:k=3+k=4", "sets k twice"),
        ("naive,bm25,naive", "naive and naive are one system"),
        ("global,global:C1", "global and global:C1 are one system"),
        (" , ", "no method is named"),
    ],
)
def test_errors_name_the_remedy(name: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        parse_systems(name)


def test_equal_systems_are_found_by_index_settings() -> None:
    assert len(parse_systems("global,global:C1", {"global": {"level": 2}})) == 2
    with pytest.raises(SettingsError, match="one system"):
        parse_systems("global,global:C2", {"global": {"level": 2}})
