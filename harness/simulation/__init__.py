"""Simulate hosts and nodes in virtual time: kernel, network, disks, observer."""
