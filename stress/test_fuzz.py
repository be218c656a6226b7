"""Tests of the fuzzer: a short run, and that it detects bugs."""

import collections
import re

import fuzz
import fuzz_draw
import fuzz_expected
import fuzz_judge
import fuzz_mutations
import fuzz_run
import fuzz_session
import fuzz_workers
import misbehaving
import numpy as np
import pytest
import tensorflow as tf
from inputs import valid_calls
from inputs.calls import OPS, Call, can_be_made, flat_tensors, tensor_of, zeros

import tf_rnn_ops

SEED = 1
OURS = fuzz_run.LIBRARIES[0]


# ---------------------------------------------------------------- a short run


def test_a_short_run_has_no_findings():
    reports = [fuzz_session.fuzz(OURS, SEED, number) for number in range(400)]
    assert [report for report in reports if report.is_finding] == []
    assert {report.op for report in reports} == set(OPS)
    kinds = collections.Counter(report.kind for report in reports)
    assert kinds["compared"] >= 80
    assert kinds["InvalidArgumentError"] >= 80


def contents(call: Call) -> dict:
    """Returns the arguments of a call in a comparable form."""
    return {
        name: [fuzz_judge.bytes_of(each) for each in flat_tensors({name: value})] or repr(value)
        for name, value in call.arguments.items()
    }


def test_seed_and_number_determine_a_call():
    numbers = range(60)
    first = [fuzz_draw.draw(SEED, number) for number in numbers]
    fuzz_draw.draw_valid.cache_clear()
    for number in reversed(numbers):
        again = fuzz_draw.draw(SEED, number)
        assert (again.op, again.way, again.mutations) == (first[number].op, first[number].way, first[number].mutations)
        assert again.op == fuzz_draw.op_of(SEED, number)
        assert contents(again) == contents(first[number])


def test_a_call_without_tensors_is_not_mutated():
    rng, lost = np.random.default_rng(0), 0
    for _ in range(100):
        call = Call("AlignTensor", "eager", {"tensor": np.zeros(2, np.float32)})
        for _ in range(3):
            fuzz_mutations.mutate(rng, call)
        lost += not call.arguments
    assert lost > 0


def test_the_command_prints_a_table(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PYTHONPATH", "")  # the command changes it
    status = fuzz.main(["--calls=40", f"--seed={SEED}", "--workers=1", f"--folder={tmp_path}"])
    assert status == 0
    printed = capsys.readouterr().out
    (total,) = re.findall(r"^\| all \| (\d+) \|", printed, re.MULTILINE)
    assert total == "40"
    assert printed.endswith("0 findings\n")
    assert (tmp_path / f"findings-{OURS}-{SEED}.jsonl").read_text() == ""


def test_the_command_respects_the_time_limit(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PYTHONPATH", "")  # the command changes it
    assert fuzz.main(["--seconds=0", "--workers=1", f"--folder={tmp_path}"]) == 0
    assert "\n0 calls of " in capsys.readouterr().out


# ---------------------------------------------------------------- verdicts


def step_call(**changes) -> Call:
    """Returns a call of GRUBlockCell. It is valid without `changes`."""
    sizes = {"x": (2, 3), "h_prev": (2, 4), "w_ru": (7, 8), "w_c": (7, 4), "b_ru": (8,), "b_c": (4,)}
    arguments = {name: np.full(shape, 0.25, np.float32) for name, shape in sizes.items()}
    return Call("GRUBlockCell", "eager", {**arguments, **changes})


WRONG_SHAPE = np.zeros((2, 5), np.float32)
step = tf_rnn_ops.raw_ops.GRUBlockCell


def rejecting(error):
    """Returns an op that rejects every call."""

    def op(**arguments):
        raise error

    return op


def test_correct_results_and_errors_are_not_findings():
    assert fuzz_judge.judge(step_call(), step).kind == "compared"
    error = fuzz_judge.judge(step_call(b_c=WRONG_SHAPE), step)
    assert error.kind == "InvalidArgumentError"
    assert not error.is_finding


@pytest.mark.parametrize(
    ("call", "op", "kind"),
    [
        (step_call(), lambda **a: step(**a)._replace(r=step(**a).r * 1.001), "wrong result"),
        (step_call(), lambda **a: step(**a)._replace(h=step(**a).h[:1]), "wrong result"),
        (step_call(), lambda **a: step(**a)._replace(h=tf.cast(step(**a).h, tf.float64)), "wrong result"),
        (step_call(b_c=WRONG_SHAPE), lambda **a: step(**{**a, "b_c": a["b_ru"][:4]}), "accepted though invalid"),
        (step_call(), rejecting(ValueError("b_c must be another")), "rejected though valid"),
        (step_call(b_c=WRONG_SHAPE), rejecting(ValueError("something must be another")), "no argument named"),
        (step_call(b_c=WRONG_SHAPE), rejecting(RuntimeError("b_c")), "error RuntimeError"),
        (step_call(b_c=WRONG_SHAPE), rejecting(tf.errors.InternalError(None, None, "b_c")), "error InternalError"),
    ],
)
def test_bugs_of_an_op_are_findings(call, op, kind):
    verdict = fuzz_judge.judge(call, op)
    assert verdict.kind == kind
    assert verdict.is_finding


def test_unexpected_nan_is_a_finding():
    call = step_call()
    call.arguments["x"] = np.array([[np.nan, 0, 0], [0, 0, 0]], np.float32)
    assert fuzz_judge.judge(call, step).kind == "compared"
    spread = fuzz_judge.judge(call, lambda **a: step(**a)._replace(h=step(**a).h * np.nan))
    assert spread.kind == "wrong result"
    assert "unexpected NaN in 4 places" in spread.text


def test_a_modified_input_is_a_finding():
    call = step_call()

    def op(**arguments):
        outputs = step(**arguments)
        call.arguments["b_ru"].view(np.int32)[0] ^= 1  # smaller than rounding
        return outputs

    assert fuzz_judge.judge(call, op).kind == "writes to its inputs"


@pytest.mark.parametrize("way", ["function", "graph"])
def test_an_error_in_graphs_only_is_a_finding(way):
    call = step_call(b_c=WRONG_SHAPE)
    call.way = way

    def op(**arguments):
        if tf.executing_eagerly():
            return step(**{**arguments, "b_c": tf.zeros(4)})
        return step(**arguments)

    assert fuzz_judge.judge(call, op).kind == "rejected in one mode only"


@pytest.mark.parametrize("way", ["function", "graph"])
def test_a_wrong_inferred_shape_is_a_finding(way):
    call = step_call()

    def op(**arguments):
        outputs = step(**arguments)
        wrong = tf.compat.v1.placeholder_with_default(outputs.h, None)
        wrong.set_shape([3, None]) if not tf.executing_eagerly() else None
        return outputs._replace(h=wrong)

    call.way = way
    assert fuzz_judge.judge(call, op).kind == "wrong shape inferred"


def test_an_invalid_call_error_names_the_argument():
    with pytest.raises(fuzz_expected.InvalidCallError, match="b_c does not have shape"):
        fuzz_expected.expect(step_call(b_c=WRONG_SHAPE), {})


def test_huge_sizes_are_drawn():
    rng = np.random.default_rng(0)
    sizes = {size for _ in range(1000) for size in valid_calls.draw_cell(rng, ())["x"].shape}
    assert {2**31, 2**62, 2**63 - 1} <= sizes
    assert tensor_of(zeros((2**62, 0), np.float32)).shape == (2**62, 0)


@pytest.mark.parametrize("shape", [(0, 2**63), (2**63, 0), (2**62, 2, 0)])
def test_shapes_that_tensorflow_does_not_support_are_not_drawn(shape):
    assert not can_be_made(shape)


# ---------------------------------------------------------------- crashes and hangs


def test_crashed_and_hung_processes_are_replaced(tmp_path):
    numbers = range(120)
    taken = fuzz_workers.answers(numbers, misbehaving.prepare, 2, tmp_path, timeout=3)
    answers = {answer.number: answer for answer in taken}
    lost = {misbehaving.ABORTS: "abort", misbehaving.HANGS: "hang", misbehaving.EXITS: "abort"}
    assert {number: answer.failure for number, answer in answers.items() if answer.failure} == lost
    assert {number: answer.result for number, answer in answers.items() if not answer.failure} == {
        number: number**2 for number in numbers if number not in lost
    }
    for number, cause in ((misbehaving.ABORTS, "SIGABRT"), (misbehaving.EXITS, "exit code 5")):
        assert answers[number].output.startswith(cause)
        assert f"at {number}\n" in answers[number].output


def test_a_failed_preparation_is_an_error(tmp_path):
    with pytest.raises(RuntimeError, match=r"preparation of a process failed(.|\n)*no work"):
        list(fuzz_workers.answers(range(3), misbehaving.fail_to_prepare, 1, tmp_path))
