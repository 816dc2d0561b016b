"""Clients that are programs of their own, in any language: lines of JSON on standard input and output."""
