"""a kumi.toml -> the servers, keys and far folders that it names, which the user trusts once.

Somebody else may have written it: documents and keys would go where that person wants.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PureWindowsPath
from shlex import quote
from tempfile import mkstemp
from typing import NamedTuple

from kumihimo.app.settings.config import read_aliases, read_environment, read_settings_file
from kumihimo.core.errors import SettingsError
from kumihimo.core.network import is_local
from kumihimo.core.settings import Setting, SettingValues
from kumihimo.llm.recorded import RECORDED_PREFIX
from kumihimo.llm.registry import CHAT, MODEL_SETTINGS

_USUAL_OWNERS = (
    "OPENAI ANTHROPIC AZURE_OPENAI CEREBRAS CO COHERE DEEPSEEK EMBEDDING FIREWORKS GEMINI GOOGLE GROQ JINA LLM MISTRAL "
    "NVIDIA OPENROUTER PERPLEXITY RERANK RERANKING TOGETHER VOYAGE XAI"
)
USUAL_KEYS = {*(f"{owner}_API_KEY" for owner in _USUAL_OWNERS.split()), "HF_TOKEN"}
_ADDRESS = re.compile(r"(https?://)(?:[^/?#\\\s]*@)?([\w.-]+|\[[\da-f:.]+\])(:\d+)?(?:[/?#]\S*)?", re.I)


class Grant(NamedTuple):
    """A server on another machine, or empty, and the variable of the key that it gets.

    In place of a server: a recorded model outside the folder of the kumi.toml.
    """

    server: str
    variable: str

    def __str__(self) -> str:
        if self.server.startswith(RECORDED_PREFIX):
            return f"reads replies from {self.server.removeprefix(RECORDED_PREFIX)}, outside its folder"
        if not self.server:
            return f"reads a key from the environment variable {self.variable}"
        key = f" and the key in {self.variable}" if self.variable else ""
        return f"sends text of your documents{key} to {self.server}"


class TrustRequired(SettingsError):
    """A kumi.toml that names servers or keys without the user's trust."""

    def __init__(self, path: Path, grants: Sequence[Grant]) -> None:
        self.path, self.grants = path, grants
        super().__init__(
            f"{path} {'; it '.join(map(str, grants))}: to allow this, run `kumi trust {quote(str(path))}`; "
            "KUMI_TRUST=1 allows it for every file"
        )


def read_trusted_layers(
    folder: Path, scopes: Mapping[str, Mapping[str, Setting]], environment: Mapping[str, str]
) -> tuple[SettingValues, ...]:
    """Return the settings of kumi.toml, aliases.txt and the environment.

    Later ones override earlier ones. Raises TrustRequired for a kumi.toml without trust.
    """
    path = folder / "kumi.toml"
    file_settings = read_settings_file(path)
    check_trust(path, file_settings, environment)
    aliases = read_aliases(path.with_name("aliases.txt"))
    return file_settings, aliases, read_environment(scopes, environment)


def check_trust(path: Path, settings: SettingValues, environment: Mapping[str, str]) -> None:
    """Raise TrustRequired if the settings of a kumi.toml need trust.

    A server on this machine, the usual variables of keys, and recorded replies below the file need none.
    """
    if environment.get("KUMI_TRUST", "0") in ("", "0"):
        grants = requested_grants(settings)
        if grants and not {*grants} <= {*_read_trusted(environment).get(_key(path), ())}:
            raise TrustRequired(path, grants)


def trust_settings_file(path: Path, environment: Mapping[str, str]) -> Sequence[Grant]:
    """Trust all that a kumi.toml names now, and return it."""
    if not path.exists():
        raise SettingsError(f"{path} is not there: name a kumi.toml, or its folder")
    grants = requested_grants(read_settings_file(path))
    save_trust(path, grants, environment)
    return grants


def save_trust(path: Path, grants: Sequence[Grant], environment: Mapping[str, str]) -> None:
    """Remember that the user trusts a kumi.toml with these grants."""
    _write_trusted({**_read_trusted(environment), _key(path): grants}, environment)


def requested_grants(settings: SettingValues) -> list[Grant]:
    """Return all that needs trust in the settings of a kumi.toml.

    >>> requested_grants({"chat": {"model": "m", "base_url": "https://ai.example/v1"}, "judge": {"key": "AWS_SECRET"}})
    [Grant(server='https://ai.example', variable='AWS_SECRET'), Grant(server='https://ai.example', \
variable='OPENAI_API_KEY')]
    >>> requested_grants({"chat": {"base_url": "http://localhost:11434/v1", "key": "GROQ_API_KEY"}})
    []
    """
    grants = {Grant(_remote_server(url), variable) for url, variable in _connections(settings)}
    grants |= {Grant(model, "") for model in _models(settings) if _is_recorded_elsewhere(model)}
    return sorted(grant for grant in grants if grant.server or (grant.variable and grant.variable not in USUAL_KEYS))


def _connections(settings: SettingValues) -> Iterator[tuple[str, str]]:
    """Yield each address with the variable of its key."""
    chat = settings.get(CHAT, {})
    for scope, values in settings.items():
        if not {"base_url", "key"} & values.keys():
            continue
        default_url: object = ""
        default_key: object = ""
        if scope in MODEL_SETTINGS:
            default_key = MODEL_SETTINGS[scope]["key"].default
        elif "base_url" not in values:  # the scope takes the server of [chat], else it gets no key
            default_url, default_key = chat.get("base_url", ""), chat.get("key", MODEL_SETTINGS[CHAT]["key"].default)
        yield str(values.get("base_url", default_url)), str(values.get("key", default_key))


def _models(settings: SettingValues) -> set[str]:
    return {str(values.get("model", "")) for values in settings.values()}


def _is_recorded_elsewhere(model: str) -> bool:
    """Return whether a model is recorded outside the folder of its kumi.toml.

    >>> [_is_recorded_elsewhere(f"recorded:{path}") for path in ("replies", "../replies", "/replies", "C:replies")]
    [False, True, True, True]
    """
    prefix, is_recorded, name = model.partition(RECORDED_PREFIX)
    path = PureWindowsPath(name)  # of either kind: it takes both slashes
    return bool(is_recorded and not prefix) and (".." in path.parts or bool(path.anchor))


def _remote_server(url: str) -> str:
    """Return the server of an address, empty for this machine.

    >>> _remote_server("https://me:pw@AI.example:8443/v1?x=y"), _remote_server("http://127.0.0.1:8000/v1")
    ('https://ai.example:8443', '')
    >>> _remote_server("http://localhost\\\\@evil.example/v1")
    'http://localhost\\\\@evil.example/v1'
    """
    address = _ADDRESS.fullmatch(url)
    if address is None:  # shown as it is, to hide no part of a host, but for passwords
        return re.sub(r"(://[^/?#:\s]*):\S*@", r"\1:[hidden]@", url.partition("?")[0])
    scheme, host, port = address.groups(default="")
    return "" if is_local(host.strip("[]").lower()) else f"{scheme}{host}{port}".lower()


# -- what the user trusts, by the path of the kumi.toml


def trust_file_path(environment: Mapping[str, str]) -> Path:
    """Return the path of the user's file of trusted settings."""
    base = environment.get("APPDATA" if os.name == "nt" else "XDG_CONFIG_HOME", "")
    try:
        folder = Path(base) if Path(base).is_absolute() else Path.home() / ".config"
    except RuntimeError as error:
        raise SettingsError(f"you have no home folder ({error}): set HOME, or KUMI_TRUST=1") from error
    return folder / "kumihimo" / "trusted.json"


def _key(path: Path) -> str:
    return str(path.parent.resolve() / path.name)


def _read_trusted(environment: Mapping[str, str]) -> dict[str, list[Grant]]:
    path = trust_file_path(environment)
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        return {name: [Grant(server, variable) for server, variable in grants] for name, grants in entries.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise SettingsError(f"{path} cannot be read ({error}): delete it, and trust your files again") from error


def _write_trusted(trusted: Mapping[str, Sequence[Grant]], environment: Mapping[str, str]) -> None:
    """Write the file, readable by the user alone."""
    path = trust_file_path(environment)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, temporary = mkstemp(dir=path.parent)
        with open(handle, "w", encoding="utf-8") as out:  # noqa: PTH123 - of a handle
            json.dump(trusted, out, ensure_ascii=False, indent=1)
        Path(temporary).replace(path)
    except OSError as error:
        raise SettingsError(f"{path} cannot be written ({error.strerror}): or set KUMI_TRUST=1") from error
