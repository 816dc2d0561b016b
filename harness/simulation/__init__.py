"""The same world in virtual time: kernel, network, disks, hosts."""
