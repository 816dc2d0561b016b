"""The gallery of real bugs: each is reproduced in the real system with one command, beside a twin that must be healthy.

    squall gallery                      # the entries of suites/gallery
    squall gallery --verify D1          # runs the broken version and its twin, and prints a table

An entry (`core/entry.py`) states system, client, schedule and the expected anomaly. `conduct.py` runs one arm of it on
this machine: nodes on the loopback interface (`kafka`, `nats`: a family of systems each), clients as programs that are
told what to do by JSON lines (`core/clients.py`), and a proxy that understands Kafka's frames (`core/frame_proxy.py`).
The history is judged by the checks of any run.
"""
