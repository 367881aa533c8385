"""Counting launches, on the text of a small module that was made by hand after those that XLA writes for GPUs."""

import pytest

from narkit.bench.launches import UnreadableProgram, count, parse

MODULE = """\
HloModule jit__train_step, is_scheduled=true, entry_computation_layout={(f32[4]{0}, s32[])->(f32[4]{0}, f32[])}

%fused_computation (param_0: f32[4]) -> f32[4] {
  %param_0 = f32[4]{0} parameter(0)
  %exp.1 = f32[4]{0} exponential(%param_0)
  ROOT %neg.1 = f32[4]{0} negate(%exp.1)
}

%command_buffer (p: f32[4], q: f32[4]) -> (f32[4], f32[4]) {
  %p = f32[4]{0} parameter(0)
  %q = f32[4]{0} parameter(1)
  %loop_fusion.1 = f32[4]{0} fusion(%p), kind=kLoop, calls=%fused_computation
  %cublas-gemm.1 = (f32[4]{0}, s8[4194304]{0}) custom-call(%q, %p), custom_call_target="__cublas$gemm"
  %get-tuple-element.9 = f32[4]{0} get-tuple-element(%cublas-gemm.1), index=0
  ROOT %tuple.9 = (f32[4]{0}, f32[4]{0}) tuple(%loop_fusion.1, %get-tuple-element.9)
}

%sinkhorn_body (s: (s32[], f32[4])) -> (s32[], f32[4]) {
  %s = (s32[], f32[4]{0}) parameter(0)
  %gte.1 = f32[4]{0} get-tuple-element(%s), index=1
  %fusion.7 = f32[4]{0} fusion(%gte.1), kind=kLoop, calls=%fused_computation
  ROOT %tuple.1 = (s32[], f32[4]{0}) tuple(%gte.1, %fusion.7)
}

%sinkhorn_condition (s: (s32[], f32[4])) -> pred[] {
  %s = (s32[], f32[4]{0}) parameter(0)
  ROOT %compare_fusion = pred[] fusion(%s), kind=kLoop, calls=%fused_computation
}

%forward_body (arg: (s32[], f32[4], /*index=2*/f32[8,4])) -> (s32[], f32[4], f32[8,4]) {
  %arg = (s32[], f32[4]{0}, /*index=2*/f32[8,4]{1,0}) parameter(0)
  %gte.2 = f32[4]{0} get-tuple-element(%arg), index=1
  %call = (f32[4]{0}, f32[4]{0}) call(%gte.2, %gte.2), to_apply=%command_buffer
  %bitcast.2 = f32[2,2]{1,0} bitcast(%gte.2)
  %copy-start.1 = (f32[4]{0}, f32[4]{0}, u32[]) copy-start(%gte.2)
  %copy-done.1 = f32[4]{0} copy-done(%copy-start.1)
  ROOT %tuple.2 = (s32[], f32[4]{0}, f32[8,4]{1,0}) tuple(%call, %copy-done.1)
}

%time_condition (arg.1: (s32[], f32[4], f32[8,4])) -> pred[] {
  %arg.1 = (s32[], f32[4]{0}, f32[8,4]{1,0}) parameter(0)
  ROOT %compare.1 = pred[] compare(%arg.1, %arg.1), direction=LT
}

%async_computation (a: f32[4]) -> f32[4] {
  %a = f32[4]{0} parameter(0)
  ROOT %fusion.8 = f32[4]{0} fusion(%a), kind=kInput, calls=%fused_computation
}

%backward_body (arg.2: (s32[], f32[4], f32[8,4])) -> (s32[], f32[4], f32[8,4]) {
  %arg.2 = (s32[], f32[4]{0}, f32[8,4]{1,0}) parameter(0)
  %call.2 = (f32[4]{0}, f32[4]{0}) call(%arg.2, %arg.2), to_apply=%command_buffer
  %fusion-start = ((f32[4]{0}), f32[4]{0}) async-start(%arg.2), calls=%async_computation
  %fusion-done = f32[4]{0} async-done(%fusion-start)
  %dynamic-update-slice.1 = f32[8,4]{1,0} dynamic-update-slice(%arg.2, %fusion-done)
  %while.3 = (s32[], f32[4]{0}) while(%arg.2), condition=%sinkhorn_condition, body=%sinkhorn_body, backend_config={"known_trip_count":{"n":"10"}}
  ROOT %tuple.3 = (s32[], f32[4]{0}, f32[8,4]{1,0}) tuple(%arg.2, %dynamic-update-slice.1)
}

ENTRY %main.1 (x: f32[4], n: s32[]) -> (f32[4], f32[]) {
  %x = f32[4]{0} parameter(0)
  %n = s32[] parameter(1)
  %constant.1 = f32[] constant(0)
  %broadcast.1 = f32[4]{0} broadcast(%constant.1), dimensions={}
  %while.1 = (s32[], f32[4]{0}, /*index=2*/f32[8,4]{1,0}) while(%x), condition=%time_condition, body=%forward_body
  %while.9 = (s32[], f32[4]{0}) while(%x), condition=%sinkhorn_condition, body=%sinkhorn_body, backend_config={"known_trip_count":{"n":"3"}}
  %while.2 = (s32[], f32[4]{0}, f32[8,4]{1,0}) while(%x), condition=%time_condition, body=%backward_body
  %gte.5 = f32[4]{0} get-tuple-element(%while.2), index=1
  %reduce.1 = f32[] reduce(%gte.5, %constant.1), dimensions={0}, to_apply=%fused_computation
  ROOT %tuple.5 = (f32[4]{0}, f32[]) tuple(%gte.5, %reduce.1)
}
"""  # noqa: E501


def test_both_directions_are_counted() -> None:
    found = count(MODULE)
    # A command buffer is entered, an asynchronous pair counts once, and the test for the end is a launch of its own.
    assert found["forward"] == {"compare": 1, "copy": 1, "custom-call": 1, "fusion": 1}
    # The inner loop of ten turns needs no test: its number of turns is known.
    assert found["backward"] == {"compare": 1, "custom-call": 1, "dynamic-update-slice": 1, "fusion": 12}
    assert found["outside"] == {"broadcast": 1, "fusion": 3, "reduce": 1}
    assert [sum(kinds.values()) for kinds in found.values()] == [4, 15, 5]


def test_types_with_brackets_do_not_hide_operations() -> None:
    body = parse(MODULE).computations["forward_body"]
    assert [operation.opcode for operation in body] == [
        "parameter", "get-tuple-element", "call", "bitcast", "copy-start", "copy-done", "tuple",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text, problem",
    [
        ("nothing of the kind", "found none"),
        (MODULE.replace("ENTRY ", ""), "ENTRY"),
        ("ENTRY %e (x: f32[]) -> f32[] {\n}\n", "0 loops"),
    ],
)
def test_other_texts_are_refused(text: str, problem: str) -> None:
    with pytest.raises(UnreadableProgram, match=problem):
        count(text)
