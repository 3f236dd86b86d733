"""The network interface: Send, Ack, Forget in hardware (`docs/cycle-contract.md`, section 4)."""
