"""States, guard and index checks of the delegate blob: how they are written, what is refused."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from raw_blob import metadata_of, seal

from executorch_tensorrt.backend.delegate_blob import (
    BlobError,
    DelegateBlob,
    IndexCheck,
    ScalarType,
    State,
    StateMode,
)

DATA = Path(__file__).parent / "data"

KV_CACHE = DelegateBlob.from_bytes((DATA / "kv_cache.blob").read_bytes())
KEY, VALUE = KV_CACHE.states
AT_START, AT_POSITIONS = KV_CACHE.index_checks


def state(**changes: object) -> DelegateBlob:
    return replace(KV_CACHE, states=(replace(KEY, **changes), VALUE))


def check(**changes: object) -> DelegateBlob:
    return replace(KV_CACHE, index_checks=(replace(AT_START, **changes),))


NOT_WRITTEN: dict[str, tuple[DelegateBlob, str]] = {
    "repeated name": (state(name=VALUE.name), "state 1 name 'layers.0.value_cache' is there twice"),
    "no name": (state(name=""), "state 0 name has 0 bytes"),
    "dynamic shape": (state(shape=(1, -1)), "dim 1 is -1; a state's shape is static"),
    "rank": (state(shape=(1,) * 9), "state 0 'layers.0.key_cache' rank 9 is over 8"),
    "size beyond 64 bits": (state(shape=(1 << 62, 4)), "bytes do not fit in 64 bits"),
    "initial value's size": (state(initial=bytes(255)), "has 255 bytes, its shape takes 256"),
    "dtype": (state(dtype=99), "dtype 99 is not a ScalarType"),
    "mode": (state(mode=2), "mode 2 is not a StateMode"),
    "input of a binding's name": (
        state(input="tokens"),
        "state 0 'layers.0.key_cache' input 'tokens' is another tensor of the engine already",
    ),
    "input that is its output": (state(input="x", output="x"), "output 'x' is another tensor"),
    "tensor of another state": (state(output="value_in"), "input 'value_in' is another tensor"),
    "guard of a binding's name": (replace(KV_CACHE, guard="logits"), "guard 'logits' is another"),
    "empty guard name": (replace(KV_CACHE, guard=""), "guard has 0 bytes"),
    "guard without states": (
        replace(KV_CACHE, states=(), index_checks=(), guard="g"),
        "guard is 'g', but there are no states",
    ),
    "check of an output": (check(binding=3), "index check 0 binding 3 is no input"),
    "check of no binding": (check(binding=9), "index check 0 binding 9 is no input"),
    "empty range": (check(least=16), "index check 0 is of the range 16..15, which is empty"),
    "extent of an output": (check(extent=(3, 0)), "extent binding 3 is no input"),
    "extent dim": (check(extent=(0, 2)), "extent dim 2 is not below the rank, 2"),
    "unknown state": (check(state="x"), "index check 0 state 'x' is no state of the blob"),
    "check without states": (replace(KV_CACHE, states=()), "is no state of the blob"),
}


@pytest.mark.parametrize(("blob", "message"), NOT_WRITTEN.values(), ids=NOT_WRITTEN.keys())
def test_the_writer_refuses_states_and_checks_that_do_not_agree(
    blob: DelegateBlob, message: str
) -> None:
    with pytest.raises(BlobError, match=re.escape(message)):
        blob.to_bytes()


def test_a_check_of_an_input_that_is_not_an_integer_is_refused() -> None:
    tokens, start, positions, logits = KV_CACHE.bindings
    start = replace(start, dtype=ScalarType.FLOAT32)
    blob = replace(KV_CACHE, bindings=(tokens, start, positions, logits))
    with pytest.raises(BlobError, match="binding 'start' is float32, not an integer"):
        blob.to_bytes()


METADATA = metadata_of(KV_CACHE.to_bytes())
STATES = METADATA.index(KEY.name.encode()) - 8
MODE = METADATA.index(b"key_out") + len("key_out")
EXTENT = len(METADATA) - 2 * 33 - len(KEY.name) - len(VALUE.name) + 4 + 8 + 8


def put(at: int, code: str, value: int) -> Callable[[], bytes]:
    def make() -> bytes:
        data = bytearray(METADATA)
        struct.pack_into("<" + code, data, at, value)
        return bytes(data)

    return make


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "count": (put(STATES, "I", 2**32 - 1), "state count is 4294967295"),
    "dtype": (put(STATES + 8 + len(KEY.name), "B", 12), "dtype 12 is not known"),
    "mode": (put(MODE, "B", 2), "state 0 'layers.0.key_cache' mode 2 is not known"),
    "initial size": (put(MODE + 1, "Q", 2**64 - 1), "initial value needs 18446744073709551615"),
    "extent of no binding": (put(EXTENT, "i", -2), "index check 0 extent binding -2 is no input"),
    "dim of no extent": (put(EXTENT, "i", -1), "extent binding -1 is no input"),
    "contiguous": (put(EXTENT + 8, "B", 2), "index check 0 contiguous is 2"),
    "trailing byte": (lambda: METADATA + b"\0", "metadata has 1 bytes after its last field"),
    "states in version 1.0": (lambda: b"\1\0\0\0" + METADATA[4:], "version 1.0 has none"),
}


@pytest.mark.parametrize(("make", "message"), HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_states_with_a_right_crc_are_refused(
    make: Callable[[], bytes], message: str
) -> None:
    metadata = make()
    sections = KV_CACHE.to_bytes()[struct.unpack_from("<Q", KV_CACHE.to_bytes(), 32)[0] :]
    fields = dict(
        zip(
            ("engine_size", "fallback_offset", "fallback_size"),
            struct.unpack_from("<3Q", KV_CACHE.to_bytes(), 40),
            strict=True,
        )
    )
    minor = metadata[2]
    with pytest.raises(BlobError, match=re.escape(message)):
        DelegateBlob.from_bytes(seal(metadata, sections, minor=minor, **fields))


def test_a_state_of_zeros_takes_no_bytes_in_the_blob() -> None:
    large = replace(KEY, shape=(1, 2, 1 << 20, 64))
    data = replace(KV_CACHE, states=(large, VALUE)).to_bytes()
    assert len(data) == len(KV_CACHE.to_bytes())
    assert DelegateBlob.from_bytes(data).states[0].initial is None


def test_an_initial_value_is_read_without_a_copy() -> None:
    data = bytearray(KV_CACHE.to_bytes())
    [_, value] = DelegateBlob.from_bytes(data).states
    assert isinstance(value, State)
    assert isinstance(value.initial, memoryview)
    assert value.mode is StateMode.ALIAS
    assert bytes(value.initial) == bytes(VALUE.initial or b"")


def test_a_check_without_extent_is_of_single_positions() -> None:
    blob = check(extent=None)
    assert DelegateBlob.from_bytes(blob.to_bytes()).index_checks == (
        IndexCheck(1, 0, 15, KEY.name),
    )
    assert AT_POSITIONS.extent is None
