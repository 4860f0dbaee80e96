"""pkg_tar, as far as it is used here."""

load(":mappings.bzl", "PackageFilesInfo")

def _pkg_tar_impl(ctx):
    out = ctx.outputs.out or ctx.actions.declare_file(ctx.label.name + "." + ctx.attr.extension)
    lines = []
    for src in ctx.attr.srcs:
        if PackageFilesInfo in src:
            info = src[PackageFilesInfo]
            lines += ["%s\t%s\t%s" % (name, info.mode, file.path) for name, file in info.files.items()]
        else:
            lines += ["%s\t%s\t%s" % (f.basename, ctx.attr.mode, f.path) for f in src.files.to_list()]
    listing = ctx.actions.declare_file(ctx.label.name + ".listing")
    ctx.actions.write(listing, "".join([line + "\n" for line in lines]))
    ctx.actions.run_shell(
        arguments = [ctx.file._writer.path, out.path, listing.path, ctx.attr.package_dir] +
                    [tar.path for tar in ctx.files.deps],
        command = "python3 \"$@\"",
        inputs = ctx.files.srcs + ctx.files.deps + [listing, ctx.file._writer],
        outputs = [out],
        use_default_shell_env = True,
    )
    return [DefaultInfo(files = depset([out]))]

pkg_tar = rule(
    implementation = _pkg_tar_impl,
    attrs = {
        "deps": attr.label_list(allow_files = True),
        "extension": attr.string(default = "tar"),
        "mode": attr.string(default = "0555"),
        "out": attr.output(),
        "package_dir": attr.string(),
        "srcs": attr.label_list(allow_files = True),
        "_writer": attr.label(
            allow_single_file = True,
            default = "//pkg:write_tar.py",
        ),
    },
)
