"""Converts a PyTorch model with an LSTM to Keras and compares the outputs of both.

Run it with `python examples/from_pytorch.py`. It requires PyTorch.
"""

import keras
import numpy as np
import torch

import tf_rnn_ops
from tf_rnn_ops.params import from_pytorch, layout_from_pytorch


class Tagger(torch.nn.Module):
    """A PyTorch model that scores tags for each word of a sentence."""

    def __init__(self, words=1000, tags=5):
        super().__init__()
        self.embedding = torch.nn.Embedding(words, 32)
        self.lstm = torch.nn.LSTM(32, 64, num_layers=2, bidirectional=True, batch_first=True)
        self.scores = torch.nn.Linear(2 * 64, tags)

    def forward(self, words):
        """Returns scores, [batch, time, tags], for word indices, [batch, time]."""
        output, _ = self.lstm(self.embedding(words))
        return self.scores(output)


def to_keras(state_dict):
    """Returns a Keras model with the weights of a Tagger."""
    embeddings = state_dict["embedding.weight"].numpy()  # [words, features]
    scores = [state_dict["scores.weight"].numpy().T, state_dict["scores.bias"].numpy()]

    layout = layout_from_pytorch(state_dict, prefix="lstm")
    params = from_pytorch(layout, state_dict, prefix="lstm")
    lstm = tf_rnn_ops.layers.CudnnLSTM.from_params(layout, params, return_sequences=True)

    words = keras.Input([None], dtype="int32")
    embedding, dense = keras.layers.Embedding(*embeddings.shape), keras.layers.Dense(len(scores[1]))
    model = keras.Model(words, dense(lstm(embedding(words))))
    embedding.set_weights([embeddings])
    dense.set_weights(scores)
    return model


def main():
    """Compares both models on some sentences."""
    tagger = Tagger()  # load your weights: tagger.load_state_dict(torch.load("tagger.pt"))
    model = to_keras(tagger.state_dict())

    words = np.random.default_rng(0).integers(1000, size=[8, 20])
    with torch.no_grad():
        expected = tagger(torch.from_numpy(words)).numpy()
    difference = np.abs(model.predict(words, verbose=0) - expected).max()
    print(f"The scores of {words.size} words differ by at most {difference:.1g}; the largest is {expected.max():.1g}.")


if __name__ == "__main__":
    main()
