"""How code that reads what users give it is compiled."""

# Bazel's own toolchain asks for the weaker form of both, and that is what the engine in cc/rnn has, which is handed
# checked sizes.
HARDENING_COPTS = [
    "-fstack-protector-strong",
    "-U_FORTIFY_SOURCE",
    "-D_FORTIFY_SOURCE=2",
]

# Of the ops and of adapters that include nothing of a framework.
CALLS_COPTS = HARDENING_COPTS + [
    "-Wall",
    "-Wextra",
    "-fvisibility=hidden",
]
