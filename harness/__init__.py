"""Run the testbed: command line, hosts, deployment, interpreter, local lab, simulation."""
