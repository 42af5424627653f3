"""an address -> its scheme and hosts, and whether they are this machine or public; an error shows no password."""

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

from kumihimo.core.errors import MAX_SHOWN, IndexUnavailable, KumiError, ModelError, SettingsError, SourceError

_TRANSLATED = IPv6Network("64:ff9b::/96")  # its last 32 bits are the address that a gateway asks (NAT64)


class Address(NamedTuple):
    """The parts of an address. server: its scheme, host and port."""

    scheme: str
    hosts: tuple[str, ...]
    server: str


class KeyVariable:
    """The mark of a setting that names the environment variable of a key.

    The server that its scope names gets the key.
    """

    def check_text(self, text: str, name: str) -> None:
        """Raise SettingsError, without the text: it may be the key itself."""
        if not re.fullmatch("(?:[A-Za-z_][A-Za-z0-9_]{0,199})?", text):
            raise SettingsError(
                f"{name} is the name of an environment variable, such as OPENAI_API_KEY: put the key into that variable"
            )


@dataclass(frozen=True, slots=True)
class AddressForm:
    """What an address may look like; as `Annotated[str, MODEL]`, the mark of a setting that names a server.

    schemes: that it may have; none: any. example: for an error. words: of a setting that names no server. any_hosts: it
    may have several hosts, or none. wrong, offline: the errors for another text, and for another machine while
    KUMI_OFFLINE is set.
    """

    schemes: tuple[str, ...]
    example: str
    words: tuple[str, ...] = ()
    any_hosts: bool = False
    wrong: type[KumiError] = SettingsError
    offline: type[KumiError] = SettingsError

    def check_text(self, text: str, name: str) -> None:
        """Raise the error for another text, unless it is a word."""
        if text not in self.words:
            self.parse_address(text, name)

    def parse_address(self, text: str, name: str = "") -> Address:
        """Return the parts of an address. Raise the error for anything else.

        name: of the setting that has it.

        >>> MODEL.parse_address("HTTPS://me:pw@AI.example:8443/v1?x=y")
        Address(scheme='https', hosts=('ai.example',), server='https://ai.example:8443')
        >>> MODEL.parse_address("http://me:pw@[::1/v1", "chat.base_url")
        Traceback (most recent call last):
        kumihimo.core.errors.SettingsError: chat.base_url 'http:…' is no address: write it like \
http://localhost:11434/v1
        """
        with suppress(ValueError):
            parts = urlsplit(text)
            authority = parts.netloc.rpartition("@")[2].lower()
            split = [urlsplit(f"//{host}") for host in authority.split(",")]
            hosts = tuple(each.hostname or "" for each in split if each.port != 0)
            is_whole = text[len(parts.scheme) :].startswith("://") and len(hosts) == len(split)
            is_known = not self.schemes or parts.scheme in self.schemes
            is_plain = text.isprintable() and not {" ", "\\"} & {*parts.netloc}
            if is_whole and is_known and is_plain and (self.any_hosts or (len(hosts) == 1 and hosts[0])):
                return Address(parts.scheme, hosts, f"{parts.scheme}://{authority}")
        is_secret = bool({"@", "?"} & {*text}) or text.count(":") > 1  # it may hold a password
        shown = f"{text[: text.find(':') + 1]}…" if is_secret else text[:MAX_SHOWN]
        raise self.wrong(f"{f'{name} {shown!r}'.strip()} is no address: write it like {self.example}")


MODEL = AddressForm(("http", "https"), "http://localhost:11434/v1", words=("",), offline=ModelError)
PAGE = AddressForm(("http", "https"), "https://example.org/page.html", wrong=SourceError, offline=SourceError)
STORE = replace(PAGE, schemes=())
DATABASE = AddressForm(
    ("postgresql", "postgres"),
    "./FOLDER, postgresql://HOST/DATABASE?schema=NAME",
    any_hosts=True,
    offline=IndexUnavailable,
)
CLUSTER = AddressForm(("ray",), "`inline`, `ray`, ray://HOST:10001", words=("inline", "ray"))
Mark = AddressForm | KeyVariable


def read_ip(host: str) -> IPv4Address | IPv6Address | None:
    """Return the IP address in a text, None for a name."""
    with suppress(ValueError):
        return ip_address(host)
    return None


def is_local(host: str) -> bool:
    """Return whether a host is this machine.

    >>> [is_local(host) for host in ("localhost", "127.8.0.1", "::1", "0.0.0.0", "::ffff:127.0.0.1")]
    [True, True, True, True, True]
    >>> [is_local(host) for host in ("127.0.0.1.evil.com", "localhost.evil", "10.0.0.1", "::ffff:10.0.0.1")]
    [False, False, False, False]
    """
    address = read_ip(host)
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or address
    return address.is_loopback or address.is_unspecified if address else host == "localhost"


def is_public(address: str) -> bool:
    """Return whether an IP address is one of the public internet.

    >>> [is_public(address) for address in ("93.184.215.14", "2606:2800:21f::1")]
    [True, True]
    >>> [is_public(a) for a in ("169.254.169.254", "::ffff:10.0.0.1", "2002:a00:1::", "fe80::1%eth0", "224.0.0.1")]
    [False, False, False, False, False]
    >>> [is_public(a) for a in ("64:ff9b::a00:1", "64:ff9b::5db8:d70e")]
    [False, True]
    """
    parsed = ip_address(address.partition("%")[0])
    if isinstance(parsed, IPv6Address):
        translated = IPv4Address(int(parsed) & 0xFFFFFFFF) if parsed in _TRANSLATED else None
        parsed = parsed.ipv4_mapped or parsed.sixtofour or translated or parsed
    return parsed.is_global and not parsed.is_multicast
