"""What ended jobs leave to be done outside: gathered, because each outcome is a decision that nobody waits for."""

import asyncio
from pathlib import Path

from eventflink.entrypoint.cleaning import Cleaner
from eventflink.master.effects import CleanUp
from eventflink.master.inputs import CleanupsCompleted, MasterInput


def test_clean_ups_of_jobs_that_end_soon_after_each_other_have_one_outcome(tmp_path: Path) -> None:
    for job_id in ("first", "second"):
        (tmp_path / job_id / "edge").mkdir(parents=True)
    outcomes: list[MasterInput] = []

    async def clean() -> None:
        has_outcome = asyncio.Event()

        def note(outcome: MasterInput) -> None:
            outcomes.append(outcome)
            has_outcome.set()

        cleaner = Cleaner(tmp_path, note, lambda *_: None)
        task = asyncio.create_task(cleaner.run())
        cleaner.submit(CleanUp("first", ()))
        for _ in range(10):
            await asyncio.sleep(0)
        cleaner.submit(CleanUp("second", ()))
        async with asyncio.timeout(30):
            await has_outcome.wait()
        task.cancel()

    asyncio.run(clean())
    assert outcomes == [CleanupsCompleted(("first", "second"))]
    assert not list(tmp_path.iterdir())
