"""a kumi.toml, or an index -> the servers, keys and far folders that they name, which the user trusts once.

Somebody else may have written it: documents and keys would go where that person wants.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PureWindowsPath
from shlex import quote
from tempfile import mkstemp
from typing import NamedTuple

from kumihimo.app.settings.config import ALIASES, KnownSettings, read_aliases, read_environment, read_settings_file
from kumihimo.core.errors import SettingsError
from kumihimo.core.network import AddressForm, is_local
from kumihimo.core.redaction import register_secret, register_url_secrets
from kumihimo.core.settings import SettingValues
from kumihimo.llm.recorded import RECORDED_PREFIX
from kumihimo.llm.registry import CHAT

_USUAL_OWNERS = (
    "OPENAI ANTHROPIC AZURE_OPENAI CEREBRAS CO COHERE DEEPSEEK EMBEDDING FIREWORKS GEMINI GOOGLE GROQ JINA LLM MISTRAL "
    "NVIDIA OPENROUTER PERPLEXITY RERANK RERANKING TOGETHER VOYAGE XAI"
)
PAGES_PREFIX = "pages:"  # of a server that is asked for pages or files
FILES_PREFIX = "files:"  # of a file or folder that an index reads
USUAL_KEYS = {*(f"{owner}_API_KEY" for owner in _USUAL_OWNERS.split()), "HF_TOKEN"}


class TrustGrant(NamedTuple):
    """A server on another machine, or empty, and the variable of the key that it gets.

    In place of a server: a recorded model outside the folder of the kumi.toml, a server of mirrored pages, or a file or
    folder outside that of an index.
    """

    server: str
    variable: str

    def __str__(self) -> str:
        if self.server.startswith(RECORDED_PREFIX):
            return f"reads replies from {self.server.removeprefix(RECORDED_PREFIX)}, outside its folder"
        if self.server.startswith(FILES_PREFIX):
            return f"reads {self.server.removeprefix(FILES_PREFIX)}, outside its folder"
        if self.server.startswith(PAGES_PREFIX):
            return f"fetches pages from {self.server.removeprefix(PAGES_PREFIX)}"
        if self.server.startswith("ray://"):
            return f"runs parts of builds at {self.server}, which can run programs on this machine"
        if not self.server:
            return f"reads a key from the environment variable {self.variable}"
        key = f" and the key in {self.variable}" if self.variable else ""
        return f"sends text of your documents{key} to {self.server}"


class TrustRequired(SettingsError):
    """A kumi.toml, or an index, that names servers, keys or files without the user's trust."""

    def __init__(self, path: Path, grants: Sequence[TrustGrant]) -> None:
        self.path, self.grants = path, grants
        named = [quote(server.removeprefix(FILES_PREFIX)) for server, _ in grants if server.startswith(FILES_PREFIX)]
        remedy = f"kumi index {' '.join(named)}" if named else f"kumi trust {quote(str(path))}"
        super().__init__(
            f"{path} {'; it '.join(map(str, grants))}: to allow this, run `{remedy}`; "
            "KUMI_TRUST=1 allows it for every file"
        )


def read_trusted_layers(
    folder: Path, scopes: KnownSettings, environment: Mapping[str, str]
) -> tuple[SettingValues, ...]:
    """Return the settings of kumi.toml, aliases.txt and the environment.

    Later ones override earlier ones. Raises TrustRequired for a kumi.toml without trust.
    """
    path = folder / "kumi.toml"
    file_settings = read_settings_file(path)
    check_trust(path, file_settings, scopes, environment)
    aliases = read_aliases(path.with_name(ALIASES))
    return file_settings, aliases, read_environment(scopes, environment)


def check_trust(path: Path, settings: SettingValues, scopes: KnownSettings, environment: Mapping[str, str]) -> None:
    """Raise TrustRequired if the settings of a kumi.toml need trust.

    A server on this machine, the usual variables of keys, and recorded replies below the file need none.
    """
    require_trust(path, requested_grants(settings, scopes), environment)


def require_trust(path: Path, grants: Sequence[TrustGrant], environment: Mapping[str, str]) -> None:
    """Raise TrustRequired unless the user trusts a path with these grants."""
    if grants and not _trusts_all(environment) and not {*grants} <= {*_trusted_of(path, environment)}:
        raise TrustRequired(path, grants)


def add_trust(path: Path, grants: Sequence[TrustGrant], environment: Mapping[str, str]) -> None:
    """Remember that the user trusts a path with these grants too."""
    known = _trusted_of(path, environment)
    if not _trusts_all(environment) and not {*grants} <= {*known}:
        save_trust(path, sorted({*known, *grants}), environment)


def trust_settings_file(path: Path, scopes: KnownSettings, environment: Mapping[str, str]) -> Sequence[TrustGrant]:
    """Trust all that a kumi.toml names now, and return it."""
    if not path.exists():
        raise SettingsError(f"{path} is not there: name a kumi.toml, or its folder")
    grants = requested_grants(read_settings_file(path), scopes)
    save_trust(path, grants, environment)
    return grants


def save_trust(path: Path, grants: Sequence[TrustGrant], environment: Mapping[str, str]) -> None:
    """Remember that the user trusts a kumi.toml with these grants."""
    _write_trusted({**_read_trusted(environment), _key(path): grants}, environment)


def requested_grants(settings: SettingValues, scopes: KnownSettings) -> list[TrustGrant]:
    """Return all that needs trust in the settings of a kumi.toml.

    The marks of the settings tell what names a server or a key. Raises SettingsError for a server without an address.

    >>> from kumihimo.llm.registry import MODEL_SETTINGS
    >>> requested_grants({"chat": {"base_url": "https://ai.example/v1"}, "embedding": {"key": "X"}}, MODEL_SETTINGS)
    [TrustGrant(server='', variable='X'), TrustGrant(server='https://ai.example', variable='OPENAI_API_KEY')]
    >>> from kumihimo.llm.registry import MODEL_SETTINGS
    >>> requested_grants({"chat": {"base_url": "http://localhost:11434/v1", "key": "GROQ_API_KEY"}}, MODEL_SETTINGS)
    []
    """
    grants = {grant for scope in settings.keys() & scopes.keys() for grant in _scope_grants(scope, settings, scopes)}
    models = {str(values.get("model", "")) for values in settings.values()}
    grants |= {TrustGrant(model, "") for model in models if _is_recorded_elsewhere(model)}
    return sorted(grant for grant in grants if grant.server or (grant.variable and grant.variable not in USUAL_KEYS))


def file_grants(index: Path, paths: Iterable[Path]) -> list[TrustGrant]:
    """Return the trust that an index needs to read these paths.

    index: its folder. What lies beside it, or below, needs none.
    """
    base, targets = index.resolve().parent, {path.resolve() for path in paths}
    return [TrustGrant(f"{FILES_PREFIX}{path}", "") for path in sorted(targets) if not path.is_relative_to(base)]


def _scope_grants(scope: str, settings: SettingValues, scopes: KnownSettings) -> Iterator[TrustGrant]:
    """Yield each server of a scope with the variable of its key."""
    marked = {name: setting.mark for name, setting in scopes[scope].items() if setting.mark}
    if not marked.keys() & settings[scope].keys():
        return
    servers = {name: mark for name, mark in marked.items() if isinstance(mark, AddressForm)}

    def read(scope: str, name: str) -> object:
        setting = scopes[scope][name]
        return setting.parse(scope, settings.get(scope, {}).get(name, setting.default))

    values = {name: read(scope, name) for name in marked}
    if all(values[name] is None for name in servers):  # it takes the server of [chat]; another one gets no key of it
        values |= {name: read(CHAT, name) for name in values.keys() & scopes[CHAT].keys() if values[name] is None}
    variables = [values[name] or "" for name in marked.keys() - servers.keys()] or [""]
    for name, mark in servers.items():
        value = values[name] or ""
        address = None if value in mark.words else mark.parse_address(str(value))
        yield TrustGrant(address.server if address and not all(map(is_local, address.hosts)) else "", str(variables[0]))


def _is_recorded_elsewhere(model: str) -> bool:
    """Return whether a model is recorded outside the folder of its kumi.toml.

    >>> [_is_recorded_elsewhere(f"recorded:{path}") for path in ("replies", "../replies", "/replies", "C:replies")]
    [False, True, True, True]
    """
    prefix, is_recorded, name = model.partition(RECORDED_PREFIX)
    path = PureWindowsPath(name)  # of either kind: it takes both slashes
    return bool(is_recorded and not prefix) and (".." in path.parts or bool(path.anchor))


def register_secrets(values: SettingValues, scopes: KnownSettings) -> None:
    """Hide the keys and passwords of these settings in messages and logs."""
    for value in {str(values[scope][name]) for scope in values for name, s in scopes[scope].items() if s.mark}:
        register_secret(os.environ.get(value, "").strip())
        register_url_secrets(value)


# -- what the user trusts, by the path of the kumi.toml


def trust_file_path(environment: Mapping[str, str]) -> Path:
    """Return the path of the user's file of trusted settings."""
    base = environment.get("APPDATA" if os.name == "nt" else "XDG_CONFIG_HOME", "")
    try:
        folder = Path(base) if Path(base).is_absolute() else Path.home() / ".config"
    except RuntimeError as error:
        raise SettingsError(f"you have no home folder ({error}): set HOME, or KUMI_TRUST=1") from error
    return folder / "kumihimo" / "trusted.json"


def _trusts_all(environment: Mapping[str, str]) -> bool:
    return environment.get("KUMI_TRUST", "0") not in ("", "0")


def _trusted_of(path: Path, environment: Mapping[str, str]) -> Sequence[TrustGrant]:
    return _read_trusted(environment).get(_key(path), ())


def _key(path: Path) -> str:
    return str(path.parent.resolve() / path.name)


def _read_trusted(environment: Mapping[str, str]) -> dict[str, list[TrustGrant]]:
    path = trust_file_path(environment)
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        return {name: [TrustGrant(server, variable) for server, variable in grants] for name, grants in entries.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise SettingsError(f"{path} cannot be read ({error}): delete it, and trust your files again") from error


def _write_trusted(trusted: Mapping[str, Sequence[TrustGrant]], environment: Mapping[str, str]) -> None:
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
