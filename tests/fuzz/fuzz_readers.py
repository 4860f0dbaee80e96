"""Mutated blobs, to the Python and the C++ reader, for as long as one likes.

    python tests/fuzz/fuzz_readers.py --seconds 60 [--seed N]

Ends with 1 and the blob where the readers do not agree, or one of them fails.
"""

from __future__ import annotations

import argparse
import random
import sys
import time

from blob_mutations import mutate, seeds
from cpp_reader import CppReader, disagreement, program, python_verdict


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    path = program()
    if path is None:
        parser.error("blob_verdicts is not built: make test-cpp")
    chance, pool = random.Random(arguments.seed), seeds()
    originals, count, accepted = len(pool), 0, 0
    end = time.monotonic() + arguments.seconds
    with CppReader(path) as reader:
        while time.monotonic() < end:
            blob = mutate(chance, pool)
            count += 1
            if said := disagreement(blob, reader):
                print(f"the readers do not agree (blob {count} of seed {arguments.seed})\n{said}")
                return 1
            if python_verdict(blob).startswith("accepted"):
                accepted += 1
                # Broken further, it gets where the originals do not.
                if len(pool) < originals + 200:
                    pool.append(blob)
                else:
                    pool[chance.randrange(originals, len(pool))] = blob
    print(f"{count} blobs, {accepted} of them accepted: the readers agree (seed {arguments.seed})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
