"""What hosts send when it is not the hardware generator's traffic."""
