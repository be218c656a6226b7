"""Trains an unchanged Keras model with `accelerate_keras()` and compares its predictions with those of plain Keras.

Run it with `python examples/accelerated_keras.py`.
"""

import keras
import numpy as np

import tf_rnn_ops

model = keras.Sequential(
    [
        keras.Input([None], dtype="int32"),
        keras.layers.Embedding(20, 16, mask_zero=True),
        keras.layers.Bidirectional(keras.layers.LSTM(32, return_sequences=True, dropout=0.1)),
        keras.layers.GRU(32),
        keras.layers.Dense(1),
    ]
)
model.compile("adam", "mse")

# Sequences of numbers, padded with zeros. The target is the mean of each sequence.
numbers = np.random.default_rng(0).integers(1, 20, [256, 30])  # [batch, time]
numbers[np.arange(30) >= np.linspace(5, 30, 256)[:, np.newaxis]] = 0
means = numbers.sum(axis=1) / np.count_nonzero(numbers, axis=1) / 20

acceleration = tf_rnn_ops.accelerate_keras()  # call it before or after you build or load models
model.fit(numbers, means, epochs=3)
predicted = model.predict(numbers)

acceleration.restore()
difference = np.abs(predicted - model.predict(numbers)).max()
print(f"largest difference from plain Keras predictions: {difference:.1g}")
