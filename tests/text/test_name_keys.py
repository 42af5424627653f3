"""names -> keys and aliases, in any order of the lines."""

from __future__ import annotations

from itertools import permutations

import pytest

from kumihimo.core.errors import SettingsError
from kumihimo.text.graph_edits import parse_aliases
from kumihimo.text.name_keys import name_key


def test_lines_that_share_a_name_are_one_in_any_order() -> None:
    lines = ("aa = bb", "cc = bb", "aa = dd", "xx = yy")
    for order in permutations(lines):
        aliases = parse_aliases(order)
        assert {aliases.get(name, name) for name in ("aa", "bb", "cc", "dd")} == {aliases.get("aa", "aa")}
        assert {aliases.get(name, name) for name in ("xx", "yy")} == {"xx"}


def test_a_line_that_names_one_is_refused() -> None:
    with pytest.raises(SettingsError, match="is no edit"):
        parse_aliases(["Bob ="])


def test_a_legal_form_that_is_a_word_stays_where_it_may_be_one() -> None:
    assert [name_key(name) for name in ("Health Spa", "Blood type AB")] == ["health spa", "blood type ab"]
    assert [name_key(name) for name in ("Siemens AG", "Siemens, AG", "Eni S.p.A.")] == ["siemens", "siemens", "eni"]
