"""etcd in the gallery: its members, and keys as registers by etcd's JSON gateway."""
