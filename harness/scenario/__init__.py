"""What a suite asks for, and what carries it out in both worlds: on hosts and in simulation."""
