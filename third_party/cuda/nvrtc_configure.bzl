"""A repository for NVRTC, NVIDIA's runtime compiler, which compiles device code without a GPU or a CUDA toolkit."""

# Environment variable with the folder that contains include and lib. Default: the package of the Python interpreter.
_FOLDER = "TF_RNN_OPS_NVRTC"
_PYTHON = "TF_RNN_OPS_PYTHON"

# The first version of CUDA 12. Code compiled by a later version may require a newer driver than TensorFlow, which supports
# all drivers for CUDA 12 (525.60 and later).
_PACKAGE = "nvidia-cuda-nvrtc-cu12==12.0.140"
_MARK = "lib/libnvrtc-builtins.so.12.0"

_QUERY = """
import importlib.util
try:
    spec = importlib.util.find_spec("nvidia.cuda_nvrtc")
except ModuleNotFoundError:
    spec = None
print(*spec.submodule_search_locations if spec else "")
"""

def _folder_of_package(repository_ctx, python):
    """Returns the folder of the package in a Python environment; None if it is not installed."""
    result = repository_ctx.execute([python, "-c", _QUERY], environment = {"PYTHONPATH": ""})
    if result.return_code != 0:
        fail("running %s failed:\n%s" % (python, result.stderr))
    return result.stdout.strip() or None

def _nvrtc_configure_impl(repository_ctx):
    folder = repository_ctx.os.environ.get(_FOLDER)
    place = "%s, the value of %s" % (folder, _FOLDER)
    if not folder:
        python = repository_ctx.os.environ.get(_PYTHON)
        if not python:
            fail("%s must be set to a Python interpreter, as tools/bazel.sh does" % _PYTHON)
        folder = _folder_of_package(repository_ctx, python)
        place = "the environment of %s" % python
    if not folder or not repository_ctx.path("%s/%s" % (folder, _MARK)).exists:
        fail(("NVRTC 12.0, which compiles the GPU code, is not in %s. Run `pip install %s` with the interpreter in %s. " +
              "To keep another version there, run `pip install --target=DIR %s` and set %s to DIR/nvidia/cuda_nvrtc.") %
             (place, _PACKAGE, _PYTHON, _PACKAGE, _FOLDER))
    repository_ctx.symlink(folder + "/include", "include")
    repository_ctx.symlink(folder + "/lib", "lib")
    repository_ctx.symlink(Label("//third_party/cuda:nvrtc.BUILD"), "BUILD")

nvrtc_configure = repository_rule(
    implementation = _nvrtc_configure_impl,
    configure = True,
    environ = [_FOLDER, _PYTHON],
    local = True,
)
