"""The dashboard: tables of a lake in, a folder of static pages out.

`lake_facts` reads the tables; `nights`, `findings`, `levels`, `coverage`, `machines`, `benchmarks` and `simulation` work
out what the pages say; `tonight`, `scenario`, `compare` and their neighbours arrange it; `pages` renders, `build` writes.
"""
