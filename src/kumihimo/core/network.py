"""a host -> whether it is this machine; the environment -> whether other machines may be asked."""

import os
from ipaddress import IPv6Address, ip_address


def is_local(host: str) -> bool:
    """Return whether a host is this machine.

    >>> [is_local(host) for host in ("localhost", "127.8.0.1", "::1", "0.0.0.0", "::ffff:127.0.0.1")]
    [True, True, True, True, True]
    >>> [is_local(host) for host in ("127.0.0.1.evil.com", "localhost.evil", "10.0.0.1", "::ffff:10.0.0.1")]
    [False, False, False, False]
    """
    try:
        address = ip_address(host)
    except ValueError:
        return host == "localhost"
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or address
    return address.is_loopback or address.is_unspecified


def is_public(address: str) -> bool:
    """Return whether an IP address is one of the public internet.

    >>> [is_public(address) for address in ("93.184.215.14", "2606:2800:21f::1")]
    [True, True]
    >>> [is_public(a) for a in ("169.254.169.254", "::ffff:10.0.0.1", "2002:a00:1::", "fe80::1%eth0", "224.0.0.1")]
    [False, False, False, False, False]
    """
    parsed = ip_address(address.partition("%")[0])
    if isinstance(parsed, IPv6Address):
        parsed = parsed.ipv4_mapped or parsed.sixtofour or parsed
    return parsed.is_global and not parsed.is_multicast


def is_offline() -> bool:
    """Return whether KUMI_OFFLINE forbids requests to other machines."""
    return os.environ.get("KUMI_OFFLINE", "0") not in ("", "0")
