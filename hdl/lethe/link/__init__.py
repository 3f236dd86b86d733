"""Between the NI and the wire: CRCs, worms out of flits, flits out of worms."""
