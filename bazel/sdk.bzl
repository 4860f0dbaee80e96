"""Repositories over what is installed: headers, and libraries where they are linked."""

_VARIABLES = [
    "CUDA_HOME",
    "EXECUTORCH_ROOT",
    "TensorRT_ROOT",
    "TensorRT_RTX_ROOT",
]

_FIND_PACKAGE = "import importlib.util as u, sys; s = u.find_spec(sys.argv[1]); " + \
                "print(*(s.submodule_search_locations if s else ()), sep='\\n')"

_INCLUDE_FOLDERS = [
    "include",
    "include/x86_64-linux-gnu",
    "include/aarch64-linux-gnu",
]

def _python_package_folders(ctx, name):
    python = ctx.which("python3")
    if not python:
        return []
    found = ctx.execute([python, "-c", _FIND_PACKAGE, name])
    return found.stdout.strip().split("\n") if found.return_code == 0 and found.stdout.strip() else []

def _link(ctx, root):
    """Links root's include (and lib) folder into the repository; False if it has no such header."""
    for folder in _INCLUDE_FOLDERS:
        if ctx.path(root + "/" + folder + "/" + ctx.attr.header).exists:
            ctx.symlink(root + "/" + folder, "include")
            if ctx.attr.libraries:
                ctx.symlink(root + "/lib", "lib")
            return True
    return False

def _sdk_impl(ctx):
    ctx.file("BUILD.bazel", ctx.read(ctx.attr.build_file))
    given = [ctx.os.environ[name] for name in ctx.attr.variables if ctx.os.environ.get(name)]
    roots = given or ctx.attr.paths
    if ctx.attr.python_package and not given:
        roots = _python_package_folders(ctx, ctx.attr.python_package)
    for root in roots:
        if _link(ctx, root):
            return
    if ctx.attr.urls and not given:
        ctx.download_and_extract(url = ctx.attr.urls, stripPrefix = ctx.attr.strip_prefix)
        return
    fail("@%s: no include/%s in %s: %s" % (
        ctx.name,
        ctx.attr.header,
        ", ".join(roots) or "any place",
        ctx.attr.install,
    ))

sdk = repository_rule(
    implementation = _sdk_impl,
    doc = """An installed SDK: the folder that a variable names, else the first of paths (or the
Python package's folder) whose include folder has the header, else what is downloaded.""",
    attrs = {
        "build_file": attr.label(mandatory = True, doc = "The repository's BUILD file."),
        "header": attr.string(mandatory = True, doc = "By which an include folder is known."),
        "install": attr.string(mandatory = True, doc = "What to do if it is not found."),
        "libraries": attr.bool(doc = "Whether its lib folder is needed, too."),
        "paths": attr.string_list(doc = "Where it usually is."),
        "python_package": attr.string(doc = "The Python package that it is installed as."),
        "strip_prefix": attr.string(doc = "Of the downloaded archive."),
        "urls": attr.string_list(doc = "Where it can be downloaded."),
        "variables": attr.string_list(doc = "Environment variables that name its folder."),
    },
    environ = _VARIABLES,
    local = True,
)
