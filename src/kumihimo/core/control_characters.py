"""a text with control characters -> the same with escapes: documents may hold commands to a terminal."""

# Characters that act on a terminal: C0 without line ends and tabs, DEL, C1, and marks of the writing direction.
_DIRECTION_MARKS = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_CONTROLS = (*(c for c in range(32) if chr(c) not in "\n\t"), *range(127, 160), *_DIRECTION_MARKS)
_ESCAPES = {c: f"\\x{c:02x}" if c < 256 else f"\\u{c:04x}" for c in _CONTROLS}
_UNICODE_ESCAPES = {c: f"\\u{c:04x}" for c in _CONTROLS}


def make_visible(text: str) -> str:
    r"""Return the text with control characters as escapes.

    Names of files, documents and models may contain commands to the terminal.

    >>> print(make_visible("a\x1b]52;c;aGk=\x07 \x9b2J \u202etxt.exe"))
    a\x1b]52;c;aGk=\x07 \x9b2J \u202etxt.exe
    """
    return text.translate(_ESCAPES)


def escape_controls(code: str) -> str:
    r"""Return JSON or Turtle with control characters as escapes of these languages.

    >>> print(escape_controls('{"name": "a\x9b"}'))
    {"name": "a\u009b"}
    """
    return code.translate(_UNICODE_ESCAPES)
