"""Writes a SavedModel of an accelerated Keras LSTM for `run_saved_model`, with an input and the expected output.

python save_model.py FOLDER
"""

import pathlib
import sys

import keras
import numpy as np

import tf_rnn_ops

BATCH, TIME, FEATURES = 2, 5, 3


def main() -> None:
    """Writes the folder FOLDER/model and the files FOLDER/numbers.txt and FOLDER/outputs.txt."""
    folder = pathlib.Path(sys.argv[1])
    tf_rnn_ops.accelerate_keras()
    model = keras.Sequential([keras.Input([None, FEATURES]), keras.layers.LSTM(8), keras.layers.Dense(1)])
    model.export(folder / "model", verbose=False)
    x = np.random.default_rng(0).standard_normal([BATCH, TIME, FEATURES]).astype(np.float32)  # [batch, time, features]
    np.savetxt(folder / "numbers.txt", x.ravel())
    np.savetxt(folder / "outputs.txt", model(x).numpy().ravel())


if __name__ == "__main__":
    main()
