"""The named queues of jobs, as pages and the command line show them."""

from collections import Counter

from eventflink.documents.queues import QueueRow
from eventflink.master.slot_manager import SlotManager
from eventflink.model.job_queues import DEFAULT_QUEUE


def queue_rows(slots: SlotManager) -> list[QueueRow]:
    """Return all queues in the order of their names, also the default one; none where no queues are configured."""
    shares = slots.shares
    if not shares.defined:
        return []
    names = sorted({DEFAULT_QUEUE, *shares.defined})
    jobs = Counter(shares.name_of(slots.pending[waiting].queue) for waiting in slots.queues.first_of_jobs())
    rows = []
    for name in names:
        queue, held = shares.queue_of(name), shares.held_by(name)
        rows.append(
            QueueRow(
                queue=name,
                nominal_quota=queue.nominal_quota,
                borrowing_limit=queue.borrowing_limit,
                weight=queue.weight,
                held=held,
                borrowed=max(0, held - queue.nominal_quota),
                requests=slots.queues.count_of(name),
                jobs=jobs[name],
            )
        )
    return rows
