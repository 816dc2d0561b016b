"""Addresses as connections have them."""

from __future__ import annotations

import ipaddress

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def address_of(text: str) -> Address:
    """As everybody writes it: IPv4 also where a socket for both families calls it `::ffff:…`."""
    address = ipaddress.ip_address(text.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
