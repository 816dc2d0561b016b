"""The client APIs of a broker, one module each."""
