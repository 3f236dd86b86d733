"""The tests, in the folders of what they test; what several of them need is in `helpers`."""
