"""A small fleet: what arbitration does for those that matter, and what pacing does to the cluster."""

from __future__ import annotations

from headgate.research.scenarios.fleet import FleetPlan, pace_of, run_variants


def test_a_fleet_on_too_small_a_cluster_gives_way_by_priority_and_pace() -> None:
    shares: list[float] = []
    fleet = FleetPlan(jobs=50, seconds=1800.0)
    outcome = run_variants(fleet, shares.append)
    rows = {(row["variant"], row["group"]): row for row in outcome.rows}
    assert shares[-1] == 1.0
    free = rows["without limits", "all"]
    for variant in ("first come", "arbitrated", "arbitrated, paced"):
        assert rows[variant, "all"]["most_instances"] <= 0.8 * free["most_instances"] + 1
        assert rows[variant, "all"]["cut"] > 0
    # Those with the highest priority lose nothing to the others, and do without.
    assert rows["arbitrated", "orders"]["late_pct"] <= rows["first come", "orders"]["late_pct"]
    assert rows["arbitrated", "orders"]["late_pct"] <= rows["arbitrated", "archive"]["late_pct"]
    assert rows["arbitrated, paced", "all"]["rescales_10s"] <= pace_of(fleet).rescales
    assert rows["arbitrated", "all"]["rescales_10s"] > pace_of(fleet).rescales
