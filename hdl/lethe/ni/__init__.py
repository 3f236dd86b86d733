"""The network interface: Send, Ack, Forget in hardware (`docs/reference/cycle-contract.md`, section 4)."""
