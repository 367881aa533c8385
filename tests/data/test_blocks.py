"""Arrays in one piece of memory are arrays like others."""

import numpy as np

from narkit.data.blocks import ALIGNMENT, zeros_in_one_block


def test_arrays_have_their_shapes_and_types_and_do_not_overlap() -> None:
    layouts = [
        ((3, 5), np.dtype(np.int8)),
        ((2, 0, 4), np.dtype(np.int16)),
        ((7,), np.dtype(np.float32)),
        ((), np.dtype(np.int8)),
    ]
    arrays = zeros_in_one_block(layouts)
    assert [(array.shape, array.dtype) for array in arrays] == layouts
    for number, array in enumerate(arrays, start=1):
        assert array.flags.c_contiguous and array.flags.writeable and not array.any()
        array[...] = number
    assert all((array == number).all() for number, array in enumerate(arrays, start=1))
    places = [array.ctypes.data for array in arrays if array.size]
    assert all((place - places[0]) % ALIGNMENT == 0 for place in places)


def test_no_arrays_need_no_memory() -> None:
    assert zeros_in_one_block([]) == []
