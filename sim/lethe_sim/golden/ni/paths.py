"""Which path a message takes through a tree (section 4.18); 0 where there are none."""

from lethe_sim.golden.compile import jit


@jit
def path_of(k, path, tries):
    """That of a datagram, or of its Ack, after so many tries."""
    return path + (tries >> 1) & (1 << k.path_bits) - 1


@jit
def next_tries(k, tries):
    """The number of tries after so many; it does not end with paths, so that none is left out."""
    if tries < 255:
        return tries + 1
    return 256 - (2 << k.path_bits) if k.path_bits > 0 else 255
