"""text -> the same text without keys and passwords."""

import json
import logging
import re
from base64 import b64encode
from threading import Lock
from urllib.parse import quote, unquote

_HIDDEN = "[hidden]"
_PLAIN_WORD = re.compile(r"[a-z_-]{1,15}|[A-Z_-]{1,15}")  # such as "ollama", a key that is none
_MIN_SECRET_CHARS = 6  # a shorter value may be part of an ordinary word
# A password in an address, and values of a query that look like secrets.
_URL_PASSWORD = re.compile(  # also where a slash was forgotten
    r"(://|\b[a-z][a-z0-9+.-]{0,20}:/?(?=[^/?#\s\"<>@:]{0,200}:))(?:(?<=//)[^/?#\s\"<>]*|[^/?#\s\"<>]{0,500})@", re.I
)
_URL_SECRET = re.compile(
    r"([?&](?:[\w.-]{0,60}[_.-])?"
    r"(?:access|account|api|app|auth|client|id|master|private|refresh|secret|session|subscription|user)?"
    r"(?:key|token|secret|password|passwd|pwd|o?auth|credential|sig|signature)=)([^&\s#\"<>]+)",
    re.I,
)
# Keys by their usual beginnings, whole or shortened, and the values of the header `Authorization`.
_PREFIX = r"(?:sk|pk|rk|gsk|xai|hf|nvapi|pplx|csk|tgp|jina)[-_]"
_MIXED = r"(?=[\w-]{0,200}[A-Z])(?=[\w-]{0,200}(?:[A-Za-z]\d+[A-Za-z]|[A-Za-z\d]{20}))"  # no name of a file
_LOWER = r"(?=[\w-]{0,200}[a-z\d]{32})"
_STARS = r"(?:\*{2,}|\.{2,}|…|•{2,})"  # what stands for the hidden part of a key
_KEY = re.compile(
    rf"(?<![\w-])(?:{_PREFIX}(?:[\w-]{{0,80}}{_STARS}[\w*…•-]{{0,80}}"
    rf"|(?=[\w-]{{0,200}}\d)(?:{_MIXED}|{_LOWER})[\w-]{{20,}})|hf_[A-Za-z]{{34,}}|AIza[\w-]{{30,}})"
)
_HEADER_VALUE = re.compile(r"\b(Bearer|Basic) +(?=[\w.~+/-]{0,200}\d)[\w.~+/-]{16,}=*", re.I)
_SHORTENED = re.compile(rf"(?<![\w-])([\w-]{{0,40}}){_STARS}([\w-]{{0,40}})(?![\w-])")
_lock = Lock()
_secrets: tuple[str, ...] = ()  # the longest first, since one may contain another


def register_secret(value: str) -> None:
    """Hide this value in all redacted text of this process.

    Its forms in addresses, in JSON and in the header of a name and a password are hidden too. A short value or a plain
    word stays: it may be part of ordinary text.
    """
    global _secrets
    if len(value) < _MIN_SECRET_CHARS or _PLAIN_WORD.fullmatch(value) or value in _secrets:
        return
    raw = value.encode(errors="replace")
    forms = {
        value,
        quote(value, safe="", errors="replace"),
        json.dumps(value)[1:-1],
        b64encode(raw).decode().rstrip("="),
    }
    with _lock:
        _secrets = tuple(sorted({*_secrets, *forms}, key=lambda secret: (-len(secret), secret)))


def register_url_secrets(url: str) -> None:
    """Hide the password of an address, and secrets in its query."""
    user_info = url.partition("://")[2].partition("/")[0].rpartition("@")[0]
    for value in (user_info, user_info.partition(":")[2], *(match[2] for match in _URL_SECRET.finditer(url))):
        register_secret(value)
        register_secret(unquote(value))


def hide_secrets(text: str) -> str:
    """Return the text without registered secrets."""
    for secret in _secrets:
        text = text.replace(secret, _HIDDEN)
    return text


def redact(text: str) -> str:
    """Return the text without registered secrets, secrets in addresses, and keys.

    Servers repeat a key in their errors, whole or shortened.

    >>> redact("http://me:pw@host/v1?api-key=abc&x=1 failed")
    'http://host/v1?api-key=[hidden]&x=1 failed'
    >>> redact("Incorrect API key provided: sk-ab***yz. Is it yours?")
    'Incorrect API key provided: [hidden]. Is it yours?'
    >>> redact("https:me:pw@host and s3:/me:pw@host are wrong")
    'https:host and s3:/host are wrong'
    """
    text = _URL_SECRET.sub(rf"\1{_HIDDEN}", _URL_PASSWORD.sub(r"\1", hide_secrets(text)))
    text = _HEADER_VALUE.sub(rf"\1 {_HIDDEN}", _KEY.sub(_HIDDEN, text))
    return _SHORTENED.sub(_hide_shortened, text) if _secrets else text


def _hide_shortened(match: re.Match[str]) -> str:
    """Return the text of the match, hidden where it shortens a secret."""
    start, end = match[1], match[2]
    if len(start + end) >= 4 and any(secret.startswith(start) and secret.endswith(end) for secret in _secrets):
        return _HIDDEN
    return match[0]


class RedactingFilter(logging.Filter):
    """A filter that redacts the messages of a log."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = redact(record.getMessage()), None
        return True


for _name in ("kumihimo", "kumihimo.prompts"):  # the filter of a logger does not see the records of its children
    logging.getLogger(_name).addFilter(RedactingFilter())
