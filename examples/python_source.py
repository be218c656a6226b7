"""The source of Python's standard library as characters to learn from, and what simple counts make of it."""

import pathlib
import sysconfig

import numpy as np

VALIDATION_EVERY = 40  # every 40th file is for validation
UNKNOWN = 0  # stands for every character outside the vocabulary


def read_source(num_files: int | None = None) -> tuple[str, str]:
    """Returns the texts to train on and to validate on: the standard library's modules, split by file.

    Args:
      num_files: how many modules to read, in the order of their names; all by default.
    """
    library = pathlib.Path(sysconfig.get_path("stdlib"))
    skipped = {"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3"}
    files = [
        path for path in sorted(library.rglob("*.py")) if not skipped.intersection(path.relative_to(library).parts)
    ]
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in files[:num_files]]
    validation = texts[::VALIDATION_EVERY]
    training = [text for i, text in enumerate(texts) if i % VALIDATION_EVERY]
    print(f"{len(training)} files to train on, {len(validation)} for validation, from {library}")
    return "".join(training), "".join(validation)


class Vocabulary:
    """Numbers for the characters that occur more than once in a million."""

    def __init__(self, text: str):
        characters, counts = np.unique(np.array(list(text)), return_counts=True)
        self.characters = ["\N{REPLACEMENT CHARACTER}", *characters[counts > len(text) * 1e-6]]
        self._numbers = {character: number for number, character in enumerate(self.characters)}

    def __len__(self):
        return len(self.characters)

    def encode(self, text: str) -> np.ndarray:
        """Returns the characters' numbers."""
        return np.array([self._numbers.get(character, UNKNOWN) for character in text], dtype=np.int32)

    def decode(self, numbers) -> str:
        """Returns the characters of the numbers."""
        return "".join(self.characters[number] for number in numbers)


def unigram_bits(training: np.ndarray, validation: np.ndarray, size: int) -> float:
    """Returns bits per character when each is guessed by how often it occurs."""
    counts = np.bincount(training, minlength=size) + 1.0
    return float(-np.mean(np.log2(counts / counts.sum())[validation]))


def bigram_bits(training: np.ndarray, validation: np.ndarray, size: int) -> float:
    """Returns bits per character when each is guessed by how often it follows the one before."""
    counts = np.ones([size, size])
    np.add.at(counts, (training[:-1], training[1:]), 1)
    log_probabilities = np.log2(counts / counts.sum(axis=1, keepdims=True))
    return float(-np.mean(log_probabilities[validation[:-1], validation[1:]]))


def sequences(text: np.ndarray, time: int) -> tuple[np.ndarray, np.ndarray]:
    """Cuts a text into inputs and targets, one character on; each [sequences, time]."""
    num = (len(text) - 1) // time
    return text[: num * time].reshape(num, time), text[1 : num * time + 1].reshape(num, time)
