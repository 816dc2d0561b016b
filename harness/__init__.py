"""The conductor: command line, hosts, deployment, interpreter, local lab, simulation."""
