"""The source of Python's standard library as a data set of characters, with unigram and bigram baselines."""

import pathlib
import sysconfig

import numpy as np

VALIDATION_EVERY = 40  # every 40th file is for validation
UNKNOWN = 0  # index of all characters outside the vocabulary


def read_source(num_files: int | None = None) -> tuple[str, str]:
    """Returns training and validation text: the modules of the standard library, split by file.

    Args:
      num_files: the number of modules to read, in the order of their names. All by default.
    """
    library = pathlib.Path(sysconfig.get_path("stdlib"))
    skipped = {"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3"}
    files = [
        path for path in sorted(library.rglob("*.py")) if not skipped.intersection(path.relative_to(library).parts)
    ]
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in files[:num_files]]
    validation = texts[::VALIDATION_EVERY]
    training = [text for i, text in enumerate(texts) if i % VALIDATION_EVERY]
    print(f"{len(training)} training files and {len(validation)} validation files from {library}")
    return "".join(training), "".join(validation)


class Vocabulary:
    """Maps characters that occur more than once in a million characters to integers."""

    def __init__(self, text: str):
        characters, counts = np.unique(np.array(list(text)), return_counts=True)
        self.characters = ["\N{REPLACEMENT CHARACTER}", *characters[counts > len(text) * 1e-6]]
        self._numbers = {character: number for number, character in enumerate(self.characters)}

    def __len__(self):
        return len(self.characters)

    def encode(self, text: str) -> np.ndarray:
        """Returns the indices of the characters."""
        return np.array([self._numbers.get(character, UNKNOWN) for character in text], dtype=np.int32)

    def decode(self, numbers) -> str:
        """Returns the characters of the indices."""
        return "".join(self.characters[number] for number in numbers)


def unigram_bits(training: np.ndarray, validation: np.ndarray, size: int) -> float:
    """Returns the bits per character of a unigram model."""
    counts = np.bincount(training, minlength=size) + 1.0
    return float(-np.mean(np.log2(counts / counts.sum())[validation]))


def bigram_bits(training: np.ndarray, validation: np.ndarray, size: int) -> float:
    """Returns the bits per character of a bigram model."""
    counts = np.ones([size, size])
    np.add.at(counts, (training[:-1], training[1:]), 1)
    log_probabilities = np.log2(counts / counts.sum(axis=1, keepdims=True))
    return float(-np.mean(log_probabilities[validation[:-1], validation[1:]]))


def sequences(text: np.ndarray, time: int) -> tuple[np.ndarray, np.ndarray]:
    """Splits a text into inputs and targets (shifted by one character), each [sequences, time]."""
    num = (len(text) - 1) // time
    return text[: num * time].reshape(num, time), text[1 : num * time + 1].reshape(num, time)
