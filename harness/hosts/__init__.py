"""Real hosts and the local lab: SSH, deployment, the system under test."""
