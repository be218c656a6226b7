"""Targets of the GPU engine, with its compiler options."""

load("@rules_cc//cc:defs.bzl", "cc_library", "cc_test")
load("//cc:hardening.bzl", "HARDENING_COPTS")

GPU_COPTS = HARDENING_COPTS + [
    "-Wall",
    "-Wextra",
    "-fvisibility=hidden",
]

def gpu_library(name, srcs = None, hdrs = None, **kwargs):
    """A library, of NAME.cc and NAME.h unless files are given."""
    cc_library(
        name = name,
        srcs = [name + ".cc"] if srcs == None else srcs,
        hdrs = [name + ".h"] if hdrs == None else hdrs,
        copts = GPU_COPTS,
        **kwargs
    )

def gpu_test(name, srcs = None, deps = [], **kwargs):
    """A test with GoogleTest, in NAME.cc unless files are given."""
    cc_test(
        name = name,
        srcs = [name + ".cc"] if srcs == None else srcs,
        copts = GPU_COPTS,
        deps = deps + ["//third_party/googletest:gtest_main"],
        **kwargs
    )
