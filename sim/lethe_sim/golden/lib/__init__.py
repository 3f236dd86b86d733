"""What knows nothing of the protocol: queues, bit strings, draws."""
