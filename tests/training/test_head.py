import numpy as np
import torch

from navi.model import load_backbone
from navi.training.head import count_tokens, start_head


def test_tokens_are_counted_as_often_as_the_rows_have_them(make_arrays):
    arrays = make_arrays(num_rows=9, seed=3)
    rows = np.array([0, 4, 7])
    expected = np.zeros(200)
    for row in rows:
        for segment in arrays.row_segments[arrays.row_offsets[row] : arrays.row_offsets[row + 1]]:
            header, value = arrays.segment_header[segment], arrays.segment_value[segment]
            for token in arrays.header_tokens[arrays.header_offsets[header] : arrays.header_offsets[header + 1]]:
                expected[token] += 1
            for token in arrays.value_tokens[arrays.value_offsets[value] : arrays.value_offsets[value + 1]]:
                expected[token] += 1
    assert count_tokens(arrays, rows, 200).tolist() == expected.tolist()


def test_a_started_head_prefers_the_frequent_tokens(make_arrays, tiny_backbone):
    arrays, model = make_arrays(num_rows=20), load_backbone(tiny_backbone)
    start_head(model, arrays, np.arange(20))
    counts = count_tokens(arrays, np.arange(20), 200)
    bias = model.head.bias.detach()
    assert int(bias.argmax()) == int(counts.argmax())
    assert abs(torch.logsumexp(bias, 0).item()) < 1e-5
    assert model.head.decoder.bias is model.head.bias
