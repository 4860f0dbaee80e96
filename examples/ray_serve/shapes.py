"""What the exporter and the server agree on."""

FEATURES, CLASSES = 16, 4
MAX_BATCH = 32  # rows in one execution, at most
