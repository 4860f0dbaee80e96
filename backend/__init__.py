"""One partition of an edge program to one delegate blob."""
