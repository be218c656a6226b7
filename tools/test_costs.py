"""Tests of the comparison of counts."""

import costs

PROFILE = """version: 1
events: Ir
fn=(1) void tf_rnn_ops::rnn::avx2::Pack<float, {lambda(long)#1}>(tf_rnn_ops::Matrix<float> const&) const
12 7
+3 5
cfn=(2) memcpy
calls=1 0
* 1000
fn=(2)
0 20
fn=(1)
* 1
totals: 33
"""


def test_instructions_of_calls_are_those_of_the_called_function():
    assert costs._by_function(PROFILE) == {"avx2::Pack": 13, "memcpy": 20}


def test_names_are_short():
    assert (
        costs._short("void a::b::Run<long, x<y>>(int (*)(long))::{lambda(long)#1}::operator()(long) const")
        == "Run::lambda"
    )
    assert costs._short("a::Cell::Step(float) [clone .constprop.0]'2") == "Cell::Step"


def test_small_parts_are_counted_together():
    assert costs._large({"b": 980, "a": 19, "c": 1}) == {"b": 980, "other": 20}


def test_differences_of_more_than_two_percent_are_shown_by_part():
    old = {"same": {"a": 100}, "more": {"a": 100, "b": 100}, "gone": {"a": 1}, "none": {}}
    new = {"same": {"b": 102}, "more": {"a": 100, "b": 105}, "new": {"a": 3}, "none": {"a": 0}}
    assert list(costs.differences(old, new)) == [
        "gone: 1 before, 0 now (-100.0%)",
        "  a: 1 before, 0 now (-100.0%)",
        "more: 200 before, 205 now (+2.5%)",
        "  b: 100 before, 105 now (+5.0%)",
        "new: 0 before, 3 now",
        "  a: 0 before, 3 now",
    ]
