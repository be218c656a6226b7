"""Fuzz targets."""

load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_library", "cc_test")
load("//cc/rnn:copts.bzl", "RNN_COPTS")

def fuzz_target(name, srcs, deps):
    """A libFuzzer binary, and a test that runs the target on its corpus.

    The binary requires --config=fuzz. The test, NAME_corpus_test, works with
    any compiler.

    Args:
      name: name of the binary. corpus/NAME.hex holds its corpus, faults/NAME.hex
        inputs that once caused failures.
      srcs: sources that define LLVMFuzzerTestOneInput.
      deps: dependencies of srcs.
    """
    cc_library(
        name = name + "_target",
        testonly = True,
        srcs = srcs,
        copts = RNN_COPTS,
        tags = ["manual"],
        deps = deps,
        alwayslink = True,
    )
    cc_binary(
        name = name,
        testonly = True,
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["manual"],
        deps = [name + "_target"],
    )
    native.filegroup(
        name = name + "_corpus",
        srcs = native.glob([
            "corpus/%s.hex" % name,
            "faults/%s.hex" % name,
        ]),
    )
    cc_test(
        name = name + "_corpus_test",
        size = "medium",
        srcs = ["//cc/rnn:fuzz_corpus_main.cc"],
        args = ["$(rootpaths :%s_corpus)" % name],
        copts = RNN_COPTS,
        data = [name + "_corpus"],
        tags = ["serial"],
        deps = [
            name + "_target",
            "//cc/rnn:fuzz_support",
        ],
    )
