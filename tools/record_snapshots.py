"""Records models saved by this version in tests/snapshots/VERSION. Later versions must be able to load them.

    python tools/record_snapshots.py [--output FOLDER]

Requires the installed package and runs on the CPU. tests/snapshots/README.md lists the files. Existing folders are not
overwritten: delete the folder of an unreleased version first.
"""

import argparse
import pathlib
import shutil
import sys
import tempfile
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tf_rnn_ops

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "testing"))
from checks import op_definitions
from checks.cudnn_rnn import run_forward
from inputs import cudnn_rnn as cudnn_rnn_inputs
from inputs import snapshot_networks

SNAPSHOTS = pathlib.Path(__file__).resolve().parent.parent / "tests" / "snapshots"


def save_module(module: tf.Module, path: pathlib.Path) -> None:
    """Writes a SavedModel as an archive, which is five times smaller."""
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(module, folder)
        shutil.make_archive(str(path), "zip", folder)


def record_network(name: str, folder: pathlib.Path) -> None:
    """Writes a Keras model in every format, and its outputs."""
    keras.utils.set_random_seed(0)
    x = snapshot_networks.network_input()
    with snapshot_networks.as_made(name):
        model = snapshot_networks.build(name)
        model.save(folder / f"{name}.keras")
        model.save_weights(folder / f"{name}.weights.h5")
        tf.train.Checkpoint(model=model).write(folder / f"{name}.checkpoint")
        save_module(
            snapshot_networks.Served(model, model.trainable_variables, [None, *x.shape[1:]]),
            folder / f"{name}.saved_model",
        )
        values = snapshot_networks.values(model, model.trainable_variables, x)
    np.savez_compressed(folder / f"{name}.npz", x=x, **values)


def record_ops(name: str, folder: pathlib.Path) -> None:
    """Writes a SavedModel with every op, and its outputs."""
    module = snapshot_networks.Ops(snapshot_networks.OPS[name])
    save_module(module, folder / f"{name}.saved_model")
    x = snapshot_networks.network_input()
    np.savez_compressed(folder / f"{name}.npz", x=x, **snapshot_networks.values(module.call, module.weights, x))


def record_params(mode: str, folder: pathlib.Path) -> None:
    """Writes a params buffer, its weight arrays, and the outputs of the network."""
    config = snapshot_networks.params_config(mode)
    inputs: dict[str, Any] = cudnn_rnn_inputs.network_inputs(config, "float32")
    outputs = run_forward(config, inputs)
    params = inputs.pop("params")
    np.save(folder / f"params_{mode}.npy", params)
    np.savez_compressed(
        folder / f"params_{mode}.npz",
        **inputs,
        **{name: getattr(outputs, name).numpy() for name in cudnn_rnn_inputs.OUTPUTS},
        **snapshot_networks.named_parts(mode, params),
    )


def main() -> None:
    """Writes the snapshot of this version."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=pathlib.Path, default=SNAPSHOTS, help="parent folder of the snapshots")
    folder = parser.parse_args().output / tf_rnn_ops.__version__
    if folder.exists():
        parser.error(f"{folder} already exists; delete it first, but only if this version is unreleased")
    tf_rnn_ops.enable_builtin_kernels()
    folder.mkdir(parents=True)
    (folder / "ops.pbtxt").write_text(op_definitions.to_text(op_definitions.current()))
    for name in snapshot_networks.NETWORKS:
        record_network(name, folder)
    for name in snapshot_networks.OPS:
        record_ops(name, folder)
    for mode in snapshot_networks.MODES:
        record_params(mode, folder)
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    print(f"{folder}: {size // 1024} KiB")


if __name__ == "__main__":
    main()
