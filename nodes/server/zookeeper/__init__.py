"""The session with a real ZooKeeper ensemble: the port `nodes.zookeeper.session` on the wire.

`jute.py` writes and reads ZooKeeper's records, `client.py` is the session as a state machine without input and output,
`session.py` gives it sockets and time.
"""
