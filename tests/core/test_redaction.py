"""text with keys and passwords -> the same text without them."""

from __future__ import annotations

import logging
from base64 import b64encode
from time import process_time
from urllib.parse import quote

import pytest

from kumihimo.core import redaction
from kumihimo.core.redaction import hide_secrets, redact, register_secret, register_url_secrets

KEY = 'pl/4n+K3y"of-the.Server'


@pytest.fixture(autouse=True)
def no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_secrets", ())


@pytest.mark.parametrize("form", [KEY, quote(KEY, safe=""), b64encode(KEY.encode()).decode(), KEY.replace('"', '\\"')])
def test_a_secret_is_hidden_in_every_form(form: str) -> None:
    assert form in redact(f"no such key: {form}.")
    register_secret(KEY)
    assert redact(f"no such key: {form}.").replace("=", "") == "no such key: [hidden]."
    assert "[hidden]" in hide_secrets(form)


@pytest.mark.parametrize("address", ["https:me:pw@host/x", "https:/me:pw@host", "s3:me:pw@bucket", "HTTPS:me:p:w@host"])
def test_a_password_is_hidden_though_slashes_are_missing(address: str) -> None:
    assert (
        redact(f"{address} does not exist") == f"{address.replace('me:pw@', '').replace('me:p:w@', '')} does not exist"
    )
    for text in ("notes: me@host", "a:b", "12:30:15@host", "see chat.base_url:https://host/a:b@c"):
        assert redact(text) == text


def test_a_key_that_is_no_text_is_hidden_too() -> None:
    register_secret("caf\udce9-key-77")
    assert redact("no key caf\udce9-key-77") == "no key [hidden]"


def test_of_two_secrets_the_longer_one_is_hidden_whole() -> None:
    register_secret("abcd-1234")
    register_secret("abcd-1234-efgh-5678")
    assert hide_secrets("abcd-1234-efgh-5678, abcd-1234") == "[hidden], [hidden]"


@pytest.mark.parametrize("value", ["", "none", "ollama", "lm-studio", "EMPTY", "NOT-NEEDED", "ab1"])
def test_a_word_in_place_of_a_key_is_no_secret(value: str) -> None:
    register_secret(value)
    assert redact(f"http://{value}:11434/v1 {value}") == f"http://{value}:11434/v1 {value}"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://me:pw@host/v1", "http://host/v1"),
        ("http://me:p@ss:w@host:80/v1", "http://host:80/v1"),
        ("https://token@host/v1", "https://host/v1"),
        ("https://host/v1?api-key=abc&x=1", "https://host/v1?api-key=[hidden]&x=1"),
        ("https://host?x=1&subscription-key=abc#y", "https://host?x=1&subscription-key=[hidden]#y"),
        ("https://host?access_token=a.b-c", "https://host?access_token=[hidden]"),
        ("https://host?X-Amz-Signature=abc", "https://host?X-Amz-Signature=[hidden]"),
        ("https://h?apikey=a&authToken=b&key=c", "https://h?apikey=[hidden]&authToken=[hidden]&key=[hidden]"),
        ("https://h?accesstoken=a&oauth=b", "https://h?accesstoken=[hidden]&oauth=[hidden]"),
        ("https://h?monkey=banana&design=4&turkey=b", "https://h?monkey=banana&design=4&turkey=b"),
        ('{"url":"http://host/v1","mail":"a@b.c"}', '{"url":"http://host/v1","mail":"a@b.c"}'),
        ('{"url":"http://host","mail":"a@b.c"}', '{"url":"http://host","mail":"a@b.c"}'),
        ("https://host/users/me@home", "https://host/users/me@home"),
    ],
)
def test_secrets_of_an_address_are_hidden(url: str, shown: str) -> None:
    assert redact(url) == shown


def test_secrets_of_an_address_are_hidden_without_it() -> None:
    register_url_secrets("http://me:p%40ssw0rd@host/v1?api-key=Abc.123-x&page=Seven77")
    shown = redact(f"for me:p@ssw0rd and {b64encode(b'me:p@ssw0rd').decode()}, p%40ssw0rd; Abc.123-x; Seven77")
    assert shown.replace("=", "") == "for [hidden] and [hidden], [hidden]; [hidden]; Seven77"


@pytest.mark.parametrize(
    "key",
    [
        "sk-abc***xyz",
        "sk-proj-********************************wxyz",
        "sk-...wxyz",
        "sk-proj-a1B2c3D4e5F6g7H8i9J0",
        "sk-ant-api03-Qx7_pLm-ZtRbVnKw9cYdHs_GfJ",
        "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",
        "sk-0a1b2c3d4e5f60718293a4b5c6d7e8f9",
        "gsk_tKqYbVnXwRzLmPsDfGhJ7CQtKqYbVnXwRzLm",
        "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",
        "sk_live_••••4242",
        "AIzaSyA-1234567890abcdefghijklmnopqrstu",
        "hf_abcdefghijkl…",
    ],
)
def test_keys_of_the_usual_forms_are_hidden(key: str) -> None:
    assert redact(f"Incorrect API key provided: {key}. Is it yours?") == (
        "Incorrect API key provided: [hidden]. Is it yours?"
    )


@pytest.mark.parametrize("shortened", ["Zq8f...77aw", "Zq8f****", "****77aw", "Zq8fL…aw", "Zq8f••••77aw"])
def test_a_known_key_is_hidden_where_a_server_shortens_it(shortened: str) -> None:
    assert redact(f"bad key '{shortened}'.") == f"bad key '{shortened}'."
    register_secret("Zq8fLw03kd77aw")
    assert redact(f"bad key '{shortened}'.") == "bad key '[hidden]'."


@pytest.mark.parametrize(
    "text",
    [
        "scikit-learn, sk-learn and sk-learn-contrib-packages",
        "and so on ... he said ...nothing... **bold** ***very***",
        "the bearer certificates of 1914, a basic understanding-of-everything",
        "hf_hub_download",
        "sk-2024-annual-report-final.pdf, sk-zmluva-2024-obchodna.pdf and sk-Zmluva-2024-Obchodna-v2-final.pdf",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    register_secret("Zq8fLw03kd77aw")
    assert redact(text) == text


def test_a_header_is_hidden() -> None:
    assert redact("Authorization: Bearer a1b2c3d4e5f6g7h8== is wrong") == "Authorization: Bearer [hidden] is wrong"


@pytest.mark.parametrize("piece", ["a", "sk-", "sk-a", "*", "..", "://", "?key", "?", "Bearer a1", "-", "x@"])
def test_the_work_grows_with_the_text(piece: str) -> None:
    register_secret("Zq8fLw03kd77aw")
    text = piece * (200_000 // len(piece))
    started = process_time()
    redact(text)
    assert process_time() - started < 5.0  # quadratic work takes minutes


@pytest.mark.parametrize("name", ["kumihimo", "kumihimo.prompts"])
def test_logs_are_redacted(name: str, caplog: pytest.LogCaptureFixture) -> None:
    register_secret("Zq8fLw03kd77aw")
    with caplog.at_level(logging.DEBUG, name):
        logging.getLogger(name).warning("asked %s with %s", "http://me:pw@host", "Zq8fLw03kd77aw")
    assert caplog.messages == ["asked http://host with [hidden]"]
