"""By which watermark rows are late: by that of the batch before the one that runs, as Spark notes it."""

import json
from pathlib import Path

import pytest

from eventflink.model.places import Place
from eventflink.streams.failures import StreamUnusable
from eventflink.streams.late_rows import late_watermark_ms


def test_rows_are_late_by_the_watermark_of_the_batch_before(tmp_path: Path) -> None:
    with pytest.raises(StreamUnusable, match="is not on the host of this executor; put it where all see it"):
        late_watermark_ms(Place(str(tmp_path)))
    notes = tmp_path / "offsets"
    notes.mkdir()
    for batch_id, watermark_ms, late_by_ms in ((0, 0, 0), (1, 1_000, 0), (2, 5_000, 1_000), (3, 9_000, 5_000)):
        (notes / f".{batch_id}.crc").touch()
        (notes / str(batch_id)).write_text("\n".join(["v1", json.dumps({"batchWatermarkMs": watermark_ms}), "{}"]))
        assert late_watermark_ms(Place(str(tmp_path))) == late_by_ms
