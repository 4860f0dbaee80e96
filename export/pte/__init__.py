"""Reads `.pte` files for people: what is in one, also a damaged one; needs no PyTorch."""
