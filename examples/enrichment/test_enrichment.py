"""The stream's own tests: `pytest examples/enrichment` with eventflink installed (docs/testing.md)."""

from pathlib import Path

import yaml

from eventflink.testing.mini_cluster import MiniCluster

HERE = Path(__file__).parent


def test_each_order_comes_out_once_whatever_dies(eventflink_cluster: MiniCluster, tmp_path: Path) -> None:
    (tmp_path / "customers.csv").write_text("ada,UK\ngrace,US\n")
    orders, enriched = (eventflink_cluster.create_topic(name, 2) for name in ("orders", "enriched-orders"))
    graph = yaml.safe_load((HERE / "enrichment.yaml").read_text())
    graph["vertices"][0]["parameters"]["path"] = str(tmp_path / "customers.csv")
    job = eventflink_cluster.submit(graph, code=[HERE / "enrichment.py"])

    eventflink_cluster.feed(orders, [{"customer": "ada", "amount": n} for n in range(100)], key="customer")
    eventflink_cluster.collect(enriched, 100)
    eventflink_cluster.feed(orders, [{"customer": "grace", "amount": n} for n in range(100)], key="customer")
    eventflink_cluster.crash("task", job=job)
    eventflink_cluster.crash("leader")
    eventflink_cluster.feed(orders, [{"customer": "nobody", "amount": 1}, b"not an order"])

    rows = [record.json for record in eventflink_cluster.collect(enriched, 202)]
    known = [(customer, amount) for customer in ("ada", "grace") for amount in range(100)]
    assert sorted((row["customer"], row["amount"]) for row in rows if row["country"]) == known
    assert [row["amount"] for row in rows if row["customer"] == "nobody" and row["country"] is None] == [1]
    assert [row["_bad_record"] for row in rows if row["_bad_record"]] == ["not an order"]
    assert len(rows) == len(known) + 2
    job.cancel()
