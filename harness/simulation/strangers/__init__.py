"""Clients that ask nodes, during a load, what neither the load nor other nodes ask: observer and conformance judge."""
