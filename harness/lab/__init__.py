"""The local lab: hosts as network namespaces, or as plain processes where those are forbidden."""
