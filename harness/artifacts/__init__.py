"""Programs of others that Squall runs beside its own: jars from Maven repositories, pinned by checksum, and Java;
programs in Go, built from pinned modules.

`jar_lists.py` reads the committed lists, one file a version of a system; `jar_cache.py` returns a version's jars as
files, and has `maven.py` fetch what the cache lacks; `java.py` finds Java and writes command lines. `go_programs.py`
builds programs in Go.
"""
