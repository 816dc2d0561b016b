"""Addresses as connections have them."""

from __future__ import annotations

import ipaddress

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def address_of(text: str) -> Address:
    """Parse an address. An IPv4 address is returned as such, even if a socket for both families writes it as
    `::ffff:…`.
    """
    address = ipaddress.ip_address(text.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
