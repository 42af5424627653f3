"""a text -> the same text with code, markup and addresses blanked, of equal length: names stand in prose."""

import re

_BLANK = "\ufffc"  # ends a name, unlike a space
# The first fence ends code that an earlier chunk begins: it names no language, and nothing follows it.
_CODE_END = re.compile(r"\A(?:(?![ \t]*(?:`{3}|~{3}))[^\n]*\n)*[ \t]*(?:`{3,}|~{3,})[ \t]*+(?=\n[ \t]*\n|\s*\Z)")
_NOT_PROSE = re.compile(  # each alternative begins with what is rare: fast
    r"^[ \t]*(?:(?P<fence>`{3,}|~{3,}).*?(?:^[ \t]*(?P=fence)|\Z)"
    r'|"[^"\n]{1,80}"[ \t]*:[^\n]*'  # a line of JSON
    r"|[a-z]+_\w+ [^\n]*[;{]$)"  # `add_header X-Kit "on";`
    r"|\n(?=[A-Z][\w-]{1,30}: )"  # a line with a label ends the name before it
    r"|`(?<!``)(?![`\s])[^`\n]{0,198}[^`\s]`(?!`)"  # not TeX's ``quotation''
    r"|<(?:!--.*?--|/?[A-Za-z][^<>\n]{0,300})>|&#?[A-Za-z0-9]{2,8};"
    r"|\((?<=\]\()[^()\s][^()\n]{0,2000}\)|\{[{%#][^{}\n]{0,200}\}{1,2}"
    r"|(?<!\w)(?:(?:[a-z][a-z+.-]{1,12}://|www\.)[!-~]+|[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+"
    r"|[A-Za-z]\w{0,60}(?:::|=(?=[\w\"']))[^\s、。]{0,200}"  # `Admin::Account`, `Type=oneshot`
    r"|[A-Za-z0-9+/]{24,}={0,2})",
    re.M | re.S | re.A,
)


def blank_code(text: str) -> str:
    """Return the text of a chunk with all but its prose blanked.

    >>> blank_code("See [Otaru](https://a.b/Pier) and `Kit`.").replace(_BLANK, "_")
    'See [Otaru]__________________ and _____.'
    """
    for pattern in (_CODE_END, _NOT_PROSE):
        text = pattern.sub(lambda match: _BLANK * len(match[0]), text)
    return text
