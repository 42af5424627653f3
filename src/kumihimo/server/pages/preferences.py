"""a cookie and headers -> Preferences: language, colours and defaults of questions in one browser."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from urllib.parse import parse_qsl, urlencode

from kumihimo.text.translation import LANGUAGES

COOKIE = "kumi_preferences"
THEMES = ("", "light", "dark")  # empty: as the system
_MAX_CHARS = 1000  # of a value


@dataclass(frozen=True, slots=True)
class Preferences:
    """The choices of a person in this browser.

    An empty one is not made. theme: light or dark; empty: as the system. method, length, filter: of a new question.
    """

    language: str = ""
    theme: str = ""
    method: str = ""
    length: str = ""
    filter: str = ""

    def encode(self) -> str:
        """Return the value of the cookie."""
        return urlencode({name: value for name, value in asdict(self).items() if value})

    def update(self, values: Mapping[str, str]) -> "Preferences":
        """Return the preferences with new values, without unknown ones.

        >>> Preferences().update({"theme": "dark", "language": "xx", "colour": "red"})
        Preferences(language='', theme='dark', method='', length='', filter='')
        """
        names = {field.name for field in fields(self)}
        known = {name: value.strip()[:_MAX_CHARS] for name, value in values.items() if name in names}
        choices = {"language": ("", *LANGUAGES), "theme": THEMES}
        return replace(self, **{name: v for name, v in known.items() if v in choices.get(name, (v,))})


def parse_preferences(cookie: str) -> Preferences:
    """Return the preferences that a cookie holds.

    >>> parse_preferences("language=ja&filter=year+%3E+2020").filter
    'year > 2020'
    """
    return Preferences().update(dict(parse_qsl(cookie)))
