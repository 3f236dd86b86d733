"""A host for every node that makes datagrams, and one that judges what arrives (cycle contract, section 5)."""
