"""Trains a model on two workers and a parameter server with `tf.distribute.ParameterServerStrategy`.

Run it with `python examples/distributed/parameter_server.py`: without TF_CONFIG, the program starts all processes on
this machine; with TF_CONFIG, it runs as that task. It trains twice. First, the coordinator waits for each step, and the
result equals that of one process. Then it schedules all steps at once, and each free worker takes the next one. Keras
3's `fit` does not support this strategy, so the program has its own training loop.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import local_cluster
import numpy as np
import tensorflow as tf
from adding_problem import batches, build, parse_arguments, print_comparison, train_alone, train_step

CLUSTER = {"chief": 1, "worker": 2, "ps": 1}


def serve(resolver: tf.distribute.cluster_resolver.ClusterResolver) -> None:
    """Runs as a worker or a parameter server until killed."""
    # The workers run the ops, so they must import tf_rnn_ops: adding_problem does.
    tf.distribute.Server(resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id).join()


class Training:
    """Trains a model whose variables are on parameter servers."""

    def __init__(self, strategy: tf.distribute.ParameterServerStrategy):
        with strategy.scope():
            model, optimizer = build()
        self._coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        self._step = tf.function(lambda x, y: strategy.run(train_step, args=(model, optimizer, x, y)))

    def synchronous(self, steps: int) -> list[float]:
        """Waits for each step before scheduling the next, and returns the error of each step."""
        losses = []
        for batch in batches(steps):
            loss = self._coordinator.schedule(self._step, args=batch)
            self._coordinator.join()
            losses.append(float(loss.fetch()))
        return losses

    def asynchronous(self, steps: int) -> list[float]:
        """Schedules all steps, waits for them, and returns the error of each step."""
        losses = [self._coordinator.schedule(self._step, args=batch) for batch in batches(steps)]
        self._coordinator.join()
        return [float(loss.fetch()) for loss in losses]


def coordinate(resolver: tf.distribute.cluster_resolver.ClusterResolver, steps: int) -> None:
    """Trains synchronously, compares with one process, and trains asynchronously."""
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    num_workers = resolver.cluster_spec().num_tasks("worker")
    few = steps // 5
    print_comparison(f"{num_workers} workers, synchronous", Training(strategy).synchronous(few), train_alone(few))
    losses = Training(strategy).asynchronous(steps)
    first, *_, last = (np.mean(tenth) for tenth in np.array_split(losses, 10))
    print(f"asynchronous: mean error {first:.4f} over the first tenth of {steps} steps, {last:.4f} over the last")


def main() -> None:
    """Runs as one of the processes, or starts all."""
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
