"""Trains a model on two workers with `tf.distribute.MultiWorkerMirroredStrategy` and compares it with one process.

Run it with `python examples/distributed/multi_worker.py`: without TF_CONFIG, the program starts both workers on this
machine; with TF_CONFIG, it runs as that worker. Keras 3's `fit` does not support this strategy, so the program has its
own training loop.
"""

import hashlib
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import local_cluster
import tensorflow as tf
from adding_problem import batches, build, parse_arguments, print_comparison, train_alone, train_step

NUM_WORKERS = 2


def work(steps: int) -> None:
    """Trains as one worker. Worker 0 then trains without a strategy and compares."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()  # create it first: it starts this worker's server
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
    """Runs as a worker, or starts both."""
    settings = parse_arguments(__doc__)
    if "TF_CONFIG" in os.environ:
        work(settings.steps)
    else:
        local_cluster.run({"worker": NUM_WORKERS}, awaited="worker")


if __name__ == "__main__":
    main()
