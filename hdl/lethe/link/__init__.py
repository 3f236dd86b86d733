"""Between the NI and its links: CRCs, worms out of flits, flits out of worms."""
