"""States and index checks onto and off a delegate blob's metadata."""

from __future__ import annotations

from .blob_bytes import Reader, Writer, member
from .blob_types import IndexCheck, ScalarType, State, StateMode


def write_state(writer: Writer, state: State) -> None:
    """Appends a state."""
    what = f"state '{state.name}'"
    initial = memoryview(b"" if state.initial is None else state.initial).cast("B")
    writer.text(state.name)
    writer.integer("B", member(ScalarType, state.dtype, f"{what} dtype"), f"{what} dtype")
    writer.shape(state.shape, f"{what} shape")
    writer.text(state.input)
    writer.text(state.output)
    writer.integer("B", member(StateMode, state.mode, f"{what} mode"), f"{what} mode")
    writer.integer("Q", len(initial), f"{what} initial size")
    writer.data += initial


def read_state(reader: Reader, index: int) -> State:
    """Takes a state; its initial value is a view, not a copy."""
    name = reader.text(f"state {index} name")
    what = f"state {index} '{name}'"
    dtype = member(ScalarType, reader.integer("B", f"{what} dtype"), f"{what} dtype")
    shape = reader.shape(f"{what} shape")
    input_name = reader.text(f"{what} input")
    output_name = reader.text(f"{what} output")
    mode = member(StateMode, reader.integer("B", f"{what} mode"), f"{what} mode")
    size = reader.integer("Q", f"{what} initial size")
    initial = reader.take(size, f"{what} initial value") if size else None
    return State(name, dtype, shape, input_name, output_name, mode, initial)


def write_index_check(writer: Writer, check: IndexCheck) -> None:
    """Appends an index check."""
    what = f"index check of state '{check.state}'"
    extent_binding, extent_dim = (-1, 0) if check.extent is None else check.extent
    writer.integer("I", check.binding, f"{what} binding")
    writer.integer("q", check.least, f"{what} least")
    writer.integer("q", check.greatest, f"{what} greatest")
    writer.integer("i", extent_binding, f"{what} extent binding")
    writer.integer("I", extent_dim, f"{what} extent dim")
    writer.integer("B", int(check.contiguous), f"{what} contiguous")
    writer.text(check.state)


def read_index_check(reader: Reader, index: int) -> IndexCheck:
    """Takes an index check."""
    what = f"index check {index}"
    binding = reader.integer("I", f"{what} binding")
    least = reader.integer("q", f"{what} least")
    greatest = reader.integer("q", f"{what} greatest")
    extent = (reader.integer("i", f"{what} extent binding"), reader.integer("I", f"{what} dim"))
    contiguous = bool(reader.choice("B", 2, f"{what} contiguous"))
    state = reader.text(f"{what} state")
    none = extent == (-1, 0)
    return IndexCheck(binding, least, greatest, state, None if none else extent, contiguous)
