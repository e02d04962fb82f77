"""What decides: pure functions of the resource and of what was observed. No I/O, no clock, no kopf.

The data passes through in this order: `observation` → `revision` (what spec asks for) → `retirement` (what may go) →
`routes` (who gets which share) → `report` (phase and conditions), all called by `step`; then `children` says which
objects must exist.
"""
