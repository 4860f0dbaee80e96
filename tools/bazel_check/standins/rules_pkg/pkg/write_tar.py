"""write_tar.py OUT LISTING FOLDER [TAR...]: a tar of the listed files and of those in the tars.

A line of the listing is a name, an octal mode and a path, between tabs. The bytes depend on nothing
else: names are in order, owners 0, times 2000-01-01.
"""

import gzip
import io
import sys
import tarfile


def read_listing(path):
    with open(path, encoding="utf-8") as listing:
        for line in listing:
            name, mode, source = line.rstrip("\n").split("\t")
            with open(source, "rb") as file:
                yield name, int(mode, 8), file.read()


def read_tar(path):
    with tarfile.open(path) as tar:
        for member in tar:
            yield member.name, member.mode, tar.extractfile(member).read()


def main():
    out, listing, folder, *tars = sys.argv[1:]
    entries = {}
    for read, path in [(read_listing, listing), *((read_tar, tar) for tar in tars)]:
        for name, mode, data in read(path):
            if entries.setdefault(name, (mode, data)) != (mode, data):
                sys.exit(f"two different files are to be {name}")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, (mode, data) in sorted(entries.items()):
            info = tarfile.TarInfo(f"{folder}/{name}" if folder else name)
            info.mode, info.size, info.mtime = mode, len(data), 946684800
            tar.addfile(info, io.BytesIO(data))
    data = packed.getvalue()
    with open(out, "wb") as file:
        file.write(gzip.compress(data, mtime=0) if out.endswith(".gz") else data)


if __name__ == "__main__":
    main()
