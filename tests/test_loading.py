"""Importing the package and loading its libraries: what is refused, in one sentence, and what is not."""

import processes
import pytest
import tensorflow as tf
from package_files import copy_package

from tf_rnn_ops import _library


def import_error(tmp_path):
    """Imports the copy, which must fail, and returns the last line that Python printed."""
    process = processes.run_python("-c", "import tf_rnn_ops", PYTHONPATH=str(tmp_path))
    assert process.returncode == 1
    return process.stderr.strip().splitlines()[-1]


def test_another_tensorflow_is_refused_in_one_sentence(tmp_path):
    (copy_package(tmp_path) / "_build_info.py").write_text('TENSORFLOW_VERSION = "2.5.1"\nCOMPILER = "gcc"\n')
    message = import_error(tmp_path)
    assert message.startswith("ImportError: tf_rnn_ops ")
    assert "was built for TensorFlow 2.5, but TensorFlow " + tf.__version__ in message
    assert 'pip install "tensorflow==2.5.*"' in message
    assert "pip install ." in message


def test_another_patch_release_is_accepted():
    _library.check_tensorflow("2.21.3", "2.21.0")
    with pytest.raises(ImportError, match=r"built for TensorFlow 2\.21, but TensorFlow 2\.2\.0 is installed"):
        _library.check_tensorflow("2.2.0", "2.21.0")


def test_without_tensorflow_the_import_says_so(tmp_path):
    copy_package(tmp_path)
    code = "import sys; sys.modules['tensorflow'] = None; import tf_rnn_ops"
    process = processes.run_python("-c", code, PYTHONPATH=str(tmp_path))
    assert "ImportError: tf_rnn_ops" in process.stderr
    assert "needs TensorFlow, which is not installed" in process.stderr


def test_a_missing_library_is_named(tmp_path):
    path = copy_package(tmp_path) / "libtf_rnn_ops.so"
    path.unlink()
    assert import_error(tmp_path) == (
        f"ImportError: tf_rnn_ops's op library {path} is missing: install the package again."
    )


@pytest.mark.parametrize("content", [b"", b"not a library"])
def test_a_broken_library_is_named(tmp_path, content):
    path = copy_package(tmp_path) / "libtf_rnn_ops.so"
    path.write_bytes(content)
    message = import_error(tmp_path)
    assert message.startswith("ImportError: ")
    assert str(path) in message


def test_the_source_folder_says_that_it_is_one(tmp_path):
    (copy_package(tmp_path) / "_build_info.py").unlink()
    assert "is tf_rnn_ops's source, which has no op library" in import_error(tmp_path)


def test_imports_twice_and_after_plain_loading():
    processes.run_code(
        """
        import sys
        import tensorflow as tf
        tf.load_op_library(sys.argv[1])
        import tf_rnn_ops
        for name in [name for name in sys.modules if name.startswith("tf_rnn_ops")]:
            if "gradients" not in name:
                del sys.modules[name]
        import tf_rnn_ops
        """,
        str(_library.LIBRARY_PATH),
    )
