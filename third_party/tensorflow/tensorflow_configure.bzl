"""A repository for the TensorFlow installed in a Python environment."""

# The interpreter, and its TensorFlow (path and modification time): Bazel configures the repository again if it changes.
_PYTHON = "TF_RNN_OPS_PYTHON"
_INSTALLATION = "TF_RNN_OPS_TENSORFLOW"

_QUERY = """
import tensorflow as tf
print("include", tf.sysconfig.get_include())
for flag in tf.sysconfig.get_compile_flags():
    if flag.startswith("-D"):
        print("define", flag[len("-D"):])
    elif not flag.startswith("-I"):
        print("copt", flag)
for flag in tf.sysconfig.get_link_flags():
    print("linkopt", flag)
"""

def _query_tensorflow(repository_ctx):
    """Returns the results of tf.sysconfig as a dict of lists."""
    python = repository_ctx.os.environ.get(_PYTHON)
    if not python:
        fail("%s must be set to a Python interpreter with TensorFlow, as tools/bazel.sh does" % _PYTHON)
    result = repository_ctx.execute(
        [python, "-c", _QUERY],
        environment = {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": ""},
    )
    if result.return_code != 0:
        fail("%s cannot import TensorFlow:\n%s" % (python, result.stderr))
    answers = {"include": [], "define": [], "copt": [], "linkopt": []}
    for line in result.stdout.splitlines():
        key, _, value = line.partition(" ")
        if key in answers and value:
            answers[key].append(value)
    return answers

def _tensorflow_configure_impl(repository_ctx):
    answers = _query_tensorflow(repository_ctx)

    # The engine is built once for all TensorFlow versions, and its interface uses std::string.
    if "_GLIBCXX_USE_CXX11_ABI=0" in answers["define"]:
        fail("tf_rnn_ops requires a TensorFlow built with the C++11 ABI")
    repository_ctx.symlink(answers["include"][0], "include")
    repository_ctx.symlink(Label("//third_party/tensorflow:tensorflow.BUILD"), "BUILD")
    repository_ctx.file("flags.bzl", "\n".join([
        '"""Flags of the installed TensorFlow, from tf.sysconfig."""',
        "",
        "TENSORFLOW_COPTS = %s" % repr(answers["copt"]),
        "TENSORFLOW_DEFINES = %s" % repr(answers["define"]),
        "TENSORFLOW_LINKOPTS = %s" % repr(answers["linkopt"]),
        "",
    ]))

tensorflow_configure = repository_rule(
    implementation = _tensorflow_configure_impl,
    configure = True,
    environ = [_PYTHON, _INSTALLATION],
    local = True,
)
