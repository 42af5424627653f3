"""an address -> a connection to it, where KUMI_OFFLINE and private networks allow it: no other module opens one."""

import os
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kumihimo.core.cancel import CancelToken
from kumihimo.core.errors import AddressRefused, IndexUnavailable, SettingsError, SourceError
from kumihimo.core.network import CLUSTER, DATABASE, PAGE, STORE, Address, AddressForm, is_local, is_public
from kumihimo.core.redaction import redact, register_url_secrets
from kumihimo.text.packages import loading_extra

if TYPE_CHECKING:
    from httpx2 import Client, Response
    from psycopg import Connection
    from psycopg_pool import ConnectionPool

_LOCAL = ("local", "reference", "dir", "zip", "tar", "libarchive", "git", "data", "cached", "blockcache", "filecache")


def is_offline() -> bool:
    """Return whether KUMI_OFFLINE forbids requests to other machines."""
    return os.environ.get("KUMI_OFFLINE", "0") not in ("", "0")


def check_connection(text: str, form: AddressForm, hosts: Iterable[str] = ()) -> Address:
    """Return the parts of an address. Raise an error of its form.

    hosts: that a connection leads to, if others than those of the address. A folder is that of a socket.
    """
    address = form.parse_address(text)
    if is_offline() and not all(not host or host[0] in "/@" or is_local(host) for host in hosts or address.hosts):
        remedy = "unset it, or use a server on this machine"
        raise form.offline(f"KUMI_OFFLINE is set, so {redact(text)!s} is not asked: {remedy}")
    return address


# -- HTTP


def open_http(address: Address, timeout: float, **options: Any) -> "Client":
    """Return an HTTP client without redirects, cookies and, for this machine, proxies.

    Raises SettingsError where the environment names a useless proxy.
    """
    from http.cookiejar import CookieJar, DefaultCookiePolicy

    import httpx2

    try:
        return httpx2.Client(
            timeout=httpx2.Timeout(timeout, connect=min(timeout, 10.0)),
            limits=httpx2.Limits(max_connections=1000, max_keepalive_connections=100),
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            follow_redirects=False,
            trust_env=not is_local(address.hosts[0]),  # it stands for the proxies of the environment
            verify=httpx2.create_ssl_context(),  # with the certificates of the environment in any case
            **options,
        )
    except (ImportError, OSError, ValueError, httpx2.InvalidURL) as error:
        remedy = "correct or unset HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, SSL_CERT_FILE and SSL_CERT_DIR"
        reason = redact(str(error))
        raise SettingsError(
            f"the environment sets a proxy or certificate that cannot be used ({reason}): {remedy}"
        ) from None


@contextmanager
def closed_when_cancelled(response: "Response", cancel: CancelToken | None) -> Iterator[None]:
    """Break off a response as soon as its caller cancels.

    The socket is shut down, since only that wakes a thread that reads from it.
    """
    stream = response.extensions.get("network_stream")
    connections = [stream.get_extra_info("socket")] if stream else []
    forget = cancel.on_cancel(lambda: _shut_down(connections)) if cancel else lambda: None
    try:
        yield
    finally:
        forget()


def _shut_down(connections: Iterable[socket.socket]) -> None:
    """End connections, and wake the threads that read from them."""
    for connection in connections:
        with suppress(OSError):  # the server has closed it
            socket.socket.shutdown(connection, socket.SHUT_RDWR)  # a TLS socket's own would wait for the reading thread


@dataclass(slots=True)
class PublicWeb:
    """Connections to public web sites, and to those that a person has named.

    sites: scheme, host and port of these, such as `http://localhost:8000`: they may be in a private network. timeout:
    seconds until a server has to answer.
    """

    sites: frozenset[str]
    timeout: float
    _clients: dict[bool, "Client"] = field(default_factory=dict)
    _connections: list[socket.socket] = field(default_factory=list)

    @contextmanager
    def request(self, url: str, headers: Mapping[str, str], cancel: CancelToken) -> Iterator["Response"]:
        """Yield the response to a request. Raise AddressRefused for a private network.

        cancel: breaks off the connection, also before the response begins, which a server may delay without end.
        """
        address = check_connection(url, PAGE)
        is_here, is_direct = is_local(address.hosts[0]), self._check_site(address, url)
        client = self._clients[is_here] = self._clients.get(is_here) or open_http(address, self.timeout)

        def trace(event: str, info: Mapping[str, Any]) -> None:
            if event.endswith(("connect_tcp.complete", "start_tls.complete")):
                opened = [each for each in self._connections if each.fileno() >= 0]
                self._connections = [*opened, info["return_value"].get_extra_info("socket")]
                if cancel.is_cancelled:
                    _shut_down(self._connections)

        forget = cancel.on_cancel(lambda: _shut_down(self._connections))
        try:
            with client.stream("GET", url, headers=headers, extensions={"trace": trace}) as response:
                stream = response.extensions.get("network_stream")
                peer = stream.get_extra_info("server_addr") if stream and is_direct else None
                if peer and address.server not in self.sites and not is_public(peer[0]):  # its name leads elsewhere now
                    raise _private_error(url)
                yield response
        finally:
            forget()

    def close(self) -> None:
        """Close the connections."""
        for client in self._clients.values():
            client.close()

    def _check_site(self, address: Address, url: str) -> bool:
        """Raise AddressRefused for a private network; return whether there is no proxy."""
        from urllib.request import getproxies, proxy_bypass  # it loads much, and few commands need it

        proxies, (host,) = getproxies(), address.hosts
        has_proxy = bool(proxies.get(address.scheme) or proxies.get("all")) and not proxy_bypass(host)
        if address.server in self.sites:
            return not has_proxy
        if is_local(host):
            raise _private_error(url)
        if has_proxy and not host.replace(".", "").isdigit() and ":" not in host:
            return False  # the proxy looks the name up
        try:
            found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise SourceError(f"{url}: no host {host} is known; check the address and the network") from error
        if not all(is_public(str(info[4][0])) for info in found):
            raise _private_error(url)
        return not has_proxy


def _private_error(url: str) -> AddressRefused:
    return AddressRefused(f"{url} is in a private network: name it yourself in `kumi index` if you trust it")


# -- stores, databases and clusters


def open_remote_store(url: str) -> Any:
    """Return the file system of an address that fsspec knows.

    Raise SourceError without its driver, or while KUMI_OFFLINE is set.
    """
    protocol = url.partition("://")[0]
    try:
        import fsspec
        from fsspec.registry import known_implementations
    except ModuleNotFoundError as error:
        raise SourceError(f"{protocol}:// needs fsspec: `pip install 'kumihimo[remote]'`") from error
    if protocol in _LOCAL or protocol not in fsspec.available_protocols():
        raise SourceError(f"no store is known by {protocol}://; files of this machine are named by their path")
    check_connection(url, STORE, ["localhost" if protocol == "memory" else protocol])
    try:
        return fsspec.url_to_fs(url, use_listings_cache=False)[0]
    except ImportError as error:
        driver = known_implementations.get(protocol, {}).get("class", "").partition(".")[0]
        raise SourceError(f"{protocol}:// needs a driver: `pip install {driver}` ({error})") from error
    except Exception as error:
        raise store_error(url, error) from error


def store_error(url: str, error: Exception) -> SourceError:
    """Return the error for a store that fails."""
    reason = f"{type(error).__name__}: {error}"[:200]
    return SourceError(f"{url} cannot be fetched ({reason}): check the address, and the access of its driver")


def connect_postgres(address: str, shown: str, **options: Any) -> "Connection[Any]":
    """Return a connection to a database. Raise IndexUnavailable.

    Variables of the environment may name its host, too. shown: the address without its user.
    """
    try:
        with loading_extra("postgres", "psycopg"):
            import psycopg
            from psycopg.conninfo import conninfo_to_dict
            from psycopg.pq import Conninfo
    except ModuleNotFoundError as error:
        raise IndexUnavailable(f"{shown} needs psycopg: `pip install 'kumihimo[postgres]'`") from error
    register_url_secrets(address)
    usual = {option.keyword.decode(): option.val and option.val.decode() for option in Conninfo.get_defaults()}
    try:
        names = usual | conninfo_to_dict(address)
        hosts = [host for name in ("host", "hostaddr", "service") for host in str(names.get(name) or "").split(",")]
        check_connection(address, DATABASE, hosts)  # a service may be anywhere
        return psycopg.connect(address, **options)
    except (psycopg.OperationalError, psycopg.ProgrammingError) as error:
        reason = redact(" ".join(str(error).split()))
        raise IndexUnavailable(f"{shown} cannot be reached: {reason}") from None


def open_postgres_pool(address: str, shown: str, options: Mapping[str, Any], **limits: Any) -> "ConnectionPool":
    """Return a pool of connections to a database. Raise IndexUnavailable."""
    connect_postgres(address, shown, **options).close()
    from psycopg_pool import ConnectionPool

    check = ConnectionPool.check_connection
    return ConnectionPool(address, kwargs=dict(options), check=check, open=True, **limits)


def load_ray() -> Any:
    """Return the module of Ray, which connects to nothing yet."""
    try:
        import ray
    except ImportError as error:
        raise SettingsError("building.executor is `ray`, which needs `pip install 'kumihimo[ray]'`") from error
    return ray


def join_ray(cluster: str) -> bool:
    """Join a cluster, unless the program has joined one. Raise SettingsError.

    cluster: ray://HOST:PORT; empty: that of this machine, or a new one. Others may have joined that of this machine, so
    it is a new one while KUMI_OFFLINE is set.
    """
    ray = load_ray()
    if ray.is_initialized():
        return False
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent unasked
    if cluster:
        check_connection(cluster, CLUSTER)
    address = cluster or ("local" if is_offline() else None)
    try:
        ray.init(address, include_dashboard=False, log_to_driver=False, logging_level="error")
    except Exception as error:
        where = cluster or "this machine"
        raise SettingsError(f"no Ray cluster at {where}: {error}; start it with `ray start --head`") from error
    return True
