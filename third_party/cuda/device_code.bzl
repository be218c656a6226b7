"""Device code in a C++ library."""

load("@rules_cc//cc:defs.bzl", "cc_library")

# The architectures of TensorFlow 2.21's wheel. A GPU runs code for its own generation (the first digit) up to its own
# number. For later generations, the driver compiles the PTX of the last entry when it is loaded.
_ARCHITECTURES = [
    "sm_60",  # P100, GTX 10
    "sm_70",  # V100, T4 and RTX 20
    "sm_80",  # A100, A10 and RTX 30
    "sm_89",  # L4, L40 and RTX 40
    # Not in TensorFlow's wheel, which falls back to compiling PTX.
    "sm_90",  # H100, H200
    "compute_90",
]

def device_code(name, src, variable, hdrs = [], **kwargs):
    """Compiles a CUDA source for all architectures into a variable of a library.

    The library defines `extern const DeviceCode VARIABLE` of //cc/gpu:device_code in tf_rnn_ops::gpu.

    Args:
      name: name of the library.
      src: CUDA source.
      variable: name of the variable.
      hdrs: headers of the project that the source includes.
      **kwargs: passed to cc_library.
    """
    compiler = "//third_party/cuda:compile_device_code"
    native.genrule(
        name = name + "_source",
        srcs = [
            src,
            "//third_party/cuda:device_headers",
            "@nvrtc//:builtins",
            "@nvrtc//:library",
        ] + hdrs,
        outs = [name + ".cc"],
        cmd = " ".join([
            "$(location %s)" % compiler,
            "$(location @nvrtc//:library)",
            "$(location %s)" % src,
            variable,
            "$@",
        ] + _ARCHITECTURES),
        tools = [compiler],
    )
    cc_library(
        name = name,
        srcs = [name + ".cc"],
        deps = ["//cc/gpu:device_code"],
        **kwargs
    )
