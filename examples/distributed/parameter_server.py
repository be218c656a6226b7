"""Trains a model whose variables are on a parameter server, `tf.distribute.ParameterServerStrategy`, with two workers.

A coordinator hands out the steps, and whichever worker is free takes the next one: the workers do not wait for one
another. First, though, the coordinator waits for each of some steps before it hands out the next, which gives what one
process alone gives. Keras 3's `fit` does not run under this strategy: the training loop is written out.

Without TF_CONFIG in its environment the program starts all of these processes on this machine; with it, it is the one
that TF_CONFIG says.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import local_cluster
import numpy as np
import tensorflow as tf
from adding_problem import batches, build, parse_arguments, print_comparison, train_alone, train_step

CLUSTER = {"chief": 1, "worker": 2, "ps": 1}


def serve(resolver: tf.distribute.cluster_resolver.ClusterResolver) -> None:
    """Is a worker or a parameter server until it is killed."""
    # The workers run the ops: it is the import of tf_rnn_ops, at the top of adding_problem, that lets them.
    tf.distribute.Server(resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id).join()


class Training:
    """A model on the parameter servers of a strategy, and its steps."""

    def __init__(self, strategy: tf.distribute.ParameterServerStrategy):
        with strategy.scope():
            model, optimizer = build()
        self._coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        self._step = tf.function(lambda x, y: strategy.run(train_step, args=(model, optimizer, x, y)))

    def one_by_one(self, steps: int) -> list[float]:
        """Waits for each step before it schedules the next, and returns the error of each."""
        losses = []
        for batch in batches(steps):
            loss = self._coordinator.schedule(self._step, args=batch)
            self._coordinator.join()
            losses.append(float(loss.fetch()))
        return losses

    def as_workers_are_free(self, steps: int) -> list[float]:
        """Schedules all steps and then waits for them, and returns the error of each."""
        losses = [self._coordinator.schedule(self._step, args=batch) for batch in batches(steps)]
        self._coordinator.join()
        return [float(loss.fetch()) for loss in losses]


def coordinate(resolver: tf.distribute.cluster_resolver.ClusterResolver, steps: int) -> None:
    """Trains on the servers, and alone, and compares."""
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    num_workers = resolver.cluster_spec().num_tasks("worker")
    few = steps // 5
    print_comparison(f"{num_workers} workers, one by one", Training(strategy).one_by_one(few), train_alone(few))
    losses = Training(strategy).as_workers_are_free(steps)
    first, *_, last = (np.mean(tenth) for tenth in np.array_split(losses, 10))
    print(f"as workers are free: error {first:.4f} in the first tenth of {steps} steps, {last:.4f} in the last")


def main() -> None:
    """Is one of the processes, or starts them."""
    settings = parse_arguments(__doc__)
    if "TF_CONFIG" not in os.environ:
        local_cluster.run(CLUSTER, awaited="chief")
        return
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type == "chief":
        coordinate(resolver, settings.steps)
    else:
        serve(resolver)


if __name__ == "__main__":
    main()
