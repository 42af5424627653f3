"""a text -> the same text with code, markup and addresses blanked, of equal length: names stand in prose."""

import re

_BLANK = "\ufffc"  # ends a name, unlike a space
# The first fence ends code that an earlier chunk begins: it names no language, and nothing follows it.
_CODE_END = re.compile(r"\A(?:(?![ \t]*(?:`{3}|~{3}))[^\n]*\n)*[ \t]*(?:`{3,}|~{3,})[ \t]*+(?=\n[ \t]*\n|\s*\Z)")
_MARKUP = (  # each alternative begins with what is rare: fast
    r"^[ \t]*(?:(?P<fence>`{3,}|~{3,}).*?(?:^[ \t]*(?P=fence)|\Z)"
    r'|"[^"\n]{1,80}"[ \t]*:[^\n]*'  # a line of JSON
    r"|[a-z]+_\w+ [^\n]*[;{]$)"  # `add_header X-Kit "on";`
    r"|\n(?=[A-Z][\w-]{1,30}: )"  # a line with a label ends the name before it
    r"|`(?<!``)(?![`\s])[^`\n]{0,198}[^`\s]`(?!`)"  # not TeX's ``quotation''
    r"|<(?:!--.*?--|/?[A-Za-z][^<>\n]{0,300})>|&#?[A-Za-z0-9]{2,8};"
    r"|\((?<=\]\()[^()\s][^()\n]{0,2000}\)|\{[{%#][^{}\n]{0,200}\}{1,2}"
)
_LONG_CODE = "[A-Za-z0-9+/]{24}"
_ADDRESS = (
    r"|(?<!\w)(?:(?:[a-z][a-z+.-]{1,12}+://|www\.)[!-~]+|[\w.+-]{1,64}+@[\w-]+(?:\.[\w-]+)+"
    r"|[A-Za-z]\w{0,60}+(?:::|=(?=[\w\"']))[^\s、。]{0,200}"  # `Admin::Account`, `Type=oneshot`
    rf"|{_LONG_CODE}[A-Za-z0-9+/]*={{0,2}})"
)
_NOT_PROSE = re.compile(_MARKUP + _ADDRESS, re.M | re.S | re.A)
_MARKUP_ALONE = re.compile(_MARKUP, re.M | re.S | re.A)
_ADDRESS_MARKS = ("@", "=", "://", "www.", "::")  # in all addresses but long codes


def blank_code(text: str) -> str:
    """Return the text of a chunk with all but its prose blanked.

    >>> blank_code("See [Otaru](https://a.b/Pier) and `Kit`.").replace(_BLANK, "_")
    'See [Otaru]__________________ and _____.'
    """
    has_address = any(mark in text for mark in _ADDRESS_MARKS) or re.search(_LONG_CODE, text)
    for pattern in (_CODE_END, _NOT_PROSE if has_address else _MARKUP_ALONE):
        text = pattern.sub(lambda match: _BLANK * len(match[0]), text)
    return text
