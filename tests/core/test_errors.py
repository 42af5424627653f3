"""errors -> one class tree, as documented, and messages with the closest name."""

from __future__ import annotations

import re

from kumihimo.core import errors
from kumihimo.core.errors import ItemFailed, KumiError, UpstreamFailed, describe_unknown
from kumihimo.core.records import Record


def test_the_tree_is_as_it_is_drawn() -> None:
    lines = re.findall(r"^( *)([A-Z]\w+)  +\S", errors.__doc__ or "", re.MULTILINE)
    documented: dict[str, str] = {}
    ancestors: list[tuple[int, str]] = []
    for indent, name in lines:
        while ancestors and ancestors[-1][0] >= len(indent):
            ancestors.pop()
        documented[name] = ancestors[-1][1] if ancestors else "Exception"
        ancestors.append((len(indent), name))
    classes = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, KumiError)]
    assert {c.__name__: [base.__name__ for base in c.__bases__] for c in classes} == {
        name: [base] for name, base in documented.items()
    }
    assert len(classes) >= 8


def test_what_fails_may_leave_something_better_than_nothing() -> None:
    assert ItemFailed("no reply").fallback == ()
    failed = ItemFailed("no reply", fallback=[Record(text="plain")])
    assert str(failed) == "no reply"
    assert failed.fallback == (Record(text="plain"),)
    assert UpstreamFailed("waits for a").fallback == ()


def test_the_nearest_name_is_offered() -> None:
    assert describe_unknown("setting", "sise", ["overlap", "size"]) == (
        "no setting 'sise'; did you mean 'size'? Known: overlap, size"
    )


def test_far_names_are_listed_in_order_and_none_is_offered() -> None:
    assert describe_unknown("table", "xyz", ["ties", "chunks"]) == "no table 'xyz'. Known: chunks, ties"


def test_where_nothing_is_known_it_says_so() -> None:
    assert describe_unknown("port", "llm", []) == "no port 'llm'. Known: none"
