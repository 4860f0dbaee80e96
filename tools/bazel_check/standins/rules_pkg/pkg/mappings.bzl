"""pkg_files and its helpers, as far as they are used here."""

PackageFilesInfo = provider(
    doc = "What goes where.",
    fields = {
        "files": "The file at each destination.",
        "mode": "Their mode, as an octal string.",
    },
)

def _from_root(path = ""):
    return "/" + path

strip_prefix = struct(from_root = _from_root)

def pkg_attributes(mode):
    """Attributes as one string, which a rule can take.

    Args:
        mode: An octal string.

    Returns:
        The string.
    """
    return mode

def _pkg_files_impl(ctx):
    files = {}
    for file in ctx.files.srcs:
        name = file.short_path if ctx.attr.strip_prefix == "/" else file.basename
        destination = "/".join([part for part in [ctx.attr.prefix, name] if part])
        if files.setdefault(destination, file) != file:
            fail("%s and %s are both to be %s" % (files[destination], file, destination))
    return [
        DefaultInfo(files = depset(ctx.files.srcs)),
        PackageFilesInfo(files = files, mode = ctx.attr.attributes),
    ]

pkg_files = rule(
    implementation = _pkg_files_impl,
    attrs = {
        "attributes": attr.string(default = "0644"),
        "prefix": attr.string(),
        "srcs": attr.label_list(
            allow_files = True,
            mandatory = True,
        ),
        "strip_prefix": attr.string(values = ["", "/"]),
    },
)
