"""C++ libraries that are compiled once for each instruction set."""

load("@rules_cc//cc:defs.bzl", "cc_library", "cc_test")

_AVX2 = ["-mavx2", "-mfma", "-mf16c"]
_AVX512 = _AVX2 + [
    "-mavx512f",
    "-mavx512cd",
    "-mavx512bw",
    "-mavx512dq",
    "-mavx512vl",
    # A hint that CPUs without this feature execute as a no-op.
    "-mprfchw",
    "-mprefer-vector-width=512",
]

_AVX512_VNNI = _AVX512 + ["-mavx512vnni"]

_AVX512_BF16 = _AVX512_VNNI + ["-mavx512bf16"]

_AMX = _AVX512_BF16 + [
    "-mamx-tile",
    "-mamx-bf16",
    "-mamx-int8",
]

# In ascending order, with the names of TF_RNN_OPS_ISA. These flags apply only
# to the files of the instruction set.
_X86_64 = {
    "avx2": _AVX2,
    "avx512": _AVX512,
    "avx512_vnni": _AVX512_VNNI,
    "avx512_bf16": _AVX512_BF16,
    "amx": _AMX,
}

# All sets share the same source code. UndefinedBehaviorSanitizer, which adds
# half to the compile time, therefore checks only the baseline, except in fuzz
# builds, which run only the highest set.
_NO_UNDEFINED = select({
    "//cc/rnn/simd:fuzzes_higher_sets": [],
    "//conditions:default": ["-fno-sanitize=undefined"],
})

# Tests do not run instruction sets that this machine does not support. Skip the
# sanitizers there, which take most of the compile time.
def _unwatched_above(lower_sets):
    return select(dict(
        [("//cc/rnn/simd:runs_up_to_" + each, ["-fno-sanitize=all"]) for each in lower_sets] +
        [("//conditions:default", [])],
    ))

# These only speed up products of bfloat16 and of 8-bit integers.
_SETS_OF_FORMATS = [
    "avx512_vnni",
    "avx512_bf16",
    "amx",
]

def _isolated(name, part, instruction_set):
    """Relinks `part` so that it exports only symbols whose name contains the instruction set.

    The linker keeps one of several inline functions with the same name, regardless of the instruction set they were
    compiled for. Which inline functions from other headers and the standard library exist depends on inlining.

    The exception is where Clang's counts are, if the code counts what runs: one place per library.
    """
    native.genrule(
        name = name + "_object",
        srcs = [part + "_archive"],
        outs = [name + ".pic.o"],
        # Without --force_pic there are two archives, and the last one has the
        # position-independent code.
        cmd = ("for archive in $(SRCS); do :; done; " +
               "$(CC) -r -nostdlib -o $@.all -Wl,--force-group-allocation,--whole-archive $$archive && " +
               "$(OBJCOPY) --wildcard --keep-global-symbol='{own}' --weaken-symbol='{own}' " +
               "--keep-global-symbol=__llvm_profile_counter_bias $@.all $@").format(
            own = "*%d%s*" % (len(instruction_set), instruction_set),
        ),
        tags = ["manual"],
        toolchains = ["@bazel_tools//tools/cpp:current_cc_toolchain"],
    )
    cc_library(
        name = name,
        srcs = [name + "_object"],
        tags = ["manual"],
    )

def simd_library(name, srcs, hdrs, deps, copts = [], for_formats = False):
    """Compiles `srcs` for each instruction set; `name` contains all of them.

    NAME_symbols_test checks that the higher sets share no symbol with other code.

    Args:
      name: the library to depend on; NAME_INSTRUCTION_SET are its parts.
      srcs: sources, all in the namespace TF_RNN_OPS_INSTRUCTION_SET.
      hdrs: headers that do not depend on the instruction set.
      deps: the libraries of headers that the sources include.
      copts: flags for every instruction set.
      for_formats: whether to compile also for instruction sets that only speed up products of some types.
    """
    instruction_sets = {
        key: flags
        for key, flags in _X86_64.items()
        if for_formats or key not in _SETS_OF_FORMATS
    }
    baseline = name + "_baseline"
    plain = []
    isolated = []
    symbols_test_args = []
    lower_sets = []
    for instruction_set, flags in [("baseline", [])] + instruction_sets.items():
        part = name + "_" + instruction_set
        cc_library(
            name = part,
            srcs = srcs,
            hdrs = hdrs,
            copts = copts + flags + (_NO_UNDEFINED if flags else []) + _unwatched_above(lower_sets),
            linkstatic = True,
            # Built only as a dependency, for CPUs that may support it.
            tags = ["manual"],
            local_defines = ["TF_RNN_OPS_INSTRUCTION_SET=" + instruction_set],
            deps = deps,
        )
        native.filegroup(
            name = part + "_archive",
            srcs = [part],
            tags = ["manual"],
        )
        if part == baseline:
            continue
        lower_sets.append(instruction_set)
        plain.append(part)
        isolated.append(part + "_isolated")
        symbols_test_args.append("%s=$(rootpath %s_isolated_object)" % (instruction_set, part))
        _isolated(part + "_isolated", part, instruction_set)
    cc_library(
        name = name,
        hdrs = hdrs,
        deps = deps + [baseline] + select({
            "//cc/rnn/simd:baseline_alone": [],
            "//cc/rnn/simd:has_higher_sets": isolated,
            "//cc/rnn/simd:fuzzes_higher_sets": plain,
            "//conditions:default": [],
        }),
    )
    cc_test(
        name = name + "_symbols_test",
        size = "small",
        srcs = ["//cc/rnn/simd:symbols_test.cc"],
        args = select({
            "//cc/rnn/simd:baseline_alone": [],
            "//cc/rnn/simd:has_higher_sets": symbols_test_args,
            "//conditions:default": [],
        }),
        data = select({
            "//cc/rnn/simd:baseline_alone": [],
            "//cc/rnn/simd:has_higher_sets": [part + "_object" for part in isolated],
            "//conditions:default": [],
        }),
        tags = ["serial"],
        deps = ["//third_party/googletest"],
    )
