"""What is on a link beside flits: the CRCs of messages."""
