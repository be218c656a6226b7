"""Headers that are compiled once for each instruction set, with the sources that include them."""

load("@rules_cc//cc:defs.bzl", "cc_library", "cc_test")
load("//cc/rnn:copts.bzl", "RNN_COPTS")

def simd_headers(name, hdrs, deps):
    """Headers that may include each other and the headers of `deps`.

    NAME_headers_alone compiles each header on its own. This checks that a header includes everything it needs, and
    nothing outside `deps`, which Bazel's sandbox hides.

    Args:
      name: the library to depend on.
      hdrs: the headers, in the namespace TF_RNN_OPS_INSTRUCTION_SET.
      deps: the libraries that they include.
    """
    cc_library(
        name = name,
        textual_hdrs = hdrs,
        deps = deps,
    )
    for header in hdrs:
        native.genrule(
            name = header + "_alone",
            outs = [header + "_alone.cc"],
            cmd = "echo '#include \"%s/%s\"' > $@" % (native.package_name(), header),
        )
    cc_library(
        name = name + "_headers_alone",
        srcs = [header + "_alone.cc" for header in hdrs],
        copts = RNN_COPTS + ["-O0"],
        local_defines = ["TF_RNN_OPS_INSTRUCTION_SET=alone"],
        deps = [name],
    )

def simd_test(name, deps):
    """A test of such headers, compiled only for the baseline: the tests of networks cover the other instruction sets.

    Args:
      name: of the test; NAME.cc is its source.
      deps: the library of headers.
    """
    cc_test(
        name = name,
        size = "small",
        srcs = [name + ".cc"],
        copts = RNN_COPTS,
        local_defines = ["TF_RNN_OPS_INSTRUCTION_SET=baseline"],
        deps = deps + [
            "//cc/rnn:test_support",
            "//third_party/googletest:gtest_main",
        ],
    )
