"""The command line, `executorch-tensorrt`; docs/command_line.md describes it."""
