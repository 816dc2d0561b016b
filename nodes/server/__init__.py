"""The shell: sockets, files, timers, the main program. The only floor that may import asyncio or os."""
