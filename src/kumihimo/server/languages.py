"""a header of a browser -> the language of messages."""

from kumihimo.text.translation import LANGUAGES


def accepted_language(header: str) -> str:
    """Return the language that a browser asks for and a catalogue has.

    >>> [accepted_language(header) for header in ("fr, zh-TW;q=0.8, ja;q=0.9", "de", "", "en;q=0, ja;q=x")]
    ['ja', 'en', 'en', 'en']
    """
    weights: dict[str, float] = {}
    for part in header.split(","):
        name, _, parameters = part.strip().partition(";")
        language = name.partition("-")[0].strip().lower()
        if language in LANGUAGES:
            weights.setdefault(language, _parse_weight(parameters))
    return max((name for name in weights if weights[name]), key=weights.__getitem__, default="en")


def _parse_weight(parameters: str) -> float:
    try:
        return float(parameters.partition("q=")[2] or 1)
    except ValueError:
        return 0.0
