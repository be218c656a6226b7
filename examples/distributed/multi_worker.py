"""Trains a model on two workers, `tf.distribute.MultiWorkerMirroredStrategy`, each a process with a part of each batch.

Keras 3's `fit` does not run under this strategy: the training loop is written out. Without TF_CONFIG in its environment
the program starts both workers on this machine; with it, it is the worker that TF_CONFIG says.
"""

import hashlib
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import local_cluster
import tensorflow as tf
from adding_problem import batches, build, parse_arguments, print_comparison, train_alone, train_step

NUM_WORKERS = 2


def work(steps: int) -> None:
    """Trains as one of the workers; the first one trains alone afterwards, and compares."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()  # first of all: it starts this worker's server
    with strategy.scope():
        model, optimizer = build()

    @tf.function
    def step(x, y):
        shares = strategy.run(train_step, args=(model, optimizer, x, y))
        return strategy.reduce("SUM", shares, axis=None)

    # Each worker reads all data and trains on its part of each batch.
    losses = [float(step(*batch)) for batch in strategy.experimental_distribute_dataset(batches(steps))]

    worker = strategy.cluster_resolver.task_id
    weights = b"".join(weight.numpy().tobytes() for weight in model.weights)
    print(
        f"worker {worker}: last error {losses[-1]:.8f}, weights {hashlib.sha256(weights).hexdigest()[:16]}", flush=True
    )
    if worker == 0:
        print_comparison(f"{strategy.num_replicas_in_sync} workers", losses, train_alone(steps))


def main() -> None:
    """Is a worker, or starts them."""
    settings = parse_arguments(__doc__)
    if "TF_CONFIG" in os.environ:
        work(settings.steps)
    else:
        local_cluster.run({"worker": NUM_WORKERS}, awaited="worker")


if __name__ == "__main__":
    main()
