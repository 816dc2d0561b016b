"""The dashboard: tables of a lake in, a folder of static pages out.

`lake_facts` reads the tables. `nights`, `findings`, `levels`, `coverage`, `fleet`, `benchmarks`, `simulation` and
`night_table` work out what is known, and `overview` holds all of it. `tonight`, `compare`, `run_data` and `charts`
arrange it for pages, `pages` renders them, and `build` writes those that changed.
"""
