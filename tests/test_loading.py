"""Tests of importing the package and loading its libraries, and of the error messages."""

import os
import pathlib
import platform
import re
import shutil
import subprocess
import textwrap
import zipfile

import pytest
import tensorflow as tf
from environment import forked, processes
from environment.package_files import PACKAGE, copy_package, in_copy, link_package
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from tf_rnn_ops import _library, _library_file

LIBRARIES = [
    path for path in (_library.LIBRARY_PATH, _library.BUILTIN_KERNELS_PATH, _library.GPU_KERNELS_PATH) if path.exists()
]
# Those, and the engine library that they depend on.
FILES = [*LIBRARIES, _library.ENGINE_PATH]
# A program that runs another one without the right of root to read and write all files.
WITHOUT_PRIVILEGES = (
    "setpriv",
    "--bounding-set=-dac_override,-dac_read_search",
    "--inh-caps=-dac_override,-dac_read_search",
)

# Runs an op and its gradient.
USE = """
import tensorflow as tf
import tf_rnn_ops
x = tf.ones([1, 1])
with tf.GradientTape() as tape:
    tape.watch(x)
    h = tf_rnn_ops.raw_ops.GRUBlockCell(
        x=x, h_prev=x, w_ru=tf.ones([2, 2]), w_c=tf.ones([2, 1]), b_ru=[0.0, 0.0], b_c=[0.0]
    ).h
assert abs(h.numpy().item() - 0.9945838) < 1e-6
assert 0 < abs(tape.gradient(h, x).numpy().item()) < 1
"""
FORGET = """
for name in [name for name in sys.modules if name.split(".")[0] == "tf_rnn_ops"]:
    del sys.modules[name]
"""


def importing(folder, code, **environment):
    """Returns code that adds a folder to the import path and then runs `code`."""
    return f"import os, sys\nos.environ |= {environment}\nsys.path.insert(0, {str(folder)!r})\n" + textwrap.dedent(code)


# ---------------------------------------------------------------- TensorFlow and the package files


def test_another_patch_release_is_accepted():
    _library.check_tensorflow("2.21.3", ["2.21.0"])
    _library.check_tensorflow("2.18.0", ["2.18.1", "2.21.0"])
    with pytest.raises(ImportError, match=r"built for TensorFlow 2\.21, but TensorFlow 2\.2\.0 is installed"):
        _library.check_tensorflow("2.2.0", ["2.21.0"])
    with pytest.raises(ImportError, match=r"2\.9, 2\.10 and 2\.11, but .* `pip install \"tensorflow==2\.11\.\*\"`"):
        _library.check_tensorflow("2.1.0", ["2.9.3", "2.10.0", "2.11.1"])


def test_import_error_without_tensorflow(tmp_path):
    copy_package(tmp_path)
    code = "import sys; sys.modules['tensorflow'] = None; import tf_rnn_ops"
    process = processes.run_python("-c", code, PYTHONPATH=str(tmp_path))
    assert "ImportError: tf_rnn_ops" in process.stderr
    assert "requires TensorFlow, which is not installed" in process.stderr
    code = code.replace("'tensorflow'", "'tensorflow.python'")
    process = processes.run_python("-c", code, PYTHONPATH=str(tmp_path))
    assert process.stderr.splitlines()[-1].startswith("ModuleNotFoundError: import of tensorflow.python halted")


def test_import_error_without_an_installed_package(tmp_path):
    another = link_package(tmp_path / "another")
    (another / "_build_info.py").unlink()
    (another / "_build_info.py").write_text('TENSORFLOW_VERSIONS = ("2.5.1",)\nCOMPILER = "gcc"\n')
    source = link_package(tmp_path / "source")
    (source / "_build_info.py").unlink()
    archive = tmp_path / "archive.whl"
    with zipfile.ZipFile(archive, "w") as wheel:
        for file in PACKAGE.rglob("*.py"):
            wheel.write(file, file.relative_to(PACKAGE.parent))
    folders = {"another TensorFlow": another.parent, "source": source.parent, "archive": archive}
    ended = forked.run_codes({name: importing(folder, "import tf_rnn_ops") for name, folder in folders.items()})
    assert [each.status for each in ended.values()] == [1, 1, 1]

    message = ended["another TensorFlow"].last_line
    assert message.startswith("ImportError: tf_rnn_ops ")
    assert "was built for TensorFlow 2.5, but TensorFlow " + tf.__version__ in message
    assert 'pip install "tensorflow==2.5.*"' in message
    assert "pip install ." in message
    assert f"{source} is the source of tf_rnn_ops, which has no op library" in ended["source"].last_line
    assert ended["archive"].last_line == (
        f"ImportError: tf_rnn_ops cannot be imported from the archive {archive}, because its libraries must be files: "
        "install it with `pip install`."
    )


# ---------------------------------------------------------------- damaged and foreign libraries


def machine_code(path):
    """Returns the library with the machine code of another CPU in its header."""
    content = bytearray(path.read_bytes())
    content[18] = 0xB7 if platform.machine() == "x86_64" else 0x3E
    return bytes(content)


def of_32_bits(path):
    content = bytearray(path.read_bytes())
    content[4] = 1
    return bytes(content)


def half_zeros(path):
    half, rest = divmod(path.stat().st_size, 2)
    return path.read_bytes()[:half] + bytes(half + rest)


def half(path):
    return path.read_bytes()[: path.stat().st_size // 2]


def of_another_library(path):
    """Returns another library of the package."""
    return LIBRARIES[LIBRARIES.index(path) - 1].read_bytes()


def for_another_tensorflow(path):
    return path.read_bytes().replace(b"libtensorflow_framework.so.2\0", b"libtensorflow_framework.so.9\0")


# Replacements of a library, and the error messages.
CONTENTS = {
    "empty": (lambda path: b"", r"is not a library \(0 bytes\)"),
    "text": (lambda path: b"not a library", r"is not a library \(13 bytes\)"),
    "long text": (lambda path: b"not a library" * 100, "is not a library for 64-bit Linux"),
    "half": (half, r"is truncated to \d+ bytes"),
    "half zeros": (half_zeros, "is damaged: its end is missing"),
    "another kind of CPU": (machine_code, "is not for this CPU architecture, .+"),
    "32 bits": (of_32_bits, "is not a library for 64-bit Linux"),
    "another library": (of_another_library, "is not the expected library: it has no .PU kernel for .+"),
    "another TensorFlow": (for_another_tensorflow, r"cannot be loaded into TensorFlow .+ \(libtensorflow_.+"),
}

# Cases that do not apply to the engine, which does not depend on TensorFlow.
NOT_FOR_THE_ENGINE = ("another library", "another TensorFlow")

IMPORT = """
try:
    import tf_rnn_ops
except ImportError as error:
    print(error)
"""

# Code that loads each library. It must print the error message, and everything else must remain usable.
LOAD = {
    "libtf_rnn_ops.so": IMPORT,
    "libtf_rnn_ops_engine.so": IMPORT,
    "libtf_rnn_ops_builtin_kernels.so": """
        import tf_rnn_ops
        try:
            tf_rnn_ops.enable_builtin_kernels()
        except ImportError as error:
            print(error)
        """
    + textwrap.indent(USE, " " * 8),
    "libtf_rnn_ops_gpu.so": """
        import warnings
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            import tf_rnn_ops
        for each in caught:
            if "tf_rnn_ops" in str(each.message):
                print(str(each.message).removeprefix("tf_rnn_ops runs on the CPU only: "))
        """
    + textwrap.indent(USE, " " * 8),
}


def loading(copy, library):
    return importing(copy.parent, LOAD[library.name], TF_RNN_OPS_GPU="1" if "gpu" in library.name else "0")


def replace(copy, library, content):
    """Replaces a library in a copy of the package."""
    path = in_copy(copy, library)
    path.unlink()
    path.write_bytes(content)


def check_message(ended, path, expected):
    assert ended.status == 0, ended.output
    message = ended.output.strip()
    assert re.fullmatch(
        rf"the tf_rnn_ops library {re.escape(str(path))} {expected}: reinstall the package.*\.", message
    )


# What is in the place of a library, and the error messages.
NOT_FILES = {
    "missing": (lambda path: None, "is missing"),
    "a folder": (pathlib.Path.mkdir, "is not a file"),
    "a link to nothing": (lambda path: path.symlink_to("/nowhere"), "is not a file"),
    "a pipe": (os.mkfifo, "is not a file"),
}
ENGINE_OF_ANOTHER = f"{_library.ENGINE_PATH.name}: another library in its place"
NO_GPU_LIBRARY = f"{_library.GPU_KERNELS_PATH.name}: missing"  # as in some builds


def test_a_damaged_or_foreign_library_is_rejected(tmp_path):
    codes, paths, expected = {}, {}, {}
    for library in FILES:
        for kind, (make, message) in {**CONTENTS, **NOT_FILES}.items():
            if library == _library.ENGINE_PATH and kind in NOT_FOR_THE_ENGINE:
                continue
            name = f"{library.name}: {kind}"
            copy = link_package(tmp_path / name.replace(": ", "-"))
            paths[name] = in_copy(copy, library)
            paths[name].unlink()
            if kind in CONTENTS:
                paths[name].write_bytes(make(library))
            else:
                make(paths[name])
            codes[name], expected[name] = loading(copy, library), message
    copy = link_package(tmp_path / "another engine")
    replace(copy, _library.ENGINE_PATH, _library.BUILTIN_KERNELS_PATH.read_bytes())
    codes[ENGINE_OF_ANOTHER] = loading(copy, _library.ENGINE_PATH)
    paths[ENGINE_OF_ANOTHER] = in_copy(copy, _library.LIBRARY_PATH)
    expected[ENGINE_OF_ANOTHER] = r"cannot be loaded into TensorFlow .+ \(.*undefined symbol: TfRnnOps_CpuOps\)"
    for name, each in forked.run_codes(codes).items():
        if name == NO_GPU_LIBRARY:
            assert each.status == 0, each.output
            assert each.output == f"this build of tf_rnn_ops has no GPU library ({paths[name]} does not exist).\n"
        else:
            check_message(each, paths[name], expected[name])


@pytest.mark.skipif(os.geteuid() == 0 and not shutil.which("setpriv"), reason="root may read everything")
def test_unreadable_and_read_only_files(tmp_path):
    codes, paths = {}, {}
    for library in FILES:
        copy = link_package(tmp_path / library.name)
        replace(copy, library, b"")
        codes[library.name], paths[library.name] = loading(copy, library), in_copy(copy, library)
        paths[library.name].chmod(0)
    copy = link_package(tmp_path / "read-only")
    for folder in (in_copy(copy, _library.LIBRARY_PATH).parent, copy, copy.parent):
        folder.chmod(0o555)
    codes["read-only"] = importing(copy.parent, USE + f"assert tf_rnn_ops.__file__.startswith({str(copy)!r})")
    prefix = WITHOUT_PRIVILEGES if os.geteuid() == 0 else ()
    ended = forked.run_codes(codes, prefix=prefix, HOME=str(copy), TMPDIR=str(copy))
    for library, path in paths.items():
        check_message(ended[library], path, r"cannot be read \(Permission denied\)")
    assert ended["read-only"].status == 0, ended["read-only"].output


@pytest.mark.parametrize("library", FILES, ids=lambda path: path.name)
def test_a_truncated_library_is_rejected(library, tmp_path):
    """Loading it would crash with SIGBUS."""
    copy = tmp_path / library.name
    shutil.copy(library, copy)
    copy.chmod(0o600)
    assert _library_file.why_not_loadable(copy) is None
    size = copy.stat().st_size
    for length in [*range(size - 1, size - 300, -1), *range(size - 300, 0, -4001), *range(300, -1, -1)]:
        os.truncate(copy, length)
        assert _library_file.why_not_loadable(copy), length


@given(changes=st.dictionaries(st.integers(0, 1023), st.integers(0, 255), max_size=20))
def test_a_damaged_header_is_read_to_its_end(changes, tmp_path_factory):
    content = bytearray(_library.LIBRARY_PATH.read_bytes()[:4096])
    for position, value in changes.items():
        content[position] = value
    path = tmp_path_factory.mktemp("damaged") / "library.so"
    path.write_bytes(content)
    assert _library_file.why_not_loadable(path)  # it has 4096 bytes


def test_a_stripped_library_is_loaded(tmp_path):
    """Some package maintainers strip libraries."""
    if not shutil.which("strip"):
        pytest.skip("needs the program strip")
    stripped = tmp_path / "stripped.so"
    subprocess.run(["strip", "-o", stripped, _library.LIBRARY_PATH], check=True)
    assert _library_file.why_not_loadable(stripped) is None


# ---------------------------------------------------------------- two copies


def test_two_copies_in_one_process(tmp_path):
    a, b = (link_package(tmp_path / name) for name in ("a", "b"))
    for copy in (a, b):  # copies instead of links, because the loader identifies files
        replace(copy, _library.LIBRARY_PATH, _library.LIBRARY_PATH.read_bytes())
    of_a, of_b = (str(in_copy(copy, _library.LIBRARY_PATH)) for copy in (a, b))
    other_engine = tmp_path / "other" / _library.ENGINE_PATH.name
    other_engine.parent.mkdir()
    shutil.copy(_library.ENGINE_PATH, other_engine)
    # Next to the engine, as in Bazel's output folder.
    elsewhere = tmp_path / "renamed.so"
    shutil.copy(of_a, elsewhere)
    (tmp_path / "linked.so").symlink_to(of_a)
    (tmp_path / _library.ENGINE_PATH.name).symlink_to(_library.ENGINE_PATH)
    load = "import tensorflow as tf; tf.load_op_library({!r})\n"
    a_then_b = f"""
import sys
{USE}
first = tf_rnn_ops
{FORGET}
sys.path.insert(0, {str(b.parent)!r})
try:
    import tf_rnn_ops
except ImportError as error:
    print(error)
tf_rnn_ops = first
"""
    ended = forked.run_codes(
        {
            "package, then package": importing(a.parent, a_then_b + USE.replace("import tf_rnn_ops", "")),
            "library, then package": importing(b.parent, load.format(of_a) + "import tf_rnn_ops"),
            "renamed library": importing(b.parent, load.format(str(elsewhere)) + "import tf_rnn_ops"),
            "package, then library": importing(a.parent, USE + load.format(of_b) + USE),
            "its library, then package": importing(a.parent, load.format(of_a) + USE),
            "another engine, then package": importing(
                a.parent, f"import ctypes; ctypes.CDLL({str(other_engine)!r})\n" + USE
            ),
            "its library by a link": importing(
                a.parent, load.format(str(tmp_path / "linked.so")) + "import tf_rnn_ops"
            ),
        },
    )
    template = (
        "another copy of tf_rnn_ops is loaded in this process ({}), so {} cannot be loaded: start a new process and "
        "load only one copy."
    )
    message = template.format(of_a, of_b)
    assert ended["package, then package"] == forked.Ended(0, message + "\n")
    assert ended["library, then package"].last_line == f"ImportError: {message}"
    assert ended["another engine, then package"].last_line == f"ImportError: {template.format(other_engine, of_a)}"
    assert ended["renamed library"].last_line == f"ImportError: {template.format(_library.ENGINE_PATH.resolve(), of_b)}"
    assert ended["package, then library"].status == 0, ended["package, then library"].output
    assert ended["its library, then package"] == forked.Ended(0, "")
    assert ended["its library by a link"].last_line == (
        f"ImportError: {of_a} was already loaded through another path, so TensorFlow returns no functions for it: "
        "import tf_rnn_ops first, or load the library through this path."
    )


# ---------------------------------------------------------------- repeated and unusual imports


# A forked child has no pool threads. TensorFlow's own large ops and every tf.function hang there.
FORKED_CHILD = f"""
import numpy as np
import os
import signal
import tensorflow as tf
tf.config.threading.set_intra_op_parallelism_threads(2)
{USE}
layer = tf_rnn_ops.layers.CudnnLSTM(32)
x = tf.random.normal([32, 1, 32])

def gradients():
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(x) ** 2)
    return [each.numpy() for each in tape.gradient(loss, layer.trainable_variables)]

expected = gradients()
child = os.fork()
if child == 0:
    signal.alarm(60)
    for _ in range(2500):  # the queue of each pool thread has 1024 entries
        last = layer(x)
    os._exit(0 if all(map(np.array_equal, gradients(), expected)) else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


def test_repeated_imports_and_forks():
    reload = """
import importlib
for module in (tf_rnn_ops._library, tf_rnn_ops.raw_ops, tf_rnn_ops._gradients, tf_rnn_ops.layers, tf_rnn_ops):
    importlib.reload(module)
"""
    in_a_thread = """
import threading
barrier = threading.Barrier(4)
def import_it():
    barrier.wait()
    import tf_rnn_ops
    seen.append(tf_rnn_ops.raw_ops.GRUBlockCell)
seen = []
threads = [threading.Thread(target=import_it) for _ in range(4)]
for each in threads:
    each.start()
for each in threads:
    each.join()
assert len(seen) == 4 and len(set(seen)) == 1
"""
    hidden_gpu = "import tensorflow as tf; tf.config.set_visible_devices([], 'GPU')\n"
    enabled_twice = f"tf_rnn_ops.enable_builtin_kernels()\n{FORGET + USE}tf_rnn_ops.enable_builtin_kernels()\n"
    ended = forked.run_codes(
        {
            "twice": importing(PACKAGE.parent, USE + FORGET + USE),
            "reload": importing(PACKAGE.parent, USE + reload + USE),
            "threads": importing(PACKAGE.parent, in_a_thread + USE),
            "hidden GPU": importing(PACKAGE.parent, hidden_gpu + USE),
            "enabled twice": importing(PACKAGE.parent, USE + enabled_twice),
            "a fork without the threads of its parent": importing(PACKAGE.parent, FORKED_CHILD),
        },
    )
    for name, each in ended.items():
        assert each.status == 0, f"{name}: {each.output}"
        assert "Error" not in each.output


def test_unusual_paths_options_and_environments(tmp_path):
    # Before TensorFlow 2.21, it requires docstrings.
    options = ["-OO" if Version(tf.__version__) >= Version("2.21") else "-O", "-W", "error::BytesWarning", "-bb"]
    c_locale = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    environment = {**c_locale, "CUDA_VISIBLE_DEVICES": "", "HOME": "/nowhere"}
    copy = link_package(tmp_path / "with a space, 'quotes' and ünïcödé 網路")
    for library in LIBRARIES:
        replace(copy, library, library.read_bytes())
    code = """
import os
import sys
import tensorflow as tf
import tf_rnn_ops
assert tf_rnn_ops.raw_ops.GRUBlockCell(
    x=[[1.0]], h_prev=[[1.0]], w_ru=tf.ones([2, 2]), w_c=tf.ones([2, 1]), b_ru=[0.0, 0.0], b_c=[0.0]
).h.shape == [1, 1] or sys.exit("wrong shape")
tf_rnn_ops.enable_builtin_kernels()
assert tf_rnn_ops._gpu_kernels.why_not_loaded() is None or sys.exit("no GPU library")
sys.stdout.buffer.write(os.fsencode(tf_rnn_ops._library.LIBRARY_PATH))
"""
    environment = {"PYTHONPATH": str(copy.parent), "TF_RNN_OPS_GPU": "1", **environment}
    printed = processes.run_program(*options, "-c", code, **environment)
    assert printed == str(in_copy(copy, _library.LIBRARY_PATH))


# ---------------------------------------------------------------- other processes


WORKER = """
import numpy as np

def use():
    import tf_rnn_ops
    x = np.ones([64, 64], "float32")
    weights = {"w_ru": np.ones([128, 128]), "w_c": np.ones([128, 64]), "b_ru": np.ones(128), "b_c": np.ones(64)}
    weights = {name: (each / 100).astype("float32") for name, each in weights.items()}
    return tf_rnn_ops.raw_ops.GRUBlockCell(x=x, h_prev=x, **weights).h.numpy().tolist()
"""
PREDICTOR = """
import numpy as np
import tf_rnn_ops  # before unpickling the model: registers the layers with Keras

def predict(model):
    return model(np.ones([4, 5, 3], "float32")).numpy().tolist()
"""


@pytest.mark.slow
def test_in_processes_of_multiprocessing(tmp_path):
    (tmp_path / "worker.py").write_text(WORKER)
    (tmp_path / "predictor.py").write_text(PREDICTOR)
    processes.run_code(
        """
        import multiprocessing
        import worker

        def in_a_process(method, function, *arguments):
            with multiprocessing.get_context(method).Pool(1) as pool:
                return pool.apply_async(function, arguments).get(timeout=1000)

        expected = in_a_process("fork", worker.use)
        assert worker.use() == expected
        assert in_a_process("fork", worker.use) == expected
        assert in_a_process("forkserver", worker.use) == expected

        import keras
        import predictor
        from tf_rnn_ops import layers
        model = keras.Sequential([keras.Input([5, 3]), layers.CudnnGRU(6, return_sequences=True), layers.LSTM(4)])
        assert in_a_process("spawn", predictor.predict, model) == predictor.predict(model)
        """,
        PYTHONPATH=os.pathsep.join([str(tmp_path), str(PACKAGE.parent)]),
    )
