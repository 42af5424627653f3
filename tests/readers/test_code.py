"""Source code is read as it is, and its definitions are places."""

from __future__ import annotations

import pytest

from kumihimo.readers.code import read_code


def places(text: str, name: str) -> list[str]:
    (page,) = read_code(text.encode(), name)
    assert page.text == text
    assert page.title == name
    starts = [start for start, _ in page.places]
    assert all(start == 0 or text[start - 1] == "\n" for start in starts)
    return [label for _, label in page.places]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "a.py",
            "import os\n\n@cached\nclass A:\n    '''\n    class of things\n    '''\n"
            "    async def read(self):\n        def inner(): ...\n",
            ["line 1", "§ A:3", "§ A.read:8", "§ A.read.inner:9"],
        ),
        ("broken.py", "def x(:\n  class Y:\n", ["§ x:1", "§ x.Y:2"]),
        (
            "a.ts",
            "export interface Row { a: string }\nexport default class X<T> {\n  private async read(): Promise<void> {\n"
            "  }\n}\nconst go = async (x) => {\n}\nfunction* gen(a) {}\n",
            ["§ Row:1", "§ X:2", "§ X.read:3", "§ go:6", "§ gen:8"],
        ),
        (
            "a.go",
            "package x\nfunc (r *Reader) Read(p []byte) {\n}\ntype T struct {\n}\n",
            ["line 1", "§ Read:2", "§ T:4"],
        ),
        (
            "a.rs",
            "pub(crate) async fn go<T>() {}\nimpl<T> Foo for Bar {\n    fn inner() {}\n}\n",
            ["§ go:1", "§ Foo:2", "§ Foo.inner:3"],
        ),
        ("A.java", "public class A {\n    private static int read(String s) {\n    }\n}\n", ["§ A:1", "§ A.read:2"]),
        ("a.c", "#include <x>\nstatic int read_file(const char *p)\n{\n}\n", ["line 1", "§ read_file:2"]),
        ("a.rb", "module A\n  class B < C\n    def self.run?(x)\n    end\n", ["§ A:1", "§ A.B:2", "§ A.B.self.run?:3"]),
        ("a.sql", "create or replace view v as select 1;\nCREATE TABLE IF NOT EXISTS r (a);\n", ["§ v:1", "§ r:2"]),
        ("a.sh", "go() {\n}\nfunction stop {\n}\n", ["§ go:1", "§ stop:3"]),
        ("a.lua", "x = 1\n", []),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 10 else "",
)  # fmt: skip
def test_definitions_are_places(name: str, text: str, expected: list[str]) -> None:
    assert places(text, name) == expected


def test_lines_that_look_like_much_are_read_in_little_time() -> None:
    for part in ("class ", "public ", "int ", "a (", "const a = (", "<", "(", " ", "x, ", "create "):
        for text in (part * 20_000, f"{part * 20}\n" * 2_000):
            assert list(read_code(text.encode(), "a.cpp"))
