"""a paragraph of reStructuredText -> its words, without roles, references and escapes."""

import re
from collections.abc import Iterable, Mapping

MAX_REPLACEMENT = 200  # characters: a longer one could grow a text without end
SUBSTITUTION = re.compile(r" *\.\. \|([^|\n]{1,100})\| ([\w-]{1,40})::\s*(.*)")
INLINE = re.compile(
    r"\\(?:\s|(\S))?"  # 1: an escape
    r"|``((?:[^`]|`(?!`)){1,2000})``"  # 2: code
    r"|(?::([\w:.+-]{1,60}):|_)?`([^`]{1,2000})`(?::[\w:.+-]{1,60}:)?_{0,2}"  # 3, 4: a role or reference
    r"|\*\*(?=\S)((?:[^*]|\*(?!\*)){1,2000})(?<=\S)\*\*"  # 5
    r"|(?<![\w*])\*(?=[^\s*])([^*]{1,2000})(?<=\S)\*(?![\w*])"  # 6
    r"|\|([^|\s](?:[^|\n]{0,98}[^|\s])?)\|_{0,2}"  # 7: a substitution
    r"|\[([\w#*.-]{1,60})\]_(?!\w)"  # 8: a note
    r"|(?<![\w.+-])([a-zA-Z0-9](?:[\w.+-]{0,60}[a-zA-Z0-9])?)__?(?=[\s'\")\]}>\-/:.,;!?]|$)"  # 9: a reference
)
TARGET = re.compile(r"\s*<[^<>]{0,2000}>\s*$")


def find_substitutions(lines: Iterable[str]) -> dict[str, str]:
    """Return the texts that stand for names such as `|release|`.

    A picture has none.
    """
    texts: dict[str, str] = {}
    for line in lines:
        if match := SUBSTITUTION.match(line):
            texts[match[1]] = remove_roles(match[3][:MAX_REPLACEMENT], {}) if match[2] == "replace" else ""
    return texts


def remove_roles(text: str, substitutions: Mapping[str, str]) -> str:
    """Return the words of a paragraph.

    >>> remove_roles("**High** water_: `the tide <https://example.org>`_, :doc:`a` and ``b_c`` [1]_.", {})
    'High water: the tide, a and b_c [1].'
    """

    def replace(match: re.Match[str]) -> str:
        escaped, code, role, reference, strong, emphasis, name, note, word = match.groups()
        if reference:
            return _reference_text(reference, role or "")
        if name:
            return substitutions.get(name, f"|{name}|")
        if note:
            return f"[{note}]"
        return escaped or code or strong or emphasis or word or ""

    return INLINE.sub(replace, text)


def _reference_text(reference: str, role: str) -> str:
    """Return the visible text of a reference.

    After `~` it is the last part of a name.
    """
    text = TARGET.sub("", reference) or reference.strip(" <>")
    if role and text.startswith("~"):
        return text.rpartition(".")[2].lstrip("~")
    return text.lstrip("!") if role else text
